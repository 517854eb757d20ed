"""metrics.jsonl: one line for each evaluation, for every fifty updates, and for the final model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from heedful.errors import TrainingError
from heedful.store import replacing
from heedful.training.listeners import Evaluation, Listener, Progress, Sum, Update

_EVERY = 50
_LINE = "training_line"


@dataclass
class _Gathered:
    """What the updates since the last line add up to."""

    labels: int = 0
    loss: float = 0.0
    nll: float = 0.0
    seconds: float = 0.0
    gradient_norm: float = 0.0
    parts: dict[str, Sum] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> _Gathered:
        """What `asdict` made of one; nothing gathered where nothing was stored."""
        parts = {name: Sum(**part) for name, part in stored.get("parts", {}).items()}
        return cls(**{**stored, "parts": parts})

    def add(self, update: Update) -> None:
        self.labels += update.labels
        self.loss += update.loss * update.labels
        self.nll += update.nll * update.labels
        self.seconds += update.seconds
        self.gradient_norm = max(self.gradient_norm, update.gradient_norm)
        for name, part in update.further.items():
            before = self.parts.get(name, Sum(0.0, 0.0))
            self.parts[name] = Sum(before.total + part.total, before.count + part.count)


class MetricsLog(Listener):
    """Appends measurements to a file.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._gathered = _Gathered()

    def gathered(self) -> Mapping[str, Any]:
        """The updates since the last line, which a later sitting goes on with."""
        return {_LINE: asdict(self._gathered)}

    def rewind(self, progress: Progress, gathered: Mapping[str, Any]) -> None:
        """Drops the lines that training will write again when it goes on from there, with what was gathered there."""
        self._gathered = _Gathered.of(gathered.get(_LINE, {}))
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        with replacing(self.path) as beside:
            kept = [line for line in lines if _stays(line, progress)]
            beside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def updated(self, update: Update) -> None:
        """Gathers fifty updates into one line: means per label, the last rate, labels a second.

        Further parts of the loss are means over what they count; `loss` and `nll` of several tasks are means over the
        labels of all, and each task has its own beside them.
        """
        self._gathered.add(update)
        if update.step % _EVERY:
            return
        found, self._gathered = self._gathered, _Gathered()
        record = {
            "kind": "training",
            "step": update.step,
            "epoch": update.epoch,
            "loss": found.loss / found.labels,
            "nll": found.nll / found.labels,
            "rate": update.rate,
            "gradient_norm": found.gradient_norm,
            "labels_per_second": found.labels / found.seconds,
        }
        self._append(record | {name: part.mean for name, part in sorted(found.parts.items()) if name not in record})

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
