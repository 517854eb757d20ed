"""Learning curves read from metrics.jsonl, of finished and running training and of any version of heedful."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heedful.files import LARGEST_LOG, parse_json, read_text

_HIGH_PERPLEXITY: Final = 100.0
"""Perplexity from which on a warning is given."""


@dataclass(frozen=True)
class TrainingPoint:
    """Mean negative log-likelihood of a label, in nats, over the updates up to `step`."""

    step: int
    loss: float


@dataclass(frozen=True)
class ValidationPoint:
    """One evaluation: the update after which it was made, the seconds of training until then, and the loss in nats."""

    step: int
    seconds: float
    loss: float


@dataclass(frozen=True)
class LearningCurve:
    """Training and validation losses of a run, in order.

    Attributes:
        training: one point for every fifty updates.
        validation: one point for each evaluation.
        finished: whether training has ended.
    """

    training: tuple[TrainingPoint, ...] = ()
    validation: tuple[ValidationPoint, ...] = ()
    finished: bool = False

    @property
    def best(self) -> ValidationPoint | None:
        """The evaluation with the lowest loss; the first of several."""
        return min(self.validation, key=lambda point: point.loss, default=None)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the readable lines of a metrics file; skip a half-written line, and yield nothing if there is no file."""
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
    """Whether a record is of this kind and has finite numbers under these names."""
    return record.get("kind") == kind and all(_is_number(record.get(name)) for name in names)


def read_curve(path: Path) -> LearningCurve:
    """Read the learning curve from a metrics file; empty if there is no file."""
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
    """Return a warning if the last evaluation in a metrics file has a high perplexity; otherwise an empty string.

    A perplexity of 100 means that the model is as unsure of each token as if it chose among 100 tokens at random.
    Models that have learned a language or a translation have a far lower perplexity; models that have read their text
    only once often have a higher one.

    Returns:
        A sentence with the perplexity, the number of passes over the text, and a remedy; empty if the perplexity is not
        high or the task has none.
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
    """Whether a JSON value is a finite number; Python's JSON reader also accepts NaN, which cannot be plotted."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
