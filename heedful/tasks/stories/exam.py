"""What readers of stories are asked, what their answers are worth, and whether they looked at the right facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.metrics.classes import accuracy
from heedful.metrics.metric import Mean, Metric, Ratio
from heedful.tasks.labelled import LabelledExam, LabelledReport
from heedful.tasks.stories.data import Asked
from heedful.tasks.stories.face import StoryAnswer, StoryReader

FAILED: Final = 0.05
"""A task with more errors is failed (Weston et al. 2015)."""


@final
@dataclass(frozen=True)
class Failed(Metric):
    """How many tasks have more than 5 % errors."""

    errors: tuple[Ratio, ...]

    @property
    def examples(self) -> int:
        """Those of each task."""
        return self.errors[0].examples

    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Numbers of tasks."""
        return np.asarray(np.sum([error.scores(weights) > FAILED for error in self.errors], axis=0), dtype=np.float64)


def story_exam(questions: Sequence[Asked], *, train: Iterable[Asked]) -> LabelledExam:
    """Questions about stories; what is drawn are questions.

    Measured are the mean error of tasks, each counted once, how many tasks are failed, the accuracy of all answers, and
    `facts`: the share of questions whose supporting facts are all among those that hops look at most, one each. `facts
    of hop k` is how often the fact that this hop looks at most is one of them.

    Raises:
        DataError: there are no questions.
    """
    counts, total = Counter[str](), 0
    for each in train:
        counts[each.answer] += 1
        total += 1
    if not counts or not questions:
        raise DataError("there is not a single question; check the files")
    most = min(counts, key=lambda name: (-counts[name], name))
    never = StoryAnswer(most, 1.0, (), (), np.zeros((0, 0)))
    unknown = sum(each.answer not in counts for each in questions)

    def ask(user: StoryReader) -> list[StoryAnswer]:
        return user.answer([(each.facts, each.question) for each in questions])

    return LabelledExam(
        [(each.task, each.facts, each.question) for each in questions],
        [each.answer for each in questions],
        ask=ask,
        measure=lambda answers: story_metrics(answers, questions),
        size=len(questions),
        total=total,
        constant=most,
        baseline=[never] * len(questions),
        main="error",
        remarks=(f"{unknown:,} answers never occur in the training text, and count as wrong",) if unknown else (),
    )


def story_metrics(answers: Sequence[StoryAnswer], questions: Sequence[Asked]) -> dict[str, Metric]:
    """See `story_exam`; without supporting facts nothing is said of them."""
    right = accuracy([each.answer for each in answers], [each.answer for each in questions])
    errors = tuple(Ratio((1 - right.above) * among, among) for among in _of_tasks(questions).values())
    found: dict[str, Metric] = {"error": Mean(errors), "failed": Failed(errors), "accuracy": right}
    return found | _looked(answers, questions)


def _of_tasks(questions: Sequence[Asked]) -> dict[str, Float[np.ndarray, " N"]]:
    """1 for the questions of each task."""
    tasks = np.array([each.task for each in questions])
    return {task: (tasks == task).astype(np.float64) for task in dict.fromkeys(each.task for each in questions)}


def _looked(answers: Sequence[StoryAnswer], questions: Sequence[Asked]) -> dict[str, Metric]:
    known = np.array([each.supporting is not None for each in questions], dtype=np.float64)
    if not known.any():
        return {}
    wanted = [set(each.supporting or ()) for each in questions]
    covered = [bool(want) and want <= set(each.looked) for each, want in zip(answers, wanted, strict=True)]
    found: dict[str, Metric] = {"facts": Ratio(np.array(covered, dtype=np.float64), known)}
    for hop in range(max(len(each.looked) for each in answers)):
        hits = [not want.isdisjoint(each.looked[hop : hop + 1]) for each, want in zip(answers, wanted, strict=True)]
        found[f"facts of hop {hop + 1}"] = Ratio(np.array(hits, dtype=np.float64), known)
    return found


@final
@dataclass(frozen=True, repr=False)
class StoriesReport(LabelledReport):
    """What a reader of stories reaches, and in which tasks."""

    def text(self) -> str:
        """Metrics of all tasks, and a line for each where there are several."""
        tasks = self._tasks()
        if len(tasks) == 1:
            return super().text()
        lines = [f"{'task':<14}  {'questions':>9}  {'error':>6}  {'facts':>6}".rstrip()]
        for task, told in tasks.items():
            facts = f"{told['facts']:6.3f}" if "facts" in told else ""
            lines.append(f"{task:<14}  {told['questions']:>9,}  {told['error']:6.3f}  {facts}".rstrip())
        return "\n".join((super().text(), "", *lines))

    def content(self) -> dict[str, Any]:
        """With each task."""
        return {**super().content(), "tasks": self._tasks()}

    def _tasks(self) -> dict[str, dict[str, Any]]:
        """Questions, error and facts of each."""
        tasks = np.array([task for task, *_ in cast("Sequence[tuple[str, ...]]", self.exam.asked)])
        told: dict[str, dict[str, Any]] = {}
        for task in dict.fromkeys(tasks.tolist()):
            among = (tasks == task)[None].astype(np.float64)
            share = {
                name: float(self.metrics[name].scores(among)[0]) for name in {"accuracy", "facts"} & self.metrics.keys()
            }
            told[task] = {"questions": int(among.sum()), "error": 1 - share.pop("accuracy"), **share}
        return told
