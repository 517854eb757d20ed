"""Runs with random weights."""

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


def create_untrained_run(table: dict[str, Any], *, draw: Callable[[nn.Parameter], object] | None = None) -> Path:
    """Create a finished run of a recipe with random weights, which differ from 0 and 1.

    `draw` fills each parameter; the default is a normal distribution.
    """
    recipe = build_recipe(table, source="here")
    recipe.output.mkdir()
    run = create_run(recipe.output, recipe)
    save_run(run)
    model = run.init_model()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3) if draw is None else draw(parameter)
    progress = TrainState(step=1)
    snapshot = TrainingSnapshot({name: p.detach() for name, p in model.named_parameters()}, {}, progress)
    FolderCheckpointSaver(run.folder, keep=1).save(snapshot, ValidationResult(progress, {"loss": 1.0}, improved=True))
    write_final_model(run.folder, average=1)
    return run.folder


def create_language_model_run(folder: Path, texts: Sequence[str], **model: Any) -> Path:
    """Create a run of a small language model with the letters of these texts."""
    (folder / "text.txt").write_text("\n".join(texts * 20), encoding="utf-8")
    text = {"path": str(folder / "text.txt")}
    return create_untrained_run(
        {
            "task": "language_modelling",
            "output": str(folder / "run"),
            "data": {"train": text, "validation": text, "length": 16},
            "tokenizer": {"kind": "characters"},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2, **model},
            "training": {"steps": 1},
        }
    )


def create_translation_run(
    folder: Path,
    pairs: Sequence[tuple[str, str]],
    *,
    draw: Callable[[nn.Parameter], object] | None = None,
    **tables: Any,
) -> Path:
    """Create a run of a small translation model with the words of these pairs.

    Args:
        folder: existing folder; the run is its subfolder `run`.
        pairs: sources and targets; words of sources may have labels.
        draw: function that fills each parameter; `draw_large_weights` by default.
        tables: tables of the recipe; `model` is merged into the small sizes.
    """
    lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (folder / "text.tsv").write_text(lines * 5, encoding="utf-8")
    text = {"path": str(folder / "text.tsv")}
    small = {"d_model": 16, "heads": 2, "d_ff": 24, "encoder_layers": 2, "decoder_layers": 2, "tie": "two_way"}
    return create_untrained_run(
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
        draw=draw or draw_large_weights,
    )


def draw_large_weights(parameter: nn.Parameter) -> None:
    """Fill matrices with large numbers and change norms and biases a little, so that outputs depend on the text."""
    with torch.no_grad():
        if parameter.dim() > 1:
            parameter.normal_(std=0.5)
        else:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)


def create_classifier_run(folder: Path, classes: Mapping[str, str], **tables: Any) -> Path:
    """Create a run of a small classifier with the letters of these texts.

    Args:
        folder: existing folder; the run is its subfolder `run`.
        classes: class of each text.
        tables: tables of the recipe; `model` is merged into the small sizes.
    """
    lines = "".join(f"{text}\t{label}\n" for text, label in classes.items())
    (folder / "texts.tsv").write_text("text\tlabel\n" + lines * 5, encoding="utf-8")
    text = {"path": str(folder / "texts.tsv")}
    small = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2}
    return create_untrained_run(
        {
            "task": "classification",
            "output": str(folder / "run"),
            "data": {"train": text, "validation": text, "max_length": 32},
            "tokenizer": {"kind": "characters"},
            "training": {"steps": 1},
            **tables,
            "model": {**small, **tables.get("model", {})},
        },
        draw=draw_large_weights,
    )
