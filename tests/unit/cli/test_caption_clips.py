"""`heedful caption` of clips, and what else the command line says of models that look at them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from shape_checks import disable_shape_checks

import heedful
from heedful.data.pictures import encode_png
from heedful.recipes.load import load_recipe
from heedful.tasks.captioning.demonstration import VideoDemonstration

Say = Callable[..., object]


def shown(folder: Path) -> VideoDemonstration:
    return VideoDemonstration(output=folder, steps=4, clips=24, tests=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's files, and a run that learned for a second."""
    folder = tmp_path_factory.mktemp("video")
    recipe = shown(folder).write_recipe()
    options = ["--training.evaluate_every", "4", "--training.batch_tokens", "200", "--model.d_model", "16"]
    options += ["--model.frames.widths", "[4, 8]", "--model.motion.widths", "[4]", "--training.precision", "fp32"]
    with disable_shape_checks():
        heedful.train(load_recipe(recipe, options), device="cpu")
    return folder


@pytest.fixture(scope="module")
def clips(made: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One clip as an array, a folder of frames and a video."""
    av = pytest.importorskip("av")
    folder, array = tmp_path_factory.mktemp("clips"), made / "test/00000.npz"
    frames = np.load(array)["frames"]
    (folder / "frames").mkdir()
    for number, frame in enumerate(frames):
        (folder / "frames" / f"{number}.png").write_bytes(encode_png(frame))
    with av.open(str(folder / "clip.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.height, stream.width = frames.shape[1:3]
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return [array, folder / "frames", folder / "clip.mp4"]


def test_arrays_folders_and_videos_are_told(made: Path, clips: list[Path], say: Say) -> None:
    told = say("caption", made / "run", *clips)
    assert told.code == 0, told.err
    rows = [line.split("\t") for line in told.lines]
    assert [name for name, _ in rows] == list(map(str, clips))
    assert rows[0][1] == rows[1][1]
    record = json.loads(say("caption", made / "run", clips[0], "--format", "jsonl").out)
    assert record["clip"] == str(clips[0])
    assert record["caption"] == rows[0][1]


def test_groups_go_for_clips_and_coverage_does_not(made: Path, clips: list[Path], say: Say) -> None:
    words = ("caption", made / "run", clips[0])
    own = json.loads(say(*words, "--format", "jsonl", "--beam", "4", "--groups", "2", "--n-best", "4").out)
    texts = [each["text"] for each in own["candidates"]]
    assert 1 < len(texts) == len(set(texts))
    assert say(*words, "--coverage", "0.2").complaint.startswith("coverage: needs attention to a source text")


def test_a_page_shows_frames_and_words(made: Path, clips: list[Path], say: Say, tmp_path: Path) -> None:
    told = say("caption", made / "run", *clips, "--page", tmp_path / "page.html")
    assert told.code == 0, told.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(str(clip) in page for clip in clips)
    assert "What the clips show" in page
    assert page.count("data:image/png;base64,") >= 3


def test_a_clip_that_cannot_be_read_is_named(made: Path, say: Say, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"no video")
    assert (
        "a.mp4: is damaged, or not a video of a known format"
        in say("caption", made / "run", tmp_path / "a.mp4").complaint
    )
    assert "does not name a clip; remove the line" in say("caption", made / "run", "").complaint


def test_a_run_is_evaluated_compared_and_inspected(made: Path, clips: list[Path], say: Say, tmp_path: Path) -> None:
    told = say("evaluate", made / "run")
    assert told.code == 0, told.err
    for name in ("exact match", "BLEU-4", "CIDEr-D", "attention mass"):
        assert name in told.out
    compared = say("compare", made / "run", "--samples", "10")
    assert compared.code == 0, compared.err
    assert "attention mass" in compared.out
    found = say("inspect", made / "run", "--text", clips[2], "-o", tmp_path / "i.html")
    assert found.code == 0, found.err
    assert (tmp_path / "i.html").stat().st_size > 10_000


def test_the_quick_start_shows_what_was_learned(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown(made).show_results(heedful.load(made / "run", device="cpu"), made / "run")
    said = capsys.readouterr().out
    assert "exact match" in said
    assert "attention mass" in said
    assert (made / "looked.html").is_file()


@pytest.mark.parametrize(
    ("words", "kind", "local"),
    [([], "bahdanau", True), (["--no-local"], "bahdanau", False), (["--no-attention"], "context", True)],
)
def test_each_row_has_its_recipe(words: list[str], kind: str, local: bool, tmp_path: Path) -> None:
    from heedful.cli.train import parse_demonstration

    given = parse_demonstration(["video", "--output", str(tmp_path), "--clips", "1", "--tests", "1", *words])
    model = load_recipe(given.write_recipe()).model
    assert (model.decoder.reading.kind, model.local) == (kind, local)


def test_what_cannot_be_made_is_told(say: Say, tmp_path: Path) -> None:
    told = say("quickstart", "video", "--output", tmp_path / "q", "--clips", "0").complaint
    assert "--clips: 0; must be at least 1" in told
