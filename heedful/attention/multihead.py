"""Multi-head attention: projections, and three ways to combine heads."""

from __future__ import annotations

from abc import ABC, abstractmethod

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
    """Concatenation of heads times W_O, c = [c_1 ... c_J] W_O (Vaswani et al. 2017, 3.2.2)."""

    def __init__(self, d_model: int, *, bias: bool = True) -> None:
        super().__init__()
        self.output = nn.Linear(d_model, d_model, bias=bias)
        nn.init.xavier_uniform_(self.output.weight)
        if bias:
            nn.init.zeros_(self.output.bias)

    def forward(self, contexts: Float[Tensor, "B Q H d_v"]) -> Float[Tensor, "B Q d_model"]:
        """Concatenate the heads and multiply by W_O."""
        mixed: Tensor = self.output(contexts.flatten(2))
        return mixed


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
        can_fuse = self.weigher.fusable and not self.relative.touches_scores and not self.probe.is_watched
        dropout = self.dropout.p if self.training else 0.0
        if can_fuse and kernels.prefer_fused(query, memory.key, dropout):
            return kernels.fused_attention(
                query,
                memory.key,
                value=memory.value,
                visible=mask.visible,
                fully_masked=mask.fully_masked,
                dropout=dropout,
            )
        if can_fuse and kernels.needs_grad(query):
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
        scores = self.weigher.score(query, memory.key)
        bias = self.relative.score_bias(query, mask.positions, mask.key_positions)
        return (scores if bias is None else scores + bias), bias

    def _combine_values(self, weights: Tensor, memory: KVCache, *, mask: AttentionMask) -> Tensor:
        """Return the sum of the values in `memory` by weights, with the position bias of values if there is one."""
        context = kernels.weighted_sum(weights, memory.value)
        value_bias = self.relative.value_bias(weights, mask.positions, mask.key_positions)
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

    Args:
        d_model: width of queries and of the result.
        heads: number of heads; divides d_model.
        d_memory: width of the attended memory; d_model if not given.
        aggregation: combines the heads; W_O if not given. `MeanAggregation` makes each value d_model wide, and with
            W_k = W_v each query and key as well.
        relative: relative position encoding; none if not given.
        weigher: computes weights from queries and keys; softmax of scaled dot products if not given.
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
        aggregation: HeadAggregation | None = None,
        relative: RelativePosition | None = None,
        weigher: WeightFunction | None = None,
        shared_key_value: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        assert d_model % heads == 0, f"{heads} heads do not divide d_model={d_model}"
        d_v = d_model if isinstance(aggregation, MeanAggregation) else d_model // heads
        d_k = d_v if shared_key_value else d_model // heads
        super().__init__(heads, d_k=d_k, d_v=d_v, relative=relative, weigher=weigher, dropout=dropout)
        self.shared_key_value = shared_key_value
        width = self.d_k if shared_key_value else self.d_k + self.d_v
        self.query = nn.Linear(d_model, heads * self.d_k, bias=bias)
        self.key_value = nn.Linear(d_memory or d_model, heads * width, bias=bias)
        self.aggregation = aggregation or ProjectionAggregation(d_model, bias=bias)
        self._init_weights()

    def _init_weights(self) -> None:
        """Initialise each projection by Xavier's rule and biases with zeros."""
        nn.init.xavier_uniform_(self.query.weight)
        keys = self.heads * self.d_k
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
        d_keys, linear = self.heads * self.d_k, self.key_value
        if self.shared_key_value:
            key = linear(keys)
            value = key if values is keys else linear(values)
        elif values is keys:
            key, value = linear(keys).split([d_keys, self.heads * self.d_v], -1)
        else:
            key, value = linear(keys)[..., :d_keys], linear(values)[..., d_keys:]
        key = self.relative.rotate(self._split_heads(key, self.d_k), positions)
        return KVCache(self.weigher.project(key, positions), self._split_heads(value, self.d_v))

    def forward(
        self, x: Float[Tensor, "G Q d_model"], memory: KVCache, *, mask: AttentionMask
    ) -> Float[Tensor, "G Q d_model"]:
        """Attend from `x` to the projected keys and values in `memory` that the mask shows; return one vector per
        query.
        """
        query = self.relative.rotate(self._split_heads(self.query(x), self.d_k), mask.positions)
        context = self._attend(query, memory, mask=mask)
        aggregated: Tensor = self.aggregation(context.transpose(1, 2))
        return aggregated

    def compute_trace(self, x: Float[Tensor, "G Q d_model"], memory: KVCache, *, mask: AttentionMask) -> AttentionTrace:
        """Return all intermediate values of `forward` for the same arguments; the contexts are the same."""
        mask = mask.to_dense()
        query = self.relative.rotate(self._split_heads(self.query(x), self.d_k), mask.positions)
        return self._build_trace(query, memory, mask=mask)

    def _split_heads(self, x: Tensor, width: int) -> Tensor:
        """Split the last axis into heads and move them to axis 1."""
        return x.view(x.size(0), x.size(1), self.heads, width).transpose(1, 2)
