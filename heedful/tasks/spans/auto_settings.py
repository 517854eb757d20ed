"""Batch sizes and learning rates for a number of questions and a training budget (docs/fine-tuning.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from heedful.data.questions import ExtractiveQuestion
from heedful.errors import DataError
from heedful.tasks.fine_tuning_settings import TrainingAmount

PASSES: Final = 8
"""Over all questions, from scratch."""
_TOKENS_PER_WORD: Final = 1.35
"""Tokens of a word."""


def count_windows(questions: Iterable[ExtractiveQuestion], *, window: int) -> TrainingAmount:
    """Estimate the number of windows and tokens of a data set, with windows that overlap by half.

    Raises:
        DataError: there are no questions.
    """
    windows, tokens = 0, 0.0
    for question in questions:
        question_tokens, context_tokens = (
            _TOKENS_PER_WORD * len(text.split()) for text in (question.question, question.context)
        )
        context_room = max(1.0, window - question_tokens - 3)
        count = max(1, round(2 * context_tokens / context_room) - 1)
        windows += count
        tokens += count * min(window, question_tokens + context_tokens + 3)
    if not windows:
        raise DataError("there are no questions to learn from; check the training files")
    return TrainingAmount(windows, tokens, batch_examples=16)
