"""What can go wrong, told to whoever can mend it.

Every message names the place, the value and the remedy; the command line prints it alone, without a traceback.

- `HeedfulError`
    - `RecipeError`: a recipe, an option or an argument is wrong
    - `DataError`: a text, corpus or tokenizer file cannot be used
    - `RunError`: a run folder is missing, incomplete, damaged or of another version
    - `TrainingError`: training cannot go on (a loss that is not finite, no room to save)
    - `MissingExtraError`: an optional dependency is not installed
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
    """Training cannot go on."""


class MissingExtraError(HeedfulError):
    """An optional dependency is not installed."""
