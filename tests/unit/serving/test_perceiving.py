"""Sounds, pictures and clips are sent over HTTP: the records of the commands, and what is no such thing."""

from __future__ import annotations

import base64
import io
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import audio_samples
import numpy as np
import pytest
import soundfile
from live_server import LiveServer, ServerResponse, open_registry, run_server
from safetensors.numpy import save as safetensors
from task_runs import create_task_runs, read_clip, read_picture, read_recording
from untrained_runs import create_untrained_run

from heedful import load
from heedful.data import sound as sounds
from heedful.data.pictures import encode_png
from heedful.serving.api import media, uploads
from heedful.serving.load_models import warm_up_models

MANY = 60_000
"""Bytes of a file that the server takes."""


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("perceived")


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, Path]:
    return create_task_runs(folder)


@pytest.fixture(scope="module")
def live(made: dict[str, Path]) -> Iterator[LiveServer]:
    names = ("caption", "detect", "transcribe", "watch", "look", "fill")
    registry = open_registry(
        {name: made[name] for name in names}, limits={"characters": 500, "file": MANY, "tokens": 40}
    )
    with run_server(registry) as running:
        yield running


@pytest.fixture(autouse=True)
def _left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever is answered, no file stays behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert [each for each in tmp_path.iterdir() if each.name.startswith(("heedful-", "tmp"))] == []


def ask(live: LiveServer, name: str, **message: Any) -> ServerResponse:
    return live.ask(f"/v1/heedful/{name}", {key: _sendable(value) for key, value in message.items()})


def _sendable(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return [_sendable(each) for each in value] if isinstance(value, list) else value


def answers(live: LiveServer, name: str, **message: Any) -> Any:
    answer = ask(live, name, **message)
    assert answer.status == 200, answer.body
    return answer.json["answers"]


def form(live: LiveServer, name: str, parts: list[tuple[str, str | bytes]]) -> Any:
    """The answers to a form, whose files have names of files that are there."""
    body = b""
    for field, value in parts:
        named = '; filename="/etc/passwd"' if isinstance(value, bytes) else ""
        content = value if isinstance(value, bytes) else value.encode()
        body += f'--x\r\nContent-Disposition: form-data; name="{field}"{named}\r\n\r\n'.encode() + content + b"\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = live.ask(f"/v1/heedful/{name}", body + b"--x--\r\n", headers=headers)
    assert answer.status == 200, answer.body
    return answer.json["answers"]


def written(run: Path, *inputs: Any) -> list[Any]:
    """What the command of a run writes of these."""
    lines: Any = load(run, device="cpu").line_format()
    told = [lines.to_json(each) for each in lines.answer_inputs(inputs, start=1)]
    found: list[Any] = json.loads(json.dumps(told))
    return found


def near(found: Any, expected: Any) -> bool:
    """The same, but for the last digits of numbers."""
    if isinstance(expected, Mapping):
        return found.keys() == expected.keys() and all(near(found[key], each) for key, each in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(near, found, expected))
    return bool(found == (pytest.approx(expected, abs=1e-5) if isinstance(expected, float) else expected))


def events(body: bytes) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in body.decode().strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def frames(count: int, *, size: int = 12) -> list[bytes]:
    return [encode_png(np.full((size, size, 3), 20 * number, dtype=np.uint8)) for number in range(count)]


# --- memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least"), [("caption", 32 * 32 * 32), ("look", 32 * 32 * 32), ("transcribe", 16 * 800)]
)
def test_memory_is_reserved_before_anything_is_decoded(
    live: LiveServer, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, least: int
) -> None:
    used: list[int] = []
    for module, decode in ((uploads, "decode_picture"), (sounds, "decode_sound")):
        found = getattr(module, decode)

        def decoded(*given: Any, found: Any = found, **named: Any) -> Any:
            used.append(live.registry.decoding_memory.used_bytes)
            return found(*given, **named)

        monkeypatch.setattr(module, decode, decoded)
    answers(
        live, name, **({"sound": read_recording(folder)} if name == "transcribe" else {"image": read_picture(folder)})
    )
    assert len(used) == 1 and least <= used[0] < 10**8
    assert live.registry.decoding_memory.used_bytes == 0


