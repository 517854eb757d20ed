"""Exceptions whose messages tell the user how to fix the problem.

Every message names the place, the value and the remedy; the command line prints it without a traceback.
"""

from __future__ import annotations


class HeedfulError(Exception):
    """Base of all errors that the user can fix; the message says how."""


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
