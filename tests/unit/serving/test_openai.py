"""OpenAI's interface as it goes over the wire: events, what is refused and how, and work that nobody waits for."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from live_server import LiveServer, ServerResponse, open_registry, run_server
from openai_runs import create_openai_runs
from shape_checks import disable_shape_checks

from heedful.errors import RunError
from heedful.serving.openai.generation import TokenEntry, TokenTracker
from heedful.tasks.conversation.predictor import ChatPredictor
from heedful.tasks.language.predictor import TextGenerator

NEVER_ENDS = {"2": -100}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    with disable_shape_checks():
        return create_openai_runs(tmp_path_factory.mktemp("openai"))


@pytest.fixture(scope="module")
def live(folders: dict[str, Path]) -> Iterator[LiveServer]:
    limits = {"characters": 300, "batch": 6, "alternatives": 2, "tokens": 40}
    with disable_shape_checks(), run_server(open_registry(folders, limits=limits)) as found:
        yield found


def completion(live: LiveServer, **fields: Any) -> ServerResponse:
    return live.ask("/v1/completions", {"model": "tales", "prompt": "the", **fields})


def events(answer: ServerResponse) -> list[str]:
    """What stands in the events of a stream."""
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    *blocks, rest = answer.body.decode().split("\n\n")
    assert rest == ""
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    return [block.removeprefix("data: ") for block in blocks]


def test_events_are_lines_of_json_and_an_end(live: LiveServer) -> None:
    answer = completion(live, stream=True, max_tokens=6, temperature=0, logit_bias=NEVER_ENDS)
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    *told, end = events(answer)
    assert end == "[DONE]"
    parts = [json.loads(each) for each in told]
    assert {tuple(part) for part in parts} == {("id", "object", "created", "model", "choices")}
    assert parts[0]["choices"][0] == {
        "index": 0,
        "text": parts[0]["choices"][0]["text"],
        "logprobs": None,
        "finish_reason": None,
    }
    assert parts[-1]["choices"][0] == {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
    whole = completion(live, max_tokens=6, temperature=0, logit_bias=NEVER_ENDS).json
    assert set(whole) == {"id", "object", "created", "model", "choices", "usage"}
    assert "".join(part["choices"][0]["text"] for part in parts) == whole["choices"][0]["text"]


def test_only_who_asks_for_it_is_told_the_usage_of_a_stream(live: LiveServer) -> None:
    fields: dict[str, Any] = {"stream": True, "max_tokens": 3, "temperature": 0}
    *told, _ = events(completion(live, **fields, stream_options={"include_usage": True}))
    parts = [json.loads(each) for each in told]
    assert [part["usage"] for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert parts[-1]["choices"] == []
    assert parts[-1]["usage"] == completion(live, max_tokens=3, temperature=0).json["usage"]
    for options in ({"include_usage": False}, None, {}):
        *told, _ = events(completion(live, **fields, stream_options=options))
        assert all("usage" not in json.loads(each) for each in told)


def test_null_is_what_is_not_given(live: LiveServer) -> None:
    names = ("temperature", "top_p", "n", "best_of", "echo", "logprobs", "suffix", "stop", "stream", "stream_options")
    names += ("presence_penalty", "frequency_penalty", "logit_bias", "user", "max_tokens", "top_k", "min_p")
    answer = completion(live, seed=1, **dict.fromkeys(names))
    assert answer.status == 200
    assert answer.json["choices"] == completion(live, seed=1).json["choices"]
    begun = completion(live, prompt=None, seed=1).json
    assert begun["choices"] == completion(live, prompt="", seed=1).json["choices"]


FORM = "prompt: must be a text, or a list of one text or several"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": 3}, FORM),
        ({"prompt": []}, FORM),
        ({"prompt": {"a": 1}}, FORM),
        ({"prompt": [1, 2]}, "prompt: must be a text or a list of texts; lists of token ids are not read here"),
        ({"prompt": ["a", None]}, "prompt: must be a text or a list of texts; lists of token ids are not read here"),
        ({"prompt": "\ud800"}, "half a"),
        ({"prompt": "a" * 301}, "301 characters of text; a request may have 300: send fewer"),
        ({"prompt": ["a" * 200] * 2}, "400 characters of text"),
        ({"prompt": "a" * 290, "stop": ["b" * 20]}, "310 characters of text"),
        ({"prompt": ["a"] * 7}, "7 completions; a request may have 6"),
        ({"prompt": ["a"] * 3, "n": 3}, "9 completions; a request may have 6"),
        ({"model": 3}, "model: input should be a valid string"),
        ({"model": ""}, "model: string should have at least 1 character"),
        ({"model": None}, "model: several write: tales, odd/pieces; name one"),
        ({"max_tokens": -1}, "max_tokens: input should be greater than or equal to 0"),
        ({"max_tokens": 0}, "max_tokens: 0 writes nothing"),
        ({"max_tokens": 41}, "max_tokens: 41 tokens; at most 40 are written here"),
        ({"max_tokens": "7"}, "max_tokens: input should be a valid integer"),
        ({"max_tokens": 1.5}, "max_tokens: input should be a valid integer"),
        ({"temperature": -0.1}, "temperature: input should be greater than or equal to 0"),
        ({"temperature": 2.1}, "temperature: input should be less than or equal to 2"),
        ({"temperature": 0.001}, "temperature: must be 0, or at least 0.01"),
        ({"temperature": float("nan")}, "temperature: input should be a finite number"),
        ({"temperature": True}, "temperature: input should be a valid number"),
        ({"top_p": -0.1}, "top_p: input should be greater than or equal to 0"),
        ({"top_k": 2**31}, "top_k: input should be less than or equal to 2147483647"),
        ({"top_k": 10**400}, "top_k: input should be"),
        ({"temperature": 10**400}, "temperature: input should be"),
        ({"repetition_penalty": 1e308}, "repetition_penalty: input should be less than or equal to 1000"),
        ({"top_p": 1.01}, "top_p: input should be less than or equal to 1"),
        ({"top_k": 0}, "top_k: input should be greater than or equal to 1"),
        ({"min_p": 2}, "min_p: input should be less than or equal to 1"),
        ({"repetition_penalty": 0}, "repetition_penalty: input should be greater than 0"),
        ({"no_repeat_ngram": 0}, "no_repeat_ngram: input should be greater than or equal to 1"),
        ({"presence_penalty": 3}, "presence_penalty: input should be less than or equal to 2"),
        ({"frequency_penalty": -3}, "frequency_penalty: input should be greater than or equal to -2"),
        ({"logit_bias": [1]}, "logit_bias: input should be a valid dictionary"),
        ({"logit_bias": {"x": 1}}, "logit_bias: 'x' is not a token id"),
        ({"logit_bias": {"-1": 1}}, "logit_bias: '-1' is not a token id"),
        ({"logit_bias": {"9999": 1}}, "logit_bias: 9999: this model has ids 0 to"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1: input should be less than or equal to 100"),
        ({"stop": 3}, "stop: must be a string, or a list of strings"),
        ({"stop": ["a", 3]}, "stop: must be a string, or a list of strings"),
        ({"stop": ""}, "stop: an empty string would end every text at once"),
        ({"stop": ["a", ""]}, "stop: an empty string would end every text at once"),
        ({"stop": [str(number) for number in range(65)]}, "stop: holds more than 64 strings"),
        ({"seed": 2**63}, "seed: input should be less than"),
        ({"seed": "a"}, "seed: input should be a valid integer"),
        ({"n": 0}, "n: input should be greater than or equal to 1"),
        ({"n": 4}, "n: 4; at most 3 are written here"),
        ({"n": 2, "temperature": 0}, "n: always taking the most probable token gives only one text"),
        ({"n": 2, "stream": True}, "n: a stream has one completion of each prompt"),
        ({"best_of": 4}, "best_of: 4; at most 3 are written here"),
        ({"best_of": 1, "n": 2}, "best_of: 1 completions to choose 2 from"),
        ({"best_of": 2, "stream": True}, "best_of: a stream has one completion of each prompt"),
        ({"logprobs": 6}, "logprobs: input should be less than or equal to 5"),
        ({"logprobs": True}, "logprobs: input should be a valid integer"),
        ({"echo": "yes"}, "echo: input should be a valid boolean"),
        ({"stream": 1}, "stream: input should be a valid boolean"),
        ({"stream_options": [1]}, "stream_options: input should be"),
        ({"stream_options": {"include_usage": 3}}, "stream_options.include_usage: input should be a valid boolean"),
        ({"suffix": "end"}, "suffix: is not supported here; leave it out"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_completion_is_told(live: LiveServer, fields: dict[str, Any], message: str) -> None:
    answer = completion(live, **fields)
    error = answer.json["error"]
    assert answer.status == 400
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    (field, *_) = fields
    if len(fields) == 1 and error["message"].startswith(field):
        assert error["param"].split(".")[0] == field


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": None}, "messages: input should be a valid list"),
        ({"messages": ["a"]}, "messages.0: input should be"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: field required"),
        ({"messages": [{"content": "a"}]}, "messages.0.role: field required"),
        ({"messages": [{"role": "king", "content": "a"}]}, "messages.0.role: input should be 'user' or 'assistant'"),
        ({"messages": [{"role": "system", "content": "a"}]}, "messages.0: role 'system': the model has learned"),
        ({"messages": [{"role": "developer", "content": "a"}]}, "takes no instructions; leave the message out"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "tools are not supported"),
        ({"messages": [{"role": "assistant", "content": None}]}, "messages.0.content: must be a text, or a list"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "content: must be pieces of text"),
        ({"messages": [{"role": "user", "content": "a", "name": "Bob"}]}, "speaker 'Bob'"),
        (
            {"messages": [{"role": "assistant", "content": "a", "tool_calls": [{}]}]},
            "tool_calls: is not supported here",
        ),
        ({"messages": [{"role": "user", "content": "a" * 301}]}, "301 characters of text"),
        ({"messages": [{"role": "user", "content": "a"}] * 7}, "messages: 7; a request may have 6"),
        ({"messages": [], "n": 2}, "n: input should be less than or equal to 1"),
        ({"messages": [], "max_tokens": 0}, "max_tokens: input should be greater than or equal to 1"),
        ({"messages": [], "max_completion_tokens": 41}, "max_completion_tokens: 41 tokens; at most 40"),
        ({"messages": [], "logprobs": True}, "logprobs: is not supported here"),
        ({"messages": [], "tools": [{"type": "function"}]}, "tools: is not supported here"),
        ({"messages": [], "response_format": {"type": "json_object"}}, "response_format: only text"),
        ({"messages": [], "modalities": ["text", "audio"]}, "modalities: only text"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_dialogue_is_told(live: LiveServer, fields: dict[str, Any], message: str) -> None:
    answer = live.ask("/v1/chat/completions", {"model": "talk", **fields})
    assert answer.status == 400
    assert message in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "input: field required"),
        ({"input": []}, "input: must be a text, or a list of one text or several"),
        ({"input": None}, "input: must be a text, or a list of one text or several"),
        ({"input": [[1, 2]]}, "lists of token ids are not read here"),
        ({"input": "a " * 200}, "input: 400 characters of text"),
        ({"input": ["a"] * 7}, "input: 7 texts; a request may have 6"),
        ({"input": "cat " * 40}, "tokens"),
        ({"input": "a", "dimensions": 3}, "dimensions: vectors of this model have 16"),
        ({"input": "a", "dimensions": 0}, "dimensions: input should be greater than or equal to 1"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format: input should be 'float' or 'base64'"),
        ({"input": "a", "normalise": 1}, "normalise: input should be a valid boolean"),
    ],
    ids=str,
)
def test_what_is_wrong_with_texts_to_embed_is_told(live: LiveServer, fields: dict[str, Any], message: str) -> None:
    answer = live.ask("/v1/embeddings", {"model": "en-de", **fields})
    assert answer.status == 400
    assert message in answer.json["error"]["message"]


def test_a_dialogue_without_turns_is_begun(live: LiveServer) -> None:
    answer = live.ask(
        "/v1/chat/completions", {"model": "talk", "messages": [], "seed": 1, "response_format": {"type": "text"}}
    )
    (expected,) = live.registry.models["talk"].predictor.reply([[]])
    assert answer.json["choices"][0]["message"] == {"role": "assistant", "content": expected.text}


def test_the_bound_of_the_server_is_that_of_a_model_too(folders: dict[str, Path]) -> None:
    with run_server(open_registry({"talk": folders["talk"], "tales": folders["tales"]}, limits={"tokens": 3})) as live:
        fields: dict[str, Any] = {"temperature": 0, "logit_bias": NEVER_ENDS}
        said = live.ask("/v1/chat/completions", {"messages": [], **fields}).json
        wrote = live.ask("/v1/completions", {"prompt": "the", **fields}).json
        for found in (said, wrote):
            assert found["usage"]["completion_tokens"] == 3
            assert found["choices"][0]["finish_reason"] == "length"


class Slow:
    """A model whose steps take a while, and are counted."""

    def __init__(
        self, face: TextGenerator | ChatPredictor, patch: pytest.MonkeyPatch, *, fails: int | None = None
    ) -> None:
        self.steps = 0
        step = face.model.step

        def slowly(tokens: Any, state: Any) -> Any:
            self.steps += 1
            if self.steps == fails:
                raise RunError("weights are gone")
            time.sleep(0.02)
            return step(tokens, state)

        patch.setattr(face.model, "step", slowly)


def settled(number: Callable[[], int]) -> int:
    """A number that does not grow any more."""
    for _ in range(100):
        before = number()
        time.sleep(0.15)
        if number() == before:
            return before
    raise AssertionError(f"it goes on: {number()}")


LONG: dict[str, Any] = {"prompt": "the", "max_tokens": 4000, "temperature": 0, "logit_bias": NEVER_ENDS}
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", {"model": "tales", **LONG}),
    ("/v1/completions", {"model": "tales", **LONG, "temperature": 1, "n": 2}),
    ("/v1/completions", {"model": "tales", **LONG, "stop": "zzz"}),
    ("/v1/chat/completions", {"model": "talk", "messages": [], **LONG, "logit_bias": NEVER_ENDS}),
]


@pytest.fixture(scope="module")
def generous(folders: dict[str, Path]) -> Iterator[LiveServer]:
    """A server that grants much."""
    talk = {"run": str(folders["talk"])}
    with (
        disable_shape_checks(),
        run_server(open_registry({"tales": folders["tales"], "talk": talk}, limits={"tokens": 4000})) as found,
    ):
        partner = found.registry.models["talk"].predictor
        object.__setattr__(partner.encoder, "max_length", 10_000)
        yield found


@pytest.mark.parametrize(("path", "body"), ASKED, ids=str)
def test_a_deadline_ends_the_work_and_is_no_answer(
    generous: LiveServer, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(generous.registry.models[body["model"]].predictor, monkeypatch)
    answer = generous.ask(path, body, headers={"Heedful-Deadline": "0.3"})
    assert (answer.status, answer.json["error"]["code"]) == (504, "timeout")
    assert settled(lambda: slow.steps) < 60


@pytest.mark.parametrize(("path", "body"), [each for each in ASKED if "n" not in each[1]], ids=str)
def test_a_stream_whose_deadline_passes_ends_with_an_error(
    generous: LiveServer, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(generous.registry.models[body["model"]].predictor, monkeypatch)
    answer = generous.ask(path, {**body, "stream": True}, headers={"Heedful-Deadline": "0.5"})
    assert answer.status == 200
    *pieces, last = map(json.loads, events(answer))
    assert len(pieces) > 1
    assert all(piece["choices"][0]["finish_reason"] is None for piece in pieces)
    assert last["error"]["code"] == "timeout"
    assert settled(lambda: slow.steps) < 90


READ: dict[str, Any] = {"model": "tales", "echo": True, "logprobs": 1, "max_tokens": 0}


@pytest.mark.parametrize(
    "more", [{"prompt": ["the"] * 100}, {"prompt": "the " * 100}, {"prompt": "the " * 100, "stream": True}], ids=str
)
def test_tokens_are_told_until_the_deadline(
    generous: LiveServer, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    named, told = TokenTracker._build_entry, list[str]()

    def slowly(ledger: TokenTracker, *given: Any) -> TokenEntry:
        time.sleep(0.05)
        told.append("")
        return named(ledger, *given)

    monkeypatch.setattr(TokenTracker, "_build_entry", slowly)
    answer = generous.ask("/v1/completions", {**READ, **more}, headers={"Heedful-Deadline": "0.5"})
    assert (answer.status, answer.json["error"]["code"]) == (504, "timeout")
    assert len(told) <= 11


def test_a_prompt_of_a_stream_is_read_until_the_deadline(generous: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, read = generous.registry.models["tales"].predictor, list[int]()
    reading = writer.build_incremental_predictor

    def begun(*, top_k: int) -> Any:
        found = reading(top_k=top_k)

        def slowly(ids: Sequence[int]) -> Any:
            read.append(len(ids))
            time.sleep(0.3)
            return found.predict_next(ids)

        return SimpleNamespace(predict_next=slowly)

    monkeypatch.setattr(writer, "build_incremental_predictor", begun)
    fields = {**READ, "prompt": "the " * 3_000, "stream": True}
    answer = generous.ask("/v1/completions", fields, headers={"Heedful-Deadline": "0.4"})
    assert (answer.status, answer.json["error"]["code"]) == (504, "timeout")
    assert sum(read) <= 2 * 256
    assert len(writer.tokenizer.encode(fields["prompt"])) > 3 * 256


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"stream": True, "logprobs": 1}], ids=str)
def test_work_ends_when_who_asked_leaves(
    generous: LiveServer, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = generous.registry.models["tales"]
    slow = Slow(model.predictor, monkeypatch)
    body = json.dumps({"model": "tales", **LONG, **more})
    connection = http.client.HTTPConnection("127.0.0.1", generous.port, timeout=30)
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    if more:
        answer = connection.getresponse()
        assert answer.read(60).startswith(b"data: ")
        answer.close()
    else:
        until = time.monotonic() + 20
        while slow.steps < 3 and time.monotonic() < until:
            time.sleep(0.01)
    assert model.num_waiting == 1
    connection.close()
    assert 0 < settled(lambda: slow.steps) < 1000
    assert model.num_waiting == 0


def test_what_fails_in_the_midst_of_a_stream_is_an_event(generous: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    face = generous.registry.models["tales"].predictor
    with monkeypatch.context() as patch:
        Slow(face, patch, fails=4)
        answer = generous.ask("/v1/completions", {**ASKED[0][1], "stream": True})
        *pieces, last = map(json.loads, events(answer))
        assert pieces
        assert "error" in last
    with monkeypatch.context() as patch:
        Slow(face, patch, fails=1)
        answer = generous.ask("/v1/completions", {**ASKED[0][1], "stream": True})
        assert answer.status >= 400
        assert "error" in answer.json
    assert generous.ask("/v1/completions", {"model": "tales", "prompt": "the", "max_tokens": 2}).status == 200


def test_what_nobody_here_does_has_no_path(folders: dict[str, Path]) -> None:
    with run_server(open_registry({"en-de": folders["en-de"]})) as live:
        assert live.ask("/v1/models").json["data"][0]["id"] == "en-de"
        assert live.ask("/v1/completions", {"prompt": "a"}).status == 404
        assert live.ask("/v1/chat/completions", {"messages": []}).status == 404
        assert live.ask("/v1/embeddings", {"input": "a cat"}).status == 200
