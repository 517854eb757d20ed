"""Storage that grows in place, against concatenation."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from heedful.attention import KVCache, PendingSelection
from heedful.attention.kv_cache import AppendBuffer


def tensors(length: int) -> tuple[Tensor, Tensor]:
    return torch.randn(2, 3, length, 4), torch.randn(2, 3, length, 5)


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_of_states_is_what_concatenation_makes_of_it(seed: int) -> None:
    """Any state may be continued at any time, any number of times; none of the others ever changes."""
    torch.manual_seed(seed)
    start = tensors(int(torch.randint(4, ())))
    states: list[tuple[AppendBuffer, tuple[Tensor, ...]]] = [
        (AppendBuffer.from_tensors(*start), tuple(t.clone() for t in start))
    ]
    for _ in range(40):
        latest = bool(torch.rand(()) < 0.6)
        grown, expected = states[-1 if latest else int(torch.randint(len(states), ()))]
        newer = tensors(int(torch.randint(1, 4, ())))
        longer = tuple(torch.cat((old, new), 2) for old, new in zip(expected, newer, strict=True))
        states.append((grown.append(*newer), longer))
        for state, truth in states:
            for mine, other in zip(state.to_tensors(), truth, strict=True):
                assert torch.equal(mine, other)


def test_threads_that_continue_one_state_do_not_write_over_each_other() -> None:
    """All ask at once, again and again; each must read back what it wrote."""
    threads, rounds = 4, 200
    start = AppendBuffer.from_tensors(*tensors(2)).append(*tensors(1))
    together = threading.Barrier(threads, timeout=60)
    before = sys.getswitchinterval()

    def grow(number: int) -> int:
        wrong = 0
        for _ in range(rounds):
            mine = torch.full((2, 3, 1, 4), float(number)), torch.full((2, 3, 1, 5), float(number))
            together.wait()
            grown = start.append(*mine).append(*mine)
            together.wait()
            wrong += any(bool((each[:, :, 3:] != number).any()) for each in grown.to_tensors())
        return wrong

    try:
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(grow, range(threads))) == [0] * threads
    finally:
        sys.setswitchinterval(before)


def test_one_of_many_gets_the_space() -> None:
    room = AppendBuffer.from_tensors(*tensors(1)).append(*tensors(1)).capacity
    assert [room.claim(1, 2), room.claim(2, 3), room.claim(2, 3), room.claim(3, 10**6), room.claim(3, 4)] == [
        *(False, True, False, False, True)
    ]


def test_what_was_given_is_never_written_to() -> None:
    key, value = tensors(2)
    before = key.clone(), value.clone()
    grown = AppendBuffer.from_tensors(key, value)
    for _ in range(5):
        grown = grown.append(*tensors(1))
    assert torch.equal(key, before[0])
    assert torch.equal(value, before[1])


def test_growing_one_by_one_copies_rarely() -> None:
    """Room doubles, so a thousand steps copy about ten times; a concatenation would copy a thousand times."""
    grown, rooms = AppendBuffer.from_tensors(*tensors(1)), set()
    seen = []
    for _ in range(1000):
        grown = grown.append(*tensors(1))
        if id(grown.capacity) not in rooms:
            rooms.add(id(grown.capacity))
            seen.append(grown.capacity)  # kept alive, so that no other room gets its number
    assert grown.length == 1001
    assert len(rooms) <= 10


@pytest.mark.parametrize("recorded", [True, False], ids=["gradients", "inference"])
def test_keys_and_values_grow_alike_with_and_without_gradients(recorded: bool) -> None:
    with torch.set_grad_enabled(recorded):
        parts = [tensors(n) for n in (2, 1, 1, 3)]
        kept = KVCache(*parts[0])
        for part in parts[1:]:
            kept = kept.extend(KVCache(*part))
        for mine, pieces in ((kept.key, [k for k, _ in parts]), (kept.value, [v for _, v in parts])):
            assert torch.equal(mine, torch.cat(pieces, 2))
        picked = kept.apply_selection(PendingSelection(torch.tensor([1, 1, 0])))
        assert torch.equal(picked.key, kept.key[[1, 1, 0]])
        assert torch.equal(picked.extend(KVCache(*(t[[1, 1, 0]] for t in tensors(1)))).key[:, :, :7], picked.key)
        assert kept.apply_selection(PendingSelection()) is kept


@pytest.mark.parametrize("recorded", [True, False], ids=["gradients", "inference"])
@pytest.mark.parametrize("stored", ["fresh", "apart", "grown"])
def test_each_group_keeps_columns_of_its_own(stored: str, *, recorded: bool) -> None:
    with torch.set_grad_enabled(recorded):
        kept = KVCache(*(torch.randn(2, 3, 6, width) for width in (4, 5)))
        if stored == "apart":  # as a projection gives it: heads beside each other
            kept = KVCache(*(each.transpose(1, 2).contiguous().transpose(1, 2) for each in (kept.key, kept.value)))
        if stored == "grown":
            kept = kept.extend(KVCache(*(torch.randn(2, 3, 1, width) for width in (4, 5))))
        columns = torch.tensor([[0, 2, 5], [1, 3, 4], [1, 2, 3]])
        groups = torch.tensor([1, 0, 1])
        picked = kept.apply_selection(PendingSelection(groups, columns), spare_keys=2)
        for mine, whole in ((picked.key, kept.key), (picked.value, kept.value)):
            for row, (group, some) in enumerate(zip(groups.tolist(), columns.tolist(), strict=True)):
                assert torch.equal(mine[row], whole[group][:, some])
        every = kept.apply_selection(PendingSelection(None, columns[:2]), spare_keys=2)
        assert torch.equal(every.key[1], kept.key[1][:, [1, 3, 4]])
        newer = KVCache(*(torch.randn(3, 3, 2, width) for width in (4, 5)))
        longer = picked.extend(newer)
        assert torch.equal(longer.key, torch.cat((picked.key, newer.key), 2))
        assert torch.equal(longer.value, torch.cat((picked.value, newer.value), 2))
        assert picked.has_room(2) != recorded
        assert not picked.has_room(3)
        assert (longer.key.data_ptr() == picked.key.data_ptr()) != recorded, "there was room for them"


def test_gradients_flow_through_what_has_grown() -> None:
    old, new = (torch.randn(1, 1, 2, 3, requires_grad=True) for _ in range(2))
    grown = KVCache(old, old).extend(KVCache(new, new))
    (grown.key * torch.arange(12.0).view(1, 1, 4, 3)).sum().backward()
    assert old.grad is not None
    assert new.grad is not None
    assert old.grad.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert new.grad.flatten().tolist() == [6, 7, 8, 9, 10, 11]
