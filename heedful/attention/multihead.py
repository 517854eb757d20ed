"""Multi-head attention: projections, the three ways to join heads, and the keys and values that are its cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import kernels
from heedful.attention.dropout import Dropout
from heedful.attention.explained import Explained, Explaining
from heedful.attention.positions import RelativePosition, Unaware
from heedful.attention.sight import Band, Sight
from heedful.attention.space import Space, more_than
from heedful.attention.weigher import ScaledSoftmax, Weigher
from heedful.values import laid_under


@dataclass(frozen=True)
class Grown:
    """A tuple of tensors that grow along axis 2: appending costs what is appended, and every older value stays valid.

    A state that is the longest on its room writes behind itself; any other (two continuations of one state, in one
    thread or in several) first takes a copy. So sharing is never visible.
    """

    tensors: tuple[Tensor, ...]
    space: Space
    length: int

    @classmethod
    def of(cls, *tensors: Tensor) -> Grown:
        """Storage that starts with these tensors, [B, H, length, width]."""
        length = tensors[0].size(2)
        return cls(tensors, Space(length, length), length)

    def read(self) -> tuple[Tensor, ...]:
        """The tensors, up to this state's length."""
        return tuple(tensor.narrow(2, 0, self.length) for tensor in self.tensors)

    def append(self, *newer: Tensor) -> Grown:
        """A state longer by `newer`."""
        size = newer[0].size(2)
        end = self.length + size
        tensors, space = self.tensors, self.space
        if not space.claim(self.length, end):
            space = Space(end, more_than(end, size))
            tensors = tuple(_with_space(tensor, space.size) for tensor in self.read())
        for tensor, new in zip(tensors, newer, strict=True):
            tensor.narrow(2, self.length, size).copy_(new)
        return Grown(tensors, space, end)


def _with_space(tensor: Tensor, length: int) -> Tensor:
    shape = list(tensor.shape)
    shape[2] = length
    room = tensor.new_empty(shape)
    room.narrow(2, 0, tensor.size(2)).copy_(tensor)
    return room


@dataclass(frozen=True)
class KeyValues:
    """What can be attended to, already projected; a cache is the KeyValues that one passes."""

    key: Float[Tensor, "G H K d_k"]
    value: Float[Tensor, "G H K d_v"]
    grown: Grown | None = None

    def extend(self, newer: KeyValues) -> KeyValues:
        """With newer keys and values behind; in place where no gradient is asked for and nothing is written down."""
        if torch.is_grad_enabled() or kernels.traced():
            return KeyValues(torch.cat((self.key, newer.key), 2), torch.cat((self.value, newer.value), 2))
        grown = (self.grown or Grown.of(self.key, self.value)).append(newer.key, newer.value)
        key, value = grown.read()
        return KeyValues(key, value, grown)

    def settled(self) -> KeyValues:
        """Stored head by head, so that what is attended to again and again needs no copies."""
        return KeyValues(self.key.contiguous(), self.value.contiguous())

    @classmethod
    def together(cls, parts: Sequence[KeyValues], *, left: bool) -> KeyValues:
        """The groups of all; where one has fewer keys, zeros stand behind them or to their left."""
        keys, values = [part.key for part in parts], [part.value for part in parts]
        return cls(laid_under(keys, axis=2, fill=0.0, left=left), laid_under(values, axis=2, fill=0.0, left=left))

    def first(self, keys: int) -> KeyValues:
        """Only so many, and none behind them."""
        return KeyValues(self.key[:, :, :keys], self.value[:, :, :keys])

    def before_any(self, groups: int) -> KeyValues:
        """No keys and values, for so many groups."""
        key, value = (part.new_empty(groups, part.size(1), 0, part.size(3)) for part in (self.key, self.value))
        return KeyValues(key, value)

    def pick(self, groups: Int[Tensor, " G"] | None) -> KeyValues:
        """The keys and values of these groups; None keeps them all where they are."""
        if groups is None:
            return self
        return KeyValues(self.key.index_select(0, groups), self.value.index_select(0, groups))

    def pick_columns(
        self, groups: Int[Tensor, " G_picked"] | None, columns: Int[Tensor, "G_picked K_picked"], *, room: int
    ) -> KeyValues:
        """Of these groups, or of all, the keys and values at columns of their own, with room for so many more."""
        key, value = (self.key, self.value) if self.grown is None else self.grown.tensors
        room = 0 if torch.is_grad_enabled() else room
        picked = tuple(_picked(each, groups, functional.pad(columns, (0, room))) for each in (key, value))
        size = columns.size(1)
        grown = Grown(picked, Space(size, size + room), size)
        key, value = grown.read()
        return KeyValues(key, value, grown)

    def has_room(self, keys: int) -> bool:
        """Whether so many may be put behind without a copy, as far as it is known."""
        return self.grown is not None and self.grown.length + keys <= self.grown.space.size


