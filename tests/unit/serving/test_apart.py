"""Models that compute in other processes: answers as if they computed here, and what becomes of them when one ends."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from audio_samples import TONES, encode_tones
from live_server import open_registry, run_server
from torch import Tensor, nn

import heedful
from heedful.data.pictures import encode_png
from heedful.engines.int8 import Int8Linear, Int8Matrix
from heedful.engines.select_engine import detect_engine
from heedful.errors import RecipeError, RunError
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import GreedySearch
from heedful.models.interface import State
from heedful.models.placeholders import WeightPlaceholder
from heedful.native import load_library
from heedful.retrieval.index_folder import build_index
from heedful.retrieval.passages import PassageLines
from heedful.runs.load import load_embedder
from heedful.serving import server as server_module
from heedful.serving.capabilities import list_capabilities
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.http_errors import HTTPError
from heedful.serving.registry import ModelRegistry
from heedful.serving.request_log import SERVER_LOGGER
from heedful.serving.settings import ServerSettings
from heedful.serving.workers.messages import (
    AnswersMessage,
    ErrorMessage,
    SharedObjects,
    collect_shared_objects,
)
from heedful.serving.workers.worker import WorkerRequestHandler
from heedful.serving.workers.worker_pool import (
    WorkerDied,
    WorkerPool,
    WorkerProcess,
    worker_settings,
)
from heedful.tasks.batch_executor import SearchCall, stream_one, use_executor
from heedful.tasks.predictor import run_batched
from heedful.tensors import Tokens

GOLDEN = Path(__file__).parents[2] / "golden"
RUNS = {path.parent.name: path.parent / "run" for path in sorted(GOLDEN.glob("*/recipe.toml"))}
TASKS = {
    name: tomllib.loads((GOLDEN / name / "recipe.toml").read_text(encoding="utf-8")).get("task", "translation")
    for name in RUNS
}
EOS, VOCABULARY = 1, 11


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads call what is checked where it has its units."""


@dataclass(eq=False)
class Odd:
    """An engine that computes without a model."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def init_state(self, source: Sequence[int]) -> Tensor:
        if 13 in source:
            raise ValueError("cannot read 13")
        if 14 in source:
            raise Strange("made of", "two")
        if 15 in source:
            raise Strange(threading.Lock(), "two")
        if 16 in source:
            raise OSError("a file is gone")
        return torch.tensor(list(source))

    def step(self, tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
        logits = torch.zeros(*tokens.ids.shape, VOCABULARY).double()
        logits[:, :, 2 + len(state) % 7] = 1.0
        return logits, state


class Strange(Exception):  # noqa: N818
    """Has one argument, and is made of two."""

    def __init__(self, one: object, two: str) -> None:
        super().__init__(f"{type(one).__name__} {two}")
        self.one = one


@dataclass(frozen=True)
class Endless(SearchCall[int]):
    """Texts that never end by themselves."""

    limit: int = 12

    def start_search(self, batch: list[int]) -> tuple[State, GenerationRequest]:
        first = torch.zeros(len(batch), 1, dtype=torch.long)
        return self.engine.init_state(batch), GenerationRequest(Tokens(first, first), self.limit)


def endless(limit: int = 10**6) -> Endless:
    return Endless(Odd(), GreedySearch(EOS), limit)


def texts(finder: SearchCall[int], numbers: Sequence[int], **given: Any) -> list[tuple[int, ...]]:
    found = run_batched(numbers, finder, size=lambda _: 1, batch_tokens=64, max_rows=8, **given)
    return [hypotheses[0].ids for hypotheses in found]


def until(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


@contextmanager
def closing(registry: ModelRegistry) -> Iterator[ModelRegistry]:
    try:
        yield registry
    finally:
        for model in registry.models_and_indices.values():
            model.close()


def apart(number: int, names: Sequence[str], **settings: Any) -> ModelRegistry:
    """A registry of runs that so many processes compute."""
    return open_registry({name: RUNS[name] for name in names}, workers=number, threads=1, **settings)


@pytest.fixture(scope="module")
def here() -> Iterator[ModelRegistry]:
    with closing(open_registry(RUNS, threads=1)) as registry:
        yield registry


@pytest.fixture(scope="module")
def there() -> Iterator[ModelRegistry]:
    with closing(apart(2, [*RUNS])) as registry:
        yield registry


def processes(registry: ModelRegistry) -> WorkerPool:
    return next(iter(registry.models.values())).backend._pool  # type: ignore[attr-defined,no-any-return]


def members(registry: ModelRegistry) -> list[WorkerProcess]:
    return processes(registry)._workers


def company(registry: ModelRegistry, term: RequestDeadline | None = None) -> Any:
    return use_executor(
        next(iter(registry.models.values())).backend.build_executor(term or RequestDeadline.from_seconds(30))
    )


def idle(registry: ModelRegistry) -> bool:
    return not any(member.load for member in members(registry))


def first_answers(registry: ModelRegistry) -> dict[str, str]:
    """What each model says to what it is asked first, or why it does not."""
    found = {}
    for name, model in registry.models.items():
        for use in list_capabilities(model.predictor):
            if use.warm_up is not None:
                try:
                    found[f"{name}: {use.name}"] = repr(
                        asyncio.run(model.run(RequestDeadline.from_seconds(60), partial(use.warm_up, model.predictor)))
                    )
                except heedful.DataError as error:
                    found[f"{name}: {use.name}"] = f"{error}"
    return found


def test_models_of_every_task_answer_there_as_here(here: ModelRegistry, there: ModelRegistry) -> None:
    expected = first_answers(here)
    assert {TASKS[name.partition(":")[0].partition("/")[0]] for name in expected} == set(TASKS.values())
    assert first_answers(there) == expected
    assert idle(there)


def records(registry: ModelRegistry, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What each of these models attends to, on what is sent."""
    with run_server(registry) as live:
        answers = {
            name: live.ask("/v1/heedful/inspect", {"model": name, **message}) for name, message in inputs.items()
        }
    assert {answer.status for answer in answers.values()} == {200}, {n: a.body[:200] for n, a in answers.items()}
    return {name: answer.json["record"] for name, answer in answers.items()}


