"""What flows between the rooms: tokens in, memory between encoder and decoder, and the rows of a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Nest = TypeVar("Nest")
Item = TypeVar("Item")

SOURCE: Final = "source"
"""What a memory is called where it is the only one."""

BeamOutcome = Literal["lived", "ended", "pruned"]
"""Of a token that a beam tried: went on; ended the text and was kept; was ranked too low to go on."""


@dataclass(frozen=True)
class Tokens:
    """Everything textual that enters a model: what each token is, and where it is.

    `positions` is -1 where there is no token. Padding, causality, windows and every kind of position encoding follow
    from it, so a model never needs to know which id means padding. `factors` are numbers of what is known of a token
    besides, such as the case of its word.
    """

    ids: Int[Tensor, "B T"]
    positions: Int[Tensor, "B T"]
    segments: Int[Tensor, "B T"] | None = None
    factors: Int[Tensor, "B T F"] | None = None

    @classmethod
    def from_ids(cls, ids: Int[Tensor, "B T"], *, pad: int) -> Tokens:
        """Tokens counted from 0 in each row, skipping every `pad` (left or right)."""
        is_token = ids != pad
        return cls(ids, torch.where(is_token, is_token.cumsum(1) - 1, -1))

    def slice_columns(self, start: int, stop: int | None = None) -> Tokens:
        """The columns from `start` up to `stop`; ids keep their positions."""
        segments = None if self.segments is None else self.segments[:, start:stop]
        factors = None if self.factors is None else self.factors[:, start:stop]
        return Tokens(self.ids[:, start:stop], self.positions[:, start:stop], segments, factors)


@dataclass(frozen=True)
class FeatureBatch:
    """What enters a model and is no text: a vector for each frame, and where it is; -1 where there is none."""

    vectors: Float[Tensor, "B T d"]
    positions: Int[Tensor, "B T"]


@final
@dataclass(frozen=True)
class SequenceLayout:
    """Slots that follow each other, as words or stored facts do; as many as there are."""

    def accepts(self, num_slots: int) -> bool:
        """Always."""
        return True

    def with_slots(self, num_slots: int) -> SequenceLayout:
        """The shape of so many slots."""
        return self


@final
@dataclass(frozen=True)
class GridLayout:
    """The regions of a picture, row after row; what a smaller picture of a batch lacks is at -1."""

    rows: int
    columns: int

    def accepts(self, num_slots: int) -> bool:
        """A slot for each region."""
        return num_slots == self.rows * self.columns

    def with_slots(self, num_slots: int) -> GridLayout:
        """The shape of so many slots, which are as many as before."""
        return self


@final
@dataclass(frozen=True)
class FrameLayout:
    """The frames of a clip in their order; what a shorter clip of a batch lacks is at -1."""

    count: int

    def accepts(self, num_slots: int) -> bool:
        """A slot for each frame."""
        return num_slots == self.count

    def with_slots(self, num_slots: int) -> FrameLayout:
        """The shape of so many slots."""
        return FrameLayout(num_slots)


MemoryLayout: TypeAlias = SequenceLayout | GridLayout | FrameLayout
"""How the slots of a memory lie, which whoever draws attention to it wants to know."""


@dataclass(frozen=True)
class Memory:
    """Everything a decoder can look at: encoded words, regions, stored facts; -1 in `positions` is an empty slot."""

    keys: Float[Tensor, "B S d_key"]
    values: Float[Tensor, "B S d_value"]
    positions: Int[Tensor, "B S"]
    summary: Float[Tensor, "B d_summary"]
    layout: MemoryLayout = SequenceLayout()

    def __post_init__(self) -> None:
        assert self.layout.accepts(self.positions.size(1)), f"{self.positions.size(1)} slots are no {self.layout}"

    def concat(self, others: Sequence[Memory]) -> Memory:
        """With the rows of others, which have the same shape, but that clips may be of any length."""
        parts = (self, *others)
        num_slots = max(part.positions.size(1) for part in parts)
        layout = self.layout.with_slots(num_slots)
        assert all(part.layout.with_slots(num_slots) == layout for part in parts), (
            f"a memory of {self.layout} and others"
        )
        return Memory(
            pad_and_concat([part.keys for part in parts], axis=1, fill=0.0),
            pad_and_concat([part.values for part in parts], axis=1, fill=0.0),
            pad_and_concat([part.positions for part in parts], axis=1, fill=-1),
            torch.cat([part.summary for part in parts]),
            layout,
        )


@dataclass(frozen=True)
class MultiStepLimits:
    """Until when the rows of a greedy search go on, and by what.

    Attributes:
        positions: of the next token of each row.
        lengths: tokens of each row so far.
        limits: the most that it may have.
        done: rows that do not go on.
        eos: the token that ends a row.
        suppressed_ids: tokens that are not taken.
        max_steps: tokens that are wanted of each row, at most.
    """

    positions: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    limits: Int[Tensor, " B"]
    done: Bool[Tensor, " B"]
    eos: int
    suppressed_ids: Int[Tensor, " n"]
    max_steps: int


@dataclass(frozen=True)
class MultiStepOutput:
    """Tokens that rows went on by, step by step.

    Attributes:
        ids: of the tokens.
        log_probabilities: by the model, before anything was forbidden.
        positions: at which they stand; -1 in rows that were done.
        done: rows that do not go on now.
        failed_row: the first row that had no token to go on by, or -1.
    """

    ids: Int[Tensor, "n B"]
    log_probabilities: Float[Tensor, "n B"]
    positions: Int[Tensor, "n B"]
    done: Bool[Tensor, " B"]
    failed_row: int


Memories: TypeAlias = Memory | Mapping[str, Memory]
"""One memory, or several by name: the regions and the motion of a clip, the facts of each hop."""


def as_mapping(value: Item | Mapping[str, Item] | None) -> Mapping[str, Item]:
    """One thing of each name; a single thing is called `source`, and None is nothing."""
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {SOURCE: value}


def select_memories(memories: Memories | None, names: Iterable[str]) -> Mapping[str, Memory]:
    """The memories by name, in the order of these names, which have to be theirs."""
    memory_by_name, expected = as_mapping(memories), tuple(names)
    assert memory_by_name.keys() == set(expected), (
        f"this looks at {_join_names(expected)}; given: {_join_names(memory_by_name)}"
    )
    return {name: memory_by_name[name] for name in expected}


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


@dataclass(frozen=True)
class RowSelection:
    """Which old row each new row of a state continues.

    Rows come in groups of `width` consecutive rows (the beams of one sentence). Because a new row may only continue an
    old row of its own group, whatever the rows of a group share need not be copied when they are rearranged.

    Attributes:
        origin: the old row that each new row continues, [B].
        groups: the old group of each new group, [G]; None keeps all groups in their order.
        width: rows in each new group; B = G * width.
        ignores_groups: rows are picked regardless of groups; each new row is a group of its own.
    """

    origin: Int[Tensor, " B"]
    groups: Int[Tensor, " G"] | None = None
    width: int = 1
    ignores_groups: bool = False

    @classmethod
    def from_indices(cls, origin: Int[Tensor, " B"]) -> RowSelection:
        """Rows picked freely; nothing stays shared."""
        return cls(origin, ignores_groups=True)

    @classmethod
    def expand(cls, num_groups: int, width: int, *, device: torch.device) -> RowSelection:
        """Each of `num_groups` rows becomes `width` rows that continue it."""
        return cls(torch.arange(num_groups, device=device).repeat_interleave(width), None, width)

    @classmethod
    def within_groups(cls, choice: Int[Tensor, "G width"]) -> RowSelection:
        """Within each group, row j continues the group's row `choice[:, j]`."""
        num_groups, width = choice.shape
        first_rows = torch.arange(num_groups, device=choice.device).unsqueeze(1) * width
        return cls((choice + first_rows).flatten(), None, width)

    @classmethod
    def keep_groups(cls, groups: Int[Tensor, " G"], width: int) -> RowSelection:
        """Whole groups, the others dropped."""
        offsets = torch.arange(width, device=groups.device)
        return cls((groups.unsqueeze(1) * width + offsets).flatten(), groups, width)

    def source_groups(self, width: int) -> Int[Tensor, " G"] | None:
        """The old group of each new group, if groups had `width` rows; None when groups stay where they are."""
        return self.origin // width if self.ignores_groups else self.groups


