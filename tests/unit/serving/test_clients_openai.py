"""A live server, asked by OpenAI's own client as its users ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_server import LiveServer, open_registry, run_server
from openai_runs import create_openai_runs
from shape_checks import disable_shape_checks

from heedful.__main__ import main
from heedful.serving.auth import add_key
from heedful.serving.http_errors import queue_full
from heedful.tasks.conversation.data import DialogueTurn

openai = pytest.importorskip("openai", reason="openai is not installed")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    with disable_shape_checks():
        return create_openai_runs(tmp_path_factory.mktemp("openai"))


@pytest.fixture(scope="module")
def live(folders: dict[str, Path]) -> Iterator[LiveServer]:
    with disable_shape_checks(), run_server(open_registry(folders)) as found:
        yield found


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as found:
        yield found


@pytest.fixture
def generated(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, Any]]]:
    """What `heedful generate` writes."""

    def told(name: str, *options: str) -> list[dict[str, Any]]:
        with disable_shape_checks():
            assert main(["generate", str(folders[name]), "--device", "cpu", "--format", "jsonl", *options]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return told


Generated = Callable[..., list[dict[str, Any]]]


def test_models_are_listed_and_found_by_names_with_slashes(client: openai.OpenAI, live: LiveServer) -> None:
    assert [model.id for model in client.models.list()] == list(live.registry.models)
    found = client.models.retrieve("odd/pieces")
    assert (found.id, found.object, found.owned_by) == ("odd/pieces", "model", "heedful")
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("nobody")
    assert missing.value.code == "model_not_found"


@pytest.mark.parametrize("name", ["tales", "odd/pieces"])
@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"temperature": 0}, ["--search", "greedy"]),
        ({"top_p": 0}, ["--search", "greedy"]),
        ({"top_p": 0, "temperature": 1.5, "seed": 3}, ["--search", "greedy"]),
        ({"temperature": 0.8, "seed": 4}, ["--temperature", "0.8", "--seed", "4"]),
        ({"top_p": 0.7, "seed": -3}, ["--top-p", "0.7", "--seed", "-3"]),
        ({"seed": 2, "extra_body": {"top_k": 3}}, ["--top-k", "3", "--seed", "2"]),
        ({"seed": 2, "temperature": 1, "extra_body": {"min_p": 0.1}}, ["--min-p", "0.1", "--seed", "2"]),
        (
            {"temperature": 0, "extra_body": {"repetition_penalty": 1.5, "no_repeat_ngram": 2}},
            ["--search", "greedy", "--repetition-penalty", "1.5", "--no-repeat-ngram", "2"],
        ),
        (
            {"seed": 8, "temperature": 2, "stop": ["t", "zzz"]},
            ["--seed", "8", "--temperature", "2", "--stop", "t", "zzz"],
        ),
        ({"seed": 8}, ["--seed", "8"]),
    ],
)
def test_a_completion_is_what_generate_writes(
    client: openai.OpenAI, generated: Generated, name: str, fields: dict[str, Any], options: list[str]
) -> None:
    (expected,) = generated(name, "--prompt", "the cat", "--tokens", "9", *options)
    found = client.completions.create(model=name, prompt="the cat", max_tokens=9, **fields)
    (choice,) = found.choices
    assert choice.text == expected["text"]
    ended = expected["finished"] or expected["stop"] is not None
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "stop" if ended else "length", None)
    assert found.usage is not None
    assert found.usage.completion_tokens == len(expected["ids"])
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert (found.object, found.model, found.id[:5]) == ("text_completion", name, "cmpl-")
    with client.completions.create(model=name, prompt="the cat", max_tokens=9, stream=True, **fields) as stream:
        events = list(stream)
    assert "".join(event.choices[0].text for event in events) == expected["text"]
    assert [event.choices[0].finish_reason for event in events] == [None] * (len(events) - 1) + [choice.finish_reason]
    assert len({event.id for event in events}) == 1


def test_several_prompts_and_several_completions_stand_in_order(client: openai.OpenAI, generated: Generated) -> None:
    options = ["--prompt", "the", "a dog", "--n-best", "3", "--seed", "5", "--temperature", "1", "--tokens", "16"]
    expected = [each["text"] for each in generated("tales", *options)]
    found = client.completions.create(model="tales", prompt=["the", "a dog"], n=3, seed=5, temperature=1)
    assert [choice.text for choice in found.choices] == expected
    assert [choice.index for choice in found.choices] == list(range(6))
    assert found.usage is not None
    assert found.usage.prompt_tokens == 8


def test_a_seed_is_a_text_and_no_seed_is_any(client: openai.OpenAI) -> None:
    def text(**fields: Any) -> str:
        found = client.completions.create(
            model="tales", prompt="the", max_tokens=30, temperature=2, logit_bias={"2": -100}, **fields
        )
        return found.choices[0].text

    assert text(seed=1) == text(seed=1) != text(seed=2)
    assert len({text() for _ in range(4)}) == 4


def test_biases_and_penalties_change_what_is_written(client: openai.OpenAI, live: LiveServer) -> None:
    tokenizer = live.registry.models["tales"].predictor.tokenizer
    (letter,) = tokenizer.encode("y")

    def text(**fields: Any) -> str:
        found = client.completions.create(model="tales", prompt="the", max_tokens=12, temperature=0, **fields)
        return found.choices[0].text

    silent = {"2": -100}
    assert text(logit_bias={str(letter): 100}) == "y" * 12
    assert "y" not in text(logit_bias={**silent, str(letter): -100})
    repeated, varied = text(logit_bias=silent), text(logit_bias=silent, frequency_penalty=2)
    assert len(set(varied)) > len(set(repeated))
    assert text(logit_bias=silent, presence_penalty=2) != repeated
    assert text(logit_bias=silent, presence_penalty=0, frequency_penalty=0) == repeated


def test_the_best_of_several_are_those_most_probable_by_token(client: openai.OpenAI, generated: Generated) -> None:
    options = ["--prompt", "a", "--n-best", "6", "--seed", "7", "--temperature", "1.5", "--tokens", "8"]
    found = generated("tales", *options)
    ranked = sorted(found, key=lambda each: each["log_probability"] / len(each["token_log_probabilities"]))[::-1]
    assert ranked[:2] != found[:2]
    best = client.completions.create(model="tales", prompt="a", seed=7, temperature=1.5, max_tokens=8, n=2, best_of=6)
    assert [choice.text for choice in best.choices] == [each["text"] for each in ranked[:2]]
    assert best.usage is not None
    assert best.usage.completion_tokens == sum(len(each["ids"]) for each in found)


def test_log_probabilities_are_those_of_the_model(client: openai.OpenAI, live: LiveServer) -> None:
    writer = live.registry.models["odd/pieces"].predictor
    for prompt in ("the cat sat", " A  dog"):
        found = client.completions.create(
            model="odd/pieces", prompt=prompt, max_tokens=6, temperature=0, echo=True, logprobs=3
        )
        (choice,) = found.choices
        told = choice.logprobs
        assert told is not None and told.tokens and told.token_logprobs and told.text_offset and told.top_logprobs
        assert "".join(told.tokens) == choice.text
        assert choice.text.startswith(prompt)
        assert [len("".join(told.tokens[:place])) for place in range(len(told.tokens))] == told.text_offset
        ids = writer.tokenizer.encode(prompt)
        (surprise,) = writer.surprise([prompt])
        assert told.token_logprobs[: len(ids)] == pytest.approx(surprise.token_log_probabilities, abs=1e-4)
        for name, value, others in zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True):
            assert others[name] == value
            assert 3 <= len(others) <= 4
        # greedy search took the best of each place
        for name, others in zip(told.tokens[len(ids) :], told.top_logprobs[len(ids) :], strict=True):
            assert max(others, key=lambda each: others[each]) == name


def test_log_probabilities_of_what_was_written_need_no_second_reading(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {"model": "tales", "prompt": "the ", "seed": 3, "temperature": 1, "max_tokens": 9}
    few = client.completions.create(**fields, logprobs=0).choices[0].logprobs
    more = client.completions.create(**fields, logprobs=2).choices[0].logprobs
    assert few is not None and few.tokens and more is not None and few.token_logprobs
    assert few.top_logprobs is None
    assert few.tokens == more.tokens
    assert few.token_logprobs == pytest.approx(more.token_logprobs, abs=1e-4)
    assert few.text_offset == more.text_offset == [4 + place for place in range(len(few.tokens))]


def test_tokens_end_where_a_stop_string_ends_the_text(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {"model": "tales", "prompt": "the", "temperature": 0, "max_tokens": 12, "logprobs": 0}
    free = client.completions.create(**fields, logit_bias={"2": -100}).choices[0].text
    stop = free[5:7]
    (choice,) = client.completions.create(**fields, logit_bias={"2": -100}, stop=stop).choices
    assert choice.logprobs is not None and choice.logprobs.tokens is not None
    assert choice.text == free[: free.index(stop)] == "".join(choice.logprobs.tokens)
    assert choice.finish_reason == "stop"


def test_tokens_that_may_begin_a_stop_string_wait(client: openai.OpenAI, live: LiveServer) -> None:
    one, two = live.registry.models["tales"].predictor.tokenizer.encode("ad")
    fields: dict[str, Any] = {"model": "tales", "prompt": "the", "temperature": 0, "max_tokens": 5, "logprobs": 1}
    fields |= {"frequency_penalty": 2, "logit_bias": {str(one): 100, str(two): 97}}
    assert client.completions.create(**fields).choices[0].text == "aadad"
    for stop, text in (("ad", "a"), ("dad", "aa"), ("adadz", "aadad")):
        whole = client.completions.create(**fields, stop=stop).choices[0]
        assert whole.text == text
        with client.completions.create(**fields, stop=stop, stream=True) as stream:
            parts = [event.choices[0] for event in stream]
        assert "".join(part.text for part in parts) == text
        for told in (whole.logprobs and whole.logprobs.tokens, [n for part in parts for n in part.logprobs.tokens]):
            assert told == list(text)


def test_a_prompt_is_scored_without_writing(client: openai.OpenAI, live: LiveServer) -> None:
    texts = ["the cat sat on a mat", ""]
    found = client.completions.create(model="tales", prompt=texts, max_tokens=0, echo=True, logprobs=0)
    assert [choice.text for choice in found.choices] == texts
    assert {choice.finish_reason for choice in found.choices} == {"length"}
    for choice, surprise in zip(found.choices, live.registry.models["tales"].predictor.surprise(texts), strict=True):
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs == pytest.approx(surprise.token_log_probabilities, abs=1e-4)
    assert found.usage is not None
    assert found.usage.completion_tokens == 0


def test_a_stream_tells_tokens_and_prompts_as_the_whole_does(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {"model": "odd/pieces", "prompt": ["the cat", "a dog sat"], "seed": 2, "temperature": 1}
    fields |= {"logprobs": 2, "echo": True, "stop": "e", "max_tokens": 12}
    whole = client.completions.create(**fields)
    with client.completions.create(**fields, stream=True, stream_options={"include_usage": True}) as stream:
        events = list(stream)
    *pieces, last = events
    assert last.choices == []
    assert last.usage == whole.usage
    assert all(event.usage is None for event in pieces)
    for expected in whole.choices:
        own = [event.choices[0] for event in pieces if event.choices[0].index == expected.index]
        assert "".join(choice.text for choice in own) == expected.text
        assert own[-1].finish_reason == expected.finish_reason
        told = [choice.logprobs for choice in own]
        assert all(each is not None for each in told)
        assert expected.logprobs is not None
        assert [name for each in told for name in each.tokens] == expected.logprobs.tokens
        assert [place for each in told for place in each.text_offset] == expected.logprobs.text_offset
        assert [value for each in told for value in each.token_logprobs] == pytest.approx(
            expected.logprobs.token_logprobs, abs=1e-4
        )


def test_a_prompt_that_is_too_long_is_told(client: openai.OpenAI) -> None:
    found = client.completions.create(model="tales", prompt=["the", "the cat sat on a mat"], max_tokens=2, seed=1)
    (note,) = found.notes  # type: ignore[attr-defined]  # what OpenAI does not have
    assert note == "prompt 2 is too long for the model's 16 positions; its first 8 tokens are not read"
    short = client.completions.create(model="tales", prompt="the", max_tokens=2, seed=1)
    assert not hasattr(short, "notes")


def test_a_conversation_goes_on_as_the_model_says(client: openai.OpenAI, live: LiveServer) -> None:
    partner = live.registry.models["talk"].predictor
    turns = [DialogueTurn("user", "hello"), DialogueTurn("system", "number 1"), DialogueTurn("user", "hello hello")]
    messages: list[Any] = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "number 1"},
        {"role": "user", "content": "  "},
        {"role": "user", "content": [{"type": "text", "text": "hello "}, {"type": "text", "text": "hello"}]},
    ]
    (expected,) = partner.reply([turns])
    found = client.chat.completions.create(model="talk", messages=messages, seed=1)
    (choice,) = found.choices
    assert (choice.message.role, choice.message.content) == ("assistant", expected.text)
    assert choice.finish_reason == ("stop" if expected.finished else "length")
    assert found.usage is not None
    assert found.usage.prompt_tokens == len(partner.encoder.encode_source(turns))
    assert found.usage.completion_tokens == len(expected.tokens)
    assert found.object == "chat.completion"
    usage = {"stream_options": {"include_usage": True}}
    with client.chat.completions.create(model="talk", messages=messages, seed=1, stream=True, **usage) as stream:  # type: ignore[call-overload]
        *events, last = stream
    deltas = [event.choices[0].delta for event in events]
    assert (deltas[0].role, deltas[0].content) == ("assistant", "")
    assert "".join(delta.content or "" for delta in deltas) == expected.text
    assert [event.choices[0].finish_reason for event in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1].choices[0].finish_reason == choice.finish_reason
    assert last.usage == found.usage


def test_a_reply_is_bounded_and_ends_where_it_is_told(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "hello"}]
    free = client.chat.completions.create(model="talk", messages=messages, temperature=0, logit_bias={"2": -100})
    words = (free.choices[0].message.content or "").split()
    assert len(words) == 8
    for field in ("max_tokens", "max_completion_tokens"):
        short = client.chat.completions.create(
            model="talk", messages=messages, temperature=0, logit_bias={"2": -100}, **{field: 3}
        )
        assert (short.choices[0].message.content or "").split() == words[:3]
        assert short.choices[0].finish_reason == "length"
    stopped = client.chat.completions.create(
        model="talk", messages=messages, temperature=0, logit_bias={"2": -100}, stop=[words[0]]
    )
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("", "stop")


def test_a_reply_may_end_at_once(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {"model": "talk", "messages": [], "temperature": 0, "logit_bias": {"2": 100}}
    whole = client.chat.completions.create(**fields)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("", "stop")
    with client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True}) as stream:
        event, last = stream
    assert (event.choices[0].delta.role, event.choices[0].finish_reason) == ("assistant", "stop")
    assert last.usage == whole.usage


def test_speakers_are_named_where_there_are_several(client: openai.OpenAI, live: LiveServer) -> None:
    unnamed: list[Any] = [{"role": "user", "content": "hello"}]
    with pytest.raises(
        openai.BadRequestError, match=r"messages\.0\.name: this model has several speakers \(Ann, Bob\)"
    ):
        client.chat.completions.create(model="many", messages=unnamed)
    (expected,) = live.registry.models["many"].predictor.reply([[DialogueTurn("Bob", "hello")]])
    named: list[Any] = [{"role": "user", "name": "Bob", "content": "hello"}]
    found = client.chat.completions.create(model="many", messages=named, seed=1)
    assert found.choices[0].message.content == expected.text


def test_vectors_are_those_of_the_model_however_they_are_sent(client: openai.OpenAI, live: LiveServer) -> None:
    texts = ["the cat", "a dog sat on the mat"]
    expected = live.registry.models["en-de"].predictor.embed(texts)
    by_default = client.embeddings.create(model="en-de", input=texts)
    as_numbers = client.embeddings.create(model="en-de", input=texts, encoding_format="float")
    for found in (by_default, as_numbers):
        assert [each.index for each in found.data] == [0, 1]
        assert np.array([each.embedding for each in found.data]) == pytest.approx(expected, abs=1e-5)
        assert (found.usage.prompt_tokens, found.usage.total_tokens) == (8, 8)
    raw = client.embeddings.with_raw_response.create(model="en-de", input="the cat", encoding_format="base64")
    assert isinstance(json.loads(raw.content)["data"][0]["embedding"], str)
    single = client.embeddings.create(model="en-de", input="the cat", dimensions=16, extra_body={"normalise": True})
    vector = np.array(single.data[0].embedding)
    assert vector == pytest.approx(expected[0] / np.linalg.norm(expected[0]), abs=1e-5)


def test_what_is_wrong_is_a_typed_exception(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="vectors of this model have 16") as wrong:
        client.embeddings.create(model="en-de", input="a", dimensions=7)
    assert wrong.value.param == "dimensions"
    with pytest.raises(openai.BadRequestError, match="not among those that write: tales, odd/pieces"):
        client.completions.create(model="talk", prompt="a")
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gone", messages=[{"role": "user", "content": "a"}])
    assert (missing.value.code, missing.value.param, missing.value.type) == (
        "model_not_found",
        "model",
        "invalid_request_error",
    )
    with pytest.raises(openai.BadRequestError, match="takes no instructions"):
        client.chat.completions.create(model="talk", messages=[{"role": "system", "content": "Be kind."}])


def test_the_client_asks_again_when_it_is_told_to(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = live.registry.models["en-de"]
    ask, asked = model.run, list[int]()

    async def refused_at_first(*given: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise queue_full()
        return await ask(*given)

    monkeypatch.setattr(model, "run", refused_at_first)
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as once:
        with pytest.raises(openai.RateLimitError) as busy:
            once.embeddings.create(model="en-de", input="the")
        assert busy.value.response.headers["retry-after"] == "1"
        assert busy.value.code == "overloaded"
        asked.clear()
        with once.with_options(max_retries=1) as twice:
            assert len(twice.embeddings.create(model="en-de", input="the").data) == 1
    assert len(asked) == 2


def test_a_key_is_what_the_client_sends(folders: dict[str, Path], tmp_path: Path) -> None:
    _, key = add_key(tmp_path / "keys", "somebody")
    registry = open_registry({"tales": folders["tales"]}, access={"keys": str(tmp_path / "keys")})
    with (
        run_server(registry) as live,
        openai.OpenAI(base_url=f"{live.url}/v1", api_key="guess", max_retries=0) as client,
    ):
        for ask in (client.models.list, lambda: client.completions.create(model="tales", prompt="a")):
            with pytest.raises(openai.AuthenticationError) as barred:
                ask()
            assert barred.value.code == "invalid_api_key"
        with client.with_options(api_key=key) as known:
            assert known.completions.create(model="tales", prompt="a", max_tokens=1, seed=1).choices


def test_many_ask_at_the_same_time(live: LiveServer, client: openai.OpenAI) -> None:
    prompts = ["the", "a dog", "odd", "", "the cat sat"]
    fields: dict[str, Any] = {"model": "tales", "seed": 3, "temperature": 1, "max_tokens": 12}
    alone = [client.completions.create(**fields, prompt=prompt).choices[0].text for prompt in prompts]

    async def together() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as many:

            async def heard(prompt: str) -> str:
                stream = await many.completions.create(**fields, prompt=prompt, stream=True)
                return "".join([event.choices[0].text async for event in stream])

            async def told(prompt: str) -> str:
                return (await many.completions.create(**fields, prompt=prompt)).choices[0].text

            return await asyncio.gather(*map(heard, prompts), *map(told, prompts))

    assert asyncio.run(together()) == [*alone, *alone]
