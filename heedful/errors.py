"""Exceptions whose messages tell the user how to fix the problem.

Every message names the place, the value and the remedy; the command line prints it without a traceback.
"""

from __future__ import annotations

from typing import Final

_MAX_BEGINNING, _MAX_END = 6_000, 2_000
"""Characters of the beginning and of the end of a message that are shown."""
_OMISSION: Final = " ... "


class HeedfulError(Exception):
    """Base of all errors that the user can fix; the message says how. The middle of a very long message is left out,
    because names and values in a hostile file may be of any length.
    """

    def __init__(self, message: object = "", *details: object) -> None:
        super().__init__(_shorten_message(message) if isinstance(message, str) else message, *details)


class RecipeError(HeedfulError):
    """A recipe, an option or an argument is invalid."""


class DataError(HeedfulError):
    """A text, corpus or tokenizer file is invalid or cannot be read."""


class RunError(HeedfulError):
    """A run folder is missing, incomplete, damaged or of another version."""


class TrainingError(HeedfulError):
    """Training cannot continue: a loss that is not finite, no disk space for a checkpoint."""


class MissingExtraError(HeedfulError):
    """An optional dependency is not installed."""


def _shorten_message(message: str) -> str:
    """Return a message without its middle if it is very long; its place and its remedy are at the ends."""
    if len(message) <= _MAX_BEGINNING + len(_OMISSION) + _MAX_END:
        return message
    return f"{message[:_MAX_BEGINNING]}{_OMISSION}{message[-_MAX_END:]}"
