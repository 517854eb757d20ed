"""Fine-tuning Whisper: losses and transcripts of transformers, languages and tasks, adapters, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import audio_samples
import pytest
import torch

import heedful
from heedful.data.sound import read_sound, resample
from heedful.errors import RecipeError, RunError
from heedful.metrics.error_rates import word_error_rate
from heedful.recipes.generation import GreedyConfig
from heedful.recipes.load import build_recipe
from heedful.runs.export import export_hugging_face
from heedful.runs.load import open_run
from heedful.runs.metrics_log import read_curve, read_records
from heedful.tasks.speech.prompted import PromptedRecognizer

transformers = pytest.importorskip("transformers")
from reference.test_whisper import (  # noqa: E402 - needs transformers
    EOS,
    LANGUAGES,
    NO_TIMES,
    START,
    TRANSCRIBE,
    TRANSLATE,
    compute_features,
    write_whisper,
)

STILL = {"kind": "constant", "rate": 1e-9}
"""A learning rate that changes nothing that matters."""


@pytest.fixture(autouse=True)
def _use_float32() -> Iterator[None]:
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)  # as in their files
    transformers.logging.set_verbosity_error()
    yield
    torch.set_default_dtype(default)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write recordings of tones, and a tiny random Whisper."""
    audio_samples.write_recordings(tmp_path, "train", 24, seed=1)
    audio_samples.write_recordings(tmp_path, "validation", 6, seed=2)
    write_whisper(tmp_path / "whisper")
    return tmp_path


def list_validation(folder: Path) -> list[tuple[Path, str]]:
    lines = (folder / "validation.tsv").read_text().splitlines()
    return [(folder / name, text) for name, text in (line.split("\t") for line in lines)]


def train(folder: Path, name: str, *, data: dict[str, Any] | None = None, **training: Any) -> Path:
    """Train a run that starts from the Whisper of the folder."""
    table = {
        "task": "speech",
        "init": str(folder / "whisper"),
        "output": str(folder / name),
        "data": {
            "train": {"path": str(folder / "train.tsv")},
            "validation": {"path": str(folder / "validation.tsv")},
            "max_length": 24,
            **(data or {}),
        },
        "training": {"steps": 2, "evaluate_every": 2, "batch_tokens": 1200, **training},
    }
    return heedful.train(build_recipe(table, source="here"), device="cpu").folder


@pytest.mark.parametrize(("language", "to_english"), [("de", False), ("fr", True)])
def test_the_loss_is_that_of_transformers(language: str, to_english: bool, folder: Path) -> None:
    run = train(
        folder, "run", data={"language": language, "to_english": to_english}, schedule=STILL, label_smoothing=0.0
    )
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(folder / "whisper").eval()
    prompt = [LANGUAGES[language], TRANSLATE if to_english else TRANSCRIBE, NO_TIMES]
    tokenizer = open_run(run).tokenizer
    assert tokenizer.prefix_ids == tuple(prompt)
    losses, count = 0.0, 0
    for path, text in list_validation(folder):
        labels = [*tokenizer.encode(text), EOS]
        assert labels[:3] == prompt
        sound = read_sound(path)
        features = transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1)(
            resample(sound.samples, sound.rate, 16000).numpy(), sampling_rate=16000,
            return_tensors="pt",
        ).input_features  # fmt: skip
        with torch.no_grad():
            loss = theirs(input_features=features, labels=torch.tensor([labels])).loss
        losses, count = losses + float(loss) * len(labels), count + len(labels)
    best = read_curve(run / "metrics.jsonl").best
    assert best is not None
    assert best.loss == pytest.approx(losses / count, rel=1e-4)


def test_a_run_transcribes_as_the_folder_does_and_knows_its_languages(folder: Path) -> None:
    run = train(folder, "run", data={"language": "de"}, schedule=STILL)
    published = heedful.load(folder / "whisper", kind=PromptedRecognizer, device="cpu")
    trained = heedful.load(run, kind=PromptedRecognizer, device="cpu")
    sounds = [path for path, _ in list_validation(folder)]

    def transcribe(recognizer: Any) -> list[tuple[int, ...]]:
        found = recognizer.transcribe(sounds, generation=GreedyConfig())
        return [each.candidates[0].ids for each in found]

    assert trained.prompt.language == "de"
    assert set(trained.languages) == set(LANGUAGES)
    german = transcribe(published.with_language("de"))
    assert transcribe(trained) == german
    for language, to_english in (("fr", False), ("en", True), (None, False)):
        expected = transcribe(published.with_language(language, to_english=to_english))
        assert transcribe(trained.with_language(language, to_english=to_english)) == expected
    begins = {ids[0] for ids in german}
    assert not begins & set(trained.target.tokenizer.special.suppressed_start_ids)