def test_clips_are_read_in_memory_that_is_reserved(
    live: LiveServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    face, used = live.registry.models["watch"].predictor, list[int]()
    read = face.read_clip

    def reading(path: Path) -> Any:
        used.append(live.registry.decoding_memory.used_bytes)
        return read(path)

    monkeypatch.setattr(face, "read_clip", reading)
    answers(live, "caption", clip=read_clip(folder))
    answers(live, "caption", frames=frames(3, size=40))
    assert used[0] > 2 * 12 * 12 * 3 and used[1] == 32 * 40 * 40
    assert live.registry.decoding_memory.used_bytes == 0


def test_pictures_are_decoded_one_behind_the_other(made: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    size, at_once, most, guarding = 32 * 64 * 64, 0, 0, threading.Lock()
    decode = uploads.decode_picture

    def decoded(*given: Any, **named: Any) -> Any:
        nonlocal at_once, most
        with guarding:
            at_once += 1
            most = max(most, at_once)
        try:
            time.sleep(0.01)
            return decode(*given, **named)
        finally:
            with guarding:
                at_once -= 1

    monkeypatch.setattr(uploads, "decode_picture", decoded)
    with run_server(open_registry({"look": made["look"]}, limits={"decoding": size})) as running:
        with ThreadPoolExecutor(6) as threads:
            found = threads.map(lambda content: ask(running, "look", image=content), frames(6, size=64))
            assert [each.status for each in found] == [200] * 6
        assert most == 1
        answer = ask(running, "look", image=frames(1, size=65)[0])
        assert (answer.status, answer.json["error"]["param"]) == (413, "image")
        assert f"needs {32 * 65 * 65:,} bytes of memory" in answer.json["error"]["message"]


# --- answers ----------------------------------------------------------------------------------------------


def test_what_is_asked_of_each_is_told(live: LiveServer) -> None:
    told = {each["name"]: each for each in live.ask("/v1/heedful").json["models"]}
    assert {name: each.get("takes", "text") for name, each in told.items()} == {
        "caption": "picture",
        "detect": "text",
        "transcribe": "sound",
        "watch": "clip",
        "look": "picture",
        "fill": "text",
    }
    assert told["detect"]["does"] == ["detect", "embed", "inspect"]
    assert told["watch"]["does"] == ["caption", "inspect"]
    assert told["look"]["does"] == ["look", "inspect"]
    assert told["transcribe"]["does"] == ["transcribe", "inspect"]


def test_replaced_tokens_are_those_of_the_command(live: LiveServer, made: dict[str, Path]) -> None:
    texts = ["eins zwei .", ""]
    expected = written(made["detect"], *texts)
    assert [each["piece"] for each in expected[0]] == ["eins", "zwei", "."]
    assert near(answers(live, "detect", texts=texts), expected)
    assert near(answers(live, "detect", texts=texts[0]), expected[:1])


def test_what_is_said_is_that_of_the_command_however_it_is_sent(live: LiveServer, made: dict[str, Path]) -> None:
    folder = made["transcribe"].parent
    (expected,) = written(made["transcribe"], str(folder / "tones/0.wav"))
    expected = {**expected, "sound": "1"}
    content = read_recording(folder)
    encoded = base64.b64encode(content).decode()
    for given in (content, f"data:audio/wav;base64,{encoded}"):
        assert near(answers(live, "transcribe", sound=given), [expected])
    assert near(form(live, "transcribe", [("sound", content), ("model", "transcribe")]), [expected])
    samples, rate = soundfile.read(io.BytesIO(content))
    flac = io.BytesIO()
    soundfile.write(flac, samples, rate, format="FLAC")
    assert near(answers(live, "transcribe", sound=flac.getvalue()), [expected])


def test_options_of_a_transcript(live: LiveServer, made: dict[str, Path]) -> None:
    content = read_recording(made["transcribe"].parent)
    (several,) = answers(live, "transcribe", sound=content, n_best=3, beam=4)
    assert len(several["candidates"]) == 3
    (short,) = answers(live, "transcribe", sound=content, max_ratio=0.0, max_extra=1)
    assert len(short["candidates"][0]["tokens"]) <= 1
    (greedy,) = answers(live, "transcribe", sound=content, search="greedy")
    assert greedy["seconds"] == several["seconds"]
    drawn = [
        answers(live, "transcribe", sound=content, search="sampling", temperature=3.0, seed=seed)[0]["candidates"]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize("name", ["caption", "watch", "transcribe"])
def test_texts_are_told_while_they_grow(live: LiveServer, made: dict[str, Path], name: str, search: str) -> None:
    folder = made[name].parent
    sent: dict[str, Any] = {
        "caption": {"image": read_picture(folder)},
        "watch": {"clip": read_clip(folder), "align": True},
        "transcribe": {"sound": read_recording(folder)},
    }[name]
    route = "transcribe" if name == "transcribe" else "caption"
    message = {**sent, "model": name, "search": search}
    whole = answers(live, route, **message)
    answer = ask(live, route, **message, stream=True)
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")
    *growing, (last, record) = events(answer.body)
    assert (last, record["model"]) == ("record", name)
    assert near(record["answers"], whole)
    tokens = whole[0]["candidates"][0]["tokens"]
    assert len(growing) >= len(tokens) - 1 > 0
    for event, told in growing:
        assert event == "growing"
        assert search == "beam" or told["tokens"] == tokens[: len(told["tokens"])]


def test_clips_are_captioned_however_they_are_sent(live: LiveServer, made: dict[str, Path]) -> None:
    content = read_clip(made["watch"].parent)
    path = next((made["watch"].parent / "clips").glob("*.npz"))
    (expected,) = written(made["watch"], str(path))
    expected = {**expected, "clip": "1"}
    assert near(answers(live, "caption", clip=content), [expected])
    assert near(form(live, "caption", [("clip", content)]), [expected])
    several = [encode_png(each) for each in np.load(path)["frames"]]
    assert near(answers(live, "caption", frames=several), [expected])
    assert near(form(live, "caption", [("frames", each) for each in several]), [expected])


def test_where_a_caption_of_a_clip_looked(live: LiveServer) -> None:
    (found,) = answers(live, "caption", frames=frames(11), align=True)
    looked = found["looked"]
    assert looked["frames"] == sorted(set(looked["frames"]))
    assert len(looked["frames"]) == 8
    assert max(looked["frames"]) > 8
    weights = np.array(looked["weights"])
    assert weights.shape == (len(looked["tokens"]), 8)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-3)


def test_frames_are_in_the_order_in_which_they_are_sent(
    live: LiveServer, made: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "many").mkdir()
    for number, content in enumerate(frames(12), 1):
        (tmp_path / "many" / f"{number:03}.png").write_bytes(content)
    (expected,) = written(made["watch"], str(tmp_path / "many"))
    assert near(answers(live, "caption", frames=frames(12)), [{**expected, "clip": "1"}])


def video(path: Path, shown: np.ndarray) -> bytes:
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.height, stream.width = shown.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for each in shown:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(each, format="rgb24")))
        container.mux(stream.encode())
    return path.read_bytes()


