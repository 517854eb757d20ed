"""What metrics.jsonl says of a training, finished or under way, of any version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heedful.files import LARGEST_LOG, parse_json, read_text

_HIGH_PERPLEXITY: Final = 100.0
"""Perplexity from which on something is said of it."""


@dataclass(frozen=True)
class TrainingPoint:
    """The mean negative log-likelihood of a label, in nats, over the updates until `step`."""

    step: int
    loss: float


@dataclass(frozen=True)
class ValidationPoint:
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

    training: tuple[TrainingPoint, ...] = ()
    validation: tuple[ValidationPoint, ...] = ()
    finished: bool = False

    @property
    def best(self) -> ValidationPoint | None:
        """The evaluation with the lowest loss; the first of several."""
        return min(self.validation, key=lambda point: point.loss, default=None)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that can be read: a kill may leave half a line, and a run that has just begun none."""
    try:
        lines = read_text(path, max_bytes=LARGEST_LOG, errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            record = parse_json(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def has_numbers(record: Mapping[str, Any], kind: str, *names: str) -> bool:
    """A record of this kind with numbers of these names; a loss that was infinite is none."""
    return record.get("kind") == kind and all(_is_number(record.get(name)) for name in names)


def read_curve(path: Path) -> LearningCurve:
    """What there is in a file of metrics by now; nothing where there is no file."""
    training: list[TrainingPoint] = []
    validation: list[ValidationPoint] = []
    finished = False
    for record in read_records(path):
        if has_numbers(record, "training", "step"):
            loss = next((record[name] for name in ("nll", "loss") if _is_number(record.get(name))), None)
            if loss is not None:
                training.append(TrainingPoint(record["step"], loss))
        elif has_numbers(record, "validation", "step", "loss"):
            seconds = record["seconds"] if _is_number(record.get("seconds")) else 0.0
            validation.append(ValidationPoint(record["step"], seconds, record["loss"]))
        finished = finished or record.get("kind") == "final"
    return LearningCurve(tuple(training), tuple(validation), finished)


def describe_high_perplexity(path: Path) -> str:
    """Return what is to be said of the last evaluation in a file of metrics, where its perplexity is high.

    A perplexity of 100 says that the model is as unsure of each token as if it chose among 100 at random. Models that
    have learned a language or a translation have far less, and those that have read their text once often have more.

    Returns:
        A sentence that names the perplexity, the passes over the text, and what to do; empty where it is not high, or
        the task has no perplexity.
    """
    perplexity, epoch = 0.0, None
    for record in read_records(path):
        if has_numbers(record, "validation", "step", "perplexity"):
            perplexity, epoch = record["perplexity"], record.get("epoch")
        elif has_numbers(record, "final", "step", "perplexity"):
            perplexity = record["perplexity"]
    if perplexity < _HIGH_PERPLEXITY:
        return ""
    passes = ""
    if isinstance(epoch, int):
        passes = ", and the text was read once or less" if epoch <= 1 else f" after {epoch:,} passes over the text"
    return (
        f"the perplexity of validation is high, {perplexity:,.0f}{passes}: the model has learned little so far; "
        "train longer (training.steps, epochs or minutes), or give more text"
    )


def _is_number(value: Any) -> bool:
    """JSON as Python reads it may hold NaN, which no plot has a place for."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
