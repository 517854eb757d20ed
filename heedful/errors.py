"""What can go wrong, told to whoever can mend it.

Every message names the place, the value and the remedy; the command line prints it alone, without a traceback.
"""

from __future__ import annotations


class HeedfulError(Exception):
    """Anything the user can mend; the message says how."""


class RecipeError(HeedfulError):
    """A recipe, an option or an argument is wrong."""


class DataError(HeedfulError):
    """A text, corpus or tokenizer file cannot be used."""


class RunError(HeedfulError):
    """A run folder is missing, incomplete, damaged or of another version."""


class TrainingError(HeedfulError):
    """Training cannot go on: a loss that is not finite, no room to save."""


class MissingExtraError(HeedfulError):
    """An optional dependency is not installed."""