@runtime_checkable
class SupportsReorder(Protocol):
    """A part of a state that knows a cheaper way to rearrange its rows than copying them."""

    def reorder(self, rows: RowSelection) -> Any:
        """This part with the rows of `rows`."""
        ...


def select_rows(state: Nest, rows: RowSelection | Int[Tensor, " B"]) -> Nest:
    """A state whose row i continues row `rows[i]` of this one: beam search, finished rows, shuffled batches.

    A state is any nest of frozen dataclasses, tuples, dictionaries and batch-first tensors. Parts with a `reorder`
    method of their own are asked to do it themselves.
    """
    selection = RowSelection.from_indices(rows) if isinstance(rows, Tensor) else rows
    result: Nest = _select_nested(state, selection)
    return result


def _select_nested(state: Any, rows: RowSelection) -> Any:
    if isinstance(state, Tensor):
        return state.index_select(0, rows.origin)
    if isinstance(state, tuple):
        return tuple(_select_nested(part, rows) for part in state)
    if isinstance(state, dict):
        return {name: _select_nested(part, rows) for name, part in state.items()}
    if hasattr(type(state), "reorder"):  # a `SupportsReorder`; to ask whether it is one takes as long as a small step
        return state.reorder(rows)
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{f.name: _select_nested(getattr(state, f.name), rows) for f in fields(state)})
    assert state is None or isinstance(state, int), f"a state may not hold {type(state).__name__}"
    return state


