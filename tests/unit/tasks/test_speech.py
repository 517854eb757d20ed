"""Recognising speech: what is read, what is lost, what is found, and what is told."""

from __future__ import annotations

import wave
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import audio_samples
import numpy as np
import pytest
import torch
from torch import Tensor

import heedful
from heedful.data.corpus import Corpus
from heedful.data.sound import LogMel, PaddedLogMel, Sound, read_sound
from heedful.data.tokenizers import WordTokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation.ctc import ctc_loss
from heedful.metrics.error_rates import word_error_rate
from heedful.recipes.generation import BeamConfig, GreedyConfig, SamplingConfig
from heedful.recipes.load import build_recipe
from heedful.runs.load import load_trained_model, open_run
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.predictor import InspectRequest
from heedful.tasks.speech import demonstration as digits
from heedful.tasks.speech.data import (
    Utterance,
    build_speech_encoding,
    pad_frames,
    read_librispeech,
    read_recordings_jsonl,
    read_recordings_table,
)
from heedful.tasks.speech.predictor import SpeechRecognizer
from heedful.tasks.speech.task import mask_eos
from heedful.tasks.task import get_task
from heedful.tensors import FrameLayout

LAS = ("--model.kind", "recurrent", "--model.ctc_weight", "0", "--model.decoder.kind", "recurrent",
       "--model.decoder.d_model", "24")  # fmt: skip
