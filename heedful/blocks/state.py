"""Decoding state (KV caches) of a Transformer stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from jaxtyping import Int
from torch import Tensor

from heedful.attention import kernels
from heedful.attention.kv_cache import ALL_KEYS, KVCache, PendingSelection
from heedful.attention.mask import CacheLayout
from heedful.tensors import RowSelection, count_used_columns, require_same_width, select_rows

_SPARE_STEPS = 8
"""Spare steps per row when keys are copied without unneeded ones; the copy is repeated when they are used up."""


@dataclass(frozen=True)
class LayerState:
    """Caches of one layer: its own past, and each memory projected by this layer."""

    past: KVCache | None = None
    memories: Mapping[str, KVCache] = field(default_factory=dict)

    def apply_selection(self, selection: PendingSelection, *, spare_keys: int) -> LayerState:
        """Return the caches of a selection of keys and groups; reserve room for `spare_keys` further keys of the
        past.
        """
        group_selection = PendingSelection(selection.groups)
        past = None if self.past is None else self.past.apply_selection(selection, spare_keys=spare_keys)
        return LayerState(
            past, {name: memory.apply_selection(group_selection) for name, memory in self.memories.items()}
        )


@dataclass(frozen=True)
class StackState:
    """Decoding state of a stack: layouts of the keys, shared by all layers, and the caches of each layer.

    Reordering rows only indexes small tables. Keys and values stay where they are, and a pending selection records
    which of them are meant; they are copied once, when they are next read or concatenated, without unneeded keys.

    Attributes:
        past: layout of the tokens read so far.
        memories: layout of each memory.
        layers: keys and values of each layer.
        width: rows in a group.
        selection: which keys of `layers` the layouts refer to.
    """

    past: CacheLayout | None
    memories: Mapping[str, CacheLayout]
    layers: tuple[LayerState, ...]
    width: int = 1
    selection: PendingSelection = ALL_KEYS

    def extend_past(self, positions: Int[Tensor, "G wQ"]) -> CacheLayout:
        """Return the layout of the past after reading tokens at `positions` (rows of a group side by side)."""
        past = self.past
        if past is None:
            past = CacheLayout(positions.new_empty(positions.size(0), 0), width=self.width)
        return past.extend(positions)

    def reorder(self, rows: RowSelection) -> StackState:
        """Return the state whose rows are the selected rows of this one."""
        groups = rows.source_groups(self.width)
        state = replace(
            self, past=select_rows(self.past, rows), memories=select_rows(self.memories, rows), width=rows.width
        )
        return state if groups is None else state._drop_unneeded_keys(groups)

    def materialize(self, new_keys: int) -> StackState:
        """Apply the pending selection and reserve room for `new_keys` further keys in each group."""
        state, past = self, self.layers[0].past
        if self.selection.is_identity and self.width > 1 and past is not None and not past.has_room(new_keys):
            state = self._drop_unneeded_keys(None)  # they are copied anyway
        if state.selection.is_identity:
            return state
        layers = tuple(
            layer.apply_selection(state.selection, spare_keys=new_keys + _SPARE_STEPS * self.width)
            for layer in state.layers
        )
        return replace(state, layers=layers, selection=ALL_KEYS)

    def concat(self, others: Sequence[StackState]) -> StackState:
        """Concatenate the rows of this state and of `others`; the newest keys of all are in the last column."""
        states = tuple(part._drop_unneeded_keys(None) for part in (self, *others))
        width = require_same_width(part.width for part in states)
        with_past = next((part for part in states if part.past is not None), None)
        if with_past is not None:
            states = tuple(part._with_empty_past(with_past) if part.past is None else part for part in states)
        pasts = [part.past for part in states if part.past is not None]
        memory_lengths = [
            {name: count_used_columns(slots.positions) for name, slots in part.memories.items()} for part in states
        ]
        return StackState(
            past=CacheLayout.concat_groups(pasts, pad_left=True) if pasts else None,
            memories={
                name: CacheLayout.concat_groups(
                    [
                        part.memories[name].truncate(size[name])
                        for part, size in zip(states, memory_lengths, strict=True)
                    ],
                    pad_left=False,
                )
                for name in self.memories
            },
            layers=tuple(_concat_layer(states, memory_lengths, layer=number) for number in range(len(self.layers))),
            width=width,
        )

    def _drop_unneeded_keys(self, groups: Int[Tensor, " G"] | None) -> StackState:
        """Add to the pending selection: drop unneeded keys, and keep these groups."""
        past, columns = self.past, None
        if past is not None and not kernels.is_tracing() and (columns := past.needed_columns()) is not None:
            past = past.select_columns(columns)
        return replace(self, past=past, selection=self.selection.compose(groups, columns))

    def _with_empty_past(self, reference: StackState) -> StackState:
        """Return this state, which has read nothing, with an empty past shaped like that of `reference`."""
        assert self.memories, "a state without a memory has no rows before its first token and cannot be joined"
        positions = next(iter(self.memories.values())).positions
        groups = len(positions)
        pasts = [None if layer.past is None else layer.past.new_empty(groups) for layer in reference.layers]
        layers = tuple(replace(layer, past=past) for layer, past in zip(self.layers, pasts, strict=True))
        return replace(self, past=CacheLayout(positions.new_empty(groups, 0), width=self.width), layers=layers)


def _concat_layer(
    states: Sequence[StackState], memory_lengths: Sequence[Mapping[str, int]], *, layer: int
) -> LayerState:
    """Concatenate one layer of all states; each memory is cut to its length in `memory_lengths`."""
    layers = [state.layers[layer] for state in states]
    pasts = [
        (layer_state.past, state.selection)
        for layer_state, state in zip(layers, states, strict=True)
        if layer_state.past is not None
    ]
    memories = {
        name: KVCache.concat_groups(
            [
                (
                    layer_state.memories[name],
                    PendingSelection(state.selection.groups, state.memories[name].first_columns(lengths[name])),
                )
                for layer_state, state, lengths in zip(layers, states, memory_lengths, strict=True)
            ],
            pad_left=False,
        )
        for name in layers[0].memories
    }
    return LayerState(
        KVCache.concat_groups(pasts, pad_left=True, spare_keys=_SPARE_STEPS * states[0].width) if pasts else None,
        memories,
    )