def watcher(folder: Path, clips: Mapping[str, bytes], *, data: Mapping[str, Any], **model: Any) -> Path:
    """A run that nobody trained of clips that a folder then holds."""
    for name, content in clips.items():
        (folder / name).write_bytes(content)
    rows = [json.dumps({"clip": name, "captions": ["a dog runs"]}) + "\n" for name in clips]
    (folder / "clips.jsonl").write_text("".join(rows), encoding="utf-8")
    part = {"path": str(folder / "clips.jsonl")}
    decoder = {"kind": "recurrent", "reading": {"kind": "bahdanau"}}
    return create_untrained_run(
        {
            "task": "video",
            "output": str(folder / "run"),
            "data": {"train": part, "validation": part, "frames": 4, "frame_size": 12, "max_length": 8, **data},
            "model": {"d_model": 8, "decoder": decoder, "local": False, **model},
            "training": {"steps": 1},
            "generation": {"kind": "greedy", "max_extra": 6},
        }
    )


def test_features_are_sent_where_a_model_learned_from_them(tmp_path: Path) -> None:
    features = np.arange(24, dtype=np.float32).reshape(6, 4) / 24
    content = safetensors({"features": features})
    run = watcher(tmp_path, {"a.safetensors": content, "b.safetensors": content}, data={"features": 4})
    (expected,) = written(run, str(tmp_path / "a.safetensors"))
    registry = open_registry({"watch": run})
    said: list[str] = []
    warm_up_models(registry, said.append)
    assert said == []
    with run_server(registry) as live:
        assert near(answers(live, "caption", clip=content), [{**expected, "clip": "1"}])
        assert ask(live, "inspect", clip=content).status == 200
        for given in ({"clip": b"hello"}, {"clip": safetensors({"features": features[:, :3]})}, {"frames": frames(2)}):
            answer = ask(live, "caption", **given)
            assert answer.status == 400, given
            assert answer.json["error"]["message"].startswith((*given,)), answer.body


