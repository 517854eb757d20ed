"""What answerers are asked, and what their answers are worth."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import final

import numpy as np

from heedful.data.questions import Question
from heedful.errors import DataError
from heedful.metrics.answers import answer_scores, exact_match, normalised, token_f1
from heedful.metrics.weighted import Ratio, Weighted, mean
from heedful.tasks.exam import Exam
from heedful.tasks.spans.face import Answerer


@final
class QuestionExam(Exam):
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

    def answers(self, user: object) -> Sequence[str]:
        """Texts, empty for none."""
        assert isinstance(user, Answerer)
        return [each.text for each in user.answer_all([(each.question, each.context) for each in self.questions])]

    def measured(self, answers: Sequence[str]) -> Mapping[str, float]:
        """Exact match and F1; if some have no answer, F1 of those that have one and how often others got none."""
        scores = answer_scores(answers, self._golds)
        metrics = {"exact_match": scores.all.exact, "answer_f1": scores.all.f1}
        if scores.answerable.questions and scores.unanswerable.questions:
            metrics |= {"answerable_f1": scores.answerable.f1, "unanswerable": scores.unanswerable.exact}
        return metrics

    def weighted(self, answers: Sequence[str]) -> Mapping[str, Weighted]:
        """The same for any weights."""
        pairs = list(zip(answers, self._golds, strict=True))
        exact, overlap = (np.array([score(a, golds) for a, golds in pairs]) for score in (exact_match, token_f1))
        there = np.array([float(any(normalised(gold) for gold in golds)) for _, golds in pairs])
        metrics: dict[str, Weighted] = {"exact_match": mean(exact), "answer_f1": mean(overlap)}
        if 0 < there.sum() < len(there):
            metrics["answerable_f1"] = Ratio(overlap * there, there)
            metrics["unanswerable"] = Ratio(exact * (1 - there), 1 - there)
        return metrics

    @property
    def _golds(self) -> list[list[str]]:
        return [[answer.text for answer in question.answers] for question in self.questions]