def test_a_translating_run_translates(folder: Path) -> None:
    run = train(folder, "run", data={"language": "fr", "to_english": True}, schedule=STILL)
    published, trained = (
        heedful.load(each, kind=PromptedRecognizer, device="cpu") for each in (folder / "whisper", run)
    )
    sounds = [path for path, _ in list_validation(folder)]
    found, expected, other = (
        [each.candidates[0].ids for each in recognizer.transcribe(sounds, generation=GreedyConfig())]
        for recognizer in (
            trained,
            published.with_language("fr", to_english=True),
            published.with_language("fr"),
        )
    )
    assert found == expected != other


def test_transformers_reads_the_exported_run(folder: Path) -> None:
    data = {"language": "fr", "max_length": 20}
    run = train(folder, "run", data=data, steps=6, schedule={"kind": "constant", "rate": 1e-3})
    export_hugging_face(run, folder / "again")
    theirs, told = transformers.WhisperForConditionalGeneration.from_pretrained(
        folder / "again", output_loading_info=True
    )
    assert not any(told.values())
    before = transformers.WhisperForConditionalGeneration.from_pretrained(folder / "whisper").state_dict()
    changed = [name for name, tensor in theirs.state_dict().items() if not torch.equal(tensor, before[name])]
    assert len(changed) > 0.9 * len(before)
    ours = heedful.load(run, kind=PromptedRecognizer, device="cpu")
    sounds = [read_sound(path) for path, _ in list_validation(folder)]
    samples = [resample(sound.samples, sound.rate, 16000) for sound in sounds]
    found = theirs.eval().generate(compute_features(samples), do_sample=False, num_beams=1)
    for transcription, ids in zip(ours.transcribe(sounds, generation=GreedyConfig()), found.tolist(), strict=True):
        written = list(transcription.candidates[0].ids)
        assert [number for number in ids if number != EOS] == written
    processor = transformers.WhisperProcessor.from_pretrained(folder / "again")
    expected = open_run(run).tokenizer.encode("low mid high")[3:]
    assert processor.tokenizer("low mid high", add_special_tokens=False)["input_ids"] == expected
    extractor = processor.feature_extractor
    assert (extractor.feature_size, extractor.chunk_length, extractor.hop_length) == (8, 1, 160)
    assert json.loads((folder / "again/generation_config.json").read_text())["language"] == "<|fr|>"
    reloaded = heedful.load(folder / "again", kind=PromptedRecognizer, device="cpu").with_language("fr")
    texts, again = (each.transcribe(sounds, generation=GreedyConfig()) for each in (ours, reloaded))
    for one, other in zip(texts, again, strict=True):  # a folder writes as many tokens as there are positions
        assert other.candidates[0].ids[: len(one.candidates[0].ids)] == one.candidates[0].ids


def test_a_folder_in_several_files_is_written_as_one(folder: Path) -> None:
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder / "whisper")
    for file in folder.glob("whisper/*.safetensors"):
        file.unlink()
    settings = (folder / "whisper/generation_config.json").read_bytes()
    model.save_pretrained(folder / "whisper", max_shard_size="60KB")
    (folder / "whisper/generation_config.json").write_bytes(settings)
    assert (folder / "whisper/model.safetensors.index.json").exists()
    export_hugging_face(folder / "whisper", folder / "again")
    texts = [
        heedful.load(folder / name, kind=PromptedRecognizer, device="cpu")
        .with_language("de")
        .transcribe([path for path, _ in list_validation(folder)], generation=GreedyConfig())
        for name in ("whisper", "again")
    ]
    assert [each.text for each in texts[0]] == [each.text for each in texts[1]]


def test_an_adapter_leaves_the_weights_and_goes_on_where_it_stopped(folder: Path) -> None:
    adapter = {"kind": "lora", "rank": 2}
    settings: dict[str, Any] = {"adapter": adapter, "schedule": {"kind": "constant", "rate": 1e-2}}
    whole = train(folder, "whole", data={"language": "de"}, steps=4, monitor="exact", **settings)
    train(folder, "parts", data={"language": "de"}, steps=2, monitor="exact", **settings)
    parts = train(folder, "parts", data={"language": "de"}, steps=4, monitor="exact", **settings)
    sounds = [path for path, _ in list_validation(folder)]
    texts = [
        [each.candidates[0].log_probability for each in heedful.load(run, device="cpu").transcribe(sounds)]
        for run in (whole, parts)
    ]
    assert texts[0] == texts[1]
    assert (whole / "model.safetensors").stat().st_size < 0.3 * (folder / "whisper/model.safetensors").stat().st_size
    heedful.quantize(whole, folder / "small")
    assert heedful.load(folder / "small", device="cpu").transcribe(sounds[:1])[0].candidates


