"""Tensor structures shared by all modules: token batches, encoder memory, and row operations on decoder states."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Nest = TypeVar("Nest")
Item = TypeVar("Item")
StepsOutput = TypeVar("StepsOutput")
"""Result of several steps of a search."""

SOURCE: Final = "source"
"""Name of a memory that is the only one."""

BeamOutcome = Literal["lived", "ended", "pruned"]
"""Outcome of a candidate token in beam search: lived on, ended the text and was kept, or was pruned."""


@dataclass(frozen=True)
class Tokens:
    """Batch of tokens: what each token is, and where it is.

    `positions` is -1 where there is no token. Padding, causality, windows and every position encoding follow from it,
    so a model need not know which id is padding. `factors` are additional features of a token, such as the case of its
    word.
    """

    ids: Int[Tensor, "B T"]
    positions: Int[Tensor, "B T"]
    segments: Int[Tensor, "B T"] | None = None
    factors: Int[Tensor, "B T F"] | None = None

    @classmethod
    def from_ids(cls, ids: Int[Tensor, "B T"], *, pad: int) -> Tokens:
        """Build tokens from ids; positions count the ids of each row from 0 and are -1 where the id is `pad`, on the
        left or right.
        """
        is_token = ids != pad
        return cls(ids, torch.where(is_token, is_token.cumsum(1) - 1, -1))

    def slice_columns(self, start: int, stop: int | None = None) -> Tokens:
        """Return the columns from `start` up to `stop`; tokens keep their positions."""
        segments = None if self.segments is None else self.segments[:, start:stop]
        factors = None if self.factors is None else self.factors[:, start:stop]
        return Tokens(self.ids[:, start:stop], self.positions[:, start:stop], segments, factors)


@dataclass(frozen=True)
class FeatureBatch:
    """Batch of input vectors that are not text: a vector for each frame, and its position; -1 where there is none."""

    vectors: Float[Tensor, "B T d"]
    positions: Int[Tensor, "B T"]


@final
@dataclass(frozen=True)
class SequenceLayout:
    """Layout of slots in a sequence, such as words or stored facts."""

    def accepts(self, num_slots: int) -> bool:
        """Return True: any number of slots is possible."""
        return True

    def with_slots(self, num_slots: int) -> SequenceLayout:
        """Return the layout for this number of slots."""
        return self


@final
@dataclass(frozen=True)
class GridLayout:
    """Layout of the regions of a picture, row by row; missing regions of smaller pictures have position -1."""

    rows: int
    columns: int

    def accepts(self, num_slots: int) -> bool:
        """Return whether there is a slot for each region."""
        return num_slots == self.rows * self.columns

    def with_slots(self, num_slots: int) -> GridLayout:
        """Return this layout; the number of slots must be unchanged."""
        return self


@final
@dataclass(frozen=True)
class FrameLayout:
    """Layout of the frames of a clip in order; missing frames of shorter clips have position -1."""

    count: int

    def accepts(self, num_slots: int) -> bool:
        """Return whether there is a slot for each frame."""
        return num_slots == self.count

    def with_slots(self, num_slots: int) -> FrameLayout:
        """Return the layout for this number of frames."""
        return FrameLayout(num_slots)


MemoryLayout: TypeAlias = SequenceLayout | GridLayout | FrameLayout
"""Layout of the slots of a memory, for drawing attention."""


@dataclass(frozen=True)
class Memory:
    """Encoder output that a decoder attends to: words, regions or facts; empty slots have position -1."""

    keys: Float[Tensor, "B S d_key"]
    values: Float[Tensor, "B S d_value"]
    positions: Int[Tensor, "B S"]
    summary: Float[Tensor, "B d_summary"]
    layout: MemoryLayout = SequenceLayout()

    def __post_init__(self) -> None:
        assert self.layout.accepts(self.positions.size(1)), f"{self.positions.size(1)} slots do not fit {self.layout}"

    def concat(self, others: Sequence[Memory]) -> Memory:
        """Concatenate the rows of this memory and of `others`, which must have the same layout; clips may differ in
        length. Missing slots are filled with position -1.
        """
        parts = (self, *others)
        num_slots = max(part.positions.size(1) for part in parts)
        layout = self.layout.with_slots(num_slots)
        assert all(part.layout.with_slots(num_slots) == layout for part in parts), (
            f"memories of {self.layout} and of other layouts"
        )
        return Memory(
            pad_and_concat([part.keys for part in parts], axis=1, fill=0.0),
            pad_and_concat([part.values for part in parts], axis=1, fill=0.0),
            pad_and_concat([part.positions for part in parts], axis=1, fill=-1),
            torch.cat([part.summary for part in parts]),
            layout,
        )


@final
@dataclass(frozen=True)
class RepetitionRules:
    """Rules of a search against repeated tokens, and the texts that they apply to.

    Attributes:
        texts: tokens that each row has read and written, in order; -1 for none.
        penalty: theta of `RepetitionPenalty`; 1 means no penalty.
        ngram_size: length of the n-grams that may occur only once in the text of a row; 0 means no rule.
        exempt_ids: tokens to which the rules do not apply.
    """

    texts: Int[Tensor, "N L"]
    penalty: float
    ngram_size: int
    exempt_ids: Int[Tensor, " n"]


@dataclass(frozen=True)
class MultiStepSearch(ABC, Generic[StepsOutput]):
    """Base class of the next steps of a search, which an engine may run in one call.

    Attributes:
        limits: largest number of tokens of each row, or of each sentence of a beam search.
        eos: the token that ends a row.
        suppressed_ids: tokens that must not be taken.
        max_steps: largest number of steps.
        repetition: rules about repetition; None if there are none.
    """

    limits: Int[Tensor, " N"]
    eos: int
    suppressed_ids: Int[Tensor, " n"]
    max_steps: int
    repetition: RepetitionRules | None


@final
@dataclass(frozen=True)
class GreedySteps(MultiStepSearch["GreedyStepsOutput"]):
    """The next steps of a greedy search.

    Attributes:
        positions: position of the next token of each row.
        lengths: number of tokens of each row so far.
        done: rows that are not decoded.
    """

    positions: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    done: Bool[Tensor, " B"]


@final
@dataclass(frozen=True)
class GreedyStepsOutput:
    """Tokens of several steps of a greedy search, step by step.

    Attributes:
        ids: of the tokens.
        log_probabilities: by the model, before tokens were forbidden.
        positions: of the tokens; -1 in rows that were done.
        done: rows that have ended.
        failed_row: the first row without a possible token, or -1.
        texts: those of the rules about repetition, with the new tokens; None without rules.
    """

    ids: Int[Tensor, "n B"]
    log_probabilities: Float[Tensor, "n B"]
    positions: Int[Tensor, "n B"]
    done: Bool[Tensor, " B"]
    failed_row: int
    texts: Int[Tensor, "B L"] | None


@final
@dataclass(frozen=True)
class BeamSteps(MultiStepSearch["BeamStepsOutput"]):
    """The next steps of a beam search.

    Attributes:
        fields: the dynamic fields of its `BeamState`.
        prefix_lengths: number of forced tokens of each sentence.
        divisors: divisor of the length penalty for each length.
    """

    fields: tuple[Tensor, ...]
    prefix_lengths: Int[Tensor, " G"]
    divisors: Float[Tensor, " lengths"]


@final
@dataclass(frozen=True)
class BeamStepsOutput:
    """Live beams after each of several steps of a beam search, step by step.

    Attributes:
        ids: newest token of each beam.
        log_probabilities: of these tokens by the model.
        beams: the beam of the step before that each beam continues.
        fields: the dynamic fields of the `BeamState` after the last step.
        num_done: number of sentences that are done.
        needs_reorder: whether any beam changed its row in the last step.
        texts: those of the rules about repetition, of the live beams; None without rules.
    """

    ids: Int[Tensor, "n G width"]
    log_probabilities: Float[Tensor, "n G width"]
    beams: Int[Tensor, "n G width"]
    fields: tuple[Tensor, ...]
    num_done: int
    needs_reorder: bool
    texts: Int[Tensor, "N L"] | None


Memories: TypeAlias = Memory | Mapping[str, Memory]
"""One memory, or several by name: regions and motion of a clip, the facts of each hop."""


def as_mapping(value: Item | Mapping[str, Item] | None) -> Mapping[str, Item]:
    """Return a mapping by name; a single value gets the name `source`, None gives an empty mapping."""
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {SOURCE: value}


def select_memories(memories: Memories | None, names: Iterable[str]) -> Mapping[str, Memory]:
    """Return the memories in the order of `names`; there must be exactly one memory of each name."""
    memory_by_name, expected = as_mapping(memories), tuple(names)
    assert memory_by_name.keys() == set(expected), (
        f"this attends to {_join_names(expected)}; given: {_join_names(memory_by_name)}"
    )
    return {name: memory_by_name[name] for name in expected}


def _join_names(names: Iterable[str]) -> str:
    """Join names with commas."""
    return ", ".join(names) or "nothing"


@dataclass(frozen=True)
class RowSelection:
    """Selection of state rows: the old row that each new row continues.

    Rows come in groups of `width` consecutive rows (the beams of one sentence). A new row continues a row of its own
    group, so what the rows of a group share need not be copied when they are reordered.

    Attributes:
        origin: the old row that each new row continues, [B].
        groups: the old group of each new group, [G]; None keeps all groups in their order.
        width: rows in each new group; B = G * width.
        ignores_groups: rows are selected regardless of groups; each new row is a group of its own.
    """

    origin: Int[Tensor, " B"]
    groups: Int[Tensor, " G"] | None = None
    width: int = 1
    ignores_groups: bool = False

    @classmethod
    def from_indices(cls, origin: Int[Tensor, " B"]) -> RowSelection:
        """Select rows by index, regardless of groups; nothing stays shared."""
        return cls(origin, ignores_groups=True)

    @classmethod
    def expand(cls, num_groups: int, width: int, *, device: torch.device) -> RowSelection:
        """Select each of `num_groups` rows `width` times."""
        return cls(torch.arange(num_groups, device=device).repeat_interleave(width), None, width)

    @classmethod
    def within_groups(cls, choice: Int[Tensor, "G width"]) -> RowSelection:
        """Select rows within each group: new row j continues row `choice[:, j]` of its group."""
        num_groups, width = choice.shape
        first_rows = torch.arange(num_groups, device=choice.device).unsqueeze(1) * width
        return cls((choice + first_rows).flatten(), None, width)

    @classmethod
    def keep_groups(cls, groups: Int[Tensor, " G"], width: int) -> RowSelection:
        """Select whole groups, dropping the others."""
        offsets = torch.arange(width, device=groups.device)
        return cls((groups.unsqueeze(1) * width + offsets).flatten(), groups, width)

    def source_groups(self, width: int) -> Int[Tensor, " G"] | None:
        """Return the index of the old group that each new group continues, if old groups had `width` rows; None if all
        groups stay in place.
        """
        return self.origin // width if self.ignores_groups else self.groups


@runtime_checkable
class SupportsReorder(Protocol):
    """Part of a state that can reorder its rows more cheaply than by copying."""

    def reorder(self, rows: RowSelection) -> Any:
        """Return this part with the selected rows."""
        ...


def select_rows(state: Nest, rows: RowSelection | Int[Tensor, " B"]) -> Nest:
    """Return a state whose row i continues row `rows[i]` of the given one.

    Used for beam search, for dropping finished rows, and for shuffled batches. A state is any nest of frozen
    dataclasses, tuples, dictionaries and batch-first tensors. Parts with a `reorder` method select their rows
    themselves.
    """
    selection = RowSelection.from_indices(rows) if isinstance(rows, Tensor) else rows
    result: Nest = _select_nested(state, selection)
    return result


def _select_nested(state: Any, rows: RowSelection) -> Any:
    """Return one part of a state with the selected rows: of tensors, of tuples, dictionaries and dataclasses of them,
    and of parts with a method `reorder`. None and integers stay as they are.
    """
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
    """Part of a state whose rows cannot be concatenated tensor by tensor, because it has grown or is shared."""

    def concat(self, others: Sequence[Any]) -> Any:
        """Return the rows of this part, followed by those of the others, which have the same class."""
        ...


def concat_rows(states: Sequence[Nest]) -> Nest:
    """Concatenate the rows of several states, in this order: the inverse of `select_rows`.

    The states may have begun at different times: where one has read or attends to less than another, it is padded with
    position -1. States with grouped rows must have groups of equal width.
    """
    assert states, "there is nothing to join"
    result: Nest = states[0] if len(states) == 1 else _concat_nested(states)
    return result


def _concat_nested(parts: Sequence[Any]) -> Any:
    """Concatenate the rows of one part of several states: tensors, nests of them, or parts with a method `concat`. The
    parts must have one class; other values must be equal.
    """
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
    if hasattr(type(first), "concat"):  # a `SupportsConcat`; see `_select_nested`
        return first.concat(others)
    assert not hasattr(type(first), "reorder"), f"{type(first).__name__} does not define how it is joined"
    if is_dataclass(first) and not isinstance(first, type):
        return replace(
            first, **{f.name: _concat_nested([getattr(part, f.name) for part in parts]) for f in fields(first)}
        )
    if isinstance(first, dict):
        assert all(other.keys() == first.keys() for other in others), "states that attend to different memories"
        return {name: _concat_nested([part[name] for part in parts]) for name in first}
    assert all(other == first for other in others), f"{first} and others that differ cannot be joined"
    return first


def pad_and_concat(tensors: Sequence[Tensor], *, axis: int, fill: float | int | bool, pad_left: bool = False) -> Tensor:
    """Concatenate tensors along the first axis, the batch; before that, pad each with `fill` to the largest size along
    `axis`, on the right, or on the left if `pad_left`.
    """
    max_size = max(tensor.size(axis) for tensor in tensors)

    def pad(tensor: Tensor) -> Tensor:
        """Pad a tensor to the largest size."""
        shape = list(tensor.shape)
        shape[axis] = max_size - shape[axis]
        if not shape[axis]:
            return tensor
        padding = tensor.new_full(shape, fill)
        return torch.cat((padding, tensor) if pad_left else (tensor, padding), axis)

    return torch.cat([pad(tensor) for tensor in tensors])


def count_used_columns(positions: Int[Tensor, "G K"]) -> int:
    """Return the number of columns up to the last one that has a position of 0 or more in any row; at least 1 if there
    is a column.
    """
    is_used = (positions >= 0).any(0)
    if not len(is_used):
        return 0
    is_used[0] = True
    return int(is_used.nonzero()[-1]) + 1


def require_same_width(widths: Iterable[int]) -> int:
    """Return the common group width of states; raises `AssertionError` if they differ."""
    distinct_widths = set(widths)
    assert len(distinct_widths) == 1, (
        f"groups of {sorted(distinct_widths)} rows cannot be joined; select their rows freely first"
    )
    return distinct_widths.pop()


def move_to_device(value: Nest, device: torch.device | str) -> Nest:
    """Move all tensors of a nest of dataclasses, tuples and dictionaries to a device."""
    result: Nest = _map_tensors(value, lambda tensor: tensor.to(device, non_blocking=True))
    return result


def detach(value: Nest) -> Nest:
    """Detach all tensors of a nest from the autograd graph."""
    result: Nest = _map_tensors(value, Tensor.detach)
    return result


def _map_tensors(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return a nest of dataclasses, tuples and dictionaries with `function` applied to all its tensors."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple):
        return tuple(_map_tensors(part, function) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _map_tensors(getattr(value, f.name), function) for f in fields(value)})
    if isinstance(value, dict):
        return {name: _map_tensors(part, function) for name, part in value.items()}
    return value


def swap_parameter_data(parameter: nn.Parameter, tensor: Tensor) -> None:
    """Replace the data of a parameter, maybe by data on another device. The parameter stays the same object, so that
    modules that share it still do.
    """
    swap: Any = torch.utils.swap_tensors
    swap(parameter, nn.Parameter(tensor, requires_grad=parameter.requires_grad))
