"""Logs of training: metrics.jsonl and TensorBoard event files.

metrics.jsonl has a line for each evaluation, one for every fifty updates, and one for the final model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.atomic_io import atomic_replace, sync_file
from heedful.errors import MissingExtraError, RunError, TrainingError
from heedful.files import LARGEST_LOG, parse_json, read_text
from heedful.training.callbacks import Callback, LossSum, StepMetrics, TrainState, ValidationResult

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_UPDATES_PER_LINE = 50
_LINE_KEY = "training_line"


@dataclass
class _UpdateSums:
    """Sums over the updates since the last line."""

    labels: int = 0
    loss: float = 0.0
    nll: float = 0.0
    seconds: float = 0.0
    gradient_norm: float = 0.0
    parts: dict[str, LossSum] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> _UpdateSums:
        """Restore the sums from what `asdict` stored; empty sums if nothing was stored."""
        parts = {name: LossSum(**part) for name, part in stored.get("parts", {}).items()}
        return cls(**{**stored, "parts": parts})

    def add(self, update: StepMetrics) -> None:
        """Add an update to the sums."""
        self.labels += update.labels
        self.loss += update.loss * update.labels
        self.nll += update.nll * update.labels
        self.seconds += update.seconds
        self.gradient_norm = max(self.gradient_norm, update.gradient_norm)
        for name, part in update.extra_losses.items():
            previous = self.parts.get(name, LossSum(0.0, 0.0))
            self.parts[name] = LossSum(previous.total + part.total, previous.count + part.count)


class MetricsLog(Callback):
    """Callback that appends metrics to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sums = _UpdateSums()

    def get_state(self) -> Mapping[str, Any]:
        """Return the sums since the last line, which a resumed run continues."""
        return {_LINE_KEY: asdict(self._sums)}

    def rewind(self, progress: TrainState, stored: Mapping[str, Any]) -> None:
        """Remove the lines after the checkpoint whose progress is given, which training will write again, and restore
        the sums since the last line from `stored`, the state of callbacks in the checkpoint.
        """
        self._sums = _UpdateSums.from_dict(stored.get(_LINE_KEY, {}))
        if not self.path.exists():
            return
        try:
            lines = read_text(self.path, max_bytes=LARGEST_LOG, errors="replace").splitlines()
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be read ({error.strerror}); move it to another place, and train again"
            ) from None
        with atomic_replace(self.path) as partial:
            kept = [line for line in lines if _is_kept(line, progress)]
            partial.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def on_step_end(self, update: StepMetrics) -> None:
        """Add an update to the sums; write a line for every fifty: means per label, the last learning rate, labels per
        second.

        Further parts of the loss are means over what they count; `loss` and `nll` of several tasks are means over the
        labels of all, and each task has its own next to them.
        """
        self._sums.add(update)
        if update.step % _UPDATES_PER_LINE:
            return
        sums, self._sums = self._sums, _UpdateSums()
        record = {
            "kind": "training",
            "step": update.step,
            "epoch": update.epoch,
            "loss": sums.loss / sums.labels,
            "nll": sums.nll / sums.labels,
            "rate": update.rate,
            "gradient_norm": sums.gradient_norm,
            "labels_per_second": sums.labels / sums.seconds,
        }
        self._append(record | {name: part.mean for name, part in sorted(sums.parts.items()) if name not in record})

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Write one line with the metrics and the progress of an evaluation."""
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

    def write_final(self, progress: TrainState, metrics: Mapping[str, float], *, steps: Sequence[int]) -> None:
        """Write one line with the metrics of the final model, which was made of the checkpoints of `steps`, and with
        the best single checkpoint, which `progress` holds.
        """
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
        sync_file(self.path)

    def _append(self, record: dict[str, Any]) -> None:
        """Append a record as a JSON line; infinite numbers become null."""
        finite = {key: None if value in (math.inf, -math.inf) else value for key, value in record.items()}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(finite, allow_nan=False) + "\n")
        except OSError as error:
            raise TrainingError(
                f"{self.path}: cannot be written ({error.strerror}); free some space and start the same command again"
            ) from error


def _is_kept(line: str, progress: TrainState) -> bool:
    """Return whether a line of the file belongs to training up to the checkpoint whose progress is given."""
    try:
        record = parse_json(line)
        kind, step = record["kind"], int(record["step"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return False  # half a line, left by a kill
    if kind == "validation" and step == progress.step:
        return progress.evaluated == step
    return kind != "final" and step <= progress.step


class TensorBoardWriter(Callback):
    """Callback that writes loss, learning rate and gradient norm of each update, and metrics of each evaluation, for
    TensorBoard.

    Training continues after the update `resumed_at`; TensorBoard drops what earlier files contain for later updates.
    """

    def __init__(self, folder: Path, *, resumed_at: int = 0) -> None:
        self._writer = load_writer_class()(str(folder), purge_step=resumed_at + 1 if resumed_at else None)

    def on_step_end(self, update: StepMetrics) -> None:
        """Write the training scalars of an update."""
        for name in ("loss", "nll", "rate", "gradient_norm"):
            self._writer.add_scalar(f"training/{name}", getattr(update, name), update.step)
        for name, value in update.extra_losses.items():
            self._writer.add_scalar(f"training/{name}", value.mean, update.step)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Write the validation scalars and flush the file."""
        for name, value in evaluation.metrics.items():
            self._writer.add_scalar(f"validation/{name}", value, evaluation.progress.step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


def load_writer_class() -> type[SummaryWriter]:
    """Import the class that writes event files.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtraError(
            "training.tensorboard = true: the package tensorboard is not installed; "
            "install it with: pip install 'heedful[tensorboard]', or leave the key out"
        ) from None
    return SummaryWriter
