"""What answerers are asked, and what their answers are worth."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import final

from heedful.data.questions import Question
from heedful.errors import DataError
from heedful.metrics.answers import answer_metrics
from heedful.metrics.metric import Metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.spans.face import Answerer


@final
class QuestionExam(LabelledExam):
    """Questions about texts, some perhaps without an answer.

    Args:
        total: questions to learn from.
        questions: what is asked.

    Raises:
        DataError: there are no questions.
    """

    def __init__(self, *, total: int, questions: Sequence[Question]) -> None:
        if not questions:
            raise DataError("there is not a single question; check the file")
        self.questions = questions
        self.size = len(questions)
        self.total = total
        self.constant = ""
        self.baseline = [""] * len(questions)
        self.main = "answer_f1"

    @property
    def asked(self) -> Sequence[Hashable]:
        """Questions and contexts."""
        return [(each.question, each.context) for each in self.questions]

    @property
    def right(self) -> Sequence[Hashable]:
        """The gold answers."""
        return [tuple(golds) for golds in self._golds]

    def answers(self, user: Answerer, recipe: Recipe) -> Sequence[str]:
        """Texts, empty for none."""
        return [each.text for each in user.answer_all([(each.question, each.context) for each in self.questions])]

    def metrics(self, answers: Sequence[str]) -> Mapping[str, Metric]:
        """Exact match and F1; if some have no answer, F1 of those that have one and how often others got none."""
        return answer_metrics(answers, self._golds)

    @property
    def _golds(self) -> list[list[str]]:
        return [[answer.text for answer in question.answers] for question in self.questions]