@runtime_checkable
class SupportsConcat(Protocol):
    """A part of a state whose rows cannot simply be laid under each other, because it grew or is shared."""

    def concat(self, others: Sequence[Any]) -> Any:
        """The rows of this part, then those of the others, which are of its kind."""
        ...


def concat_rows(states: Sequence[Nest]) -> Nest:
    """One state with the rows of all, in this order: the inverse of `select_rows`.

    The states may have begun at different times: where one has read less than another, or looks at less, there is
    nothing (position -1). States whose rows come in groups need groups of one width.
    """
    assert states, "there is nothing to join"
    result: Nest = states[0] if len(states) == 1 else _concat_nested(states)
    return result


def _concat_nested(parts: Sequence[Any]) -> Any:
    first, *others = parts
    assert all(type(other) is type(first) for other in others), (
        f"cannot join {', '.join(type(part).__name__ for part in parts)}; without a memory, a state has no rows before "
        "its first token"
    )
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    if isinstance(first, tuple):
        assert len({len(part) for part in parts}) == 1, "a state without a memory has no rows before its first token"
        return tuple(_concat_nested(items) for items in zip(*parts, strict=True))
    if isinstance(first, SupportsConcat):
        return first.concat(others)
    assert not isinstance(first, SupportsReorder), f"{type(first).__name__} does not say how it is joined"
    if is_dataclass(first) and not isinstance(first, type):
        return replace(
            first, **{f.name: _concat_nested([getattr(part, f.name) for part in parts]) for f in fields(first)}
        )
    if isinstance(first, dict):
        assert all(other.keys() == first.keys() for other in others), "states that look at different memories"
        return {name: _concat_nested([part[name] for part in parts]) for name in first}
    assert all(other == first for other in others), f"{first} and others that differ cannot be joined"
    return first


def pad_and_concat(tensors: Sequence[Tensor], *, axis: int, fill: float | int | bool, pad_left: bool = False) -> Tensor:
    """The rows of all, filled up along another axis where they are shorter: behind what they have, or to its left."""
    max_size = max(tensor.size(axis) for tensor in tensors)
    padded = []
    for tensor in tensors:
        shape = list(tensor.shape)
        shape[axis] = max_size - shape[axis]
        padding = tensor.new_full(shape, fill)
        padded.append(
            tensor if not shape[axis] else torch.cat((padding, tensor) if pad_left else (tensor, padding), axis)
        )
    return torch.cat(padded)


def count_used_columns(positions: Int[Tensor, "G K"]) -> int:
    """How many columns there are up to the last that has something in some row; at least one, if there is one."""
    is_used = (positions >= 0).any(0)
    if not len(is_used):
        return 0
    is_used[0] = True
    return int(is_used.nonzero()[-1]) + 1


def require_same_width(widths: Iterable[int]) -> int:
    """How many rows are in the groups of states that are joined."""
    distinct_widths = set(widths)
    assert len(distinct_widths) == 1, (
        f"groups of {sorted(distinct_widths)} rows cannot be joined; select their rows freely first"
    )
    return distinct_widths.pop()


def move_to_device(value: Nest, device: torch.device | str) -> Nest:
    """The same nest of dataclasses, tuples, dictionaries and tensors on another device."""
    result: Nest = _map_tensors(value, lambda tensor: tensor.to(device, non_blocking=True))
    return result


def detach(value: Nest) -> Nest:
    """The same nest, through which no gradient flows back."""
    result: Nest = _map_tensors(value, Tensor.detach)
    return result


def _map_tensors(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple):
        return tuple(_map_tensors(part, function) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _map_tensors(getattr(value, f.name), function) for f in fields(value)})
    if isinstance(value, dict):
        return {name: _map_tensors(part, function) for name, part in value.items()}
    return value
