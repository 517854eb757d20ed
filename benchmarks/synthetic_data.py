"""Synthetic texts and models for measuring speed without data; lengths are those of captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from heedful.data.corpus import Corpus, CorpusSide, EncodingReport
from heedful.data.tokenizers import EOS, UNK
from heedful.recipes.load import build_recipe
from heedful.runs.checkpoints import FolderCheckpointSaver, write_final_model
from heedful.runs.initialization import create_run
from heedful.runs.load import save_run
from heedful.training.callbacks import TrainingSnapshot, TrainState, ValidationResult

TYPICAL, SPREAD, DISAGREEMENT = 14.5, 0.3, 0.17
"""Median subwords of a Multi30k caption, and the standard deviations of log(source) and log(target / source)."""


def build_corpus(pairs: int, vocabulary: int, *, seed: int) -> Corpus:
    """Build a corpus in memory, whose ids follow Zipf's law."""
    dice = np.random.default_rng(seed)
    source = draw_caption_lengths(pairs, dice)
    target = np.clip(np.rint(source * np.exp(dice.normal(0, DISAGREEMENT, pairs))), 3, 80).astype(int)
    lengths = {"source": source, "target": target}
    sides = {side: _draw_sentences(each, vocabulary, dice) for side, each in lengths.items()}
    return Corpus(Path("synthetic"), report=EncodingReport(pairs, 0, 0), sides=sides)


def draw_caption_lengths(count: int, dice: np.random.Generator) -> np.ndarray:
    """Draw the number of tokens of each sentence, including the end of sentence."""
    return np.clip(np.rint(dice.lognormal(np.log(TYPICAL), SPREAD, count)), 3, 80).astype(int)


def _draw_sentences(lengths: np.ndarray, vocabulary: int, dice: np.random.Generator) -> CorpusSide:
    starts = np.concatenate(([0], lengths.cumsum()))
    ids = _draw_zipf_ids(int(starts[-1]), vocabulary, dice)
    ids[starts[1:] - 1] = EOS
    return CorpusSide(ids, starts[:-1], starts[1:])


def _draw_zipf_ids(count: int, vocabulary: int, dice: np.random.Generator) -> np.ndarray:
    first = UNK + 1
    chance = 1 / np.arange(1, vocabulary - first + 1)
    return dice.choice(np.arange(first, vocabulary), count, p=chance / chance.sum())


def create_translation_run(folder: Path, vocabulary: int, model: dict[str, Any], *, seed: int = 1) -> Path:
    """Create a finished run of translation with random weights, with the words w4, w5, ... below `vocabulary`."""
    text = {side: str(folder / f"{side}-words.txt") for side in ("source", "target")}
    for path in text.values():
        Path(path).write_text("".join(f"w{number}\n" for number in range(UNK + 1, vocabulary)), encoding="utf-8")
    table = {"data": {"train": text, "validation": text}, "tokenizer": {"kind": "words"}}
    return _create_finished_run(folder, {**table, "seed": seed, "model": model})


def create_language_model_run(folder: Path, vocabulary: int, model: dict[str, Any], *, seed: int = 1) -> Path:
    """Create a finished run of a language model with random weights, with an alphabet of `vocabulary` letters."""
    text = folder / "letters.txt"
    text.write_text("".join(chr(0x4E00 + number) for number in range(vocabulary)) * 400, encoding="utf-8")
    data = {"train": {"path": str(text)}, "validation": {"path": str(text)}, "length": 256}
    table = {"task": "language_modelling", "data": data, "tokenizer": {"kind": "characters"}}
    return _create_finished_run(folder, {**table, "seed": seed, "model": model})


def _create_finished_run(folder: Path, table: dict[str, Any]) -> Path:
    table = {**table, "output": str(folder / "run"), "training": {"steps": 1}}
    recipe = build_recipe(table, source="the benchmark's own recipe")
    recipe.output.mkdir()
    run = create_run(recipe.output, recipe)
    save_run(run)
    progress = TrainState(step=1)
    weights = {name: parameter.detach() for name, parameter in run.init_model().named_parameters()}
    evaluation = ValidationResult(progress, {"loss": 1.0}, improved=True)
    FolderCheckpointSaver(run.folder, keep=1).save(TrainingSnapshot(weights, {}, progress), evaluation)
    write_final_model(run.folder, average=1)
    return run.folder


def write_source_text(path: Path, sentences: int, vocabulary: int, *, seed: int = 2) -> Path:
    """Write sentences of these words, one on each line."""
    dice = np.random.default_rng(seed)
    lengths = draw_caption_lengths(sentences, dice) - 1
    lines = (" ".join(f"w{number}" for number in _draw_zipf_ids(length, vocabulary, dice)) for length in lengths)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
