"""What many ask of one model at the same time: answers as if each were alone, and nobody harmed by another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import heedful
from heedful.generation import GNMTLengthPenalty, MultinomialSampler
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import BeamSearch, DiverseBeamSearch, GreedySearch, SamplingSearch, SearchStrategy
from heedful.models.interface import State
from heedful.native import load_library
from heedful.serving import scheduler
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.http_errors import HTTPError
from heedful.serving.load_models import load_into
from heedful.serving.registry import ModelRegistry
from heedful.serving.scheduler import Scheduler, _RunningBatch
from heedful.serving.settings import ServerSettings
from heedful.tasks.batch_executor import SearchCall, stream_one, use_executor
from heedful.tasks.predictor import run_batched
from heedful.tasks.translation.glossary import TargetTerm as Held
from heedful.tensors import Tokens

EOS, VOCABULARY = 1, 11


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads call what is checked where it has its units."""


@dataclass(eq=False)
class Gated:
    """An engine whose steps wait for a gate, and that tells how many rows each had."""

    gate: threading.Event = field(default_factory=threading.Event)
    rows: list[int] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    ends: bool = True

    def init_state(self, source: Sequence[int]) -> Tensor:
        if self.broken & set(source):
            raise ValueError(f"cannot read {sorted(self.broken & set(source))}")
        return torch.tensor(list(source))

    def step(self, tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
        self.gate.wait(20)
        self.rows.append(len(tokens.ids))
        logits = []
        for ids, positions in zip(tokens.ids.unbind(1), tokens.positions.unbind(1), strict=True):
            state = torch.where(positions >= 0, (state * 31 + ids * 7 + 3) % 997, state)
            each = ((state.unsqueeze(1) * (1 + torch.arange(VOCABULARY)) * 0.37).sin() * 3).double()
            each[:, EOS] -= 0 if self.ends else 99
            logits.append(each)
        return torch.stack(logits, 1), state


@dataclass(frozen=True)
class Numbers(SearchCall[int]):
    """Texts of numbers."""

    limit: int = 12

    def start_search(self, batch: list[int]) -> tuple[State, GenerationRequest]:
        first = torch.zeros(len(batch), 1, dtype=torch.long)
        streams = torch.tensor(batch)
        return self.engine.init_state(batch), GenerationRequest(Tokens(first, first), self.limit, rng_streams=streams)


@pytest.fixture
def gathering() -> Iterator[Scheduler]:
    made = Scheduler(max_rows=16)
    yield made
    made.close()


def texts(finder: SearchCall[int], numbers: Sequence[int], **given: Any) -> list[tuple[int, ...]]:
    found = run_batched(numbers, finder, size=lambda _: 1, batch_tokens=64, max_rows=8, **given)
    return [hypotheses[0].ids for hypotheses in found]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


SEARCHES: list[SearchStrategy] = [
    GreedySearch(EOS),
    SamplingSearch(EOS, MultinomialSampler(seed=4)),
    BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 2),
    SamplingSearch(EOS, MultinomialSampler(0.8, seed=5), 2),
]


def test_everybody_gets_what_he_gets_alone(gathering: Scheduler) -> None:
    engine = Gated()
    engine.gate.set()
    dice = torch.Generator().manual_seed(1)
    asked = [
        (Numbers(engine, SEARCHES[at % 4]), torch.randint(0, 900, (1 + at % 5,), generator=dice).tolist())
        for at in range(60)
    ]
    expected = [texts(*each) for each in asked]
    engine.rows.clear()

    def ask(each: tuple[Numbers, list[int]]) -> list[tuple[int, ...]]:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            return texts(*each)

    with ThreadPoolExecutor(30) as threads:
        assert list(threads.map(ask, asked)) == expected
    assert max(engine.rows) > 4, "some were read together"


def test_who_comes_later_joins_what_runs(gathering: Scheduler) -> None:
    engine = Gated(ends=False)
    finder = Numbers(engine, GreedySearch(EOS), limit=30)

    def ask(number: int) -> list[tuple[int, ...]]:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            return texts(finder, [number])

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(ask, 5)
        until(lambda: len(gathering._queue) == 1)  # and it waits at the gate, in its first step
        later = [threads.submit(ask, number) for number in (6, 7, 8)]
        until(lambda: gathering._inbox.qsize() == 3)
        engine.gate.set()
        found = [first.result(20), *(each.result(20) for each in later)]
    assert max(engine.rows) == 4, engine.rows
    assert found == [texts(finder, [number]) for number in (5, 6, 7, 8)]


