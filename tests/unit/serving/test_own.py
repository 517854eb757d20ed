"""Our own interface, asked over HTTP as programs do: the records of the commands, limits and refusals."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_server import LiveServer, open_registry, run_server
from task_runs import create_task_runs, read_picture

from heedful import load
from heedful.errors import DataError, RunError
from heedful.generation.continuous_batch import ContinuousBatch
from heedful.generation.results import NoTokenError
from heedful.inspection.record_files import load_record
from heedful.recipes.generation import SamplingConfig
from heedful.retrieval.index_folder import build_index
from heedful.retrieval.passages import PassageLines
from heedful.serving.app import collect_routes
from heedful.serving.http_errors import deadline_exceeded
from heedful.serving.routes import to_http_error
from heedful.tasks.predictor import LineFormat
from heedful.tasks.search_factory import build_search


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, Path]:
    return create_task_runs(folder)


@pytest.fixture(scope="module")
def live(folder: Path, made: dict[str, Path]) -> Iterator[LiveServer]:
    (folder / "passages.txt").write_text("a dog runs in the park\nthe cat sleeps\n", encoding="utf-8")
    build_index(folder / "index", PassageLines(folder / "passages.txt"))
    registry = open_registry(
        {f"a-{name}": run for name, run in made.items()},
        indices={"notes": {"folder": str(folder / "index")}},
        limits={"characters": 500, "batch": 12, "rows": 4, "file": 5000},
    )
    with run_server(registry) as running:
        yield running


def answers(live: LiveServer, name: str, **message: Any) -> Any:
    answer = live.ask(f"/v1/heedful/{name}", message)
    assert answer.status == 200, answer.body
    return answer.json["answers"]


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def said(run: Path, *texts: Any, **fields: Any) -> list[Any]:
    """What the command of a run writes of these inputs."""
    lines: LineFormat[Any, Any] = load(run, device="cpu").line_format()
    return as_json([lines.to_json(each) for each in lines.answer_inputs(texts, start=1)])


# --- answers ----------------------------------------------------------------------------------------------


def test_what_is_served_is_told(live: LiveServer) -> None:
    told = live.ask("/v1/heedful").json
    does = {each["name"]: set(each["does"]) for each in told["models"]}
    assert does["a-translate"] == {"translate", "embed", "score", "align", "inspect"}
    assert does["a-generate"] == {"generate", "inspect"}
    assert does["a-caption"] == {"caption", "inspect"}
    assert told["indices"] == ["notes"]
    assert told["orders"] == {"notes": ["bm25"]}
    assert told["limits"]["characters"] == 500


def test_translations_are_those_of_the_command(live: LiveServer, made: dict[str, Path]) -> None:
    lines = load(made["translate"], device="cpu").line_format()
    inputs = lines.parse_lines(iter(["1 2", "3", ""]), source_name="here")
    expected = as_json([lines.to_json(each) for each in lines.answer_inputs(list(inputs), start=1)])
    assert answers(live, "translate", texts=["1 2", "3", ""]) == expected
    assert answers(live, "translate", texts="3") == expected[1:2]


def test_options_of_a_search(live: LiveServer) -> None:
    (several,) = answers(live, "translate", texts="1 2 3", n_best=3, beam=4, length_penalty=0.1, align=True)
    assert len(several["candidates"]) == 3
    assert len(several["alignment"]["weights"]) == len(several["candidates"][0]["tokens"]) + 1
    (begun,) = answers(live, "translate", texts="1 2 3", prefix="vier drei")
    assert begun["translation"].startswith("vier drei")
    (unfinished,) = answers(live, "translate", texts="1 2 3", prefix="vier dr")
    assert unfinished["translation"].startswith("vier drei")
    (held,) = answers(live, "translate", texts="1 2 3", constraints=[["fünf"]], beam=4)
    assert held["constraints"] == ["fünf"]
    assert "fünf" in held["translation"]
    drawn = [
        answers(live, "translate", texts="1 2 3", search="sampling", temperature=3.0, seed=seed)[0]["translation"]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    (short,) = answers(live, "translate", texts="1 2 3", max_ratio=0.0, max_extra=2)
    assert len(short["candidates"][0]["tokens"]) <= 2


def test_what_is_drawn_depends_on_the_number_of_a_text(live: LiveServer, made: dict[str, Path]) -> None:
    translator = load(made["translate"], device="cpu")
    search = build_search(SamplingConfig(temperature=3.0), translator.target, seed=5)
    texts = ["1 2 3"] * 9
    expected = [each.text for each in translator.translate(texts, search=search, length=translator.length)]
    told = answers(live, "translate", texts=texts, search="sampling", temperature=3.0, seed=5)
    assert [each["translation"] for each in told] == expected
    assert len(set(expected)) > 4


def test_languages_say_which_model_is_meant(made: dict[str, Path]) -> None:
    models = {
        f"{source}-{target}": {"run": str(made["translate"]), "source_language": source, "target_language": target}
        for source, target in (("en", "de"), ("en", "fr"), ("cs", "fr"))
    }
    with run_server(open_registry(models)) as live:

        def meant(**languages: str) -> Any:
            answer = live.ask("/v1/heedful/translate", {"texts": "1", **languages})
            return answer.json["model"] if answer.status == 200 else answer.json["error"]["message"]

        assert meant(to="de") == "en-de"
        assert meant(source="cs") == "cs-fr"
        assert meant(source="eng", to="fra") == "en-fr"
        assert "name one" in meant(source="en")
        assert "cs to fr" in meant(model="cs-fr", to="de")
        ways = [each["ways"] for each in live.ask("/v1/heedful").json["models"]]
        assert ways == [[["en", "de"]], [["en", "fr"]], [["cs", "fr"]]]


def test_given_translations_are_scored_and_aligned(live: LiveServer, made: dict[str, Path]) -> None:
    translator = load(made["translate"], device="cpu")
    pairs = [["1 2", "eins zwei"], ["1 " * 40, "eins"]]
    first, second = answers(live, "score", pairs=pairs)
    assert first["log_probability"] == pytest.approx(translator.score([("1 2", "eins zwei")])[0].log_probability, 1e-4)
    assert "sentence 2" in second["error"]
    linked, unread = answers(live, "align", pairs=pairs)
    assert linked["links"] == as_json(translator.link([("1 2", "eins zwei")])[0])
    assert "sentence 2" in unread["error"]


def test_what_is_read_is_answered_as_by_the_commands(live: LiveServer, made: dict[str, Path]) -> None:
    assert answers(live, "fill", texts="eins [MASK] .") == said(made["fill"], "eins [MASK] .")
    assert answers(live, "fill", texts="[MASK] .", top=1)[0]["gaps"][0][1:] == []
    assert answers(live, "classify", texts=["eins", ["zwei", "drei"]]) == said(
        made["classify"], ("eins",), ("zwei", "drei")
    )
    assert answers(live, "tag", texts=["eins zwei", ["drei"]]) == said(made["tag"], ["eins", "zwei"], ["drei"])
    told = answers(live, "answer", question=["eins", "zwei"], context="eins zwei drei", n_best=2)
    assert [len(each["spans"]) for each in told] == [2, 2]
    one = answers(live, "answer", question="eins", context="eins zwei drei")
    assert one == said(made["answer"], ("eins", "eins zwei drei"))
    story = ["Mary went to the garden.", "John went to the office."]
    expected = said(made["ask"], (story, "Where is Mary?"))
    assert answers(live, "ask", story=story, question="Where is Mary?") == expected
    assert answers(live, "ask", story="\n".join(story), question="Where is Mary?") == expected


def test_vectors(live: LiveServer, made: dict[str, Path]) -> None:
    face = load(made["fill"], device="cpu")
    plain, normal = (
        answers(live, "embed", texts=["eins", "zwei drei"], model="a-fill", normalise=on) for on in (False, True)
    )
    np.testing.assert_allclose(plain, face.embed(["eins", "zwei drei"]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1, atol=1e-4)


def test_what_is_written_is_that_of_the_commands(live: LiveServer, made: dict[str, Path]) -> None:
    writer = load(made["generate"], device="cpu")
    (told,) = answers(live, "generate", prompts="once", search="greedy", tokens=5)
    config = writer.generation
    assert told["prompt"] == "once"
    assert len(told["tokens"]) <= 5
    assert answers(live, "generate", prompts="once", search="greedy", tokens=5, complete=True) == [told], "letters"
    several = answers(live, "generate", prompts=["once", "upon"], tokens=4, n_best=2)
    assert [each["prompt"] for each in several] == ["once", "once", "upon", "upon"]
    stopped = told["text"][1:2]
    (cut,) = answers(live, "generate", prompts="once", search="greedy", tokens=5, stop=[stopped])
    assert (cut["text"], cut["stop"]) == (told["text"].split(stopped)[0], stopped)
    assert config is writer.generation


def test_a_dialogue_goes_on(live: LiveServer) -> None:
    (told,) = answers(live, "chat", turns=["hello"], search="greedy")
    assert told["speaker"] == "system"
    (named,) = answers(live, "chat", turns=[{"speaker": "user", "text": "hello"}], search="greedy")
    assert named == told
    answer = live.ask("/v1/heedful/chat", {"turns": [{"speaker": "nobody", "text": "hello"}]})
    assert answer.status == 400
    assert "user, system" in answer.json["error"]["message"] or "system, user" in answer.json["error"]["message"]


def test_a_picture_is_described_however_it_is_sent(live: LiveServer, folder: Path) -> None:
    content = read_picture(folder)
    encoded = base64.b64encode(content).decode()
    first = answers(live, "caption", image=encoded)
    assert answers(live, "caption", image=f"data:image/png;base64,{encoded}") == first
    fields = b'--x\r\nContent-Disposition: form-data; name="align"\r\n\r\ntrue\r\n'
    head = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n'
    body = fields + head + content + b"\r\n--x--\r\n"
    sent = live.ask("/v1/heedful/caption", body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert sent.status == 200, sent.body
    (told,) = sent.json["answers"]
    looked = told.pop("looked", None)
    assert [told] == first
    if looked is not None:
        assert len(looked["weights"]) == len(looked["tokens"])


def test_pictures_have_a_limit_of_their_own(live: LiveServer) -> None:
    answer = live.ask("/v1/heedful/caption", {"image": base64.b64encode(bytes(5001)).decode()})
    assert answer.status == 400
    assert "5,001 bytes" in answer.json["error"]["message"]


@pytest.mark.parametrize("image", ["no base 64!", "aGVsbG8=", "", "/etc/passwd"])
def test_what_is_no_picture_is_refused_and_no_file_is_opened(live: LiveServer, image: str) -> None:
    for name in ("caption", "inspect"):
        answer = live.ask(f"/v1/heedful/{name}", {"image": image, "model": "a-caption"})
        assert answer.status == 400, name
        assert "image" in answer.json["error"]["message"]


def test_passages_are_found_and_marked(live: LiveServer) -> None:
    (found,) = answers(live, "search", query="Where does the dog run?")
    (hit, *_) = found["orders"]["bm25"]
    begin, end = hit["marks"][0]
    assert hit["text"][begin:end] == "dog"
    (marked,) = answers(live, "search", query="dog", answers="a-answer", top=1)
    assert "answer" in marked["orders"]["bm25"][0]
    assert live.ask("/v1/heedful/search", {"query": "dog", "by": "encoder"}).status == 400
    assert live.ask("/v1/heedful/search", {"query": "dog", "index": "other"}).status == 404


# --- inspection -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("a-translate", {"text": "1 2", "beam": 2}),
        ("a-translate", {"text": "1 2", "pair": "eins zwei"}),
        ("a-generate", {"text": "once", "tokens": 3}),
        ("a-fill", {"text": "eins [MASK]"}),
        ("a-classify", {"text": "eins"}),
        ("a-tag", {"text": "eins zwei"}),
        ("a-answer", {"text": "eins", "pair": "eins zwei"}),
        ("a-ask", {"text": "Where is Mary?", "pair": "Mary went to the garden."}),
        ("a-chat", {"text": "hello"}),
    ],
)
def test_every_kind_of_model_can_be_looked_at(live: LiveServer, model: str, message: dict[str, Any]) -> None:
    answer = live.ask("/v1/heedful/inspect", {"model": model, **message})
    assert answer.status == 200, answer.body
    assert answer.json["record"]["maps"]


def test_a_record_as_a_file_and_a_page_behind_a_link(live: LiveServer, folder: Path) -> None:
    asked = {"model": "a-translate", "text": "1 2", "pair": "eins zwei"}
    told = live.ask("/v1/heedful/inspect", {**asked, "format": "safetensors"}).json
    (folder / "record.safetensors").write_bytes(base64.b64decode(told["record"]))
    assert load_record(folder / "record.safetensors").said == "eins zwei"
    page = live.ask("/v1/heedful/inspect", {**asked, "format": "page"})
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("sandbox")
    link = live.ask("/v1/heedful/inspect", {**asked, "format": "link"}).json["page"]
    assert live.ask(link).body == page.body
    assert live.ask(f"{link}x").status == 404
    assert live.ask("/v1/heedful/inspect", {**asked, "format": "link"}).json["page"] != link


def test_pictures_can_be_looked_at(live: LiveServer, folder: Path) -> None:
    encoded = base64.b64encode(read_picture(folder)).decode()
    answer = live.ask("/v1/heedful/inspect", {"model": "a-caption", "image": encoded})
    assert answer.status == 200, answer.body
    missing = live.ask("/v1/heedful/inspect", {"model": "a-caption", "text": "/etc/passwd"})
    assert missing.status == 400
    assert live.ask("/v1/heedful/inspect", {"model": "a-tag", "text": "a", "image": encoded}).status == 400


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message", "words"),
    [
        ("translate", {}, "texts"),
        ("translate", {"texts": "1", "texst": "2"}, "texst"),
        ("translate", {"texts": ["1"] * 13}, "13 texts"),
        ("translate", {"texts": "1 " * 251}, "502 characters"),
        ("translate", {"texts": "1", "n_best": 12}, "n_best: 12"),
        ("translate", {"texts": "1", "beam": 65}, "beam: 65"),
        ("translate", {"texts": "1", "beam": 2, "search": "greedy"}, "beam: does not fit search greedy"),
        ("translate", {"texts": "1", "max_extra": 5000}, "max_extra"),
        ("translate", {"texts": ["1", "2"], "prefixes": ["a"]}, "prefixes: 1 for 2"),
        ("translate", {"texts": ["1", "2"], "stream": True}, "stream"),
        ("translate", {"texts": "1", "constraints": [["eins"]], "search": "greedy"}, "beam"),
        ("generate", {"prompts": "a", "tokens": 3000}, "tokens: 3,000"),
        ("fill", {"texts": "no gap"}, "[MASK]"),
        ("classify", {"texts": [["a", "b", "c"]]}, "3 texts"),
        ("search", {"query": "a", "top": 1000}, "top"),
        ("embed", {"texts": "a"}, "name one"),
        ("inspect", {"model": "a-tag", "text": "a", "tokens": 3}, "--tokens"),
    ],
)
def test_what_is_wrong_is_said(live: LiveServer, name: str, message: dict[str, Any], words: str) -> None:
    answer = live.ask(f"/v1/heedful/{name}", message)
    assert answer.status == 400, answer.body
    assert words in answer.json["error"]["message"]


def test_unknown_models(live: LiveServer) -> None:
    assert live.ask("/v1/heedful/translate", {"texts": "1", "model": "nobody"}).status == 404
    answer = live.ask("/v1/heedful/translate", {"texts": "1", "model": "a-tag"})
    assert answer.status == 400
    assert "a-translate" in answer.json["error"]["message"]


def test_there_are_routes_only_of_what_is_served(made: dict[str, Path]) -> None:
    with run_server(open_registry({"t": made["tag"]})) as live:
        assert live.ask("/v1/heedful/tag", {"texts": "eins"}).status == 200
        for name in ("translate", "generate", "fill", "classify", "answer", "ask", "chat", "caption", "search"):
            assert live.ask(f"/v1/heedful/{name}", {"texts": "1"}).status == 404, name


# --- growing answers --------------------------------------------------------------------------------------


def events(body: bytes) -> list[tuple[str, Any]]:
    found = []
    for block in body.decode().strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_translation_is_told_while_it_grows(live: LiveServer) -> None:
    asked = {"texts": "1 2 3", "align": True, "search": "greedy"}
    whole = answers(live, "translate", **asked)
    answer = live.ask("/v1/heedful/translate", {**asked, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *growing, (last, record) = events(answer.body)
    assert (last, record["answers"]) == ("record", whole)
    tokens = whole[0]["candidates"][0]["tokens"]
    assert [each["tokens"] for _, each in growing] == [tokens[: len(each["tokens"])] for _, each in growing]
    assert len(growing) >= len(tokens) - 1
    for name, each in growing:
        assert name == "growing"
        assert len(each["alignment"]["weights"]) == len(each["tokens"])
    np.testing.assert_allclose(
        growing[-1][1]["alignment"]["weights"],
        whole[0]["alignment"]["weights"][: len(growing[-1][1]["tokens"])],
        atol=2e-4,
    )


def test_what_is_wrong_with_a_stream_has_a_status(live: LiveServer) -> None:
    answer = live.ask(
        "/v1/heedful/translate", {"texts": "1", "constraints": [["eins"]], "search": "greedy", "stream": True}
    )
    assert answer.status == 400
    assert "beam" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("generate", {"prompts": "once", "tokens": 9, "seed": 3}),
        ("generate", {"prompts": "once", "tokens": 9, "search": "greedy"}),
        ("chat", {"turns": ["hello"], "search": "greedy"}),
    ],
)
def test_what_is_written_is_told_piece_by_piece(live: LiveServer, name: str, message: dict[str, Any]) -> None:
    (whole,) = answers(live, name, **message)
    answer = live.ask(f"/v1/heedful/{name}", {**message, "stream": True})
    *growing, (last, told) = events(answer.body)
    assert last == "record"
    (record,) = told["answers"]
    assert record["text"] == whole["text"] == "".join(each["piece"] for _, each in growing)
    assert record["tokens"] == whole["tokens"]
    assert record["log_probability"] == pytest.approx(whole["log_probability"], abs=1e-3)
    assert record.keys() == whole.keys()
    assert len(growing) > 3


def test_whoever_leaves_a_stream_stops_its_work(live: LiveServer) -> None:
    model = live.registry.models["a-generate"]
    asked = {"prompts": "once", "tokens": 2000, "stream": True, "search": "greedy", "model": "a-generate"}
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)
    connection.request("POST", "/v1/heedful/generate", json.dumps(asked), {"Content-Type": "application/json"})
    assert connection.getresponse().read(20).startswith(b"event: growing")
    assert model.num_waiting == 1
    connection.sock.close() if connection.sock else None
    connection.close()
    until = time.monotonic() + 20
    while model.num_waiting:
        assert time.monotonic() < until, "the work goes on"
        time.sleep(0.01)


_NUMBERS = ("1e308", "-1e308", "1e400", "-1e400", "5e-324", "-0.0", "1" + "0" * 400, "9" * 5_000, "2147483648", "NaN")


@pytest.mark.parametrize("number", _NUMBERS, ids=range(len(_NUMBERS)))
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("translate", {"texts": "1 2", "model": "a-translate"}),
        ("generate", {"prompts": "once", "tokens": 2, "search": "sampling"}),
        ("search", {"query": "dog"}),
        ("answer", {"question": "eins", "context": "eins zwei"}),
        ("fill", {"texts": "eins [MASK]", "model": "a-fill"}),
    ],
)
def test_no_number_in_any_field_fails(live: LiveServer, name: str, fields: dict[str, Any], number: str) -> None:
    route = next(each for each in collect_routes(live.registry) if each.path == f"/v1/heedful/{name}")
    assert route.request_type is not None
    for field in route.request_type.model_fields:
        given = {key: json.dumps(value) for key, value in fields.items()} | {field: number}
        body = "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in given.items()) + "}"
        answer = live.ask(f"/v1/heedful/{name}", body.encode())
        assert answer.status in (200, 400), (field, answer.body)


@pytest.mark.parametrize("search", [None, "sampling", "beam"])
@pytest.mark.parametrize("name", ["max_ratio", "min_ratio", "length_penalty", "repetition_penalty", "temperature"])
def test_factors_that_would_overflow_are_named(live: LiveServer, name: str, search: str | None) -> None:
    asked = {"texts": "1", "model": "a-translate", name: 1e308, **({"search": search} if search else {})}
    answer = live.ask("/v1/heedful/translate", asked)
    assert (answer.status, answer.json["error"]["param"]) == (400, name)
    assert answer.json["error"]["message"] == f"{name}: input should be less than or equal to 1000"


def test_a_deadline_ends_the_work(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes no step any more soon after the answer says that it is late."""
    advance, steps = ContinuousBatch.step, 0

    def counted(running: ContinuousBatch, max_tokens: int) -> Any:
        nonlocal steps
        steps += 1
        time.sleep(0.002)
        return advance(running, max_tokens)

    monkeypatch.setattr(ContinuousBatch, "step", counted)
    asked = {"prompts": "once", "tokens": 2000, "search": "greedy"}
    answer = live.ask("/v1/heedful/generate", asked, headers={"heedful-deadline": "0.5"})
    assert answer.status == 504
    until = time.monotonic() + 20
    while live.registry.models["a-generate"].num_waiting or live.registry.models["a-generate"].backend._running:  # type: ignore[attr-defined]
        assert time.monotonic() < until, "the work goes on"
        time.sleep(0.005)
    before = steps
    time.sleep(0.05)
    assert 0 < steps == before < 1_000


@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_that_is_over_before_the_work_begins(live: LiveServer, stream: bool) -> None:
    asked = {"texts": "1", "stream": stream}
    answer = live.ask("/v1/heedful/translate", asked, headers={"heedful-deadline": "1e-9"})
    assert answer.status == 504


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoTokenError(0), 400),
        (DataError("text 3: is too long"), 400),
        (RunError("/runs/a: is gone"), 500),
        (ValueError("a mistake"), 500),
        (deadline_exceeded(1.0), 504),
    ],
)
def test_what_whoever_asked_can_mend_is_told(error: Exception, status: int) -> None:
    refusal = to_http_error(error, "7")
    assert refusal.status == status
    assert ("/runs" in refusal.message, "mistake" in refusal.message) == (False, False)
