"""What metrics.jsonl says of a training, finished or under way, of any version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.files import LARGEST_LOG, parse_json, read_text


@dataclass(frozen=True)
class Learned:
    """The mean negative log-likelihood of a label, in nats, over the updates until `step`."""

    step: int
    loss: float


@dataclass(frozen=True)
class Validated:
    """An evaluation: the update that it was after, the seconds until then, and the loss in nats."""

    step: int
    seconds: float
    loss: float


@dataclass(frozen=True)
class LearningCurve:
    """Training and validation, each in order.

    Attributes:
        training: a point for every fifty updates.
        validation: one for each evaluation.
        finished: whether training came to its end.
    """

    training: tuple[Learned, ...] = ()
    validation: tuple[Validated, ...] = ()
    finished: bool = False

    @property
    def best(self) -> Validated | None:
        """The evaluation with the lowest loss; the first of several."""
        return min(self.validation, key=lambda point: point.loss, default=None)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that can be read: a kill may leave half a line, and a run that has just begun none."""
    try:
        lines = read_text(path, most=LARGEST_LOG, errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            record = parse_json(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def has(record: Mapping[str, Any], kind: str, *names: str) -> bool:
    """A record of this kind with numbers of these names; a loss that was infinite is none."""
    return record.get("kind") == kind and all(_is_number(record.get(name)) for name in names)


def read_curve(path: Path) -> LearningCurve:
    """What there is in a file of metrics by now; nothing where there is no file."""
    training: list[Learned] = []
    validation: list[Validated] = []
    finished = False
    for record in records(path):
        if has(record, "training", "step"):
            loss = next((record[name] for name in ("nll", "loss") if _is_number(record.get(name))), None)
            if loss is not None:
                training.append(Learned(record["step"], loss))
        elif has(record, "validation", "step", "loss"):
            seconds = record["seconds"] if _is_number(record.get("seconds")) else 0.0
            validation.append(Validated(record["step"], seconds, record["loss"]))
        finished = finished or record.get("kind") == "final"
    return LearningCurve(tuple(training), tuple(validation), finished)


def _is_number(value: Any) -> bool:
    """JSON as Python reads it may hold NaN, which no plot has a place for."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
