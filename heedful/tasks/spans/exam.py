"""What answerers are asked, and what their answers are worth."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.data.questions import Question
from heedful.errors import DataError
from heedful.metrics.answers import answer_metrics
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.spans.face import Answerer


def question_exam(questions: Sequence[Question], *, total: int) -> LabelledExam:
    """Questions about texts, some perhaps without an answer; answers are texts, empty for none.

    Measured are exact match and F1; if some have no answer, F1 of those that have one and how often others got none.

    Args:
        questions: what is asked.
        total: questions to learn from.

    Raises:
        DataError: there are no questions.
    """
    if not questions:
        raise DataError("there is not a single question; check the file")
    asked = [(each.question, each.context) for each in questions]
    golds = [tuple(answer.text for answer in each.answers) for each in questions]

    def ask(user: Answerer) -> list[str]:
        return [each.text for each in user.answer_all(asked)]

    return LabelledExam(
        asked,
        golds,
        ask=ask,
        measure=lambda answers: answer_metrics(answers, golds),
        size=len(questions),
        total=total,
        constant="",
        baseline=[""] * len(questions),
        main="answer_f1",
    )
