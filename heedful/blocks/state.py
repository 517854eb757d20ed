"""What a stack of attention remembers of what it has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from jaxtyping import Int
from torch import Tensor

from heedful.attention import kernels
from heedful.attention.keys import EVERYTHING, KeyValues, Picks
from heedful.attention.sight import Slots
from heedful.values import Rows, one_width, select, used

_AHEAD = 8
"""Steps that keys have room for when they were copied without those that nobody needs, which is done again then."""


@dataclass(frozen=True)
class LayerState:
    """What a layer remembers: its own past, and each memory as this layer projects it."""

    past: KeyValues | None = None
    memories: Mapping[str, KeyValues] = field(default_factory=dict)

    def picked(self, picks: Picks, *, room: int) -> LayerState:
        """Of some groups, and of the past some keys, with room for more."""
        whole = Picks(picks.groups)
        past = None if self.past is None else self.past.picked(picks, room=room)
        return LayerState(past, {name: each.picked(whole) for name, each in self.memories.items()})


@dataclass(frozen=True)
class StackState:
    """What a stack remembers: where keys are, once for all layers, and the keys and values of each layer.

    Rearranging rows costs an index into small tables. Keys and values stay where they are, and which of them are meant
    is noted, until they are read again or joined; then they are copied once, without those that nobody needs.

    Attributes:
        past: what was read.
        memories: what is looked at.
        layers: keys and values of each layer.
        width: rows in a group.
        picks: which of the keys of the layers `past` and `memories` tell of.
    """

    past: Slots | None
    memories: Mapping[str, Slots]
    layers: tuple[LayerState, ...]
    width: int = 1
    picks: Picks = EVERYTHING

    def read(self, positions: Int[Tensor, "G wQ"]) -> Slots:
        """Where keys are once those at `positions` are read, the rows of a group side by side."""
        past = self.past
        if past is None:
            past = Slots(positions.new_empty(positions.size(0), 0), width=self.width)
        return past.extend(positions)

    def rearrange(self, rows: Rows) -> StackState:
        """With other rows."""
        groups = rows.source_groups(self.width)
        state = replace(self, past=select(self.past, rows), memories=select(self.memories, rows), width=rows.width)
        return state if groups is None else state._lean(groups)

    def ready(self, newest: int) -> StackState:
        """With the keys and values that its slots tell of, and no others, and room for so many more in each group."""
        state, past = self, self.layers[0].past
        if self.picks.everything and self.width > 1 and past is not None and not past.has_room(newest):
            state = self._lean(None)  # they are copied anyway
        if state.picks.everything:
            return state
        layers = tuple(layer.picked(state.picks, room=newest + _AHEAD * self.width) for layer in state.layers)
        return replace(state, layers=layers, picks=EVERYTHING)

    def joined(self, others: Sequence[StackState]) -> StackState:
        """With the rows of others: the newest keys of all stand in the last column, so that tokens stay in line."""
        parts = tuple(part._lean(None) for part in (self, *others))
        width = one_width(part.width for part in parts)
        read = next((part for part in parts if part.past is not None), None)
        if read is not None:
            parts = tuple(part._before_any(read) if part.past is None else part for part in parts)
        pasts = [part.past for part in parts if part.past is not None]
        sizes = [{name: used(slots.positions) for name, slots in part.memories.items()} for part in parts]
        return StackState(
            past=Slots.together(pasts, left=True) if pasts else None,
            memories={
                name: Slots.together(
                    [part.memories[name].first(size[name]) for part, size in zip(parts, sizes, strict=True)], left=False
                )
                for name in self.memories
            },
            layers=tuple(_together(parts, sizes, layer=number) for number in range(len(self.layers))),
            width=width,
        )

    def _lean(self, groups: Int[Tensor, " G"] | None) -> StackState:
        """Without the keys that nobody needs, of those groups whose slots there are now."""
        past, columns = self.past, None
        if past is not None and not kernels.traced() and (columns := past.needed()) is not None:
            past = past.at(columns)
        return replace(self, past=past, picks=self.picks.then(groups, columns))

    def _before_any(self, like: StackState) -> StackState:
        """This state, in which nothing was read, with room for what was read in another."""
        assert self.memories, "a state without a memory has no rows before its first token, and cannot be joined"
        positions = next(iter(self.memories.values())).positions
        groups = len(positions)
        pasts = [None if layer.past is None else layer.past.before_any(groups) for layer in like.layers]
        layers = tuple(replace(layer, past=past) for layer, past in zip(self.layers, pasts, strict=True))
        return replace(self, past=Slots(positions.new_empty(groups, 0), width=self.width), layers=layers)


def _together(parts: Sequence[StackState], sizes: Sequence[Mapping[str, int]], *, layer: int) -> LayerState:
    """A layer with the groups of all states, and of each memory so many slots of each."""
    layers = [part.layers[layer] for part in parts]
    pasts = [(each.past, part.picks) for each, part in zip(layers, parts, strict=True) if each.past is not None]
    memories = {
        name: KeyValues.together(
            [
                (each.memories[name], Picks(part.picks.groups, part.memories[name].columns(size[name])))
                for each, part, size in zip(layers, parts, sizes, strict=True)
            ],
            left=False,
        )
        for name in layers[0].memories
    }
    return LayerState(KeyValues.together(pasts, left=True, room=_AHEAD * parts[0].width) if pasts else None, memories)