def test_models_are_inspected_there_as_here(here: ModelRegistry, there: ModelRegistry) -> None:
    picture = base64.b64encode(encode_png(np.zeros((32, 32, 3), np.uint8))).decode()
    sound = base64.b64encode(encode_tones([*TONES][:2])).decode()
    inputs = {
        "captioning": {"image": picture},
        "video": {"frames": [picture, picture]},
        "glimpses": {"image": picture},
        "speech": {"sound": sound},
        "stories": {"text": "Where is Mary?", "pair": "Mary went to the kitchen."},
        "conversation-transformer": {"text": "hello"},
        "translation-transformer": {"text": "a"},
        "translation-recurrent": {"text": "a", "beam": 2},
        "language-transformer": {"text": "a", "tokens": 3},
        "tagging-transformer": {"text": "a b"},
        "classification": {"text": "a"},
    }
    assert records(there, inputs) == records(here, inputs)


def weights(registry: ModelRegistry) -> list[Tensor]:
    parts = collect_shared_objects(registry).iter_objects()
    modules = [part for part in parts if isinstance(part, nn.Module)]
    return [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]


def test_no_weight_is_held_here(there: ModelRegistry) -> None:
    tensors = weights(there)
    assert len(tensors) > 100 and all(isinstance(tensor, WeightPlaceholder) for tensor in tensors)
    translator = there.models["translation-transformer"].predictor
    with pytest.raises(RuntimeError, match="another process holds this weight"):
        translator.translate(["a"])


def test_passages_are_found_by_vectors_that_are_computed_there(tmp_path: Path) -> None:
    (tmp_path / "passages.txt").write_text("a\nb a\nb b c\n")
    run, folder = RUNS["multitask"], tmp_path / "index"
    encoder = load_embedder(run, device="cpu")
    build_index(folder, PassageLines(tmp_path / "passages.txt"), encoder=encoder, model=run)
    expected = heedful.load_index(folder, device="cpu").search("b a", by="encoder")
    with closing(open_registry({}, workers=1, indices={"notes": {"folder": str(folder)}})) as registry:
        assert {type(tensor) for tensor in weights(registry)} == {WeightPlaceholder}, "it is loaded before requests"
        with run_server(registry) as live:
            answer = live.ask("/v1/heedful/search", {"query": "b a", "by": "encoder"})
        assert answer.status == 200, answer.body
        found = answer.json["answers"][0]["orders"]["encoder"]
        assert [hit["id"] for hit in found] == [hit.passage.id for hit in expected]


