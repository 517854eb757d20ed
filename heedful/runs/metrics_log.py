"""metrics.jsonl: one line for each evaluation, for every fifty updates, and for the final model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful.errors import TrainingError
from heedful.store import replacing
from heedful.training.listeners import Evaluation, Listener, Progress, Update

_EVERY = 50


class MetricsLog(Listener):
    """Appends measurements to a file.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pending: list[Update] = []

    def rewind(self, progress: Progress) -> None:
        """Drops the lines that training will write again when it goes on from there."""
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        with replacing(self.path) as beside:
            kept = [line for line in lines if _stays(line, progress)]
            beside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def updated(self, update: Update) -> None:
        """Gathers fifty updates into one line: means per label, the last rate, labels a second."""
        self._pending.append(update)
        if update.step % _EVERY:
            return
        labels = sum(u.labels for u in self._pending)
        self._append(
            {
                "kind": "training",
                "step": update.step,
                "epoch": update.epoch,
                "loss": sum(u.loss * u.labels for u in self._pending) / labels,
                "nll": sum(u.nll * u.labels for u in self._pending) / labels,
                "rate": update.rate,
                "gradient_norm": max(u.gradient_norm for u in self._pending),
                "labels_per_second": labels / sum(u.seconds for u in self._pending),
            }
        )
        self._pending = []

    def evaluated(self, evaluation: Evaluation) -> None:
        """One line of validation metrics."""
        progress = evaluation.progress
        self._append(
            {
                "kind": "validation",
                "step": progress.step,
                "epoch": progress.epoch,
                "seconds": round(progress.seconds, 1),
                "labels": progress.labels,
                "improved": evaluation.improved,
                **evaluation.metrics,
            }
        )

    def concluded(self, progress: Progress, metrics: Mapping[str, float], *, steps: Sequence[int]) -> None:
        """One line for the final model, made of the checkpoints of `steps`, beside the best single one."""
        self._append(
            {
                "kind": "final",
                "step": progress.step,
                "checkpoints": list(steps),
                **metrics,
                "best": progress.best,
                "best_step": progress.best_step,
            }
        )

    def _append(self, record: dict[str, Any]) -> None:
        plain = {key: None if value in (math.inf, -math.inf) else value for key, value in record.items()}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(plain, allow_nan=False) + "\n")
        except OSError as error:
            raise TrainingError(
                f"{self.path}: cannot be written ({error.strerror}); make room and start the same command again"
            ) from error


def _stays(line: str, progress: Progress) -> bool:
    try:
        record = json.loads(line)
        kind, step = record["kind"], int(record["step"])
    except (ValueError, KeyError, TypeError):
        return False  # half a line, left by a kill
    if kind == "validation" and step == progress.step:
        return progress.evaluated == step
    return kind != "final" and step <= progress.step