def test_another_run_starts_from_the_first_with_its_frames(folder: Path) -> None:
    run = train(folder, "run", data={"language": "de"}, schedule=STILL, monitor="word_errors")
    measured = [each["word_errors"] for each in read_records(run / "metrics.jsonl") if "word_errors" in each]
    found = heedful.load(run, kind=PromptedRecognizer, device="cpu").transcribe(
        [path for path, _ in list_validation(folder)], generation=GreedyConfig()
    )
    errors = word_error_rate([each.text for each in found], [text for _, text in list_validation(folder)]).value
    assert measured[-1] == pytest.approx(errors, rel=1e-6)
    assert errors > 0
    recipe = build_recipe(
        {
            "task": "speech",
            "init": str(run),
            "output": str(folder / "next"),
            "data": {
                "train": {"path": str(folder / "train.tsv")},
                "validation": {"path": str(folder / "validation.tsv")},
                "max_length": 24,
            },
            "training": {"steps": 1, "batch_tokens": 1200, "schedule": STILL},
        },
        source="here",
    )
    following = open_run(heedful.train(recipe, device="cpu").folder)
    assert following.recipe.data.frames == open_run(run).recipe.data.frames
    assert following.recipe.data.frames.seconds == 1
    assert following.tokenizer.prefix_ids == open_run(run).tokenizer.prefix_ids


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, r"data\.language: is not given, and the model of init knows de, en, fr; name one of these"),
        ({"language": "xx"}, r'data\.language: = "xx", and the model of init knows de, en, fr'),
        ({"language": "de", "frames": {"bands": 80}}, r"data\.frames\.bands = 80: init = .* has 8 and reads nothing"),
        ({"language": "de", "max_seconds": 2}, r"data\.max_seconds = 2\.0 must be at most data\.frames\.seconds = 1"),
        ({"language": "de", "max_length": 25}, r"decoder\.positions\.length = 24 must be at least data\.max_length"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(data: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(RecipeError, match=message):
        train(folder, "run", data=data)


def test_a_model_of_one_language_needs_none(folder: Path) -> None:
    write_whisper(folder / "whisper", multilingual=False)
    for data in ({"language": "en"}, {"to_english": True}):
        with pytest.raises(RecipeError, match=r"data\.(language|to_english): the model of init knows one language"):
            train(folder, "run", data=data)
    assert open_run(train(folder, "run")).tokenizer.prefix_ids == (NO_TIMES,)
    assert START not in open_run(folder / "run").tokenizer.encode("low")


def test_other_models_have_no_language_and_no_padding_with_ctc(folder: Path) -> None:
    table: dict[str, Any] = {
        "task": "speech",
        "output": "run",
        "data": {"train": {"path": "a.tsv"}, "validation": {"path": "b.tsv"}},
        "training": {"steps": 1},
    }
    with pytest.raises(RecipeError, match=r"data\.language is for the model that init names"):
        build_recipe({**table, "data": {**table["data"], "language": "de"}}, source="here")
    with pytest.raises(RecipeError, match=r"model\.ctc_weight = 0\.3 must be 0 with data\.frames\.seconds"):
        build_recipe({**table, "data": {**table["data"], "frames": {"seconds": 30}}}, source="here")
    build_recipe(table, source="here")


def test_only_such_models_are_exported(folder: Path) -> None:
    (folder / "recipe.toml").write_text(audio_samples.RECIPE)
    words = ("--output", str(folder / "tones"), "--training.steps", "1", "--model.decoder.heads", "2")
    run = heedful.train(heedful.load_recipe(folder / "recipe.toml", words), device="cpu").folder
    with pytest.raises(RunError, match="are not those of Whisper, the only format of speech recognisers here"):
        export_hugging_face(run, folder / "again")


@pytest.mark.slow
def test_it_learns_the_words_of_tones(folder: Path) -> None:
    audio_samples.write_recordings(folder, "train", 150, seed=1)
    config = transformers.WhisperConfig.from_pretrained(folder / "whisper")
    torch.manual_seed(1)
    settings = (folder / "whisper/generation_config.json").read_bytes()
    transformers.WhisperForConditionalGeneration(config).save_pretrained(folder / "whisper")
    (folder / "whisper/generation_config.json").write_bytes(settings)
    run = train(
        folder, "run", data={"language": "de"}, steps=600, evaluate_every=100, batch_tokens=1600, monitor="exact",
        schedule={"kind": "linear", "rate": 4e-3, "warmup_share": 0.1},
    )  # fmt: skip
    texts = heedful.load(run, device="cpu").transcribe([path for path, _ in list_validation(folder)])
    assert [each.text.strip() for each in texts] == [text for _, text in list_validation(folder)]
    assert [each["exact"] for each in read_records(run / "metrics.jsonl") if "exact" in each][-1] == 1.0