def test_a_term_that_ends_stops_the_work_and_frees_the_place(gathering: Scheduler) -> None:
    engine = Gated(ends=False)
    engine.gate.set()
    endless = Numbers(engine, GreedySearch(EOS), limit=10**6)
    with use_executor(gathering.build_executor(RequestDeadline.from_seconds(0.2))), pytest.raises(HTTPError) as refused:
        texts(endless, [1, 2])
    assert refused.value.status == 504
    until(lambda: not gathering._running or not any(lane.examples for lane in gathering._running.values()))
    count = len(engine.rows)
    time.sleep(0.05)
    assert len(engine.rows) <= count + 1


def test_who_leaves_stops_his_own_work_alone(gathering: Scheduler) -> None:
    engine = Gated(ends=False)
    engine.gate.set()
    term, endless = RequestDeadline.from_seconds(60), Numbers(engine, GreedySearch(EOS), limit=10**6)

    def left() -> None:
        with use_executor(gathering.build_executor(term)), pytest.raises(ClientDisconnected):
            texts(endless, [1])

    with ThreadPoolExecutor(2) as threads:
        gone = threads.submit(left)
        until(lambda: len(engine.rows) > 3)
        short = Numbers(engine, GreedySearch(EOS), limit=9)
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            found = texts(short, [3])
        assert max(engine.rows) == 2
        term.cancel()
        gone.result(20)
    assert found == texts(short, [3])


def test_what_fails_fails_for_whoever_asked_it(gathering: Scheduler) -> None:
    engine = Gated(broken={13})
    finder, outcomes = Numbers(engine, GreedySearch(EOS)), {}

    def ask(number: int) -> None:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            try:
                outcomes[number] = texts(finder, [number])
            except ValueError as error:
                outcomes[number] = str(error)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, [0]) if engine.gate.set() else [])
        list(threads.map(ask, [11, 12, 13, 14]))
    assert outcomes.pop(13) == "cannot read [13]"
    assert outcomes == {number: texts(finder, [number]) for number in (11, 12, 14)}


def test_a_step_that_fails_ends_those_in_it_and_no_others(gathering: Scheduler) -> None:
    engine = Gated()
    engine.gate.set()
    step, failing = engine.step, True

    def fails(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
        if failing and len(engine.rows) > 2:
            raise RuntimeError("out of memory")
        return step(tokens, state)

    engine.step = fails  # type: ignore[method-assign]
    finder = Numbers(engine, GreedySearch(EOS), limit=8)
    with (
        use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))),
        pytest.raises(RuntimeError, match="out of memory"),
    ):
        texts(Numbers(engine, GreedySearch(EOS), limit=500), list(range(12)))
    failing = False
    with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
        assert texts(finder, [4]) == texts(finder, [4])


def test_texts_are_heard_while_they_grow(gathering: Scheduler) -> None:
    engine = Gated()
    engine.gate.set()
    heard: list[tuple[int, list[int]]] = []
    finder = Numbers(engine, GreedySearch(EOS))
    with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
        found = texts(finder, [70, 71], on_tokens=lambda place, ids: heard.append((place, list(ids))))
    alone: list[tuple[int, list[int]]] = []
    assert texts(finder, [70, 71], on_tokens=lambda place, ids: alone.append((place, list(ids)))) == found
    assert sorted(heard) == sorted(alone)
    assert all(list(found[place][: len(ids)]) == ids for place, ids in heard)


def test_a_stream_that_is_closed_frees_its_place(gathering: Scheduler) -> None:
    engine = Gated(ends=False)
    engine.gate.set()
    with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
        stream = stream_one(Numbers(engine, GreedySearch(EOS), limit=10**6), 3)
        first, second = next(stream), next(stream)
        assert list(second)[: len(list(first))] == list(first)
        stream.close()
    until(lambda: not gathering._running)


def test_what_is_asked_alike_is_answered_in_one_batch(gathering: Scheduler) -> None:
    sizes, gate = [], threading.Event()

    def say(batch: list[int]) -> list[int]:
        gate.wait(20)
        sizes.append(len(batch))
        if 13 in batch:
            raise ValueError("unlucky")
        return [number * 2 for number in batch]

    outcomes: dict[int, Any] = {}

    def ask(number: int) -> None:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            try:
                outcomes[number] = run_batched([number, number + 1], say, size=lambda each: each, batch_tokens=10**6)
            except ValueError as error:
                outcomes[number] = str(error)

    with ThreadPoolExecutor(5) as threads:
        waiting = [threads.submit(ask, 1)]
        until(lambda: gathering._thread.is_alive() and not gathering._queue[0].examples if gathering._queue else False)
        waiting += [threads.submit(ask, number) for number in (20, 30, 12)]
        until(lambda: gathering._inbox.qsize() == 3)
        gate.set()
        for each in waiting:
            each.result(20)
    assert outcomes == {1: [2, 4], 20: [40, 42], 30: [60, 62], 12: "unlucky"}
    assert sizes[:2] == [2, 6], "those that waited together, and then each by itself, since one failed"


