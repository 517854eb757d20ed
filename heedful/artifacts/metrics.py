"""metrics.jsonl: one line for each evaluation and for every fifty updates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heedful.errors import TrainingError
from heedful.training.listeners import Evaluation, Listener, Update

_EVERY = 50


class MetricsLog(Listener):
    """Appends measurements to a file; lines from beyond the point where training goes on are dropped first.

    Args:
        path: the file.
        resumed_at: the update after which training goes on, 0 at the start.
    """

    def __init__(self, path: Path, *, resumed_at: int = 0) -> None:
        self.path = path
        self._pending: list[Update] = []
        if path.exists():
            kept = [
                line for line in path.read_text(encoding="utf-8").splitlines() if _step(line) <= resumed_at
            ]
            self._write("".join(f"{line}\n" for line in kept), mode="w")

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

    def _append(self, record: dict[str, Any]) -> None:
        self._write(json.dumps(record) + "\n", mode="a")

    def _write(self, text: str, *, mode: str) -> None:
        try:
            with self.path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise TrainingError(
                f"{self.path}: cannot be written ({error.strerror}); make room and start the same command again"
            ) from error


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # half a line, left by a kill
