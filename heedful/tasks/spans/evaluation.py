"""Evaluation of extractive question answering."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.data.questions import ExtractiveQuestion
from heedful.errors import DataError
from heedful.metrics.answers import compute_answer_metrics
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor


def build_question_evaluator(questions: Sequence[ExtractiveQuestion], *, total: int) -> LabelEvaluator:
    """Build the evaluator of questions about contexts; answers are texts, empty for no answer.

    It measures exact match and F1; if some questions have no answer, also the F1 of those that have one, and how often
    the others were left unanswered.

    Args:
        questions: the questions to answer.
        total: number of training questions.

    Raises:
        DataError: there are no questions.
    """
    if not questions:
        raise DataError("there are no questions; check the file")
    pairs = [(each.question, each.context) for each in questions]
    golds = [tuple(answer.text for answer in each.answers) for each in questions]

    def answer_questions(predictor: QuestionAnsweringPredictor) -> list[str]:
        """Answer all questions with a predictor."""
        return [answer.text for answer in predictor.answer_all(pairs)]

    return LabelEvaluator(
        pairs,
        golds,
        predict_labels=answer_questions,
        measure=lambda answers: compute_answer_metrics(answers, golds),
        size=len(questions),
        num_train_examples=total,
        constant_answer="",
        baseline_answers=[""] * len(questions),
        main_metric="answer_f1",
    )