@pytest.mark.parametrize("workers", [0, 1])
def test_a_video_is_sent_to_a_model_whose_network_learns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr("heedful.tasks.captioning.task.load_backbone_weights", lambda _, network: network.eval())
    shown = np.stack([np.full((16, 24, 3), 40 * number, np.uint8) for number in range(6)])
    content = video(tmp_path / "a.mp4", shown)
    frozen = {"kind": "resnet", "depth": 18, "stride": 8, "weights": str(tmp_path / "a.mp4")}
    run = watcher(tmp_path, {"b.mp4": content}, data={}, frames=frozen)
    (expected,) = written(run, str(tmp_path / "a.mp4"))
    registry = open_registry({"watch": run}, workers=workers)
    with run_server(registry) as live:
        assert near(answers(live, "caption", clip=content), [{**expected, "clip": "1"}])
        record = ask(live, "inspect", clip=content).json["record"]
        assert any(axis.get("pictures") for axis in record["axes"]), "one sees the frames"
        half = ask(live, "caption", clip=content[: len(content) // 2])
        assert half.status == 400
        assert half.json["error"]["message"].startswith("clip: is damaged, or not a video")
    registry.models["watch"].close()


def test_what_is_seen_is_that_of_the_command(live: LiveServer, made: dict[str, Path], tmp_path: Path) -> None:
    lines = load(made["look"], device="cpu").line_format()
    content = read_picture(made["look"].parent)
    (tmp_path / "a.png").write_bytes(content)
    inputs = list(lines.parse_lines([str(tmp_path / "a.png")], source_name="here"))
    (expected,) = json.loads(json.dumps([lines.to_json(each) for each in lines.answer_inputs(inputs, start=1)]))
    assert len(expected["glimpses"]) == 3
    assert near(answers(live, "look", image=content), [{**expected, "picture": "1"}])
    assert near(form(live, "look", [("image", content)]), [{**expected, "picture": "1"}])


def test_what_is_sent_says_which_captioner_is_meant(live: LiveServer, made: dict[str, Path]) -> None:
    folder = made["watch"].parent
    for given, model in (({"image": read_picture(folder)}, "caption"), ({"clip": read_clip(folder)}, "watch")):
        assert ask(live, "caption", **given).json["model"] == model
    answer = ask(live, "caption", image=read_picture(folder), model="watch")
    assert answer.status == 400
    assert "describe pictures: caption" in answer.json["error"]["message"]


# --- inspection -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "name", "more"),
    [
        ("transcribe", "sound", {}),
        ("transcribe", "sound", {"pair": "low mid", "beam": 2}),
        ("watch", "clip", {}),
        ("watch", "clip", {"pair": "a red square moves"}),
        ("watch", "frames", {}),
        ("caption", "image", {}),
        ("look", "image", {}),
    ],
)
def test_what_is_sent_can_be_looked_at(
    live: LiveServer, made: dict[str, Path], model: str, name: str, more: Any
) -> None:
    folder = made[model].parent
    sendable = {
        "sound": read_recording(folder),
        "clip": read_clip(folder),
        "frames": frames(3),
        "image": read_picture(folder),
    }
    answer = ask(live, "inspect", model=model, **{name: sendable[name]}, **more)
    assert answer.status == 200, answer.body
    record = answer.json["record"]
    assert record["maps"] or record["glimpses"]
    assert record["title"] == "1"
    assert "heedful-" not in answer.body.decode()
    page = ask(live, "inspect", model=model, **{name: sendable[name]}, **more, format="page")
    assert page.headers["content-type"].startswith("text/html")


def test_detectors_can_be_looked_at(live: LiveServer, made: dict[str, Path]) -> None:
    record = ask(live, "inspect", model="detect", text="eins zwei").json["record"]
    expected = load(made["detect"], device="cpu").inspect("eins zwei")
    assert len(record["answers"]) == len(expected.answers) == 2
    assert len(record["maps"]) == len(expected.maps)


# --- refusals ---------------------------------------------------------------------------------------------

NO_SOUNDS: Mapping[str, str | bytes] = {
    "nothing": b"",
    "a text": b"hello",
    "half a head": audio_samples.encode_tones(["low"])[:30],
    "no samples": audio_samples.encode_tones(["low"])[:44],
    "not base 64": "no base 64!",
    "a path": "/etc/passwd",
}
NO_CLIPS: Mapping[str, str | bytes] = {
    "nothing": b"",
    "a text": b"hello",
    "a broken archive": b"PK\x03\x04 and nothing",
    "a playlist": b"#EXTM3U\nfile:///etc/passwd\n",
    "not base 64": "no base 64!",
    "a path": "/etc/passwd",
}


@pytest.mark.parametrize("which", NO_SOUNDS)
def test_what_is_no_sound_is_refused(live: LiveServer, which: str) -> None:
    for name in ("transcribe", "inspect"):
        answer = ask(live, name, sound=NO_SOUNDS[which], model="transcribe")
        assert answer.status == 400, answer.body
        assert answer.json["error"]["message"].startswith("sound"), answer.body


@pytest.mark.parametrize("which", NO_CLIPS)
def test_what_is_no_clip_is_refused(live: LiveServer, which: str) -> None:
    for name in ("caption", "inspect"):
        answer = ask(live, name, clip=NO_CLIPS[which], model="watch")
        assert answer.status == 400, answer.body
        assert answer.json["error"]["message"].startswith("clip"), answer.body
        assert "/tmp" not in answer.json["error"]["message"]


@pytest.mark.parametrize("image", ["", "no base 64!", "/etc/passwd", "aGVsbG8="])
def test_what_is_no_picture_is_not_looked_at(live: LiveServer, image: str) -> None:
    for name in ("look", "inspect"):
        answer = ask(live, name, image=image, model="look")
        assert answer.status == 400, answer.body
        assert answer.json["error"]["message"].startswith("image"), answer.body


def test_frames_that_are_no_pictures_are_named(live: LiveServer) -> None:
    answer = ask(live, "caption", frames=[*frames(2), b"hello"])
    assert answer.status == 400
    assert "frames.3: is not a picture" in answer.json["error"]["message"]


def test_pictures_of_writing_are_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    """They are sent as sounds are; what is too wide or no picture is refused."""
    folder = tmp_path_factory.mktemp("written")
    files = {f"{digit}.png": np.full((8, 60 + digit, 3), 255, np.uint8) for digit in range(4)}
    for digit, (name, picture) in enumerate(files.items()):
        picture[:, 20 * digit : 20 * digit + 4] = 0
        (folder / name).write_bytes(encode_png(picture))
    (folder / "lines.tsv").write_text("".join(f"{name}\t{name[0]}\n" for name in files), encoding="utf-8")
    lines = {"path": str(folder / "lines.tsv")}
    data = {"train": lines, "validation": lines, "frames": {"kind": "columns", "height": 8}, "max_seconds": 2}
    model = {"kind": "recurrent", "d_model": 8, "channels": 2, "ctc_weight": 1}
    table = {"task": "speech", "data": data, "model": model, "training": {"steps": 1}, "output": str(folder / "run")}
    (expected,) = written(create_untrained_run(table), str(folder / "2.png"))
    with run_server(open_registry({"read": folder / "run"}, limits={"file": MANY})) as live:
        found = answers(live, "transcribe", sound=(folder / "2.png").read_bytes())
        wide = ask(live, "transcribe", sound=encode_png(np.zeros((8, 201, 3), np.uint8)))
        other = ask(live, "transcribe", sound=audio_samples.encode_tones(["low"]))
        warm_up_models(live.registry, (problems := list[str]()).append)
    assert problems == []
    assert near(found, [{**expected, "sound": "1"}])
    assert (wide.status, other.status) == (400, 400)
    assert "sound: has 201 columns if it is 8 pixels high" in wide.json["error"]["message"]
    assert "sound: is not a picture" in other.json["error"]["message"]


def test_what_is_longer_than_a_model_listens_to_is_not_decoded(live: LiveServer) -> None:
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(8000 * 600, np.float32), 8000, format="FLAC")
    assert len(silence.getvalue()) < MANY
    answer = ask(live, "transcribe", sound=silence.getvalue())
    assert answer.status == 400
    assert "sound: has more than 2 s" in answer.json["error"]["message"]