class Pipe:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send_bytes(self, content: bytes) -> None:
        self.sent.append(content)


def test_answers_of_one_step_are_sent_together() -> None:
    with closing(open_registry({"a": RUNS["translation-transformer"]}, threads=1)) as registry:
        parts, pipe = collect_shared_objects(registry), Pipe()
        handler = WorkerRequestHandler(pipe, registry, parts)  # type: ignore[arg-type]
        handler._answers += [AnswersMessage(1, b"a"), AnswersMessage(2, b"b")]
        handler.send_answers()
        handler.send_answers()
        handler._answers += [AnswersMessage(3, b"c")]
        handler.send(ErrorMessage(4, ValueError("no")))
    first, second = map(parts.loads, pipe.sent)
    assert first == [AnswersMessage(1, b"a"), AnswersMessage(2, b"b")]
    assert [message.request_number for message in second] == [3, 4]


def test_only_what_is_not_answered_is_cancelled(there: ModelRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled, cancel = list[int](), WorkerProcess.cancel

    def note(member: WorkerProcess, number: int) -> None:
        cancelled.append(number)
        cancel(member, number)

    monkeypatch.setattr(WorkerProcess, "cancel", note)
    with company(there):
        assert texts(endless(3), [4, 5]) == texts(endless(3), [4, 5])
        assert cancelled == []
        stream = stream_one(endless(), 3)
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        until(lambda: idle(there))
    assert len(set(cancelled)) == 1


def test_what_computes_there_is_counted_here(there: ModelRegistry) -> None:
    first_answers(there)
    told = there.metrics.render_text().decode()
    assert 'heedful_batch_rows_count{model="translation-transformer"}' in told
    assert 'heedful_tokens_total{model="translation-transformer"}' in told


def test_texts_are_heard_while_they_grow(there: ModelRegistry) -> None:
    heard = list[tuple[int, list[int]]]()
    finder = endless(5)
    with company(there):
        found = texts(finder, [7, 8], on_tokens=lambda place, ids: heard.append((place, list(ids))))
    assert found == texts(finder, [7, 8])
    assert [ids for place, ids in heard if place == 1] == [list(found[1][:size]) for size in (1, 2, 3, 4)]


def test_a_stream_that_is_closed_and_one_whose_reader_leaves_stop_the_work(there: ModelRegistry) -> None:
    with company(there, RequestDeadline.from_seconds(60)):
        stream = stream_one(endless(), 3)
        next(stream)
        assert sorted(member.load for member in members(there)) == [0, 1]
        stream.close()  # type: ignore[attr-defined]
        until(lambda: idle(there))
    term = RequestDeadline.from_seconds(60)

    def left() -> None:
        with company(there, term), pytest.raises(ClientDisconnected):
            texts(endless(), [1])

    with ThreadPoolExecutor(1) as threads:
        gone = threads.submit(left)
        until(lambda: not idle(there))
        term.cancel()
        gone.result(10)
    until(lambda: idle(there))


def test_a_term_that_ends_stops_the_work(there: ModelRegistry) -> None:
    with company(there, RequestDeadline.from_seconds(0.3)), pytest.raises(HTTPError) as refused:
        texts(endless(), [1, 2])
    assert refused.value.status == 504
    until(lambda: idle(there))


def test_what_goes_wrong_there_is_told_here(there: ModelRegistry) -> None:
    with company(there):
        with pytest.raises(ValueError, match="cannot read 13") as failed:
            texts(endless(3), [13])
        assert "in init_state" in failed.value.__notes__[0], "where it was"
        with pytest.raises(Strange, match="str two") as strange:
            texts(endless(3), [14])
        assert strange.value.one == "made of"
        with pytest.raises(RuntimeError, match="Strange: lock two"):
            texts(endless(3), [15])
        with pytest.raises(OSError, match="a file is gone"):
            texts(endless(3), [16])
        with pytest.raises((AttributeError, TypeError), match=r"lambda|local"):
            texts(endless(3), [lambda: 1])  # type: ignore[list-item]
        assert texts(endless(3), [4]) == texts(endless(3), [4])
    until(lambda: idle(there))


def test_those_that_have_least_to_do_are_asked(there: ModelRegistry) -> None:
    terms = [RequestDeadline.from_seconds(60) for _ in range(4)]

    def ask(term: RequestDeadline) -> None:
        with company(there, term), pytest.raises(ClientDisconnected):
            texts(endless(), [1])

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(ask, term) for term in terms]
        until(lambda: [member.load for member in members(there)] == [2, 2])
        for term in terms:
            term.cancel()
        for each in asked:
            each.result(10)
    until(lambda: idle(there))


