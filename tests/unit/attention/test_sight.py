"""Slots and sight: which row may use which key, after any rearrangement, against sets kept by hand."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from heedful.attention import CacheLayout, bidirectional, causal
from heedful.tensors import RowSelection

KEYS, GROUPS = 3, 3


@dataclass
class Ledger:
    """What each row may use: the columns of its group's keys, written down one by one."""

    slots: CacheLayout
    positions: list[list[int]]
    owned: list[set[int]] = field(default_factory=list)

    def extend(self, count: int, step: int) -> None:
        width, groups = self.slots.width, len(self.positions)
        newer = torch.full((groups, width * count), step)
        newer[torch.rand(newer.shape) < 0.15] = -1
        self.slots = self.slots.extend(newer)
        for group in range(groups):
            first = len(self.positions[group])
            self.positions[group] = self.positions[group] + newer[group].tolist()
            for beam in range(width):
                mine = range(first + beam * count, first + (beam + 1) * count)
                self.owned[group * width + beam] |= set(mine)

    def reorder(self, rows: RowSelection) -> None:
        width = self.slots.width
        self.slots = self.slots.reorder(rows)
        chosen = rows.origin.tolist()
        self.owned = [set(self.owned[row]) for row in chosen]
        if rows.ignores_groups:
            self.positions = [copy.copy(self.positions[row // width]) for row in chosen]
        elif rows.groups is not None:
            self.positions = [self.positions[group] for group in rows.groups.tolist()]

    def leave_behind(self) -> None:
        """What nobody needs is gone, and what is left is where it may be looked at by the same rows."""
        columns = self.slots.needed_columns()
        width, groups = self.slots.width, len(self.positions)
        needed = [
            [column for column, position in enumerate(row) if position >= 0 and self._anybody(group, column)]
            for group, row in enumerate(self.positions)
        ]
        most = max(1, *(len(each) for each in needed))
        if columns is None:
            assert most == len(self.positions[0])
            return
        assert columns.shape == (groups, most) != self.slots.positions.shape
        for group, (found, kept) in enumerate(zip(columns.tolist(), needed, strict=True)):
            assert found[most - len(kept) :] == kept
            rest = found[: most - len(kept)]
            assert not set(rest) & set(kept)
            self.positions[group] = [*[-1] * len(rest), *(self.positions[group][column] for column in kept)]
            for row in range(group * width, (group + 1) * width):
                self.owned[row] = {at for at, column in enumerate(found) if column in self.owned[row]}
        self.slots = self.slots.select_columns(columns)
        assert self.slots.needed_columns() is None

    def check(self) -> None:
        """What `count` queries of each row, those of a group side by side, see of the group's keys."""
        width, groups, count = self.slots.width, len(self.positions), 2
        assert self.slots.positions.tolist() == [
            [p if self._anybody(group, column) or width > 1 else -1 for column, p in enumerate(row)]
            for group, row in enumerate(self.positions)
        ]
        sight = self.slots.build_mask(torch.zeros(groups, width * count, dtype=torch.long), bidirectional)
        for row in range(groups * width):
            group, beam = divmod(row, width)
            expected = [column in self.owned[row] and p >= 0 for column, p in enumerate(self.positions[group])]
            for query in range(beam * count, (beam + 1) * count):
                found = [True] * len(expected) if sight.visible is None else sight.visible[group, 0, query].tolist()
                assert found == expected
                blind = sight.fully_masked is not None and bool(sight.fully_masked[group, 0, query])
                assert blind == (not any(expected))

    def _anybody(self, group: int, column: int) -> bool:
        width = self.slots.width
        return any(column in self.owned[group * width + beam] for beam in range(width))


@pytest.mark.parametrize("leaving", [False, True], ids=["all", "leaving"])
@pytest.mark.parametrize("seed", range(12))
def test_each_row_sees_what_it_descends_from_and_nothing_else(seed: int, *, leaving: bool) -> None:
    torch.manual_seed(seed)
    positions = torch.arange(KEYS).repeat(GROUPS, 1)
    positions[1, 2:] = -1
    ledger = Ledger(CacheLayout(positions), positions.tolist(), [set(range(KEYS)) for _ in range(GROUPS)])
    ledger.extend(2, KEYS)
    ledger.check()
    width = int(torch.randint(1, 4, ()))
    ledger.reorder(RowSelection.expand(GROUPS, width, device=torch.device("cpu")))
    groups = GROUPS
    for step in range(6):
        ledger.check()
        ledger.extend(1 + step % 2, KEYS + 2 + step)
        ledger.check()
        if step == 3:
            kept = torch.tensor([2, 0])
            ledger.reorder(RowSelection.keep_groups(kept, width))
            groups = len(kept)
        else:
            ledger.reorder(RowSelection.within_groups(torch.randint(width, (groups, width))))
        if leaving and step % 2:
            ledger.leave_behind()
    ledger.check()
    ledger.reorder(RowSelection.from_indices(torch.randint(groups * width, (5,))))
    ledger.check()
    if leaving:
        ledger.leave_behind()
        ledger.check()
    ledger.extend(1, 50)
    ledger.check()


def at(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


def test_a_mask_that_hides_nothing_is_no_mask() -> None:
    full, padded = at([0, 1, 2], [0, 1, 2]), at([0, 1, 2], [0, 1, -1])
    assert CacheLayout(full).build_mask(full, bidirectional).visible is None
    sight = CacheLayout(padded).build_mask(full, bidirectional)
    assert sight.visible is not None
    assert sight.fully_masked is None
    assert sight.visible[:, 0].tolist() == [[[True] * 3] * 3, [[True, True, False]] * 3]
    assert CacheLayout(full).build_mask(full[:, 2:], causal).visible is None, "the last token sees all before it"


def test_nothing_is_left_behind_where_there_is_nothing() -> None:
    assert CacheLayout(at([0, 1], [0, 1])).needed_columns() is None
    assert CacheLayout(torch.zeros(0, 3, dtype=torch.long)).needed_columns() is None
    assert CacheLayout(torch.zeros(2, 0, dtype=torch.long)).needed_columns() is None
    nowhere = CacheLayout(at([-1, -1], [-1, -1]))
    columns = nowhere.needed_columns()
    assert columns is not None
    assert nowhere.select_columns(columns).positions.tolist() == [[-1], [-1]], "something is left to look at"


def test_blind_queries_are_known() -> None:
    sight = CacheLayout(at([-1, -1], [0, -1])).build_mask(at([0], [0]), bidirectional)
    assert sight.fully_masked is not None
    assert sight.fully_masked.flatten().tolist() == [True, False]
    assert sight.positions.tolist() == [[0], [0]]
    assert sight.key_positions.tolist() == [[-1, -1], [0, -1]]
