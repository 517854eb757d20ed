"""What flows between the rooms: positions, rows and their selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.tensors import (
    FrameLayout,
    GridLayout,
    Memory,
    MemoryLayout,
    RowSelection,
    SequenceLayout,
    Tokens,
    concat_rows,
    count_used_columns,
    detach,
    move_to_device,
    select_rows,
)

PAD = 0


@pytest.mark.parametrize("seed", range(5))
def test_positions_count_the_tokens_of_each_row_wherever_padding_is(seed: int) -> None:
    torch.manual_seed(seed)
    ids = torch.randint(3, 9, (4, 6)).masked_fill(torch.rand(4, 6) < 0.4, PAD)
    tokens = Tokens.from_ids(ids, pad=PAD)
    for row, positions in zip(ids.tolist(), tokens.positions.tolist(), strict=True):
        count = 0
        for token, position in zip(row, positions, strict=True):
            assert position == (-1 if token == PAD else count)
            count += token != PAD


def test_spans_keep_positions_and_segments() -> None:
    ids, segments = torch.randint(1, 9, (2, 6)), torch.tensor([[0, 0, 1, 1, 1, 2]] * 2)
    tokens = Tokens(ids, Tokens.from_ids(ids, pad=PAD).positions, segments)
    part = tokens.slice_columns(2, 5)
    assert torch.equal(part.ids, ids[:, 2:5])
    assert part.positions.tolist() == [[2, 3, 4]] * 2
    assert part.segments is not None
    assert part.segments.tolist() == [[1, 1, 1]] * 2
    assert tokens.slice_columns(4).ids.size(1) == 2


def test_each_way_to_choose_rows_names_the_old_row_of_each_new_one() -> None:
    cpu = torch.device("cpu")
    assert RowSelection.from_indices(torch.tensor([4, 0, 4])).origin.tolist() == [4, 0, 4]
    assert RowSelection.expand(2, 3, device=cpu).origin.tolist() == [0, 0, 0, 1, 1, 1]
    assert RowSelection.within_groups(torch.tensor([[2, 0, 2], [1, 1, 0]])).origin.tolist() == [2, 0, 2, 4, 4, 3]
    kept = RowSelection.keep_groups(torch.tensor([2, 0]), 2)
    assert kept.origin.tolist() == [4, 5, 0, 1]
    groups = kept.source_groups(2)
    assert groups is not None
    assert groups.tolist() == [2, 0]
    assert RowSelection.within_groups(torch.tensor([[1, 0]])).source_groups(2) is None, "groups stay where they are"
    free = RowSelection.from_indices(torch.tensor([5, 0, 2])).source_groups(2)
    assert free is not None
    assert free.tolist() == [2, 0, 1]


@dataclass(frozen=True)
class Nest:
    inner: tuple[Tensor, ...]
    nothing: None
    number: int
    own: Any


@dataclass(frozen=True)
class Own:
    asked: tuple[int, ...] = ()

    def reorder(self, rows: RowSelection) -> Own:
        return Own(tuple(rows.origin.tolist()))


def test_any_nest_is_selected_and_parts_may_do_it_themselves() -> None:
    a, b = torch.randn(3, 2), torch.arange(3)
    state = (Nest((a, b), None, 7, Own()), Tokens(a.long(), b[:, None].expand(-1, 2)))
    for rows in (torch.tensor([2, 0, 0, 1]), RowSelection.from_indices(torch.tensor([2, 0, 0, 1]))):
        nest, tokens = select_rows(state, rows)
        assert torch.equal(nest.inner[0], a[[2, 0, 0, 1]])
        assert nest.inner[1].tolist() == [2, 0, 0, 1]
        assert (nest.nothing, nest.number, nest.own) == (None, 7, Own((2, 0, 0, 1)))
        assert tokens.segments is None
        assert tokens.positions[:, 1].tolist() == [2, 0, 0, 1]
    with pytest.raises(AssertionError, match="may not hold list"):
        select_rows([a], torch.tensor([0]))


def test_nests_move_whole() -> None:
    moved = move_to_device((Nest((torch.zeros(2),), None, 3, "kept"), torch.ones(1)), "meta")
    assert moved[0].inner[0].is_meta
    assert moved[1].is_meta
    assert (moved[0].number, moved[0].own) == (3, "kept")


def memory_of(slots: int, shape: MemoryLayout | None) -> Memory:
    vectors, positions = torch.randn(2, slots, 3), torch.arange(slots).expand(2, -1)
    return Memory(vectors, vectors, positions, vectors[:, 0], **({} if shape is None else {"layout": shape}))


@pytest.mark.parametrize("shape", [None, SequenceLayout(), GridLayout(2, 3), FrameLayout(6)])
def test_a_memory_keeps_its_shape_whatever_becomes_of_its_rows(shape: MemoryLayout | None) -> None:
    memory, expected = memory_of(6, shape), shape or SequenceLayout()
    assert memory.layout == expected
    for changed in (select_rows(memory, torch.tensor([1, 1, 0])), move_to_device(memory, "meta"), detach(memory)):
        assert changed.layout == expected
    assert select_rows({"picture": memory}, torch.tensor([0]))["picture"].layout == expected


@pytest.mark.parametrize("shape", [GridLayout(2, 2), FrameLayout(4)])
def test_a_shape_has_as_many_slots_as_its_memory(shape: MemoryLayout) -> None:
    assert memory_of(4, shape).layout == shape
    with pytest.raises(AssertionError, match=r"5 slots do not fit (GridLayout|FrameLayout)\("):
        memory_of(5, shape)


def test_any_nest_is_joined_and_parts_may_do_it_themselves() -> None:
    whole = ({"a": torch.randn(4, 2), "own": None}, (torch.arange(4), 3))
    parts = [select_rows(whole, torch.tensor(rows)) for rows in ([0], [1, 2], [3])]
    again = concat_rows(parts)
    assert torch.equal(again[0]["a"], whole[0]["a"])
    assert again[1][0].tolist() == [0, 1, 2, 3]
    assert (again[0]["own"], again[1][1]) == (None, 3)
    assert concat_rows([whole]) is whole


def test_memories_of_different_length_are_joined_and_those_of_different_shape_are_not() -> None:
    joined = concat_rows([memory_of(2, None), memory_of(4, None)])
    assert joined.positions.tolist() == [[0, 1, -1, -1]] * 2 + [[0, 1, 2, 3]] * 2
    assert joined.keys.shape == (4, 4, 3)
    assert not joined.keys[:2, 2:].any()
    assert concat_rows([memory_of(6, GridLayout(2, 3))] * 2).layout == GridLayout(2, 3)
    with pytest.raises(AssertionError, match=r"memories of GridLayout\(rows=2, columns=3\) and of other layouts"):
        concat_rows([memory_of(6, GridLayout(2, 3)), memory_of(6, GridLayout(3, 2))])


@pytest.mark.parametrize(
    ("states", "why"),
    [
        ([], "nothing to join"),
        ([(torch.zeros(1),), ()], "no rows before its first token"),
        ([None, torch.zeros(1)], "cannot join NoneType, Tensor; without a memory"),
        ([{"a": torch.zeros(1)}, {"b": torch.zeros(1)}], "different memories"),
        ([Own(), Own()], "Own does not define how"),
        ([3, 4], "3 and others that differ"),
    ],
)
def test_what_cannot_be_joined_is_refused(states: list[Any], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        concat_rows(states)


def test_columns_count_up_to_the_last_that_has_something() -> None:
    positions = torch.tensor([[-1, -1, 0, -1, 1, -1], [-1, 2, -1, -1, -1, -1]])
    assert count_used_columns(positions) == 5
    assert count_used_columns(positions[:, :2]) == 2
    assert count_used_columns(positions[:, 2:4]) == 1
    empty = torch.full((2, 3), -1)
    assert count_used_columns(empty) == 1, "something is left to look at"
    assert count_used_columns(empty[:, :0]) == 0