def _picked(
    whole: Float[Tensor, "G H K d"],
    groups: Int[Tensor, " G_picked"] | None,
    columns: Int[Tensor, "G_picked K_picked"],
) -> Float[Tensor, "G_picked H K_picked d"]:
    """Each head of each group at the group's columns."""
    _, heads, keys, width = whole.shape
    if groups is None:
        groups = torch.arange(len(whole), device=whole.device)
    each = groups.unsqueeze(1) * heads + torch.arange(heads, device=whole.device)
    places = each.unsqueeze(2) * keys + columns.unsqueeze(1)
    found = whole.reshape(-1, width).index_select(0, places.flatten())
    return found.view(len(groups), heads, -1, width)


class Aggregation(nn.Module, ABC):
    """How the contexts of the heads become one vector."""

    @abstractmethod
    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """One vector for each query."""


class Mean(Aggregation):
    """c = (1/J) sum_j c_j: every head is as wide as the model."""

    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """The mean over heads."""
        return contexts.mean(2)


class Concatenation(Aggregation):
    """c = [c_1 ... c_J], the lecture's encoder: each head keeps its own part of the vector."""

    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """The heads side by side."""
        return contexts.flatten(2)


class Projection(Aggregation):
    """c = [c_1 ... c_J] W_O (Vaswani et al. 2017, 3.2.2)."""

    def __init__(self, d_model: int, *, bias: bool = True) -> None:
        super().__init__()
        self.output = nn.Linear(d_model, d_model, bias=bias)
        nn.init.xavier_uniform_(self.output.weight)
        if bias:
            nn.init.zeros_(self.output.bias)

    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """The heads side by side, mixed by W_O."""
        mixed: Tensor = self.output(contexts.flatten(2))
        return mixed


