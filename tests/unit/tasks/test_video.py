"""Saying what happens in clips: what is read, what is learned, what is measured, and what is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from shape_checks import disable_shape_checks

import heedful
from heedful.data.clips import Clip
from heedful.data.corpus import Corpus, write_corpus
from heedful.errors import DataError, RecipeError
from heedful.recipes.generation import SamplingConfig
from heedful.recipes.load import load_recipe
from heedful.runs.load import open_run
from heedful.tasks.captioning.data import (
    CAPTION_SIDE,
    INPUT_SIDE,
    NUMBER_SIDE,
    CaptionedClip,
    ClipColumns,
    ClipEvent,
    ClipRecords,
    batch_clips,
    collate_clips,
    explain_unreadable,
    split_by_caption,
)
from heedful.tasks.captioning.evaluation import VideoOutputs, build_video_evaluator
from heedful.tasks.captioning.predictor import VideoCaptioner
from heedful.tasks.captioning.scenes import ACTIONS, FRAME_LIMITS, GeneratedClip, build_clip_files, generate_clips
from heedful.tasks.evaluation import DEFAULT_OPTIONS
from heedful.tasks.predictor import InspectRequest
from heedful.tasks.search_factory import build_search
from heedful.tasks.task import get_task

SIZE = 8
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (40, 40, 230)}
RECIPE = """\
task = "video"
seed = 2
[data]
train = { path = "train.jsonl" }
validation = { path = "validation.jsonl" }
frames = 8
frame_size = 8
max_length = 8
[model]
d_model = 24
frames = { widths = [8] }
motion = { widths = [6] }
decoder = { kind = "recurrent" }
[training]
steps = 120
batch_tokens = 200
label_smoothing = 0.0
schedule = { kind = "constant", rate = 1e-2 }
precision = "fp32"
evaluate_every = 60
[generation]
kind = "greedy"
max_ratio = 0
max_extra = 8
"""


def flashed(name: str, first: str, second: str, dice: np.random.Generator) -> tuple[np.ndarray, dict[str, object]]:
    """One colour in all places for a while, then another one; dark before, between and behind."""
    cuts = np.cumsum(dice.integers(1, 3, 5))
    frames = np.full((cuts[-1], SIZE, SIZE, 3), 20, np.uint8)
    frames[cuts[0] : cuts[1]], frames[cuts[2] : cuts[3]] = COLOURS[first], COLOURS[second]
    events = [
        {"phrase": colour, "start": int(start), "stop": int(stop)}
        for colour, (start, stop) in zip((first, second), ((cuts[0], cuts[1]), (cuts[2], cuts[3])), strict=True)
    ]
    return frames, {"clip": name, "captions": [f"{first} then {second}"], "events": events}


def write(folder: Path, part: str, count: int, *, seed: int) -> None:
    dice = np.random.default_rng(seed)
    pairs = [pair for pair in product(COLOURS, repeat=2) if pair[0] != pair[1]]
    lines = []
    for number in range(count):
        frames, line = flashed(f"{part}{number}.npz", *pairs[number % len(pairs)], dice)
        np.savez(folder / f"{part}{number}.npz", frames=frames)
        lines.append(json.dumps(line) + "\n")
    (folder / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("clips")
    write(place, "train", 60, seed=1)
    write(place, "validation", 12, seed=2)
    (place / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """A finished run, to be read only."""
    with (folder / "train.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"clip": "lost.npz", "captions": ["red then blue"]}\n')
    recipe = load_recipe(folder / "recipe.toml", ["--output", str(folder / "run")])
    said: list[str] = []
    with disable_shape_checks():
        heedful.train(recipe, device="cpu", say=said.append)
    left_out = [line for line in said if "left out" in line]
    assert any(f"{folder / 'lost.npz'}: there is no such clip" in line for line in left_out), said
    return folder / "run"


@pytest.fixture(scope="module")
def user(run: Path) -> VideoCaptioner:
    found = heedful.load(run, device="cpu")
    assert isinstance(found, VideoCaptioner)
    return found


# --- generated clips --------------------------------------------------------------------------------------


def test_parts_of_generated_clips_have_no_caption_in_common() -> None:
    parts = {part: list(generate_clips(part, 60, size=8)) for part in ("train", "validation", "test")}
    captions = {part: {clip.caption for clip in found} for part, found in parts.items()}
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not captions[one] & captions[other]
    for clip in (clip for found in parts.values() for clip in found):
        assert FRAME_LIMITS[0] <= len(clip.frames) <= FRAME_LIMITS[1]
        first, second = clip.actions
        assert 0 <= first.start < first.stop <= second.start < second.stop <= len(clip.frames)
        assert (first.colour, first.shape) != (second.colour, second.shape)
        assert not any(deed.shape == "circle" and deed.action == "spins" for deed in clip.actions)


def test_generated_clips_are_a_function_of_the_seed() -> None:
    def first(seed: int) -> GeneratedClip:
        return next(generate_clips("train", 1, size=16, seed=seed))

    assert np.array_equal(first(1).frames, first(1).frames)
    assert first(1).actions == first(1).actions
    assert not np.array_equal(first(1).frames[0], first(2).frames[0])


def test_what_is_said_of_generated_clips_is_seen() -> None:
    """Where a shape is, how large it is, and whether it changes in its place: in its frames, and nothing elsewhere."""
    met = set()
    for clip in generate_clips("train", 80, size=32, seed=4):
        empty = [n for n in range(len(clip.frames)) if not any(d.start <= n < d.stop for d in clip.actions)]
        ground = clip.frames[empty[0]].astype(int) if empty else None
        for n in empty:
            assert np.array_equal(clip.frames[n], ground)
        for deed in clip.actions if empty else ():
            inside = (abs(clip.frames[deed.start : deed.stop] - ground) > 60).any(-1)
            assert inside.any((1, 2)).all()
            ys, xs = ([at[axis].mean() for at in map(np.nonzero, inside)] for axis in (0, 1))
            area = inside.sum((1, 2))
            moved = {"left": xs[0] - xs[-1], "right": xs[-1] - xs[0], "up": ys[0] - ys[-1], "down": ys[-1] - ys[0]}
            done = {f"moves {way}" for way, distance in moved.items() if distance > 6}
            done |= {"grows"} if area[-1] > 2 * area[0] else {"shrinks"} if area[0] > 2 * area[-1] else set()
            assert (done or {"spins"}) == {deed.action}
            if deed.action == "spins":
                assert all((one ^ other).any() for one, other in pairwise(inside))
            met.add(deed.action)
    assert met == set(ACTIONS)


def test_generated_files_are_read_as_they_were_made(tmp_path: Path) -> None:
    clips = list(generate_clips("test", 3, size=8))
    for name, content in build_clip_files(clips, stem="test").items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    read = list(ClipRecords(tmp_path / "test.jsonl"))
    assert [each.captions for each in read] == [(clip.caption,) for clip in clips]
    for each, clip in zip(read, clips, strict=True):
        assert np.array_equal(np.load(each.file)["frames"], clip.frames)
        assert [(event.phrase, event.start, event.stop) for event in each.marks] == [
            (deed.phrase, deed.start, deed.stop) for deed in clip.actions
        ]


# --- readers ----------------------------------------------------------------------------------------------


def test_a_clip_has_all_the_captions_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text("who\tclip\tcaption\nx\ta.mp4\tone\ny\tb\ttwo\nz\ta.mp4\tthree\nz\ta.mp4\tone\n")
    (tmp_path / "clips/b").mkdir(parents=True)
    (tmp_path / "clips/b/1.png").write_bytes(b"")
    options = {"clip_column": 1, "caption_column": 2, "header": True}
    reader = ClipColumns(tmp_path / "c.tsv", clips=tmp_path / "clips", **options)
    assert [(each.file, each.captions) for each in reader] == [
        (tmp_path / "clips/a.mp4", ("one", "three")),
        (tmp_path / "clips/b", ("two",)),
    ]
    assert reader.paths == (tmp_path / "c.tsv", tmp_path / "clips/b/1.png")  # what a run's fingerprint is made of


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("c.tsv", "a.mp4", "1 tab-separated column where 2 are needed"),
        ("c.jsonl", '{"captions": ["x"]}', "no field 'clip'"),
        ("c.jsonl", '{"clip": "a", "captions": "x"}', "a list of texts is needed"),
        ("c.jsonl", '{"clip": "a", "captions": ["x"], "events": [{"phrase": "x", "start": 3, "stop": 3}]}', "3 to 3"),
        ("c.jsonl", '{"clip": "a", "captions": ["x"], "events": [{"phrase": "x", "start": 3}]}', "no field 'stop'"),
    ],
)
def test_lines_that_say_nothing_are_named(tmp_path: Path, name: str, line: str, said: str) -> None:
    (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"{name}:1.*{said}"):
        (ClipColumns if name.endswith("tsv") else ClipRecords)(tmp_path / name)


def test_a_folder_of_clips_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text("a\tb\n")
    with pytest.raises(DataError, match="no such folder of clips"):
        ClipColumns(tmp_path / "c.tsv", clips=tmp_path / "none")


# --- encoding ---------------------------------------------------------------------------------------------


def test_captions_of_a_clip_share_its_frames(folder: Path, run: Path, tmp_path: Path) -> None:
    opened = open_run(run)
    examples = [
        CaptionedClip(folder / "train0.npz", ("red", "green then blue")),
        CaptionedClip(folder / "none.npz", ("red",)),
        CaptionedClip(folder / "train1.npz", (" ".join(["red"] * 30),)),  # too long
        CaptionedClip(folder / "train2.npz", ()),
        CaptionedClip(folder / "train3.npz", ("blue",)),
    ]
    corpus = write_corpus(tmp_path / "c", enumerate(examples), encoder=opened.task.build_encoding(opened))
    assert corpus[NUMBER_SIDE].stream.tolist() == [0, 4]
    assert (corpus.report.kept, corpus.report.empty, corpus.report.too_long) == (2, 2, 1)
    see = opened.recipe.data.read_clip
    special = opened.tokenizer.special
    captions = split_by_caption(corpus, eos=special.eos)
    kept = [see(examples[n].file) for n in (0, 0, 4)]
    batch = collate_clips(captions, np.array([0, 1, 2]), bos=special.bos)
    expected = batch_clips(kept)
    assert batch.source.frames.equal(expected.frames)
    assert batch.source.positions.equal(expected.positions)
    for row, text in enumerate(("red", "green then blue", "blue")):
        ids = [*opened.tokenizer.encode(text), special.eos]
        assert captions[CAPTION_SIDE][row].tolist() == ids
        assert batch.labels[row].tolist() == [*ids, *[-1] * (4 - len(ids))]
    assert captions[INPUT_SIDE].stream is corpus[INPUT_SIDE].stream
    reasons = list(explain_unreadable(examples, corpus, extract=see))
    assert len(reasons) == 1
    assert "none.npz: there is no such clip" in reasons[0]


# --- learning ---------------------------------------------------------------------------------------------


def test_it_learns_what_comes_first(user: VideoCaptioner, folder: Path) -> None:
    """Neither frames alone nor their mean tell that."""
    examples = list(ClipRecords(folder / "validation.jsonl"))
    found = [each.text for each in user.caption([each.file for each in examples])]
    right = sum(text in each.captions for text, each in zip(found, examples, strict=True))
    assert right >= 11, found


def test_neighbours_do_not_matter_to_what_is_said(user: VideoCaptioner, folder: Path) -> None:
    examples = list(ClipRecords(folder / "validation.jsonl"))
    together = user.caption([each.file for each in examples], together=12)
    alone = user.caption([str(each.file) for each in examples], together=1)
    assert {len(user.extract_features(each.file).frames) for each in examples} != {8}, "clips of several lengths"
    for one, other in zip(together, alone, strict=True):
        assert one.text == other.text
        # kernels of other batch shapes add in another order
        assert one.candidates[0].log_probability == pytest.approx(other.candidates[0].log_probability, abs=1e-4)


def test_a_batch_loses_what_its_clips_lose_alone(run: Path) -> None:
    opened = open_run(run)
    corpus = Corpus.open(run / "data/validation")
    task = opened.task.build_objective(opened, corpus, corpus, device=torch.device("cpu"))
    model = opened.init_model().double().eval()
    rows = np.arange(len(task.train))
    with torch.no_grad():
        whole = task.loss(model, task.build_batch(rows))
        parts = [task.loss(model, task.build_batch(rows[n : n + 1])) for n in rows]
    assert whole.count == sum(part.count for part in parts)
    assert float(whole.total) == pytest.approx(sum(float(part.total) for part in parts))


def test_attention_is_a_distribution_over_frames(user: VideoCaptioner, folder: Path) -> None:
    first, second, *_ = ClipRecords(folder / "validation.jsonl")
    pairs = [(first.file, "red then blue"), (first.file, "red"), (second.file, "blue then red")]
    for (clip, text), looked in zip(pairs, user.attend(pairs), strict=True):
        assert looked.tokens == (*text.split(), "</s>")
        frames = len(user.extract_features(clip).frames)
        np.testing.assert_allclose(looked.weights[:, :frames].sum(1), 1, atol=1e-5)  # padding gets nothing
        record = user.inspect(clip, text)
        (axis,) = (axis for axis in record.axes if axis.kind == "frames")
        assert axis.pictures.shape == (frames, SIZE, SIZE, 3)
        (found,) = (each for each in record.maps if each.keys == axis.name)
        # one clip instead of two: sums in another order
        np.testing.assert_allclose(found.weights[0], looked.weights[:, :frames], atol=1e-4)


def test_scores_and_captions_agree(user: VideoCaptioner, folder: Path) -> None:
    clip = folder / "validation0.npz"
    (found,) = user.caption([clip])
    (score,) = user.score([(clip, found.text)])
    assert score.log_probability == pytest.approx(found.candidates[0].log_probability, abs=1e-4)  # steps and a chunk


def test_each_clip_has_a_chance_of_its_own(user: VideoCaptioner, folder: Path) -> None:
    """However many are looked at together, and wherever a stream of clips is cut."""
    sampling = build_search(SamplingConfig(temperature=3.0), user.target.tokenizer)
    clips = [folder / f"validation{n}.npz" for n in (0, 0, 0, 1, 1)]

    def texts(**options: int) -> list[str]:
        return [each.text for each in user.caption(clips, search=sampling, **options)]

    whole = texts()
    assert len(set(whole[:3])) > 1
    assert texts(together=2) == whole
    assert [each.text for each in user.caption(clips[2:], search=sampling, first=3)] == whole[2:]


def test_what_was_kept_is_as_good_as_the_file(user: VideoCaptioner, folder: Path) -> None:
    clip = folder / "validation0.npz"
    kept = user.extract_features(clip)
    (one,), (other,) = user.caption([clip]), user.caption([kept])
    assert (one.text, other.name) == (other.text, "1")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"max_tokens": 3}, "--tokens"),
        ({"beam": 2}, "--beam"),
        ({"source": "none.npz"}, "there is no such clip"),
    ],
)
def test_what_cannot_be_looked_at(user: VideoCaptioner, folder: Path, asked: dict[str, object], said: str) -> None:
    with pytest.raises((DataError, RecipeError), match=said):
        user.inspect_request(InspectRequest(**{"source": str(folder / "validation0.npz"), **asked}))


# --- the exam ---------------------------------------------------------------------------------------------


def test_the_exam_is_what_one_counts_by_hand(user: VideoCaptioner, run: Path, folder: Path) -> None:
    recipe = open_run(run).recipe
    exam = get_task(recipe).build_evaluator(recipe, DEFAULT_OPTIONS)
    answers = exam.predict(user, recipe)
    metrics = {name: metric.value for name, metric in exam.compute_metrics(answers).items()}
    examples = list(ClipRecords(folder / "validation.jsonl"))
    right = [text in each.captions for text, each in zip(answers.texts, examples, strict=True)]
    assert metrics["exact match"] == pytest.approx(100 * sum(right) / len(right))
    shares, even = [], []
    for each in examples:
        looked = user.attend([(each.file, each.captions[0])])[0]
        clip = user.extract_features(each.file)
        for word, event in ((0, each.marks[0]), (2, each.marks[1])):  # "red then blue"
            inside = [n for n, number in enumerate(clip.frame_indices) if event.start <= number < event.stop]
            shares.append(float(looked.weights[word, inside].sum()))
            even.append(len(inside) / len(clip.frames))
    # one clip at a time instead of twelve: sums in another order
    assert metrics["attention mass"] == pytest.approx(100 * float(np.mean(shares)), abs=0.01)
    base = {name: metric.value for name, metric in exam.compute_metrics(exam.baseline_answers).items()}
    assert base["attention mass"] == pytest.approx(100 * float(np.mean(even)))
    assert exam.constant_answer in {
        caption for each in ClipRecords(folder / "train.jsonl") for caption in each.captions
    }
    assert metrics["attention mass"] > base["attention mass"]


def test_events_are_told_by_the_frames_that_were_taken(user: VideoCaptioner, tmp_path: Path) -> None:
    """Of a clip of 32 frames every fourth is taken, and events count in all of them."""
    np.savez(tmp_path / "long.npz", frames=np.zeros((32, SIZE, SIZE, 3), np.uint8))
    clip = CaptionedClip(tmp_path / "long.npz", ("Red then blue",), (ClipEvent("red", 0, 8), ClipEvent("blue", 24, 32)))
    exam = build_video_evaluator([clip], train=[clip], read_clip=user.read_clip)
    told = exam.predict(user, None)
    looked = user.attend([(clip.file, clip.captions[0])])[0].weights
    assert told.event_mass is not None
    assert told.event_mass.tolist() == [[pytest.approx(looked[0, :2].sum() + looked[2, 6:].sum(), abs=1e-4), 2]]


def test_clips_that_cannot_be_read_are_left_out_of_the_exam(user: VideoCaptioner, folder: Path) -> None:
    examples = list(ClipRecords(folder / "validation.jsonl"))
    lost = CaptionedClip(folder / "lost.npz", ("red",))
    exam = build_video_evaluator(
        [lost, *examples, CaptionedClip(examples[0].file, ())], train=examples, read_clip=user.read_clip
    )
    assert exam.size == len(examples)
    assert [f"{folder / 'lost.npz'}" in remark for remark in exam.data_warnings] == [True]
    with pytest.raises(DataError, match="no clip with captions"):
        build_video_evaluator([lost], train=examples, read_clip=user.read_clip)


def test_without_events_nothing_is_said_of_attention() -> None:
    clip = Clip(np.zeros((2, SIZE, SIZE, 3), np.uint8), np.arange(2))
    examples = [CaptionedClip(Path(f"{n}.npz"), ("red then blue", "blue")) for n in range(3)]
    exam = build_video_evaluator(examples, train=examples, read_clip=lambda _: clip)
    metrics = exam.compute_metrics(VideoOutputs(["blue", "Red then blue", "red"]))
    assert set(metrics) == {"exact match", "BLEU-4", "CIDEr-D"}
    assert metrics["exact match"].value == pytest.approx(200 / 3)


# --- recipes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data.features", "3"], "model.local = true reads pixels"),
        (["--model.decoder.d_model", "32", "--model.decoder.kind", "transformer"], "must be model.d_model = 24"),
        (["--model.frames", '{ kind = "resnet", weights = "w" }'], "frames that a frozen network reads only once"),
        (["--data.train", '{ path = "a.tsv", caption_column = 0 }'], "another column than clip_column"),
        (["--model.d_model", "25"], "model.d_model = 25 must be even"),
        (["--training.reinforce.reward", "1.0"], 'set model.decoder.reading.weights = "sampled"'),
        (
            ["--model.decoder", '{ kind = "transformer", heads = 2, positions = { kind = "learned", length = 8 } }'],
            "model.decoder.positions.length = 8 must be above data.max_length = 8",
        ),
    ],
)
def test_what_does_not_fit_is_said(folder: Path, words: Sequence[str], said: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(said)):
        load_recipe(folder / "recipe.toml", words)


def test_weights_that_are_missing_are_named(folder: Path) -> None:
    table = '{ kind = "resnet", weights = "none.safetensors", frozen = false }'
    recipe = load_recipe(folder / "recipe.toml", ["--model.frames", table])
    with pytest.raises(DataError, match=r"none\.safetensors: does not exist; check model\.frames\.weights"):
        get_task(recipe).check_files(recipe)


ROWS = {
    "basic": ["--model.local", "false", "--model.decoder.reading.kind", "context"],
    "local": ["--model.decoder.reading.kind", "context"],
    "global": ["--model.local", "false"],
    "transformer": ["--model.decoder", '{ kind = "transformer", heads = 2, layers = 1, d_ff = 24 }'],
    "features": ["--model.local", "false", "--data.features", "3"],
}


@pytest.fixture
def brief(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """Two updates of another row of the paper's table."""

    def train(*words: str) -> Path:
        given = ["--output", str(tmp_path / "run"), "--training.steps", "2", "--training.evaluate_every", "2", *words]
        with disable_shape_checks():
            return heedful.train(load_recipe(folder / "recipe.toml", given), device="cpu").folder

    return train


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_built_trained_and_asked(
    row: str, folder: Path, brief: Callable[..., Path], tmp_path: Path
) -> None:
    words, clip = ROWS[row], folder / "validation0.npz"
    if row == "features":
        for part in ("train", "validation"):
            lines = []
            for example in ClipRecords(folder / f"{part}.jsonl"):
                if example.file.is_file():
                    name = example.file.with_suffix(".safetensors").name
                    means = np.load(example.file)["frames"].mean((1, 2)).astype(np.float32)
                    save_file({"features": means}, tmp_path / name)
                    lines.append(f"{name}\t{example.captions[0]}\n")
            (tmp_path / f"{part}.tsv").write_text("".join(lines))
            words = [*words, f"--data.{part}", f'{{ path = "{tmp_path / part}.tsv" }}']
        clip = tmp_path / "validation0.safetensors"
    user = heedful.load(brief(*words), device="cpu")
    (caption,) = user.caption([clip])
    assert caption.candidates
    local = any(name.startswith("encoder.motion") for name, _ in user.model.named_parameters())
    assert local == (row in ("local", "transformer"))
    assert user.has_attention == (row not in ("basic", "local"))
    record = user.inspect(clip)
    if user.has_attention:
        (axis,) = (axis for axis in record.axes if axis.kind == "frames")
        assert (axis.pictures is None) == (row == "features")
    else:
        with pytest.raises(RecipeError, match="so it has no attention to show"):
            user.attend([(clip, "red then blue")])


