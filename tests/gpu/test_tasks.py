"""Each task computes on a GPU what it computes on a CPU.

`make gpu` runs these tests on a machine with CUDA. HEEDFUL_GPU_DEVICE names another device: with `cpu` they test
themselves.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from task_runs import create_task_runs

import heedful
from heedful.recipes.load import build_recipe
from heedful.runs.evaluate import evaluate_run
from heedful.runs.load import open_run
from heedful.training.callbacks import Callback, StepMetrics, ValidationResult

DEVICE = os.environ.get("HEEDFUL_GPU_DEVICE", "cuda")
ACTIONS = (
    *("translate", "generate", "fill", "classify", "tag", "answer", "ask", "chat", "caption", "detect", "transcribe"),
    *("watch", "look"),
)
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("unchecked"),
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no GPU"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained runs by action."""
    return create_task_runs(tmp_path_factory.mktemp("runs"))


def test_there_is_a_run_for_each_action(runs: dict[str, Path]) -> None:
    assert sorted(runs) == sorted(ACTIONS)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_gpu_gives_the_scores_of_a_cpu(runs: dict[str, Path], action: str) -> None:
    """Scores of outputs, such as BLEU, may differ by a few outputs that are nearly equal; losses only by rounding."""
    run = open_run(runs[action])
    part, expected = evaluate_run(run, device="cpu", engine="torch", say=lambda _: None)
    assert evaluate_run(run, device=DEVICE, engine="torch", say=lambda _: None) == (
        part,
        pytest.approx(expected, rel=1e-3),
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_a_gpu_gives_the_losses_of_a_cpu_in_bf16(
    runs: dict[str, Path], action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both round the same numbers. A number between two steps of bf16 may be rounded to the other one."""
    monkeypatch.setattr("heedful.engines.int8.MIN_ELEMENTS", 1)  # the models are small
    run = open_run(runs[action])
    (_, expected), (_, found) = (
        evaluate_run(run, device=device, engine="torch-bfloat16", say=lambda _: None) for device in ("cpu", DEVICE)
    )
    assert found["loss"] == pytest.approx(expected["loss"], rel=2**-8)


class LossRecorder(Callback):
    """Callback that keeps the loss of each update."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_step_end(self, update: StepMetrics) -> None:
        """Keep the loss."""
        self.losses.append(update.loss)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Do nothing."""


def train_copy(run: Path, output: Path, device: str, settings: dict[str, Any]) -> list[float]:
    """Train a run's recipe from the start; return the loss of each update."""
    table = json.loads((run / "config.json").read_text(encoding="utf-8"))["recipe"]
    table = {**table, "output": str(output), "training": {**table["training"], **settings}}
    recipe = build_recipe(table, source=str(run))
    recorder = LossRecorder()
    heedful.train(recipe, device=device, listeners=[recorder])
    return recorder.losses


@pytest.mark.parametrize("action", ACTIONS)
def test_a_gpu_gives_the_losses_of_a_cpu(runs: dict[str, Path], tmp_path: Path, action: str) -> None:
    """Sums in fp32 differ in their last bits, and each update makes the differences larger."""
    settings = {"steps": 3, "precision": "fp32", "evaluate_every": 3}
    expected = train_copy(runs[action], tmp_path / "cpu", "cpu", settings)
    assert len(expected) == 3
    assert train_copy(runs[action], tmp_path / "gpu", DEVICE, settings) == pytest.approx(expected, rel=1e-2)


def test_training_in_bf16_learns(runs: dict[str, Path], tmp_path: Path) -> None:
    schedule = {"kind": "linear", "rate": 1e-2, "warmup_share": 0.1}
    settings = {"steps": 60, "precision": "bf16", "evaluate_every": 60, "schedule": schedule}
    losses = train_copy(runs["translate"], tmp_path / "run", DEVICE, settings)
    assert all(map(math.isfinite, losses))
    assert losses[-1] < 0.9 * losses[0]