@pytest.mark.slow
def test_one_that_ends_fails_its_own_and_begins_again(there: ModelRegistry, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=SERVER_LOGGER.name)
    until(lambda: idle(there))
    with company(there):
        stream = stream_one(endless(), 3)
        next(stream)
        ended, other = sorted(members(there), key=lambda member: -member.load)
        before = ended._process.pid
        os.kill(before, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="signal 9"):
            list(stream)
        assert texts(endless(3), [4]) == texts(endless(3), [4]), "the other one answers"
        assert not ended.is_ready and other.is_ready
        until(lambda: ended.is_ready)
        assert ended._process.pid != before
    assert "ended (signal 9)" in caplog.text
    with company(there, RequestDeadline.from_seconds(60)):
        streams = [stream_one(endless(3), 3) for _ in range(2)]
        assert [list(each)[-1].ids for each in streams] == [texts(endless(3), [3])[0]] * 2  # type: ignore[union-attr]


@pytest.mark.slow
def test_where_all_have_ended_whoever_asks_is_told_to_come_again() -> None:
    with closing(apart(1, ["translation-transformer"])) as registry, run_server(registry) as live:
        asked = {"q": "a", "source": "en", "target": "de"}
        known = live.ask("/v1/heedful/translate", {"texts": ["a"]})
        assert known.status == 200
        (member,) = members(registry)
        os.kill(member._process.pid, signal.SIGKILL)
        until(lambda: not member.is_ready)
        for path, body in (("/health", None), ("/v1/heedful/translate", asked)):
            answer = live.ask(path, body)
            assert answer.status == 503 and answer.headers["retry-after"]
        until(lambda: live.ask("/health").status == 200)
        assert live.ask("/v1/heedful/translate", {"texts": ["a"]}).json == known.json


def sending(monkeypatch: pytest.MonkeyPatch, signals: Sequence[int]) -> None:
    """Processes get these as soon as they begin."""
    begin = SpawnProcess.start

    def start(process: SpawnProcess) -> None:
        begin(process)
        assert process.pid is not None
        for each in signals:
            os.kill(process.pid, each)

    monkeypatch.setattr(SpawnProcess, "start", start)


def test_one_that_ends_while_it_loads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sending(monkeypatch, [signal.SIGKILL])
    with pytest.raises(RunError, match=r"process 1: ended while it loaded models .signal 9."):
        apart(1, ["translation-transformer"])


def test_one_that_cannot_begin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: SpawnProcess) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(SpawnProcess, "start", start)
    with pytest.raises(RunError, match=r"process 1: .*it could not start: .*Cannot allocate memory"):
        apart(1, ["translation-transformer"])


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals cannot be blocked here")
def test_signals_for_the_server_do_not_end_one_that_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    sending(monkeypatch, [signal.SIGINT, signal.SIGTERM])
    with closing(apart(1, ["translation-transformer"])) as registry, company(registry):
        assert texts(endless(3), [4]) == texts(endless(3), [4])


def test_what_a_model_is_made_of_is_named_and_all_else_is_copied(here: ModelRegistry) -> None:
    parts = collect_shared_objects(here)
    translator = here.models["translation-transformer"].predictor
    assert parts.loads(parts.dumps(translator)) is translator
    say = parts.loads(parts.dumps(translator.translate))
    assert say.__self__ is translator
    other = copy(translator)
    other.max_source = 7
    found = parts.loads(parts.dumps(other))
    assert found is not other and found.max_source == 7 and found.models[0] is translator.models[0]
    assert len(parts.dumps(other)) < 5_000
    first, second = copy(translator)._score_batch, copy(translator)._score_batch
    assert parts.dumps(first) == parts.dumps(second), "and are answered together"
    mine, unlike = SharedObjects({"a": [nn.Linear(2, 2)]}), SharedObjects({"b": [nn.Linear(2, 2)]})
    with pytest.raises(KeyError, match=r"a.0."):
        unlike.loads(mine.dumps(mine["a[0]"]))