def test_a_frozen_network_looks_at_clips_once(
    folder: Path, brief: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vectors are what is kept, and the network is a file of the run; what weights it has is read elsewhere."""
    from heedful.tasks.captioning import task as module

    monkeypatch.setattr(module, "load_backbone_weights", lambda _, network: network.eval())
    (folder / "w").touch()
    table = f'{{ kind = "resnet", depth = 18, stride = 8, weights = "{folder / "w"}" }}'
    run = brief("--model.frames", table, "--model.local", "false")
    assert (run / "tokenizer/frames").is_file()
    user = heedful.load(run, device="cpu")
    assert user.model.encoder.vision is None
    clip = folder / "validation0.npz"
    kept = user.extract_features(clip)
    frames = np.load(clip)["frames"][kept.frame_indices]
    network = open_run(run).vocabularies["tokenizer/frames"].network
    with torch.no_grad():
        looked = network(torch.from_numpy(frames)).mean((1, 2))
    # kept in half precision before the mean
    np.testing.assert_allclose(kept.frames, looked.numpy(), rtol=2e-3, atol=2e-3)
    corpus = Corpus.open(run / "data/validation")
    assert np.array_equal(corpus[INPUT_SIDE][0], kept.frames)
    (axis,) = (axis for axis in user.inspect(clip).axes if axis.kind == "frames")
    assert np.array_equal(axis.pictures, frames)
    assert user.render_picture(clip).shape == (SIZE, SIZE * len(frames), 3)


def test_bleu_of_greedy_captions_may_be_monitored(brief: Callable[..., Path]) -> None:
    run = brief("--training.monitor", "cider")
    final = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert {"loss", "bleu", "cider"} <= set(final)


def test_a_run_goes_on_where_it_was_left(brief: Callable[..., Path], tmp_path: Path) -> None:
    """The same bytes, whether it was left in between or not."""
    at_once = brief("--training.steps", "4", "--output", str(tmp_path / "one"))
    brief("--output", str(tmp_path / "two"))
    later = brief("--training.steps", "4", "--output", str(tmp_path / "two"))
    weights = [next(each.rglob("model.safetensors")).read_bytes() for each in (at_once, later)]
    assert weights[0] == weights[1]