class HeadedAttention(Explaining):
    """Several attentions side by side, whose queries, keys and values are there already; who makes them is a child's
    business.

    Args:
        heads: number of heads.
        d_k: width of a query and of a key.
        d_v: width of a value.
        relative: what attention does with positions; nothing unless given.
        weigher: how queries weigh keys; the softmax of scaled dot products unless given.
        dropout: probability of dropping a weight.
    """

    def __init__(
        self,
        heads: int,
        *,
        d_k: int,
        d_v: int,
        relative: RelativePosition | None = None,
        weigher: Weigher | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.d_k, self.d_v = heads, d_k, d_v
        self.relative = relative or Unaware()
        self.weigher = weigher or ScaledSoftmax()
        self.dropout = Dropout(dropout)

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"heads={self.heads}, d_k={self.d_k}, d_v={self.d_v}"

    def _explained(self, query: Tensor, memory: KeyValues, *, sight: Sight) -> Explained:
        """All that lies between queries and contexts, where everybody's sight is whole."""
        scores, bias = self._scores(query, memory, sight=sight)
        weights = self.weigher.choose(scores.clone(), sight=sight)
        visible = torch.ones_like(scores[:, 0], dtype=torch.bool) if sight.visible is None else sight.visible[:, 0]
        return Explained(
            query=query,
            key=memory.key,
            value=memory.value,
            scale=self.weigher.scale(self.d_k),
            bias=bias,
            scores=scores,
            visible=visible,
            weights=weights,
            context=self._combined(weights, memory, sight=sight),
        )

    def _attend(self, query: Tensor, memory: KeyValues, *, sight: Sight) -> Tensor:
        if sight.band is not None:
            return self._attend_nearby(query, memory, sight=sight, band=sight.band)
        fusable = self.weigher.fusable and not self.relative.touches_scores and not self.probe.watched
        dropout = self.dropout.p if self.training else 0.0
        if fusable and kernels.prefer_fused(query, memory.key, dropout):
            return kernels.fused(
                query, memory.key, value=memory.value, visible=sight.visible, blind=sight.blind, dropout=dropout
            )
        if fusable and kernels.learning(query):
            return kernels.explicit(
                query,
                memory.key,
                value=memory.value,
                scale=self.weigher.scale(self.d_k),
                hidden=sight.hidden,
                blind=sight.blind,
                factors=self.dropout.factors((*query.shape[:3], memory.key.size(2)), like=query),
            )
        scores, _ = self._scores(query, memory, sight=sight)
        weights = self.weigher.choose(scores, sight=sight)
        if self.probe.watched:
            weights = self.probe(weights)
        if self.training:
            weights = self.dropout(weights)
        return self._combined(weights, memory, sight=sight)

    def _scores(self, query: Tensor, memory: KeyValues, *, sight: Sight) -> tuple[Tensor, Tensor | None]:
        """Fresh scores, and the bias that is in them."""
        scores = self.weigher.score(query, memory.key)
        bias = self.relative.score_bias(query, sight.positions, sight.key_positions)
        return (scores if bias is None else scores + bias), bias

    def _combined(self, weights: Tensor, memory: KeyValues, *, sight: Sight) -> Tensor:
        context = kernels.combined(weights, memory.value)
        shift = self.relative.value_bias(weights, sight.positions, sight.key_positions)
        return context if shift is None else context + shift

    def _attend_nearby(self, query: Tensor, memory: KeyValues, *, sight: Sight, band: Band) -> Tensor:
        """Block by block, unless somebody wants to see the weights, which are then those of all keys."""
        if self.probe.watched:
            return self._attend(query, memory, sight=sight.whole())
        near = KeyValues(band.cut_keys(memory.key), band.cut_keys(memory.value))
        return band.join(self._attend(band.cut_queries(query), near, sight=band.blocks))


class MultiHeadAttention(HeadedAttention):
    """Several attentions side by side, by scaled dot products unless told otherwise (Vaswani et al. 2017, 3.2.2).

    The projections of all heads are one matrix for queries and one for keys with values; these are initialised as if
    they were separate.

    Args:
        d_model: width of what asks and of the result.
        heads: number of heads; divides d_model.
        d_memory: width of what is attended to; the same as d_model unless given.
        aggregation: how heads are joined; W_O unless given. `Mean` makes each value d_model wide, and with W_k = W_v
            each query and key as well.
        relative: what attention does with positions; nothing unless given.
        weigher: how queries weigh keys; the softmax of scaled dot products unless given.
        shared_key_value: the lecture's simplification W_k = W_v.
        dropout: probability of dropping a weight.
        bias: whether projections have a bias.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        d_memory: int | None = None,
        aggregation: Aggregation | None = None,
        relative: RelativePosition | None = None,
        weigher: Weigher | None = None,
        shared_key_value: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        assert d_model % heads == 0, f"{heads} heads do not divide d_model={d_model}"
        d_v = d_model if isinstance(aggregation, Mean) else d_model // heads
        d_k = d_v if shared_key_value else d_model // heads
        super().__init__(heads, d_k=d_k, d_v=d_v, relative=relative, weigher=weigher, dropout=dropout)
        self.shared_key_value = shared_key_value
        width = self.d_k if shared_key_value else self.d_k + self.d_v
        self.query = nn.Linear(d_model, heads * self.d_k, bias=bias)
        self.key_value = nn.Linear(d_memory or d_model, heads * width, bias=bias)
        self.aggregation = aggregation or Projection(d_model, bias=bias)
        self._initialise()

    def _initialise(self) -> None:
        nn.init.xavier_uniform_(self.query.weight)
        keys = self.heads * self.d_k
        nn.init.xavier_uniform_(self.key_value.weight[:keys])
        if not self.shared_key_value:
            nn.init.xavier_uniform_(self.key_value.weight[keys:])
        for linear in (self.query, self.key_value):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def remember(
        self,
        keys: Float[Tensor, "G K d_memory"],
        values: Float[Tensor, "G K d_memory"],
        positions: Int[Tensor, "G K"],
    ) -> KeyValues:
        """Projects what can be attended to; done once per token or per memory."""
        cut, linear = self.heads * self.d_k, self.key_value
        if self.shared_key_value:
            key = linear(keys)
            value = key if values is keys else linear(values)
        elif values is keys:
            key, value = linear(keys).split([cut, self.heads * self.d_v], -1)
        else:
            key, value = linear(keys)[..., :cut], linear(values)[..., cut:]
        key = self.relative.rotate(self._split(key, self.d_k), positions)
        return KeyValues(self.weigher.project(key, positions), self._split(value, self.d_v))

    def forward(
        self, x: Float[Tensor, "G Q d_model"], memory: KeyValues, *, sight: Sight
    ) -> Float[Tensor, "G Q d_model"]:
        """What each query takes from the memory."""
        query = self.relative.rotate(self._split(self.query(x), self.d_k), sight.positions)
        context = self._attend(query, memory, sight=sight)
        aggregated: Tensor = self.aggregation(context.transpose(1, 2))
        return aggregated

    def explain(self, x: Float[Tensor, "G Q d_model"], memory: KeyValues, *, sight: Sight) -> Explained:
        """All that lies between the queries and their contexts, which are those of `forward`."""
        sight = sight.whole()
        query = self.relative.rotate(self._split(self.query(x), self.d_k), sight.positions)
        return self._explained(query, memory, sight=sight)

    def _split(self, x: Tensor, width: int) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, width).transpose(1, 2)