def test_they_compute_with_the_engines_that_are_here() -> None:
    known = [
        "torch",
        "torch-bfloat16",
        "torch-graphs",
        "torch-graphs-bfloat16",
        *(["native"] if load_library() is not None else []),
    ]
    for engine in known:
        face = heedful.load(RUNS["translation-transformer"], device="cpu", engine=engine)
        assert (
            detect_engine(part for part in SharedObjects({"": face}).iter_objects() if isinstance(part, nn.Module))
            == engine
        )
        registry = open_registry({"a": {"run": str(RUNS["translation-transformer"]), "engine": engine}}, threads=None)
        with closing(registry):
            registry.settings.models["a"] = registry.settings.models["a"].model_copy(update={"engine": "auto"})
            assert worker_settings(registry, 2).models["a"].engine == engine
    assert detect_engine([Int8Linear(Int8Matrix.from_weight(torch.randn(256, 256)), None)]) == "int8"


@pytest.mark.parametrize(("given", "cores", "number", "expected"), [(None, 16, 2, 7), (None, 2, 1, 1), (3, 2, 4, 3)])
def test_they_share_the_cores_that_http_leaves(
    monkeypatch: pytest.MonkeyPatch, given: int | None, cores: int, number: int, expected: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    assert worker_settings(ModelRegistry(ServerSettings(threads=given), {}, {}), number).threads == expected


@pytest.mark.parametrize(
    ("given", "cores", "device", "expected"),
    [
        (None, 2, "cpu", 2),
        (None, 16, "cpu", 2),
        (None, 1, "cpu", 0),
        (0, 8, "cpu", 0),
        (3, 1, "cpu", 3),
        (None, 8, "meta", 0),
    ],
)
def test_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch, given: int | None, cores: int, device: str, expected: int
) -> None:
    monkeypatch.setattr(server_module, "count_cores", lambda: cores)
    monkeypatch.setattr("heedful.runs.device.find_device", torch.device)
    assert server_module.choose_num_processes(ServerSettings(processes=given, device=device)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "bytes_", "word"),
    [(10**9, 2**40, "cores"), (9, 2**40, "at most 8"), (8, 2**30, "1,024 MiB"), (8, 2**31, ""), (1, None, "")],
)
def test_more_than_the_machine_has_room_for_are_refused(
    monkeypatch: pytest.MonkeyPatch, number: int, bytes_: int | None, word: str
) -> None:
    monkeypatch.setattr(server_module, "count_cores", lambda: 2)
    monkeypatch.setattr(server_module, "get_memory_limit", lambda: bytes_)
    settings = ServerSettings.model_validate({"models": {"a": {"run": str(RUNS["translation-transformer"])}}})
    if word:
        with pytest.raises(RecipeError, match=word):
            server_module.require_capacity(settings, number)
    else:
        server_module.require_capacity(settings, number)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="stops a process by a signal")
def test_a_stopped_process_ends_while_the_server_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.serving.workers.worker_pool._CLOSE_SECONDS", 1.0)
    with closing(apart(1, ["translation-transformer"])) as registry:
        (worker,) = members(registry)
        process = worker._process
        assert process is not None
        assert process.is_alive()
        os.kill(process.pid or 0, signal.SIGSTOP)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_they_end_with_the_server(end: signal.Signals, stopped: bool) -> None:
    words = ["serve", f"a={RUNS['translation-transformer']}", "--port", "0", "--processes", "1", "--device", "cpu"]
    server = subprocess.Popen([sys.executable, "-m", "heedful", *words], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if line.strip() == "ready":
                break
        lists = Path(f"/proc/{server.pid}/task").glob("*/children")
        children = [each for listed in lists for each in listed.read_text().split()]
        computing = [each for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]
        for each in (signal.SIGINT, signal.SIGTERM):  # which a terminal, or systemd, sends to all of them
            os.kill(int(computing[0]), each)
        time.sleep(0.2)
        assert Path(f"/proc/{computing[0]}/cmdline").read_bytes(), "it does not end by itself"
        if stopped:
            os.kill(int(computing[0]), signal.SIGSTOP)
        server.send_signal(end)
        assert server.wait(20) == (0 if end == signal.SIGTERM else -signal.SIGKILL)
        until(lambda: not any(Path(f"/proc/{each}").exists() for each in children), seconds=10)
    finally:
        server.kill()
        server.stderr.close()  # type: ignore[union-attr]
