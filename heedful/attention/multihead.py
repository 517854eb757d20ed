"""Multi-head attention: projections, and three ways to combine heads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention import kernels
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import AttentionTrace, TraceableAttention
from heedful.attention.kv_cache import KVCache
from heedful.attention.mask import AttentionMask, BandedMask
from heedful.attention.positions import NoPosition, RelativePosition
from heedful.attention.scores import ScaledSoftmax, WeightFunction
from heedful.fused_operators import apply_linear


class HeadAggregation(nn.Module, ABC):
    """Combines the contexts of all heads into one vector."""

    @abstractmethod
    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """Return one vector for each query."""


class MeanAggregation(HeadAggregation):
    """Mean over heads, c = (1/J) sum_j c_j; every head is as wide as the model."""

    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """Average over heads."""
        return contexts.mean(2)


class ConcatAggregation(HeadAggregation):
    """Concatenation of heads, c = [c_1 ... c_J], as in the lecture's encoder; each head keeps its part of the
    vector.
    """

    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """Concatenate the heads."""
        return contexts.flatten(2)


class ProjectionAggregation(HeadAggregation):
    """Concatenation of heads times W_O, c = [c_1 ... c_J] W_O (Vaswani et al. 2017, 3.2.2).

    Args:
        d_model: width of the result.
        d_heads: width of all heads together; d_model if not given.
        bias: whether there is a bias.
    """

    def __init__(self, d_model: int, *, d_heads: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.output = nn.Linear(d_heads or d_model, d_model, bias=bias)
        nn.init.xavier_uniform_(self.output.weight)
        if bias:
            nn.init.zeros_(self.output.bias)

    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """Concatenate the heads and multiply by W_O."""
        return apply_linear(contexts.flatten(2), self.output)


class HeadedAttention(TraceableAttention):
    """Attention with several heads over given queries, keys and values; subclasses define the projections.

    Args:
        heads: number of heads.
        d_k: width of a query and of a key.
        d_v: width of a value.
        relative: relative position encoding; none if not given.
        weigher: computes weights from queries and keys; softmax of scaled dot products if not given.
        dropout: probability of dropping a weight.
    """

    def __init__(
        self,
        heads: int,
        *,
        d_k: int,
        d_v: int,
        relative: RelativePosition | None = None,
        weigher: WeightFunction | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.d_k, self.d_v = heads, d_k, d_v
        self.relative = relative or NoPosition()
        self.weigher = weigher or ScaledSoftmax()
        self.dropout = Dropout(dropout)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"heads={self.heads}, d_k={self.d_k}, d_v={self.d_v}"

    def _build_trace(self, query: Tensor, memory: KVCache, *, mask: AttentionMask) -> AttentionTrace:
        """Return all intermediate values of attention from queries to the keys and values in `memory`; `mask` must be
        dense.
        """
        memory = memory.repeat_heads(self.heads)
        scores, bias = self._compute_scores(query, memory, mask=mask)
        weights = self.weigher.normalize(scores.clone(), mask=mask)
        visible = torch.ones_like(scores[:, 0], dtype=torch.bool) if mask.visible is None else mask.visible[:, 0]
        return AttentionTrace(
            query=query,
            key=memory.key,
            value=memory.value,
            scale=self.weigher.scale(self.d_k),
            bias=bias,
            scores=scores,
            visible=visible,
            weights=weights,
            context=self._combine_values(weights, memory, mask=mask),
        )

    def _attend(self, query: Tensor, memory: KVCache, *, mask: AttentionMask) -> Tensor:
        """Compute the contexts [G, heads, Q, d_v] of projected queries [G, heads, Q, d_k] from the keys and values in
        `memory`. A fused kernel is possible unless this module has hooks on its weights, its position encoding changes
        scores, or its weight function is not `fusable`.
        """
        if mask.band is not None:
            return self._attend_in_blocks(query, memory, mask=mask, band=mask.band)
        can_fuse = self.weigher.fusable and not self.relative.changes_scores and not self.probe.is_watched
        dropout = self.dropout.p if self.training else 0.0
        if can_fuse and kernels.prefer_fused(query, memory.key, dropout):
            memory = memory.repeat_heads(self.heads)
            return kernels.fused_attention(
                query,
                memory.key,
                value=memory.value,
                scale=self.weigher.scale(self.d_k),
                visible=mask.visible,
                fully_masked=mask.fully_masked,
                dropout=dropout,
            )
        if can_fuse and kernels.needs_grad(query):
            memory = memory.repeat_heads(self.heads)
            return kernels.explicit_attention(
                query,
                memory.key,
                value=memory.value,
                scale=self.weigher.scale(self.d_k),
                hidden=mask.hidden,
                fully_masked=mask.fully_masked,
                factors=self.dropout.draw_factors((*query.shape[:3], memory.key.size(2)), reference=query),
            )
        scores, _ = self._compute_scores(query, memory, mask=mask)
        weights = self.weigher.normalize(scores, mask=mask)
        if self.probe.is_watched:
            weights = self.probe(weights)
        if self.training:
            weights = self.dropout(weights)
        return self._combine_values(weights, memory, mask=mask)

    def _compute_scores(self, query: Tensor, memory: KVCache, *, mask: AttentionMask) -> tuple[Tensor, Tensor | None]:
        """Return new scores of queries and keys, and the position bias included in them, None if there is none."""
        scores = self.weigher.score(query, memory.key)  # plain dot products share heads of keys themselves
        bias = self.relative.compute_score_bias(query, mask.positions, mask.key_positions)
        return (scores if bias is None else scores + bias), bias

    def _combine_values(self, weights: Tensor, memory: KVCache, *, mask: AttentionMask) -> Tensor:
        """Return the sum of the values in `memory` by weights, with the position bias of values if there is one."""
        context = kernels.weighted_sum(weights, memory.value)
        value_bias = self.relative.compute_value_bias(weights, mask.positions, mask.key_positions)
        return context if value_bias is None else context + value_bias

    def _attend_in_blocks(self, query: Tensor, memory: KVCache, *, mask: AttentionMask, band: BandedMask) -> Tensor:
        """Compute the contexts block by block in the band of the mask; with hooks on the weights, attend to all keys
        instead.
        """
        if self.probe.is_watched:
            return self._attend(query, memory, mask=mask.to_dense())
        block_cache = KVCache(band.split_keys(memory.key), band.split_keys(memory.value))
        return band.merge_blocks(self._attend(band.split_queries(query), block_cache, mask=band.block_mask))


class MultiHeadAttention(HeadedAttention):
    """Multi-head attention, with scaled dot products by default (Vaswani et al. 2017, 3.2.2).

    The projections of all heads are one matrix for queries and one for keys with values; they are initialised as if
    they were separate.

    Neighbouring heads may share keys and values: grouped queries (Ainslie et al. 2023), or one head of keys and values
    for all of them (Shazeer 2019).

    Args:
        d_model: width of queries and of the result.
        heads: number of heads; divides d_model, unless `d_head` is given.
        d_head: width of a head; d_model / heads if not given.
        key_value_heads: number of heads of keys and values, which divides `heads`; as many if not given.
        d_memory: width of the attended memory; d_model if not given.
        aggregation: combines the heads; W_O if not given. `MeanAggregation` makes each value d_model wide, and with
            W_k = W_v each query and key as well.
        relative: relative position encoding; none if not given.
        weigher: computes weights from queries and keys; softmax of scaled dot products if not given.
        shared_key_value: the lecture's simplification W_k = W_v.
        norm_heads: creates the norm of the queries of each head, and that of its keys, before any rotation; none if not
            given (Dehghani et al. 2023, 2; Henry et al. 2020).
        dropout: probability of dropping a weight.
        bias: whether projections have a bias.
        output_bias: whether W_O has one; `bias` if not given.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        d_head: int | None = None,
        key_value_heads: int | None = None,
        d_memory: int | None = None,
        aggregation: HeadAggregation | None = None,
        relative: RelativePosition | None = None,
        weigher: WeightFunction | None = None,
        shared_key_value: bool = False,
        norm_heads: Callable[[int], nn.Module] | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        assert d_head is not None or d_model % heads == 0, f"{heads} heads do not divide d_model={d_model}"
        d_head = d_head or d_model // heads
        d_v = d_model if isinstance(aggregation, MeanAggregation) else d_head
        d_k = d_v if shared_key_value else d_head
        super().__init__(heads, d_k=d_k, d_v=d_v, relative=relative, weigher=weigher, dropout=dropout)
        self.shared_key_value = shared_key_value
        self.key_value_heads = key_value_heads or heads
        assert heads % self.key_value_heads == 0, f"{self.key_value_heads} heads of keys do not divide {heads} heads"
        width = self.d_k if shared_key_value else self.d_k + self.d_v
        self.query = nn.Linear(d_model, heads * self.d_k, bias=bias)
        self.key_value = nn.Linear(d_memory or d_model, self.key_value_heads * width, bias=bias)
        self.query_norm = None if norm_heads is None else norm_heads(self.d_k)
        self.key_norm = None if norm_heads is None else norm_heads(self.d_k)
        self.aggregation = aggregation or ProjectionAggregation(
            d_model, d_heads=heads * self.d_v, bias=bias if output_bias is None else output_bias
        )
        self._init_weights()

    def _init_weights(self) -> None:
        """Initialise each projection by Xavier's rule and biases with zeros."""
        nn.init.xavier_uniform_(self.query.weight)
        keys = self.key_value_heads * self.d_k
        nn.init.xavier_uniform_(self.key_value.weight[:keys])
        if not self.shared_key_value:
            nn.init.xavier_uniform_(self.key_value.weight[keys:])
        for linear in (self.query, self.key_value):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def project_memory(
        self,
        keys: Float[Tensor, "G K d_memory"],
        values: Float[Tensor, "G K d_memory"],
        positions: Int[Tensor, "G K"],
    ) -> KVCache:
        """Project keys and values of tokens or memory slots at these positions; done once per token or per memory."""
        d_keys, linear = self.key_value_heads * self.d_k, self.key_value
        if self.shared_key_value:
            key = linear(keys)
            value = key if values is keys else linear(values)
        elif values is keys:
            key, value = torch.split(apply_linear(keys, linear), [d_keys, self.key_value_heads * self.d_v], -1)
        else:
            key, value = linear(keys)[..., :d_keys], linear(values)[..., d_keys:]
        key = self._split_heads(key, self.d_k)
        if self.key_norm is not None:
            key = self.key_norm(key)
        key = self.relative.rotate(key, positions)
        return KVCache(self.weigher.project(key, positions), self._split_heads(value, self.d_v))

    def forward(
        self, x: Float[Tensor, "G Q d_model"], memory: KVCache, *, mask: AttentionMask
    ) -> Float[Tensor, "G Q d_model"]:
        """Attend from `x` to the projected keys and values in `memory` that the mask shows; return one vector per
        query.
        """
        query = self._project_queries(x, mask=mask)
        context = self._attend(query, memory, mask=mask)
        aggregated: Tensor = self.aggregation(context.transpose(1, 2))
        return aggregated

    def compute_trace(self, x: Float[Tensor, "G Q d_model"], memory: KVCache, *, mask: AttentionMask) -> AttentionTrace:
        """Return all intermediate values of `forward` for the same arguments; the contexts are the same."""
        mask = mask.to_dense()
        query = self._project_queries(x, mask=mask)
        return self._build_trace(query, memory, mask=mask)

    def _project_queries(self, x: Tensor, *, mask: AttentionMask) -> Float[Tensor, "G H Q d_k"]:
        """Return the queries of `x` at the positions of the mask, normalised and rotated."""
        query = self._split_heads(apply_linear(x, self.query), self.d_k)
        if self.query_norm is not None:
            query = self.query_norm(query)
        return self.relative.rotate(query, mask.positions)

    def _split_heads(self, x: Tensor, width: int) -> Tensor:
        """Split the last axis into heads of this width and move them to axis 1."""
        return x.view(x.size(0), x.size(1), x.size(2) // width, width).transpose(1, 2)
