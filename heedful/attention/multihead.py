"""Multi-head attention: projections, and the three ways to join heads."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention import kernels
from heedful.attention.dropout import Dropout
from heedful.attention.explained import Explained, Explaining
from heedful.attention.keys import KeyValues
from heedful.attention.positions import RelativePosition, Unaware
from heedful.attention.sight import Band, Sight
from heedful.attention.weigher import ScaledSoftmax, Weigher


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
