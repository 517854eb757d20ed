"""Batches and rates that suit so many questions and so much time, from measurements (docs/fine-tuning.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from heedful.data.questions import Question
from heedful.errors import DataError
from heedful.tasks.fine_tuning_fit import Lessons

PASSES: Final = 8
"""Over all questions, from scratch."""
_PIECES: Final = 1.35
"""Tokens of a word."""


def lessons(questions: Iterable[Question], *, window: int) -> Lessons:
    """What is learned from: windows of so many tokens, each of which overlaps half of the one before.

    Raises:
        DataError: there are no questions.
    """
    windows, tokens = 0, 0.0
    for question in questions:
        asked, context = (_PIECES * len(text.split()) for text in (question.question, question.context))
        room = max(1.0, window - asked - 3)
        count = max(1, round(2 * context / room) - 1)
        windows += count
        tokens += count * min(window, asked + context + 3)
    if not windows:
        raise DataError("there are no questions to learn from; check the training files")
    return Lessons(windows, tokens, together=16)
