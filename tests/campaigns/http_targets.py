"""Bodies for every route of a server, sent to the app in this process."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import task_runs
from campaigns.mutations import VALUES, mutate_json
from live_server import open_registry
from localisation_documents import OFFICE, SAMPLES, build_zip
from untrained_runs import create_untrained_run

_EXPECTED_STATUSES = {503, 504, 507}
_LIMITS = {"deadline": 5, "tokens": 40, "characters": 2000, "batch": 8}


@dataclass(frozen=True)
class HttpSample:
    """A request that is answered with 200."""

    path: str
    content: dict[str, Any] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Uploaded files by field, each with its name."""
    schema: dict[str, Any] = field(default_factory=dict)
    """Schemas of the fields."""


def create_runs(folder: Path) -> dict[str, Path]:
    """Create a run of each task, and one that names its languages."""
    runs = task_runs.create_task_runs(folder)
    text = {"source": str(folder / "t.en"), "target": str(folder / "t.de")}
    named = {**text, "source_language": "en", "target_language": "de"}
    runs["en-de"] = create_untrained_run(
        {
            "output": str(folder / "en-de"),
            "data": {"train": named, "validation": named, "max_length": 24},
            "tokenizer": {"kind": "words"},
            "model": task_runs.STACK,
            "training": {"steps": 1},
            "generation": {"width": 2, "max_extra": 6},
        }
    )
    return runs


class InProcessServer:
    """The app of a server with small models, and samples for its routes.

    Args:
        runs: the models.
        folder: folder of `create_runs`.
    """

    def __init__(self, runs: dict[str, Path], folder: Path) -> None:
        from heedful.serving.app import build_app

        self.registry = open_registry(runs, limits=_LIMITS)
        self.app = build_app(self.registry)
        self.loop = asyncio.new_event_loop()
        _, spec = self.send("GET", "/spec", b"")
        self.samples = list(_list_samples(json.loads(spec), folder))

    def send(
        self, method: str, path: str, body: bytes, *, content_type: str = "application/json", parts: int = 1
    ) -> tuple[int, bytes]:
        """Send a request to the app; return the status and the body of the response."""
        return self.loop.run_until_complete(self._send(method, path, body, content_type, parts))

    async def _send(self, method: str, path: str, body: bytes, content_type: str, parts: int) -> tuple[int, bytes]:
        size = -(-len(body) // parts) or 1
        waiting = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
        messages: list[Any] = []

        async def receive() -> Any:
            if not waiting:
                await asyncio.sleep(3600)  # a client that waits for the answer
            part = waiting.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(waiting)}

        async def send(message: Any) -> None:
            messages.append(message)

        headers = {"host": "localhost", "content-type": content_type, "content-length": str(len(body))}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 80),
        }
        await asyncio.wait_for(self.app(scope, receive, send), 30)
        return messages[0]["status"], b"".join(message.get("body", b"") for message in messages[1:])

    def send_mutation(self, sample: HttpSample, draw: random.Random) -> None:
        """Send a mutated request; raise `AssertionError` if the response is not one of a sound server."""
        body, content_type = mutate_request(sample, draw)
        status, answer = self.send("POST", sample.path, body, content_type=content_type, parts=draw.choice((1, 1, 3)))
        told = f"{sample.path} {status} {answer[:300]!r} for {content_type} {body[:600]!r}"
        assert status < 500 or status in _EXPECTED_STATUSES, told
        if status >= 400:
            error = json.loads(answer)
            assert error, told
            assert b"Traceback" not in answer, told