def test_many_short_questions_do_not_wait_for_a_long_one(gathering: Scheduler) -> None:
    """Who asks for many texts shares the rows with who asks for one."""
    engine = Gated(ends=False)
    finder, steps = Numbers(engine, GreedySearch(EOS), limit=60), {}

    def ask(name: str, numbers: list[int]) -> None:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            texts(finder, numbers)
        steps[name] = len(engine.rows)

    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(ask, "many", list(range(100)))]
        until(lambda: len(gathering._running) > 0 or len(gathering._queue) > 0)
        waiting.append(threads.submit(ask, "one", [500]))
        until(lambda: gathering._inbox.qsize() == 1 or len(gathering._queue) > 1)
        engine.gate.set()
        for each in waiting:
            each.result(20)
    assert steps["one"] < steps["many"] / 2


APART = DiverseBeamSearch(EOS, 8, 2, 0.5, GNMTLengthPenalty(0.6))
"""A search that no other may join."""


@pytest.mark.parametrize(
    "one",
    [
        GreedySearch(EOS),
        BeamSearch(EOS, 3, GNMTLengthPenalty(0.6)),
        DiverseBeamSearch(EOS, 4, 2, 0.5, GNMTLengthPenalty(0.6)),
        None,
    ],
    ids=["", "beam", "apart", "say"],
)
def test_a_search_of_its_own_lets_others_have_their_turn(gathering: Scheduler, one: SearchStrategy | None) -> None:
    engine = Gated(ends=False)
    many, steps = Numbers(engine, APART, limit=12), {}

    def ask(name: str, say: Any, numbers: list[int]) -> Any:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            found = run_batched(numbers, say, size=lambda _: 1, batch_tokens=64, max_rows=8)
        steps[name] = len(engine.rows)
        return found

    asked = (lambda batch: [2 * each for each in batch]) if one is None else Numbers(engine, one, limit=12)
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(ask, "many", many, list(range(24)))
        until(lambda: bool(gathering._separate_examples))
        other = threads.submit(ask, "one", asked, [500])
        until(lambda: gathering._inbox.qsize() == 1 or bool(gathering._queue) or other.done())
        engine.gate.set()
        found, answer = waiting.result(20), other.result(20)
    # on a busy machine the thread that asked notices its answer some steps later
    assert steps["one"] <= 0.8 * steps["many"], "it does not wait for all pieces"
    assert max(engine.rows) <= 2 * 16 + 3, "pieces are bounded by their rows"
    alone = [many([number])[0][0].ids for number in range(24)]
    assert [each[0].ids for each in found] == alone
    assert answer == [1000] if one is None else answer[0][0].ids == asked([500])[0][0].ids


def test_a_closed_gathering_ends_a_search_of_its_own() -> None:
    gathering, engine = Scheduler(max_rows=16), Gated(ends=False)

    def ask() -> None:
        with (
            use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))),
            pytest.raises(ClientDisconnected),
        ):
            texts(Numbers(engine, APART, limit=10**6), [1])

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(ask)
        until(lambda: bool(gathering._separate_examples))
        threading.Timer(0.05, engine.gate.set).start()
        gathering.close()
        waiting.result(20)
    assert not gathering._thread.is_alive()


def test_terms_of_one_leave_the_searches_of_others_as_they_are(trained: Path, gathering: Scheduler) -> None:
    """Callers whose texts must hold terms have searches of their own, others with the same options go on as ever."""
    translator = heedful.load(trained, kind=heedful.Translator, device="cpu")
    held, free = ["1 2", "3 4 5"], ["6 7", "8 9 1"]
    terms = [[Held("acht")], []]
    expected = [
        [each.text for each in translator.translate(held, constraints=terms)],
        [each.text for each in translator.translate(free)],
    ]

    def ask(sentences: list[str], **given: Any) -> list[str]:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            return [each.text for each in translator.translate(sentences, **given)]

    with ThreadPoolExecutor(8) as threads:
        waiting = [(threads.submit(ask, held, constraints=terms), threads.submit(ask, free)) for _ in range(4)]
        assert [[own.result(20) for own in pair] for pair in waiting] == [expected] * 4


