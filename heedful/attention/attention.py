"""Attention with a single score, and multi-hop attention with shared keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.attention.hooks import AttentionTrace, TraceableAttention
from heedful.attention.mask_functions import MaskFunction, bidirectional
from heedful.attention.normalizers import LocalWindow, Normalizer, format_callable, softmax
from heedful.attention.scores import AttentionScore
from heedful.tensors import Memory, RowSelection, count_used_columns, pad_and_concat, require_same_width


class Attention(TraceableAttention):
    """Attention c = sum_i v_i choose_i(score(q, k_i)) with one score and one normalizer (Hu 2018, eq. 1-3).

    Args:
        score: measures how well each key matches the query.
        choose: turns scores into weights.
        focus: restricts and reweights the keys that a query may attend to; None uses all visible keys.
    """

    def __init__(
        self, score: AttentionScore, choose: Normalizer = softmax, *, focus: LocalWindow | None = None
    ) -> None:
        super().__init__()
        self.score = score
        self.choose = choose
        self.focus = focus

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"choose={format_callable(self.choose)}"

    def forward(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_projected"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> Float[Tensor, "B Q d_value"]:
        """Compute the context of each query from the visible keys; `key` comes from `self.score.project`."""
        weights = self._compute_weights(self.score(query, key), query, visible=visible)
        probed_weights: Tensor = self.probe(weights)
        return probed_weights @ value

    def compute_trace(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_projected"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> AttentionTrace:
        """Return all intermediate values of `forward` for the same arguments; the contexts are the same."""
        scores = self.score(query, key)
        weights = self._compute_weights(scores, query, visible=visible)
        parts = (tensor.unsqueeze(1) for tensor in (query, key, value, scores, weights, weights @ value))
        query, key, value, scores, weights, context = parts
        return AttentionTrace(
            query=query,
            key=key,
            value=value,
            scores=scores,
            visible=visible,
            weights=weights,
            context=context,
        )

    def _compute_weights(
        self, scores: Float[Tensor, "B Q K"], query: Float[Tensor, "B Q d_query"], *, visible: Bool[Tensor, "B Q K"]
    ) -> Float[Tensor, "B Q K"]:
        """Turn scores into weights of the visible keys, restricted by the focus of each query if there is one."""
        if self.focus is None:
            return self.choose(scores, visible)
        emphasis: Tensor = self.focus(query, visible)
        return self.choose(scores, emphasis > 0) * emphasis


@dataclass(frozen=True)
class PreparedMemory:
    """A memory with projected keys, stored once for all rows of a group (see `heedful.tensors.RowSelection`)."""

    keys: Float[Tensor, "G S d_key"]
    values: Float[Tensor, "G S d_value"]
    positions: Int[Tensor, "G S"]
    width: int = 1

    @classmethod
    def from_memory(cls, attention: Attention, memory: Memory) -> PreparedMemory:
        """Project the keys of a memory for this attention."""
        return cls(attention.score.project(memory.keys, memory.positions), memory.values, memory.positions)

    def reorder(self, rows: RowSelection) -> PreparedMemory:
        """Return the memory for the selected rows; keys and values are copied only where whole groups are picked or
        dropped.
        """
        groups, width = rows.source_groups(self.width), rows.width
        if groups is None:
            return PreparedMemory(self.keys, self.values, self.positions, width)
        keys, values, positions = (part.index_select(0, groups) for part in (self.keys, self.values, self.positions))
        return PreparedMemory(keys, values, positions, width)

    def concat(self, others: Sequence[PreparedMemory]) -> PreparedMemory:
        """Concatenate the groups of this memory and of `others`, padding the shorter ones."""
        parts = [part.trim_padding() for part in (self, *others)]
        return PreparedMemory(
            pad_and_concat([part.keys for part in parts], axis=1, fill=0.0),
            pad_and_concat([part.values for part in parts], axis=1, fill=0.0),
            pad_and_concat([part.positions for part in parts], axis=1, fill=-1),
            require_same_width(part.width for part in parts),
        )

    def trim_padding(self) -> PreparedMemory:
        """Drop the trailing slots that are empty in all groups."""
        slots = count_used_columns(self.positions)
        return PreparedMemory(self.keys[:, :slots], self.values[:, :slots], self.positions[:, :slots], self.width)

    def attend(
        self,
        attention: Attention,
        query: Float[Tensor, "B Q d"],
        *,
        positions: Int[Tensor, "B Q"],
        mask_function: MaskFunction = bidirectional,
    ) -> Float[Tensor, "B Q d_value"]:
        """Compute the contexts that `attention` gives queries from this memory. `positions` are those of the queries;
        `mask_function` says which slots a position sees. The rows of a group share one product.
        """
        rows, queries, width = query.shape
        groups = rows // self.width
        group_positions = positions.reshape(groups, self.width * queries)
        visible = mask_function(group_positions.unsqueeze(2), self.positions.unsqueeze(1))
        context: Tensor = attention(
            query.reshape(groups, self.width * queries, width), self.keys, value=self.values, visible=visible
        )
        return context.view(rows, queries, context.size(-1))


class MultiHopAttention(TraceableAttention):
    """Self-attentive sums M = A H with A = softmax(Q K^T), one query per hop (Lin et al. 2017, eq. 6).

    A hop corresponds to a head of other attentions, but all hops share keys and values, so their contexts differ only
    by their weights.

    Args:
        hops: r, the number of hops.
    """

    def __init__(self, hops: int) -> None:
        super().__init__()
        self.hops = self.heads = hops

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"hops={self.hops}"

    def forward(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_key"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> Float[Tensor, "B Q d_context"]:
        """Return the contexts of all hops concatenated; `query` holds the queries of all hops, d_query = hops *
        d_key.
        """
        weights: Tensor = self.probe(self._weigh_by_hop(query, key, visible)[-1])
        return (weights @ value.unsqueeze(1)).transpose(1, 2).flatten(2)

    def compute_trace(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_key"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> AttentionTrace:
        """Return all intermediate values of `forward` for the same arguments, with hops as heads."""
        queries, scores, weights = self._weigh_by_hop(query, key, visible)
        return AttentionTrace(
            query=queries,
            key=key.unsqueeze(1).expand(-1, self.hops, -1, -1),
            value=value.unsqueeze(1).expand(-1, self.hops, -1, -1),
            scores=scores,
            visible=visible,
            weights=weights,
            context=weights @ value.unsqueeze(1),
        )

    def _weigh_by_hop(
        self, query: Float[Tensor, "B Q d_query"], key: Float[Tensor, "B K d_key"], visible: Bool[Tensor, "B Q K"]
    ) -> tuple[Float[Tensor, "B hops Q d_key"], Float[Tensor, "B hops Q K"], Float[Tensor, "B hops Q K"]]:
        """Return the queries, scores and weights of each hop; `query` holds the queries of all hops, and `visible` says
        which keys each sees.
        """
        queries = query.view(*query.shape[:2], self.hops, -1).transpose(1, 2)
        scores = queries @ key.unsqueeze(1).transpose(-2, -1)
        return queries, scores, softmax(scores, visible.unsqueeze(1))