KINDS = {"ctc": ("--model.ctc_weight", "1"), "joint": (), "las": LAS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tones")
    audio_samples.write_recordings(place, "train", 150, seed=1)
    audio_samples.write_recordings(place, "validation", 20, seed=2)
    (place / "recipe.toml").write_text(audio_samples.RECIPE, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def run(folder: Path) -> Callable[[str], Path]:
    """A finished run of each kind, to be read only."""

    @cache
    def one(kind: str) -> Path:
        shape = () if kind == "las" else ("--model.decoder.heads", "2")
        words = (*KINDS[kind], *(() if kind == "ctc" else shape), "--output", str(folder / kind))
        return heedful.train(heedful.load_recipe(folder / "recipe.toml", words), device="cpu").folder

    return one


@pytest.fixture(scope="module")
def sounds(folder: Path) -> list[tuple[Path, str]]:
    lines = (folder / "validation.tsv").read_text(encoding="utf-8").splitlines()
    return [(folder / name, text) for name, text in (line.split("\t") for line in lines)]


def load(run: Callable[[str], Path], kind: str) -> SpeechRecognizer:
    return heedful.load(run(kind), device="cpu")


def test_a_padded_sound_is_as_long_as_it_was(tmp_path: Path) -> None:
    """The silence that a sound is padded with does not make it too long, and a longer one is left out, not cut."""
    frontend = PaddedLogMel(rate=8000, bands=8, frame_length=200, hop_length=80, seconds=2)
    tokenizer = WordTokenizer(["low"], lowercase=False)
    for seconds, kept in ((0.5, True), (1.0, True), (1.5, False), (2.5, False)):
        path = tmp_path / f"{seconds}.wav"
        path.write_bytes(digits.encode_wav(np.ones(round(seconds * digits.RATE), "<i2")))
        encoding = build_speech_encoding(tokenizer, frontend, max_seconds=1.0, max_length=9)
        ids, frames = encoding.encode(Utterance(path, "low", "here"))
        assert (ids is not None, frames is not None) == (kept, kept)
        if kept:
            assert frames.shape == (200, 8)


# --- readers ----------------------------------------------------------------------------------------------


def silence(path: Path, samples: int = 2000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(digits.encode_wav(np.zeros(samples, "<i2")))
    return path


def test_tables_lists_and_folders_name_the_same_recordings(tmp_path: Path) -> None:
    one, two = silence(tmp_path / "1" / "1-1.wav"), silence(tmp_path / "1" / "1-2.wav")
    (tmp_path / "t.tsv").write_text("x\t1/1-1.wav\tone \n\nx\t1/1-2.wav\ttwo two\n")
    (tmp_path / "t.jsonl").write_text(
        '{"file": "1/1-1.wav", "said": "one"}\n{"file": "1/1-2.wav", "said": " two two"}\n'
    )
    (tmp_path / "1" / "1.trans.txt").write_text("1-1 one\n1-2 two two\n")
    found = [
        read_recordings_table(tmp_path / "t.tsv", sound_column=1, text_column=2),
        read_recordings_jsonl(tmp_path / "t.jsonl", sound_field="file", text_field="said"),
        read_librispeech(tmp_path),
    ]
    for reader in found:
        assert [(each.sound, each.text) for each in reader] == [(one, "one"), (two, "two two")]
        assert set(reader.paths[1:]) == {one, two}, "what was heard is what was learned from"
    assert [each.location.rpartition("/")[2] for reader in found for each in reader] == [
        "t.tsv:1", "t.tsv:3", "t.jsonl:1", "t.jsonl:2", "1.trans.txt:1", "1.trans.txt:2",
    ]  # fmt: skip


def test_broken_transcripts_are_named(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    for content, told in (
        ("a.wav\n", r"t\.tsv:1: 1 tab-separated column where 2 are needed"),
        ("\tone\n", r"t\.tsv:1: no file is named; correct the line"),
        ("a.wav\tone\n", r"t\.tsv:1: .*a\.wav: there is no such file; correct the line or add the file"),
    ):
        table.write_text(content)
        with pytest.raises(DataError, match=told):
            read_recordings_table(table)
    with pytest.raises(DataError, match=r"has no file \*\.trans\.txt, here or in its subfolders"):
        read_librispeech(tmp_path)
    with pytest.raises(DataError, match=r"nowhere: there is no such folder"):
        read_librispeech(tmp_path / "nowhere")


def test_sounds_that_no_model_can_learn_from_are_left_out(tmp_path: Path, folder: Path, run: Any) -> None:
    tokenizer = open_run(run("ctc")).tokenizer
    front = LogMel(rate=8000, bands=5)

    def encoded(samples: int, text: str, **how: Any) -> Any:
        utterance = next(iter(read_recordings_table(_table(tmp_path, samples, text))))
        options = {"max_seconds": 1.0, "max_length": 6, "frames_per_token": 4, **how}
        ids, frames = build_speech_encoding(tokenizer, front, **options).encode(utterance)
        return None if ids is None else (len(ids), len(frames))  # type: ignore[arg-type]  # both or none

    assert encoded(8000, "low mid") == (3, 98)
    assert encoded(8400, "low") is None, "longer than a second"
    assert encoded(8000, "low " * 5) == (6, 98)
    assert encoded(8000, "low " * 6) is None, "more tokens than may be"
    assert encoded(100, "low") == (2, 0), "shorter than a frame: empty"
    assert encoded(8000, "") == (0, 98)
    # two slots of four frames hold two different tokens, but no token twice
    assert encoded(640, "low mid") == (3, 6)
    assert encoded(640, "low low") is None
    assert encoded(640, "low low", frames_per_token=None) == (3, 6)
    (tmp_path / "a.wav").write_bytes(b"no sound")
    with pytest.raises(DataError, match=r"t\.tsv:1: .*a\.wav: is not a sound that can be read"):
        build_speech_encoding(tokenizer, front, max_seconds=1.0, max_length=6, frames_per_token=4).encode(
            next(iter(read_recordings_table(tmp_path / "t.tsv")))
        )


def _table(folder: Path, samples: int, text: str) -> Path:
    silence(folder / "a.wav", samples)
    (folder / "t.tsv").write_text(f"a.wav\t{text}\n")
    return folder / "t.tsv"


# --- what is minimised ------------------------------------------------------------------------------------


def corpus_of(run: Path, part: str) -> Corpus:
    return Corpus.open(run / "data" / part)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_those_of_each_recording_alone(run: Any, kind: str) -> None:
    """Padding and neighbours change nothing, and losses are sums."""
    opened = open_run(run(kind))
    model, text = load_trained_model(opened, device=torch.device("cpu")).double(), corpus_of(run(kind), "validation")
    task = opened.task.build_objective(opened, text, text, device=torch.device("cpu"))
    special, weight = opened.tokenizer.special, opened.recipe.model.ctc_weight
    task.batch_tokens = 300
    total, count = 0.0, 0
    for row in range(len(text)):
        batch = task.build_batch(np.array([row]))
        ids = text["text"][row].tolist()
        assert batch.source.vectors.shape == (1, len(text["frames"][row]), 12)
        with torch.no_grad():
            memory = model.encoder(batch.source)
        assert memory.layout == FrameLayout(-(-len(text["frames"][row]) // 4))
        written = said = 0.0
        if weight > 0:
            log_probabilities, slots = model.labels(memory)
            said = ctc_loss(log_probabilities, slots, torch.tensor([ids[:-1]]), blank=special.bos).item()
        if weight < 1:
            hidden, _ = model.decoder(batch.target, model.decoder.init_state(memory))
            logs = model.output(hidden)[0].log_softmax(-1)
            smooth = opened.recipe.training.label_smoothing
            for at, token in enumerate(ids):
                written -= ((1 - smooth) * logs[at, token] + smooth * logs[at].mean()).item()
        total += (1 - weight) * written + weight * said
        count += len(ids) - (weight == 1)
    with torch.no_grad():
        losses = [task.loss(model, task.build_batch(rows)) for rows in task.plan_epoch(0)]
    assert len(losses) > 1
    assert max(len(rows) for rows in task.plan_epoch(0)) > 1
    assert sum(float(loss.total) for loss in losses) == pytest.approx(total, rel=1e-6)
    assert sum(loss.count for loss in losses) == count
    assert {frozenset(loss.parts) for loss in losses} == {task.part_names}


def test_batches_are_planned_by_frames(run: Any) -> None:
    opened, text = open_run(run("ctc")), corpus_of(run("ctc"), "train")
    task = opened.task.build_objective(opened, text, text, device=torch.device("cpu"))
    for rows in task.plan_epoch(0):
        lengths = text["frames"].lengths[rows]
        assert len(rows) * lengths.max() <= 1500
        assert lengths.max() - lengths.min() <= 40, "sounds of like length stand together"


def test_labels_have_no_ends() -> None:
    assert mask_eos(torch.tensor([[4, 5, 2], [4, 2, -1]]), eos=2).tolist() == [[4, 5, -1], [4, -1, -1]]


@pytest.mark.parametrize("kind", ["ctc", "joint"])
def test_the_same_seed_gives_the_same_bytes_with_masks_too(folder: Path, tmp_path: Path, kind: str) -> None:
    digests = []
    for number, steps in enumerate(((6,), (3, 6))):  # at once, and in two sittings
        for end in steps:
            words = (*KINDS[kind], "--model.hide.frames", "6", "--model.dropout", "0.1", "--training.steps", str(end),
                     "--data.train.path", str(folder / "validation.tsv"), "--training.evaluate_every", "3",
                     "--output", str(tmp_path / str(number)))  # fmt: skip
            made = heedful.train(heedful.load_recipe(folder / "recipe.toml", words), device="cpu").folder
        digests.append((made / "model.safetensors").read_bytes())
    assert digests[0] == digests[1]


# --- what is found ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_tones_are_learned(run: Any, sounds: Any, kind: str) -> None:
    found = load(run, kind).transcribe([path for path, _ in sounds])
    right = sum(each.text == text for each, (_, text) in zip(found, sounds, strict=True))
    assert right >= (20 if kind == "ctc" else 12)
    assert [each.sound for each in found] == [str(path) for path, _ in sounds]
    with wave.open(str(sounds[0][0])) as file:
        assert found[0].seconds == pytest.approx(file.getnframes() / 8000, abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_told_while_it_grows(run: Any, sounds: Any, kind: str) -> None:
    face, paths = load(run, kind), [path for path, _ in sounds[:3]]
    for generation in (face.generation, GreedyConfig()):
        heard: list[tuple[int, tuple[str, ...]]] = []
        found = face.transcribe(
            paths, generation=generation, heard=lambda index, text, heard=heard: heard.append((index, text.tokens))
        )
        expected = face.transcribe(paths, generation=generation)
        assert [each.text for each in found] == [each.text for each in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.candidates[0].score == pytest.approx(other.candidates[0].score, abs=1e-4)
        assert {index for index, _ in heard} == (set() if kind == "ctc" else {0, 1, 2})
    for index, tokens in heard:  # of greedy search, whose texts grow at the end only
        assert tokens == found[index].candidates[0].tokens[: len(tokens)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_is_heard_the_same_alone_and_among_others(run: Any, sounds: Any, kind: str) -> None:
    face, paths = load(run, kind), [path for path, _ in sounds]
    together = face.transcribe(paths, n_best=2)
    for number in (0, 7):
        (alone,) = face.transcribe(paths[number : number + 1], n_best=2)
        assert [each.ids for each in alone.candidates] == [each.ids for each in together[number].candidates]
        assert alone.text == together[number].text
        # other kernels at other sizes
        assert alone.candidates[0].score == pytest.approx(together[number].candidates[0].score, abs=1e-4)


def test_hybrids_rank_by_both(run: Any, sounds: Any) -> None:
    face, path = load(run, "joint"), sounds[3][0]
    plain = BeamConfig(width=4, length_penalty=0.0)
    (found,) = face.transcribe([path], generation=plain, n_best=4)
    assert len(found.candidates) == 4
    source = pad_frames([face._compute_frames(path, 1).frames])
    with torch.inference_mode():
        said, slots = face.model.labels(face.model.encoder(source))
        for each in found.candidates:
            labels = torch.tensor([each.ids]) if each.ids else torch.tensor([[-1]])
            other = -float(ctc_loss(said, slots, labels, blank=face.target.tokenizer.special.bos))
            assert each.score == pytest.approx(0.7 * each.log_probability + 0.3 * max(other, -1e6), rel=1e-4)
    scores = [each.score for each in found.candidates]
    assert scores == sorted(scores, reverse=True)
    (fewer,) = face.transcribe([path], generation=plain, n_best=1)
    assert [each.ids for each in fewer.candidates] == [found.candidates[0].ids]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_keep_to_their_limits(run: Any, sounds: Any, kind: str) -> None:
    short = BeamConfig(width=2, max_ratio=0.0, max_extra=2)
    for each in load(run, kind).transcribe([path for path, _ in sounds[:6]], generation=short):
        assert all(len(candidate.ids) <= 2 for candidate in each.candidates)


def test_sampling_and_greedy_search_know_what_they_can(run: Any, sounds: Any) -> None:
    paths = [path for path, _ in sounds[:3]]
    joint, ctc = load(run, "joint"), load(run, "ctc")
    drawn = [joint.transcribe(paths, generation=SamplingConfig(), seed=seed) for seed in (1, 1)]
    assert drawn[0] == drawn[1]
    assert [each.text for each in ctc.transcribe(paths, generation=GreedyConfig())] == [text for _, text in sounds[:3]]
    with pytest.raises(RecipeError, match=r"sampling: draws token after token"):
        ctc.transcribe(paths, generation=SamplingConfig())
    with pytest.raises(
        RecipeError, match=r"generation.forbid: depends on the tokens that were written before.*; leave it at \(\)"
    ):
        ctc.transcribe(paths, generation=GreedyConfig(forbid=("eins",)))
    for face in (ctc, joint):
        with pytest.raises(RecipeError, match=r"n-best 2: .*; use a beam"):
            face.transcribe(paths, generation=GreedyConfig(), n_best=2)


def test_sounds_that_cannot_be_heard_are_named(run: Any, tmp_path: Path) -> None:
    face = load(run, "ctc")
    assert face.transcribe([]) == []
    with pytest.raises(DataError, match=r"short\.wav: has 12 ms, and a frame needs 25; give a longer sound"):
        face.transcribe([silence(tmp_path / "short.wav", 100)])
    with pytest.raises(DataError, match=r"long\.wav: has 4\.0 s, this model reads at most 3; split it"):
        face.transcribe([silence(tmp_path / "long.wav", 32_000)])
    assert face.transcribe([silence(tmp_path / "quiet.wav", 8000)])[0].seconds == 1.0


def test_what_a_file_holds_is_heard_as_the_file_is(run: Any, sounds: Any) -> None:
    face, paths = load(run, "joint"), [path for path, _ in sounds[:3]]
    files, held = face.transcribe(paths, n_best=2), face.transcribe([read_sound(path) for path in paths], n_best=2)
    assert [each.candidates for each in held] == [each.candidates for each in files]
    assert [each.sound for each in held] == ["1", "2", "3"]
    record, same = face.inspect(paths[0]), face.inspect(read_sound(paths[0]))
    assert (same.title, same.said) == ("1", record.said)
    np.testing.assert_array_equal(same.axes[0].pictures, record.axes[0].pictures)
    with pytest.raises(DataError, match=r"sound 2: has 4\.0 s, this model reads at most 3; split it"):
        face.transcribe([read_sound(paths[0]), Sound(torch.zeros(32_000), 8000)])


# --- what is looked at ------------------------------------------------------------------------------------


def test_a_record_shows_what_was_looked_at_beside_the_sound(run: Any, sounds: Any) -> None:
    face, (path, text) = load(run, "joint"), sounds[3]
    slots = -(-len(face._compute_frames(path, 1).frames) // 4)
    record = face.inspect_request(InspectRequest(str(path), text, selection=InspectionSelection(padding=2)))
    axis = record.get_axis("source")
    assert axis.kind == "frames"
    assert len(axis.tokens) == slots + 2
    assert axis.pictures is not None
    assert axis.pictures.shape == (1, 12, 4 * (slots + 2), 3)
    across = record.find_map("cross", layer=0)
    assert across.weights.shape == (2, len(text.split()) + 1, slots + 2)
    assert across.weights[:, :, slots:].max() == 0, "nobody looks at padding"
    assert [each.token for each in record.written] == [*(f"{word}" for word in _pieces(face, text)), "</s>"]
    found = face.inspect_request(InspectRequest(str(path), beam=3))
    assert [each.token for each in found.written][:-1] == list(face.transcribe([path])[0].candidates[0].tokens)


def test_high_tones_stand_at_the_top_of_a_spectrogram(run: Any, sounds: Any) -> None:
    """A tone is brightest in the half of the picture in which its frequency lies."""
    face = load(run, "joint")
    rate = face.frontend.rate
    seconds = torch.arange(rate // 2) / rate
    for frequency, top in ((0.45 * rate, True), (0.02 * rate, False)):
        record = face.inspect(Sound(0.5 * torch.sin(2 * torch.pi * frequency * seconds), rate), sounds[3][1])
        pictures = record.get_axis("source").pictures
        assert pictures is not None
        rows = pictures[0, :, :, 0].mean(1)
        half = len(rows) // 2
        assert (rows[:half].mean() > rows[-half:].mean()) == top


def _pieces(face: SpeechRecognizer, text: str) -> list[str]:
    tokenizer = face.target.tokenizer
    return tokenizer.to_pieces(tokenizer.encode(text))


def test_slots_say_what_they_say(run: Any, sounds: Any) -> None:
    face, (path, text) = load(run, "ctc"), sounds[3]
    record = face.inspect(path)
    said = [answer.answer_text for answer in record.answers]
    assert len(said) == len(record.get_axis("source").tokens)
    words = [word for word, before in zip(said, ["∅", *said], strict=False) if word not in ("∅", before)]
    assert words == _pieces(face, text)
    assert record.find_map("encoder", layer=0).queries == "source"
    with pytest.raises(RecipeError, match="--pair: this model reads no text"):
        face.inspect_request(InspectRequest(str(path), text))


# --- what is measured -------------------------------------------------------------------------------------


def test_an_exam_counts_errors(run: Any, folder: Path, sounds: Any) -> None:
    recipe = open_run(run("ctc")).recipe
    exam = get_task(recipe).build_evaluator(recipe, EvaluatorOptions())
    assert exam.size == 20
    answers = exam.predict(load(run, "ctc"), recipe)
    assert {name: metric.value for name, metric in exam.compute_metrics(answers).items()} == {
        "word errors": 0.0, "character errors": 0.0, "exact": 100.0,
    }  # fmt: skip
    assert answers.sound_seconds == pytest.approx(
        sum(each.seconds for each in load(run, "ctc").transcribe([p for p, _ in sounds]))
    )
    assert get_task(recipe).build_evaluator(recipe, EvaluatorOptions()).describe_difference(exam) is None


@pytest.mark.parametrize("kind", ["ctc", "joint"])
def test_the_share_of_exact_texts_may_be_monitored(
    folder: Path, tmp_path: Path, run: Any, sounds: Any, kind: str
) -> None:
    opened = open_run(run(kind))
    recipe = opened.recipe.model_copy(
        update={"training": opened.recipe.training.model_copy(update={"monitor": "exact"})}
    )
    text = corpus_of(run(kind), "validation")
    watched = open_run(run(kind), recipe)
    task = watched.task.build_objective(watched, text, text, device=torch.device("cpu"))
    with torch.no_grad():
        measured = task.evaluate(load_trained_model(opened, device=torch.device("cpu")))
    greedy = load(run, kind).transcribe([path for path, _ in sounds], generation=GreedyConfig())
    assert set(measured) == task.metric_names
    assert measured["exact"] == sum(a.text == b for a, (_, b) in zip(greedy, sounds, strict=True)) / 20
    errors = word_error_rate([each.text for each in greedy], [text for _, text in sounds]).value
    assert measured["word_errors"] == pytest.approx(errors, rel=1e-6)


# --- recipes ----------------------------------------------------------------------------------------------


def recipe(**model: Any) -> Any:
    table = {
        "task": "speech",
        "output": "x",
        "data": {"train": {"path": "a.tsv"}, "validation": {"path": "b.jsonl"}},
        "model": model,
        "training": {"steps": 1},
    }
    return build_recipe(table, source="r")


def test_a_recipe_for_pictures_has_as_many_slots_as_columns_need() -> None:
    table = {
        "task": "speech",
        "output": "x",
        "data": {
            "train": {"path": "a.tsv"},
            "validation": {"path": "b.tsv"},
            "frames": {"kind": "columns", "height": 32},
            "max_seconds": 3,
        },
        "model": {"kind": "recurrent", "ctc_weight": 1},
        "training": {"steps": 1},
    }
    pictures = build_recipe(table, source="r")
    assert pictures.data.count_max_slots(4) >= 300 / 4
    assert get_task(pictures).build_model(pictures, {"tokenizer/text": 5}) is not None
    assert get_task(pictures).example_command(pictures) == "transcribe RUN line.png"
    assert get_task(pictures).example_command(recipe()) == "transcribe RUN sound.wav"
    with pytest.raises(RecipeError, match=r"data\.frames\.bands"):
        build_recipe({**table, "data": {**table["data"], "frames": {"kind": "columns", "bands": 4}}}, source="r")


def test_recipes_say_what_does_not_fit() -> None:
    assert recipe().model.decoder.d_model == 256
    assert recipe(ctc_weight=1).model.decoder is None
    assert recipe().data.validation.kind == "jsonl"
    for model, told in (
        ({"ctc_weight": 1, "decoder": {"layers": 1}}, "model.decoder is not used with model.ctc_weight = 1"),
        ({"d_model": 64}, ""),
        ({"d_model": 64, "decoder": {"d_model": 32}}, "model.decoder.d_model = 32 must be 64"),
        ({"kind": "recurrent", "d_model": 32}, "model.decoder.d_model = 32 must be 64"),
        ({"kind": "recurrent", "d_model": 32, "decoder": {"d_model": 64}}, ""),
        ({"d_model": 64, "decoder": {"layers": 1}}, ""),
        ({"decoder": {"kind": "recurrent", "reading": {"weights": "sampled"}}}, "learns by REINFORCE only"),
        ({"positions": {"kind": "learned", "length": 100}}, "model.positions.length = 100 must be at least 501"),
        (
            {"decoder": {"positions": {"kind": "learned", "length": 100}}},
            "model.decoder.positions.length = 100 must be at least data.max_length = 400",
        ),
    ):
        if told:
            with pytest.raises(RecipeError) as error:
                recipe(**model)
            assert told in str(error.value)
        else:
            recipe(**model)


# --- made-up speech ---------------------------------------------------------------------------------------


def test_spoken_digits_are_the_same_each_time_and_of_their_part() -> None:
    made = {part: list(digits.generate_recordings(part, 12, seed=1)) for part in digits.PARTS}
    assert made["train"] == list(digits.generate_recordings("train", 12, seed=1))
    assert made["train"] != list(digits.generate_recordings("train", 12, seed=2))
    for part, said in made.items():
        for each in said:
            string = [digits.WORDS.index(word) for word in each.text.split()]
            assert 1 <= len(string) <= digits.MAX_DIGITS
            assert digits.assign_part(string) == part
    voices = [
        {digits.Voice.from_number(part, n, seed=1) for n in range(count)} for part, count in digits.VOICES.items()
    ]
    assert len(set.union(*voices)) == sum(digits.VOICES.values()), "no voice speaks in two parts"
    fours = list(digits.generate_recordings("test", 5, seed=1, digits=4))
    assert {len(each.text.split()) for each in fours} == {4}


def test_digits_sound_different_and_alike_when_said_again() -> None:
    """In one voice each digit is nearer to itself, said anew, than to any other, by the mean of its frames' bands."""
    voice, front = digits.Voice.from_number("train", 3, seed=1), LogMel(rate=digits.RATE, normalise=False)

    def heard(digit: int, seed: str) -> Tensor:
        from heedful.data.sound import Sound

        samples = torch.from_numpy(digits.synthesize_digits([digit], voice, seed=seed).astype(np.float32) / 2**15)
        assert samples.abs().max() > 0.1
        frames = front.compute_frames(Sound(samples, digits.RATE))
        loud = frames[frames.mean(1) > frames.mean(1).median()]
        return loud.mean(0) - loud.mean()

    first, again = ([heard(digit, f"{name} {digit}") for digit in range(10)] for name in ("a", "b"))
    nearest = [int(torch.stack([(one - other).norm() for other in first]).argmin()) for one in again]
    assert sum(one == digit for digit, one in enumerate(nearest)) >= 8
