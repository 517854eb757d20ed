"""Chunks of a stream come back in order, whatever process worked on them."""

import os
import signal
import time
from collections.abc import Iterator, Sequence

import pytest

from heedful.data.chunk_workers import CAN_FORK, ChunkWorkers
from heedful.errors import DataError, RunError

needs_fork = pytest.mark.skipif(not CAN_FORK, reason="this system cannot fork safely")


def sum_slowly(chunk: Sequence[int]) -> tuple[int, int]:
    if chunk[0] % 3 == 0:
        time.sleep(0.01)  # so that later chunks are ready first
    return sum(chunk), os.getpid()


def build(processes: int, *, function: object = sum_slowly, alone: int = 1) -> ChunkWorkers[int, tuple[int, int]]:
    return ChunkWorkers(function, processes, chunks_alone=alone, chunk_examples=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 200])
def test_results_are_in_the_order_of_the_stream(processes: int, count: int) -> None:
    found = list(build(processes).map(range(count)))
    assert [number for chunk, _ in found for number in chunk] == list(range(count))
    assert all(total == sum(chunk) for chunk, (total, _) in found)
    assert all(len(chunk) == 7 for chunk, _ in found[:-1])


@needs_fork
def test_only_long_streams_are_shared_among_processes() -> None:
    own = os.getpid()
    assert {process for _, (_, process) in build(2, alone=3).map(range(21))} == {own}
    processes = [process for _, (_, process) in build(2, alone=3).map(range(200))]
    assert processes[:3] == [own] * 3
    assert own not in processes[3:]
    assert {process for _, (_, process) in build(1).map(range(200))} == {own}


def test_chunks_are_limited_by_the_size_of_their_examples() -> None:
    workers = ChunkWorkers[str, int](len, count_characters=len)
    large = "x" * 2**19
    assert [count for _, count in workers.map([large, large, "a", large, "b", large, "c"])] == [2, 4, 1]


def test_functions_get_the_selected_part_alone() -> None:
    workers = ChunkWorkers[int, list[str]](list, chunk_examples=2)
    assert list(workers.map([1, 2, 3], select=str)) == [([1, 2], ["1", "2"]), ([3], ["3"])]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("end", [3, 100])
def test_a_stream_that_breaks_off_gives_what_came_before(processes: int, end: int) -> None:
    def broken() -> Iterator[int]:
        yield from range(end)
        raise DataError("x.en:9: bad")

    found: list[int] = []
    with pytest.raises(DataError, match="bad"):
        for chunk, _ in build(processes).map(broken()):
            found += chunk
    assert found == list(range(end))


@pytest.mark.parametrize("processes", [1, 2])
def test_the_first_error_counts(processes: int) -> None:
    def refuse(chunk: Sequence[int]) -> int:
        if 50 in chunk:
            raise DataError("fifty")
        return len(chunk)

    def broken() -> Iterator[int]:
        yield from range(60)
        raise DataError("the end")

    found: list[int] = []
    with pytest.raises(DataError, match="fifty"):
        for chunk, _ in build(processes, function=refuse).map(broken()):
            found += chunk
    assert found == list(range(49))


@needs_fork
def test_a_killed_process_is_told() -> None:
    parent = os.getpid()

    def end(chunk: Sequence[int]) -> int:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return len(chunk)

    with pytest.raises(RunError, match="was killed; if memory ran out, use fewer processes"):
        list(build(2, function=end).map(range(100)))


@needs_fork
def test_processes_end_when_nobody_asks_for_more() -> None:
    results = build(2).map(range(1000))
    processes = {process for _, (_, process) in (next(results) for _ in range(20))} - {os.getpid()}
    assert processes
    results.close()  # type: ignore[attr-defined]
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