def _list_samples(spec: dict[str, Any], folder: Path) -> Sequence[HttpSample]:
    """Return a sample for each route that takes a body."""
    uploads = {
        "image": ("a.png", task_runs.read_picture(folder)),
        "clip": ("a.npz", task_runs.read_clip(folder)),
        "sound": ("a.wav", task_runs.read_recording(folder)),
    }
    found = []
    for path, methods in spec["paths"].items():
        for told in methods.values():
            for content in told.get("requestBody", {}).get("content", {}).values():
                schema = spec["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]["properties"]
                examples = [each["value"] for each in content.get("examples", {}).values()] or [_GIVEN.get(path, {})]
                found += [HttpSample(path, example, schema=schema) for example in examples]
    for path, name, model in (
        ("/v1/heedful/caption", "image", "caption"),
        ("/v1/heedful/caption", "clip", "watch"),
        ("/v1/heedful/transcribe", "sound", "transcribe"),
        ("/v1/heedful/look", "image", "look"),
        ("/v1/heedful/inspect", "image", "caption"),
        ("/v1/heedful/inspect", "sound", "transcribe"),
    ):
        found.append(HttpSample(path, {"model": model}, files={name: uploads[name]}))
        encoded = base64.b64encode(uploads[name][1]).decode()
        found.append(HttpSample(path, {"model": model, name: encoded}))
    found.append(HttpSample("/v1/audio/transcriptions", {"model": "transcribe"}, files={"file": uploads["sound"]}))
    languages = {"source": "en", "target": "de"}
    found.append(HttpSample("/translate", {"q": ["one two", "<b>a</b>"], **languages, "format": "html"}))
    found.append(HttpSample("/detect", {"q": "one two"}))
    documents = {**{n: text.encode() for n, text in SAMPLES.items()}, **{n: build_zip(m) for n, m in OFFICE.items()}}
    documents["a.txt"] = b"one two.\nthree\n"
    found += [HttpSample("/translate_file", languages, files={"file": item}) for item in documents.items()]
    return found


_GIVEN = {
    "/v1/heedful/score": {"pairs": [["1 2", "eins zwei"]]},
    "/v1/heedful/align": {"pairs": [["1 2", "eins zwei"]]},
}


def mutate_request(sample: HttpSample, draw: random.Random) -> tuple[bytes, str]:
    """Return the body and the content type of a mutation of a request."""
    content: Any = dict(sample.content)
    for _ in range(draw.choice((0, 1, 1, 2))):
        if sample.schema:
            name = draw.choice(sorted(sample.schema))
            content[name] = draw_value(sample.schema[name], draw)
    if draw.random() < 0.5:
        content = mutate_json(content, draw)
    if not sample.files:
        kind = draw.random()
        body = json.dumps(content).encode("utf-8", "replace")
        if kind < 0.2:
            from campaigns.grammar_mutations import mutate_text

            body = mutate_text(body, draw)
        if kind > 0.97 and isinstance(content, dict):
            return _build_form(content, {}, draw), "multipart/form-data; boundary=x"
        return body, draw.choice(
            ("application/json",) * 20 + ("text/plain", "application/x-www-form-urlencoded", "\xff")
        )
    files = {}
    for field_name, (name, data) in sample.files.items():
        from campaigns.grammar_mutations import mutate_sample

        given = draw.choice((name,) * 8 + ("../../x.po", "a" * 300 + ".srt", "", "x", "a.docx", "a.tmx", "a.html.gz"))
        files[field_name if draw.random() < 0.97 else "other"] = (
            given,
            mutate_sample([data], draw, name=name) if draw.random() < 0.9 else data,
        )
    form = _build_form(content if isinstance(content, dict) else {}, files, draw)
    if draw.random() < 0.1:
        from campaigns.mutations import mutate_bytes

        form = mutate_bytes(form, draw)
    return form, "multipart/form-data; boundary=" + draw.choice(("x",) * 20 + ("y", "", "\xe9", "x" * 300))


def _build_form(content: dict[str, Any], files: dict[str, tuple[str, bytes]], draw: random.Random) -> bytes:
    parts = []
    for name, value in content.items():
        told = value if isinstance(value, str) else json.dumps(value)
        head = f'Content-Disposition: form-data; name="{name}"'.encode("utf-8", "replace")
        parts.append(head + b"\r\n\r\n" + told.encode("utf-8", "replace"))
    for name, (file_name, data) in files.items():
        head = f'Content-Disposition: form-data; name="{name}"; filename="{file_name}"\r\nContent-Type: x/y'
        parts.append(head.encode() + b"\r\n\r\n" + data)
    draw.shuffle(parts)
    return b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n"


def draw_value(schema: dict[str, Any], draw: random.Random) -> Any:
    """Return a value that a schema mostly allows."""
    if draw.random() < 0.15:
        return draw.choice(VALUES)
    if "anyOf" in schema:
        return draw_value(draw.choice(schema["anyOf"]), draw)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return draw.random() < 0.5
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum", -3))
            most = min(schema.get("maximum", schema.get("exclusiveMaximum", 100)), 100)
            value = draw.choice((least, most, draw.uniform(least, max(least, most))))
            return value if schema["type"] == "number" else int(value)
        case "array":
            return [draw_value(schema.get("items", {}), draw) for _ in range(draw.choice((0, 1, 1, 2, 9)))]
        case "string":
            return draw.choice(("one two", "", "eins", "[MASK]", "<b>x</b>", "é" * 50, "\u202e\0", "a b c " * 100))
        case "object":
            return {"1": draw.choice((-100, 5, 1e9))}
    return draw.choice(VALUES)
