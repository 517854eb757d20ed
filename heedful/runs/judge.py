"""How well trained classifiers, taggers and answerers do in one exam, and which of them differ only in examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.metrics.bootstrap import Comparison, Interval
from heedful.metrics.weighted import comparisons, intervals
from heedful.runs.load import load
from heedful.tasks.exam import Exam
from heedful.tasks.fine_tuning import FineTuningRecipe


@dataclass(frozen=True)
class Judgement:
    """What some answers are worth.

    Attributes:
        metrics: each with its interval over resampled examples.
        against: each beside that of the first answers, on the same resampled examples; empty for those themselves.
    """

    metrics: Mapping[str, Interval]
    against: Mapping[str, Comparison]


@dataclass(frozen=True)
class Judge:
    """How answers are compared with what is right, and with each other.

    Attributes:
        exam: what was asked.
        samples: draws of examples.
        seed: of the draws.
    """

    exam: Exam
    samples: int = 1000
    seed: int = 1

    def ask(self, folder: Path, *, device: str | None) -> Sequence[Any]:
        """The answers of a trained model; `RunError` where there is none."""
        return self.exam.answers(load(folder, device=device))

    def judge(self, answers: Sequence[Any], *, against: Sequence[Any] | None) -> Judgement:
        """What answers are worth, alone and beside others."""
        metrics = self.exam.weighted(answers)
        alone = intervals(metrics, samples=self.samples, seed=self.seed)
        return Judgement(
            {each.name: each for each in alone},
            {} if against is None else {each.name: each for each in self.compare(against, answers)},
        )

    def compare(self, first: Sequence[Any], second: Sequence[Any]) -> tuple[Comparison, ...]:
        """Each metric of two systems, by paired bootstrap."""
        one, two = (self.exam.weighted(answers) for answers in (first, second))
        return comparisons(one, two, samples=self.samples, seed=self.seed)


def start(recipe: FineTuningRecipe) -> str:
    """What a model begins with, and what of it stands still."""
    if recipe.init is None:
        return "scratch"
    match recipe.training.freeze:
        case "encoder":
            return f"{recipe.init.name}, frozen"
        case 0:
            return recipe.init.name
        case layers:
            return f"{recipe.init.name}, {layers} frozen"


def families(recipes: Sequence[FineTuningRecipe]) -> list[list[int]]:
    """The numbers of those recipes that differ in nothing but `data.examples` and `output`, in order of appearance."""
    found: dict[str, list[int]] = {}
    for number, recipe in enumerate(recipes):
        found.setdefault(recipe.model_dump_json(exclude={"output": True, "data": {"examples"}}), []).append(number)
    return list(found.values())
