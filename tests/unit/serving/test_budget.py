"""Memory that is reserved before something is decoded: its sum is bounded, and who must wait does so in order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.http_errors import HTTPError
from heedful.serving.resource_limits import MemoryBudget, TemporaryStore


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


def test_the_sum_of_what_is_reserved_is_bounded() -> None:
    budget, most, guarding, held = MemoryBudget(10), 0, threading.Lock(), 0

    def decode(size: int) -> int:
        nonlocal most, held
        with budget.reserve(size, RequestDeadline.from_seconds(20), name="image"):
            with guarding:
                held += size
                most = max(most, held)
            time.sleep(0.001)
            with guarding:
                held -= size
        return size

    sizes = [1 + at * 7 % 6 for at in range(60)]
    with ThreadPoolExecutor(20) as threads:
        assert list(threads.map(decode, sizes)) == sizes
    assert 6 <= most <= 10
    assert budget.used_bytes == 0


def test_what_never_fits_is_refused_with_the_numbers() -> None:
    budget = MemoryBudget(1_000)
    with pytest.raises(HTTPError, match=r"image: needs 1,001 bytes .* has 1,000 ") as refused:
        budget.reserve(1_001, RequestDeadline.from_seconds(20), name="image").__enter__()
    assert (refused.value.status, budget.used_bytes) == (413, 0)
    with budget.reserve(1_000, RequestDeadline.from_seconds(20), name="image"):
        assert budget.used_bytes == 1_000


def test_who_waits_does_so_until_the_deadline_and_in_order() -> None:
    budget, order = MemoryBudget(10), list[str]()

    def decode(name: str, size: int) -> None:
        with budget.reserve(size, RequestDeadline.from_seconds(20), name=name):
            order.append(name)

    with ThreadPoolExecutor(2) as threads:
        with budget.reserve(6, RequestDeadline.from_seconds(20), name="first"):
            with pytest.raises(HTTPError) as late, budget.reserve(5, RequestDeadline.from_seconds(0.01), name="late"):
                pass
            assert late.value.status == 504
            large = threads.submit(decode, "large", 9)
            until(lambda: len(budget._waiting) == 1)
            small = threads.submit(decode, "small", 2)
            until(lambda: len(budget._waiting) == 2)
            assert order == [], "a small one does not pass a large one that came before"
        large.result(20)
        small.result(20)
    assert (order, budget.used_bytes) == (["large", "small"], 0)


@pytest.mark.parametrize("in_thread", [True, False])
def test_a_client_that_leaves_gives_up_its_place(in_thread: bool) -> None:
    budget, term = MemoryBudget(10), RequestDeadline.from_seconds(20)

    def wait() -> None:
        with budget.reserve(5, term, name="image"):
            raise AssertionError("there is no room")

    async def wait_in_loop() -> None:
        async with budget.reserve_async(5, term, name="file"):
            raise AssertionError("there is no room")

    with ThreadPoolExecutor(1) as threads, budget.reserve(6, RequestDeadline.from_seconds(20), name="first"):
        waiting = threads.submit(wait) if in_thread else threads.submit(lambda: asyncio.run(wait_in_loop()))
        until(lambda: len(budget._waiting) == 1)
        term.cancel()
        with pytest.raises(ClientDisconnected):
            waiting.result(20)
        with budget.reserve(4, RequestDeadline.from_seconds(20), name="next"):  # nobody waits before it any more
            assert budget.used_bytes == 10
    assert budget.used_bytes == 0


def test_what_is_not_needed_any_more_is_returned_at_once() -> None:
    budget = MemoryBudget(10)
    with budget.reserve(10, RequestDeadline.from_seconds(20), name="sound") as reservation:
        reservation.reduce(3)
        reservation.reduce(5)  # never more
        assert budget.used_bytes == 3
        with budget.reserve(7, RequestDeadline.from_seconds(20), name="sound"):
            assert budget.used_bytes == 10
    assert budget.used_bytes == 0


def test_coroutines_wait_without_holding_up_the_loop() -> None:
    budget, order = MemoryBudget(4), list[int]()

    async def decode(number: int) -> None:
        async with budget.reserve_async(3, RequestDeadline.from_seconds(20), name="file"):
            order.append(number)
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        await asyncio.gather(*map(decode, range(5)))

    asyncio.run(asyncio.wait_for(all_of_them(), 20))
    assert (order, budget.used_bytes) == ([0, 1, 2, 3, 4], 0)


def test_results_are_kept_while_there_is_room() -> None:
    async def fill() -> None:
        store = TemporaryStore[bytes](max_bytes=100, max_items=3)
        names = [store.add(bytes(10), size=10, suffix=".txt") for _ in range(4)]
        assert len(store) == 3 and len(set(names)) == 4 and names[0].endswith(".txt")
        assert store.get(names[0]) is None
        last = store.add(bytes(85), size=85)
        assert len(store) == 2 and store.get(last) == bytes(85)
        whole = store.add(bytes(1000), size=1000)
        assert len(store) == 1 and store.get(whole) == bytes(1000)

    asyncio.run(fill())


def test_results_that_nobody_fetches_go() -> None:
    async def wait() -> None:
        store = TemporaryStore[bytes](max_bytes=100, max_items=3, seconds=0.01)
        store.add(b"", size=0)
        until = time.monotonic() + 20
        while len(store) and time.monotonic() < until:
            await asyncio.sleep(0.01)
        assert not len(store)

    asyncio.run(wait())
