"""Runs that nobody trained, for tests of what is written of weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from heedful.recipes.load import recipe_from
from heedful.runs.checkpoints import Checkpoints, finish
from heedful.runs.initial import begin_run
from heedful.runs.load import save_run
from heedful.training.listeners import Evaluation, Progress, Snapshot


def untrained(table: dict[str, Any]) -> Path:
    """A finished run of a recipe, with random weights, all of them different from 0 and 1."""
    recipe = recipe_from(table, place="here")
    recipe.output.mkdir()
    run = begin_run(recipe.output, recipe)
    save_run(run)
    made = run.model()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    progress = Progress(step=1)
    snapshot = Snapshot({name: p.detach() for name, p in made.named_parameters()}, {}, progress)
    Checkpoints(run.folder, keep=1).save(snapshot, Evaluation(progress, {"loss": 1.0}, improved=True))
    finish(run.folder, average=1)
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