def test_files_have_a_limit_of_their_own(live: LiveServer) -> None:
    for name, field in (("transcribe", "sound"), ("look", "image"), ("caption", "clip")):
        answer = ask(live, name, **{field: bytes(MANY + 1)})
        assert answer.status == 400
        assert f"{field}: {MANY + 1:,} bytes" in answer.json["error"]["message"]
    answer = ask(live, "caption", frames=[encode_png(np.zeros((8, 8, 3), np.uint8)), bytes(MANY - 10)])
    assert answer.status == 400
    assert f"frames.2: {MANY - 10:,} bytes" in answer.json["error"]["message"]


def test_a_small_file_of_many_frames_is_not_decoded(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    held = io.BytesIO()
    np.savez_compressed(held, frames=np.zeros((400, 40, 40, 3), np.uint8))
    assert len(held.getvalue()) < MANY
    assert ask(live, "caption", clip=held.getvalue()).status == 200
    monkeypatch.setattr(media, "_MAX_ARRAY_BYTES", 400 * 40 * 40)
    for name in ("caption", "inspect"):
        answer = ask(live, name, clip=held.getvalue(), model="watch")
        assert answer.status == 400
        assert "bytes of frames; this server decodes at most 640,000" in answer.json["error"]["message"]


def test_pictures_of_a_clip_may_not_claim_any_number_of_pixels(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_MAX_TOTAL_PIXELS", 3 * 12 * 12)
    assert ask(live, "caption", frames=frames(3)).status == 200
    answer = ask(live, "caption", frames=frames(4))
    assert answer.status == 400
    assert "frames.4: has more than 0 pixels" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("name", "message", "words"),
    [
        ("detect", {}, "texts"),
        ("detect", {"texts": "a" * 501}, "501 characters"),
        ("transcribe", {}, "sound"),
        ("transcribe", {"sound": "a", "n_best": 12}, "n_best: 12"),
        (
            "transcribe",
            {"sound": audio_samples.encode_tones(["low"]), "beam": 2, "search": "greedy"},
            "beam: does not fit search",
        ),
        ("transcribe", {"sound": audio_samples.encode_tones(["low"]), "max_extra": 100}, "max_ratio, max_extra"),
        ("transcribe", {"sound": audio_samples.encode_tones(["low"]), "coverage": 0.1, "search": "beam"}, "coverage"),
        ("transcribe", {"sound": audio_samples.encode_tones(["low"] * 20)}, "sound: has more than 2 s"),
        ("transcribe", {"sound": audio_samples.encode_tones(["low"]), "image": "a"}, "image"),
        ("caption", {}, "image or clip or frames"),
        ("caption", {"image": "a", "clip": "a"}, "image, clip: this model takes image or clip or frames"),
        ("caption", {"frames": []}, "frames"),
        ("look", {}, "image"),
        ("inspect", {"model": "look", "text": "a"}, "text: this model reads none"),
        ("inspect", {"model": "look", "image": "a", "beam": 2}, "beam: this model does not write text"),
        ("inspect", {"model": "look", "sound": "a"}, "sound: this model takes image"),
        ("inspect", {"model": "transcribe", "sound": "a", "tokens": 2}, "tokens"),
        ("inspect", {"model": "transcribe"}, "sound: this model takes sound"),
        ("inspect", {"model": "watch", "image": "a"}, "image: this model takes clip or frames"),
        ("inspect", {"model": "fill", "text": "eins [MASK]", "sound": "a"}, "sound: this model reads texts"),
    ],
)
def test_what_is_wrong_with_what_is_sent_is_said(
    live: LiveServer, name: str, message: dict[str, Any], words: str
) -> None:
    answer = ask(live, name, **message)
    assert answer.status == 400, answer.body
    assert words in answer.json["error"]["message"]
