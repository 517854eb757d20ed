from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful.errors import TrainingError
from heedful.training import distributed
from heedful.training.distributed import DistributedContext, agree_on_prefix, convert_lost_peers, init_distributed

CPU = torch.device("cpu")


def test_alone_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with init_distributed(CPU) as here:
        assert here == DistributedContext(0, 1, CPU)
        assert here.is_leader
        tensor = torch.ones(3)
        here.all_reduce_([tensor])
        assert tensor.tolist() == [1, 1, 1]
        assert here.broadcast([1.5, 2.5]) == [1.5, 2.5]
        assert here.run_on_leader(lambda: "done") == "done"
        with pytest.raises(ZeroDivisionError):
            here.run_on_leader(lambda: 1 // 0)
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("bucket", [1, 40, 64, 10**6])
def test_sums_travel_in_messages_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch, bucket: int) -> None:
    messages: list[int] = []

    def all_reduce(flat: Tensor) -> None:
        messages.append(flat.numel() * flat.element_size())
        flat.mul_(3)  # as if three processes had the same

    monkeypatch.setattr(distributed, "_BUCKET_BYTES", bucket)
    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    shapes = [(2, 3), (), (5,), (1, 1, 4), (0,), (7,)]
    tensors = [torch.randn(shape) for shape in shapes]
    tensors.append(torch.randn(4, 3).T)
    expected = [3 * tensor for tensor in tensors]
    DistributedContext(1, 3, CPU).all_reduce_(tensors)
    for tensor, sum_ in zip(tensors, expected, strict=True):
        assert torch.equal(tensor, sum_)
    assert sum(messages) == 4 * sum(t.numel() for t in tensors)
    assert all(size <= max(bucket, 48) for size in messages)
    if bucket == 10**6:
        assert len(messages) == 1


GLOO = "[/a/pair.cc:553] Connection closed by peer [127.0.0.1]:22945. This is typically caused by a crash"
LOST = (
    r"another process of this training has ended \(Connection closed by peer \[127\.0\.0\.1\]:22945\); its own message"
)


def test_a_lost_process_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(GLOO)

    for name in ("all_reduce", "broadcast"):
        monkeypatch.setattr(torch.distributed, name, fail)
    with pytest.raises(TrainingError, match=LOST):
        DistributedContext(0, 2, CPU).all_reduce_([torch.ones(3)])
    with pytest.raises(TrainingError, match=LOST):
        DistributedContext(1, 2, CPU).run_on_leader(lambda: None)
    with pytest.raises(TrainingError, match=LOST):
        DistributedContext(0, 2, CPU).run_on_leader(lambda: None)
    with pytest.raises(ZeroDivisionError):  # what went wrong first, whoever may have left since
        DistributedContext(0, 2, CPU).run_on_leader(lambda: 1 // 0)


def test_processes_of_torchrun_know_when_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"WORLD_SIZE": "2", "RANK": "1", "TORCHELASTIC_RUN_ID": "none"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for name in ("init_process_group", "destroy_process_group"):
        monkeypatch.setattr(torch.distributed, name, lambda *_, **__: None)
    store = torch.distributed.HashStore()
    monkeypatch.setattr(distributed, "rendezvous", lambda *_, **__: iter([(store, 1, 2)]))
    monkeypatch.setattr(distributed, "agree_on_prefix", lambda *_, **__: "new")
    monkeypatch.setattr("os.getppid", lambda: 7)  # which may be 1 in a container
    with init_distributed(CPU) as here:
        assert (here.rank, here.size) == (1, 2)
        assert not here.is_orphaned
        monkeypatch.setattr("os.getppid", lambda: 1)
        assert here.is_orphaned
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    with init_distributed(CPU) as here:  # started by hand, by a shell that may end
        monkeypatch.setattr("os.getppid", lambda: 2)
        assert not here.is_orphaned


def test_followers_hear_how_the_leading_process_fared(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[float] = []

    def broadcast(tensor: Tensor, source: int) -> None:
        assert source == 0
        if leader.is_leader and not playing_follower:
            said.append(float(tensor[0]))
        else:
            tensor.fill_(said.pop())

    monkeypatch.setattr(torch.distributed, "broadcast", broadcast)
    leader, follower, playing_follower = DistributedContext(0, 2, CPU), DistributedContext(1, 2, CPU), False
    assert leader.run_on_leader(lambda: 5) == 5
    playing_follower = True
    assert follower.run_on_leader(lambda: pytest.fail("only the leading process works")) is None
    playing_follower = False
    with pytest.raises(KeyError):
        leader.run_on_leader(lambda: {}["x"])
    playing_follower = True
    with pytest.raises(TrainingError, match="leading process could not continue"):
        follower.run_on_leader(lambda: None)


def test_processes_agree_on_keys_that_no_earlier_group_has_used() -> None:
    """Also if the store holds the answers for processes that were killed in the middle of it."""
    store, prefixes = torch.distributed.HashStore(), set()
    for attempt in range(4):
        with ThreadPoolExecutor(3) as pool:
            found = set(pool.map(lambda rank: agree_on_prefix(store, rank=rank, size=3), range(3)))
        assert len(found) == 1
        prefixes |= found
        store.set("greeting-1", f"{attempt}of a process that was killed before it read its answer")
    assert len(prefixes) == 4


@pytest.mark.parametrize(
    ("error", "is_converted"),
    [
        (RuntimeError(GLOO), True),
        (torch.distributed.DistBackendError("a collective timed out"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory"), False),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
    ],
)
def test_only_errors_of_peers_are_converted(error: RuntimeError, is_converted: bool) -> None:
    with pytest.raises(TrainingError if is_converted else type(error)), convert_lost_peers():
        raise error


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_states_of_threads_are_listed() -> None:
    name = Path("/proc/self/task", str(threading.get_native_id()), "comm").read_text().strip()
    assert "R" in distributed._list_thread_states(name)
    assert distributed._list_thread_states("no such name") == []


def test_a_process_ends_when_the_threads_of_gloo_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two states in a row that look idle may be between two exchanges."""
    busy, idle = ["S", "R"], ["S", "S"]
    states = iter([busy, idle, idle, busy, *[idle] * 100])
    polls = []
    monkeypatch.setattr("heedful.training.distributed._list_thread_states", lambda _: next(states))
    monkeypatch.setattr("heedful.training.distributed.time.sleep", polls.append)
    distributed._wait_for_gloo_threads()
    assert len(polls) == 4 + 5
    monkeypatch.setattr("heedful.training.distributed._list_thread_states", lambda _: busy)
    distributed._wait_for_gloo_threads()  # does not wait without end
    assert sum(polls) < 10
