from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from heedful.training.distributed import DistributedContext, catch_stop_signals
from heedful.training.trainer import StoppingLimits, TrainerConfig

Make = Callable[..., Any]
CPU = torch.device("cpu")


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_the_first_signal_is_noted_and_handlers_come_back() -> None:
    before = handlers()
    with catch_stop_signals() as noted:
        assert noted.signal == 0
        signal.raise_signal(signal.SIGTERM)
        assert noted.signal == signal.SIGTERM
    assert handlers() == before


def test_a_second_interrupt_stops_at_once_and_handlers_come_back() -> None:
    before = handlers()
    with pytest.raises(KeyboardInterrupt), catch_stop_signals():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert handlers() == before


def test_a_second_sigterm_is_as_polite_as_the_first() -> None:
    with catch_stop_signals() as noted:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert noted.signal == signal.SIGTERM


def test_threads_cannot_listen_and_need_not() -> None:
    before, inside, found = handlers(), [], []

    def work() -> None:
        with catch_stop_signals() as noted:
            inside.extend(handlers())
            found.append(noted.signal)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0]
    assert inside == before


def test_a_process_whose_parent_is_gone_saves_and_leaves(bench: Make) -> None:
    made = bench(
        limits=StoppingLimits(steps=9),
        habits=TrainerConfig(evaluate_every=4),
        world=DistributedContext(0, 1, CPU, parent=-1),
    )
    assert made.trainer.run() == signal.SIGTERM
    snapshot, evaluation = made.diary.saved[-1]
    assert (snapshot.progress.step, evaluation) == (1, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [1, 3, 4, 6])
def test_a_signal_ends_training_after_the_update_and_loses_nothing(bench: Make, number: int, at: int) -> None:
    """Update 4 should be followed by an evaluation, update 6 ends an epoch."""
    arguments = {"limits": StoppingLimits(steps=9), "habits": TrainerConfig(evaluate_every=4), "dropout": 0.3}
    whole = bench(**arguments)
    whole.trainer.run()
    made = bench(**arguments)
    made.task.before_loss = lambda call: signal.raise_signal(number) if call == at else None
    assert made.trainer.run() == number
    snapshot, evaluation = made.diary.saved[-1]
    assert (snapshot.progress.step, evaluation) == (at, None)
    later = bench(**arguments)
    later.trainer.restore(snapshot)
    assert later.trainer.run() == 0
    told = [e.progress.step for e in (*made.diary.evaluations, *later.diary.evaluations)]
    assert told == [4, 8, 9]
    assert [u.step for u in (*made.diary.updates, *later.diary.updates)] == list(range(1, 10))
    assert all(torch.equal(later.weights[name], weight) for name, weight in whole.weights.items())
    values = [e.metrics for e in (*made.diary.evaluations, *later.diary.evaluations)]
    assert values == [e.metrics for e in whole.diary.evaluations]