def test_the_threads_of_the_settings_are_those_that_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the thread that answers, from which native code takes their number."""
    before = torch.get_num_threads()
    try:
        load_into(ModelRegistry(ServerSettings(threads=before + 2), {}, {}), lambda _: None)
        with (
            closing(Scheduler(max_rows=1)) as gathering,
            use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))),
        ):
            found = run_batched(
                [1], lambda batch: [torch.get_num_threads() for _ in batch], size=lambda _: 1, batch_tokens=1
            )
        assert list(found) == [before + 2]
    finally:
        torch.set_num_threads(before)


def test_only_what_is_asked_alike_is_answered_together(gathering: Scheduler) -> None:
    """Callers without a search that is shared get the answers of what they asked, whoever waits beside them."""
    gate, begun = threading.Event(), threading.Event()

    def say(factor: int) -> Callable[[list[int]], list[int]]:
        def said(batch: list[int]) -> list[int]:
            begun.set()
            gate.wait(20)
            return [factor * number for number in batch]

        return said

    def ask(factor: int) -> list[int]:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            return list(run_batched([1, 2], say(factor), size=lambda _: 1, batch_tokens=64))

    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(ask, 1)]
        assert begun.wait(20)
        waiting += [threads.submit(ask, factor) for factor in (10, 100, 1000)]
        until(lambda: gathering._inbox.qsize() == 3)
        gate.set()
        assert [each.result(20) for each in waiting] == [[1, 2], [10, 20], [100, 200], [1000, 2000]]


@pytest.mark.parametrize("engine", [None, "torch-graphs"])
def test_a_translator_answers_many_as_it_answers_one(trained: Path, gathering: Scheduler, engine: Any) -> None:
    translator = heedful.load(trained, kind=heedful.Translator, device="cpu", engine=engine)
    sentences = [" ".join("0123456789"[(at * 7 + k) % 10] for k in range(1 + at % 6)) for at in range(40)]
    expected = [each.text for each in translator.translate(sentences)]

    def ask(sentence: str) -> str:
        with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
            return translator.translate([sentence])[0].text

    with ThreadPoolExecutor(20) as threads:
        assert list(threads.map(ask, sentences)) == expected


@pytest.mark.skipif(load_library() is None, reason="heedful-native is not installed")
@pytest.mark.parametrize("why_single", ["", "somebody listens", "steps take long"])
def test_native_steps_are_taken_together(
    trained: Path, gathering: Scheduler, monkeypatch: pytest.MonkeyPatch, why_single: str
) -> None:
    translator = heedful.load(trained, kind=heedful.Translator, device="cpu", engine="native-float32")
    sentences = ["1 2 3 4 5 6", "7 8 9 0 1 2 3"]
    expected = [each.text for each in translator.translate(sentences)]
    steps, run_steps = list[int](), _RunningBatch.run_steps

    def run(batch: _RunningBatch) -> Any:
        outputs = run_steps(batch)
        steps.append(batch.last_steps)
        return outputs

    monkeypatch.setattr(_RunningBatch, "run_steps", run)
    if why_single == "steps take long":
        monkeypatch.setattr(scheduler, "_SECONDS_AT_ONCE", 0.0)
    heard = (lambda *_: None) if why_single == "somebody listens" else None
    with use_executor(gathering.build_executor(RequestDeadline.from_seconds(60))):
        assert [each.text for each in translator.translate(sentences, heard=heard)] == expected
    assert max(steps) == 1 if why_single else 1 < max(steps) <= 8


def test_memory_is_given_back_in_a_rest_once_and_at_times_in_work(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[float]()
    monkeypatch.setattr("heedful.serving.scheduler.trim_malloc", lambda: given.append(time.monotonic()))
    monkeypatch.setattr("heedful.serving.scheduler._IDLE_SECONDS", 0.05)
    engine = Gated(ends=False)
    engine.gate.set()
    rested, working = Scheduler(max_rows=4), Scheduler(max_rows=4)
    try:
        with use_executor(rested.build_executor(RequestDeadline.from_seconds(60))):
            texts(Numbers(engine, GreedySearch(EOS)), [1])
        until(lambda: len(given) == 1)
        time.sleep(0.2)
        assert len(given) == 1
        monkeypatch.setattr("heedful.serving.scheduler._BUSY_SECONDS", 0.05)
        with use_executor(working.build_executor(RequestDeadline.from_seconds(0.4))), pytest.raises(HTTPError):
            texts(Numbers(engine, GreedySearch(EOS), limit=10**6), [1])
        assert 3 <= len(given) <= 10
    finally:
        rested.close()
        working.close()
