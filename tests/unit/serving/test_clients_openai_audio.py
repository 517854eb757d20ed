"""Sounds are sent by OpenAI's own client."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import audio_samples
import pytest
from live_server import LiveServer, open_registry, run_server
from task_runs import create_task_runs, read_recording

from heedful import load

openai = pytest.importorskip("openai", reason="openai is not installed")


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return create_task_runs(tmp_path_factory.mktemp("listening"))


@pytest.fixture(scope="module")
def live(made: dict[str, Path]) -> Iterator[LiveServer]:
    with run_server(
        open_registry({"whisper-1": made["transcribe"], "t": made["tag"]}, limits={"file": 40_000})
    ) as found:
        yield found


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as found:
        yield found


@pytest.fixture(scope="module")
def path(made: dict[str, Path]) -> Path:
    return made["transcribe"].parent / "tones/0.wav"


def test_each_form_of_an_answer(client: openai.OpenAI, made: dict[str, Path], path: Path) -> None:
    (expected,) = load(made["transcribe"], device="cpu").transcribe([path])
    plain = client.audio.transcriptions.create(model="whisper-1", file=path)
    assert plain.text == expected.text
    assert plain.usage is not None
    assert plain.usage.to_dict() == {"type": "duration", "seconds": 1}
    text = client.audio.transcriptions.create(model="whisper-1", file=path, response_format="text")
    assert text == f"{expected.text}\n"
    told = client.audio.transcriptions.create(
        model="whisper-1", file=path, response_format="verbose_json", language="de", temperature=0
    )
    assert (told.text, told.duration, told.language) == (expected.text, expected.seconds, "de")


def test_a_temperature_draws(client: openai.OpenAI, path: Path) -> None:
    texts = [
        client.audio.transcriptions.create(model="whisper-1", file=path, temperature=each).text for each in (0, 1, 1)
    ]
    assert texts[1] == texts[2] != texts[0]


def test_a_text_is_told_while_it_grows(client: openai.OpenAI, path: Path) -> None:
    for temperature in (0, 1):
        whole = client.audio.transcriptions.create(model="whisper-1", file=path, temperature=temperature).text
        told = client.audio.transcriptions.create(model="whisper-1", file=path, temperature=temperature, stream=True)
        *parts, done = list(told)
        assert {part.type for part in parts} == {"transcript.text.delta"}
        assert (done.type, done.text) == ("transcript.text.done", whole)
        assert "".join(part.delta for part in parts) == whole
        assert len(parts) == (1 if temperature == 0 else len(whole.split()))


def test_json_has_the_same_in_base_64(live: LiveServer, made: dict[str, Path]) -> None:
    content = base64.b64encode(read_recording(made["transcribe"].parent)).decode()
    answer = live.ask("/v1/audio/transcriptions", {"file": content})
    assert answer.status == 200
    assert answer.json.keys() == {"text", "usage"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stream": True, "response_format": "text"}, "response_format: a stream is of JSON"),
        ({"prompt": "hello"}, "prompt: is not supported here"),
        ({"response_format": "srt"}, "response_format: input should be 'json', 'text' or 'verbose_json'"),
        ({"response_format": "verbose_json", "timestamp_granularities": ["word"]}, "timestamp_granularities: is not"),
        ({"temperature": 2}, "temperature"),
        ({"model": "t"}, "is not among those that transcribe sounds: whisper-1"),
        ({"file": ("a.wav", b"hello")}, "file: is not a sound"),
        ({"file": ("a.wav", b"")}, "file: is not a sound"),
        ({"file": ("a.wav", audio_samples.encode_tones(["low"] * 15))}, "file: has more than 2 s"),
        ({"file": ("a.wav", bytes(40_001))}, "file: 40,001 bytes"),
    ],
)
def test_what_is_not_done_is_refused(client: openai.OpenAI, path: Path, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.transcriptions.create(**{"model": "whisper-1", "file": path, **fields})
    assert words in str(refused.value)


def test_nobody_who_only_reads_listens(made: dict[str, Path]) -> None:
    with run_server(open_registry({"t": made["tag"]})) as live:
        assert live.ask("/v1/audio/transcriptions", {"file": "a"}).status == 404
