"""The vocabulary of class labels: names to ids and back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, final

from heedful.atomic_io import write_atomic
from heedful.errors import DataError, RunError
from heedful.files import read_json

_FILE_FORMAT = 1


_MAX_SHOWN: Final = 12
"""Number of names that `repr` shows."""


@final
class LabelVocabulary:
    """Class labels with ids from 0, the most frequent class first.

    Args:
        names: the names of the classes, all different and not empty.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._ids = {name: number for number, name in enumerate(self.names)}

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.names[:_MAX_SHOWN]))
        num_hidden = len(self.names) - _MAX_SHOWN
        return f"LabelVocabulary({shown}{f', ... {num_hidden} more' if num_hidden > 0 else ''})"

    @classmethod
    def learn(cls, labels: Iterable[str]) -> LabelVocabulary:
        """Build the vocabulary of all labels that occur; raise `DataError` if there are none."""
        counts = Counter(labels)
        if not counts:
            raise DataError("there are no labels to learn; check the training files")
        return cls(sorted(counts, key=lambda name: (-counts[name], name)))

    @classmethod
    def load(cls, path: Path) -> LabelVocabulary:
        """Load the file that `save` wrote; raise `RunError` if it holds no labels."""
        try:
            record = read_json(path)
            version, names = record["format"], record["labels"]
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}); is the run complete?") from None
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{path}: holds no labels; restore it or train again") from None
        if version != _FILE_FORMAT:
            raise RunError(f"{path}: label format {version!r}, but this heedful reads {_FILE_FORMAT}; train again")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise RunError(f"{path}: holds no labels; restore it or train again")
        return cls(names)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.names)

    def get_id(self, name: str) -> int | None:
        """Return the id of a label; None if it is unknown."""
        return self._ids.get(name)

    def save(self, path: Path) -> None:
        """Write the labels to a file that `load` reads, atomically; raise `RunError` if that fails."""
        text = json.dumps({"format": _FILE_FORMAT, "labels": self.names}, ensure_ascii=False, indent=1) + "\n"
        write_atomic(path, text.encode())
