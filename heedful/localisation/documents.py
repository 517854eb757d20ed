"""Base classes of translation documents: files of units that are read, and filled with translations without
changing any other byte.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal

from heedful.localisation.segments import Segment
from heedful.localisation.text_content import TextContent
from heedful.localisation.translation_memory import NO_MATCHES, MemoryMatch

UnitState = Literal["untranslated", "review", "translated"]
"""State of a unit: without a translation; with one that needs review (fuzzy or machine-translated); or finished."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TranslationUnit:
    """A text that is translated as one piece.

    Attributes:
        source: the text to translate.
        target: its translation; None if there is none, or if the format holds one language only.
        state: state of the translation.
        location: `file:line`; in an office document `file:paragraph`.
        name: its name in the file: an id, a context, the number of a subtitle.
        notes: notes for translators.
        translatable: whether the file marks it as translatable.
    """

    source: Segment
    target: Segment | None
    state: UnitState
    location: str
    name: str = ""
    notes: tuple[str, ...] = ()
    translatable: bool = True


@dataclass(frozen=True, order=True, slots=True)
class TextEdit:
    """Replacement of the characters `start` to `stop` of a text by `text`."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class DocumentLanguages:
    """The source and target language of a file, in its own spelling; None if the file does not name one.

    Attributes:
        source: language of the texts.
        target: language of the translations.
    """

    source: str | None = None
    target: str | None = None


class TranslatableDocument(ABC):
    """Abstract base of a file of translation units; it is read once, and filling it returns new bytes and does not
    change it.

    Each format finds its units and defines how they are filled.

    Args:
        path: of the file, for messages.
    """

    keeps_source: bool = True
    """Whether translations stand beside their sources; otherwise they replace them."""

    accelerators: bool = True
    """Whether a sign before a letter may mark this letter as a menu accelerator."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def units(self) -> Sequence[TranslationUnit]:
        """All units in order."""

    def __iter__(self) -> Iterator[TranslationUnit]:
        """Iterate over the units; formats may generate them one by one."""
        return iter(self.units)

    @property
    def languages(self) -> DocumentLanguages:
        """Languages that the file names; none by default."""
        return DocumentLanguages()

    @abstractmethod
    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the bytes of the file with new translations, marked for review if the format supports it. Translations
        and translation memory matches are given by the number of their unit.

        Args:
            targets: translations by the number of the unit, from 0.
            matches: translation memory matches by the number of the unit. Translations that were taken from the memory
                are marked as finished; similar ones are added beside their unit if the format has a place for them.

        Raises:
            DataError: the encoding of the file cannot write a character of the translations.
        """


class TextDocument(TranslatableDocument):
    """Abstract base of a document that is a text file, filled by a few edits of its text.

    Each format finds its units and returns the edits that fill them.

    Args:
        content: of the file.
        path: of the file, for messages.
    """

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(path)
        self.content = content

    def apply_edits(self, edits: Iterable[TextEdit]) -> bytes:
        """Return the bytes of the file after edits that do not overlap; edits at the same position are applied in
        the given order.
        """
        ordered = sorted(edits, key=lambda edit: (edit.start, edit.stop))
        assert all(left.stop <= right.start for left, right in pairwise(ordered)), "edits overlap"
        parts, position = [], 0
        for edit in ordered:
            parts += [self.content.text[position : edit.start], edit.text]
            position = edit.stop
        return self.content.encode("".join([*parts, self.content.text[position:]]), path=self.path)

    @cached_property
    def _line_ends(self) -> list[int]:
        """Offsets of all line ends."""
        return [match.start() for match in re.finditer("\n", self.content.text)]

    def format_location(self, offset: int) -> str:
        """Return `file:line` of a character offset."""
        return f"{self.path}:{bisect_left(self._line_ends, offset) + 1}"
