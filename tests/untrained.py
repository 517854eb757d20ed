"""Runs that nobody trained, for tests of what is written of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heedful.recipes.load import build_recipe
from heedful.runs.checkpoints import FolderCheckpointSaver, write_final_model
from heedful.runs.initialization import create_run
from heedful.runs.load import save_run
from heedful.training.callbacks import TrainingSnapshot, TrainState, ValidationResult


def untrained(table: dict[str, Any], *, draw: Callable[[nn.Parameter], object] | None = None) -> Path:
    """A finished run of a recipe, with random weights, all of them different from 0 and 1; normal ones unless `draw`
    fills each parameter."""
    recipe = build_recipe(table, source="here")
    recipe.output.mkdir()
    run = create_run(recipe.output, recipe)
    save_run(run)
    made = run.init_model()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3) if draw is None else draw(parameter)
    progress = TrainState(step=1)
    snapshot = TrainingSnapshot({name: p.detach() for name, p in made.named_parameters()}, {}, progress)
    FolderCheckpointSaver(run.folder, keep=1).save(snapshot, ValidationResult(progress, {"loss": 1.0}, improved=True))
    write_final_model(run.folder, average=1)
    return run.folder


def untrained_writer(folder: Path, texts: Sequence[str], **model: Any) -> Path:
    """A run of a small language model, which knows the letters of these texts."""
    (folder / "text.txt").write_text("\n".join(texts * 20), encoding="utf-8")
    text = {"path": str(folder / "text.txt")}
    return untrained(
        {
            "task": "language_modelling",
            "output": str(folder / "run"),
            "data": {"train": text, "validation": text, "length": 16},
            "tokenizer": {"kind": "characters"},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2, **model},
            "training": {"steps": 1},
        }
    )


def untrained_translator(
    folder: Path,
    pairs: Sequence[tuple[str, str]],
    *,
    draw: Callable[[nn.Parameter], object] | None = None,
    **tables: Any,
) -> Path:
    """A run of a small model of two languages, which knows the words of these pairs.

    Args:
        folder: that exists; the run becomes `run` in it.
        pairs: sources and targets; words of sources may have labels.
        draw: fills each parameter; `draw_lively` unless given.
        tables: of the recipe; `model` joins what is small.
    """
    lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (folder / "text.tsv").write_text(lines * 5, encoding="utf-8")
    text = {"path": str(folder / "text.tsv")}
    small = {"d_model": 16, "heads": 2, "d_ff": 24, "encoder_layers": 2, "decoder_layers": 2, "tie": "two_way"}
    return untrained(
        {
            "task": "translation",
            "output": str(folder / "run"),
            "data": {"train": text, "validation": text, "max_length": 40},
            "tokenizer": {"kind": "words"},
            "generation": {"kind": "greedy", "max_ratio": 0, "max_extra": 12},
            "training": {"steps": 1},
            **tables,
            "model": {**small, **tables.get("model", {})},
        },
        draw=draw or draw_lively,
    )


def draw_lively(parameter: nn.Parameter) -> None:
    """Fills matrices with large numbers and changes norms and biases a little, so that answers depend on the text."""
    with torch.no_grad():
        if parameter.dim() > 1:
            parameter.normal_(std=0.5)
        else:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)


def untrained_classifier(folder: Path, classes: Mapping[str, str], **tables: Any) -> Path:
    """A run of a small classifier, which knows the letters of these texts, and their classes.

    Args:
        folder: that exists; the run becomes `run` in it.
        classes: of each text.
        tables: of the recipe; `model` joins what is small.
    """
    lines = "".join(f"{text}\t{label}\n" for text, label in classes.items())
    (folder / "texts.tsv").write_text("text\tlabel\n" + lines * 5, encoding="utf-8")
    text = {"path": str(folder / "texts.tsv")}
    small = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2}
    return untrained(
        {
            "task": "classification",
            "output": str(folder / "run"),
            "data": {"train": text, "validation": text, "max_length": 32},
            "tokenizer": {"kind": "characters"},
            "training": {"steps": 1},
            **tables,
            "model": {**small, **tables.get("model", {})},
        },
        draw=draw_lively,
    )
