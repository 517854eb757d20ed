"""What every translator's file promises: units that can be read, and filled without touching any other byte."""

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
"""Nothing is there; something is that nobody has confirmed (fuzzy, needs review, machine); it counts as finished."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TranslationUnit:
    """A text that is translated as one.

    Attributes:
        source: what is translated.
        target: its translation; None where there is none, or where the file has no room for a second language.
        state: how far the translation is.
        location: `file:line`; in an office document `file:paragraph`.
        name: what the file calls it: an id, a context, the number of a subtitle.
        notes: what is said to translators.
        translatable: whether the file wants it translated.
    """

    source: Segment
    target: Segment | None
    state: UnitState
    location: str
    name: str = ""
    notes: tuple[str, ...] = ()
    translatable: bool = True


@dataclass(frozen=True, order=True)
class TextEdit:
    """Characters `start` to `stop` of a text become `text`."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class DocumentLanguages:
    """The languages of a file, as it writes them; None where it says nothing.

    Attributes:
        source: that of the texts.
        target: that of their translations.
    """

    source: str | None = None
    target: str | None = None


class TranslatableDocument(ABC):
    """A file of units. It is read once; filling it gives new bytes and leaves it as it is.

    Abstract: each format finds its units and says how they are filled.

    Args:
        path: where it is, for messages.
    """

    keeps_source: bool = True
    """Whether translations stand beside what they translate; else they take its place."""

    accelerators: bool = True
    """Whether a sign before a letter may mean that this letter chooses the text from a menu."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def units(self) -> Sequence[TranslationUnit]:
        """All units in their order."""

    def __iter__(self) -> Iterator[TranslationUnit]:
        """The units one after the other, for whoever needs each only once."""
        return iter(self.units)

    @property
    def languages(self) -> DocumentLanguages:
        """What the file says of its languages; nothing, by default."""
        return DocumentLanguages()

    @abstractmethod
    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """The file with new translations, marked as unconfirmed where the format can say so.

        Args:
            targets: by the number of the unit, from 0.
            matches: what a memory has for units. Translations that were taken from it are marked as finished; what is
                only similar is shown beside its unit, as far as the format has a place for that.

        Raises:
            DataError: the encoding of the file has no way to write a letter of them.
        """


class TextDocument(TranslatableDocument):
    """A document that is text; filling it is a few edits of that.

    Abstract: each format finds its units and says which edits fill them.

    Args:
        content: of the file.
        path: where it is, for messages.
    """

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(path)
        self.content = content

    def apply_edits(self, edits: Iterable[TextEdit]) -> bytes:
        """The file after edits that do not overlap; those of one place come in the order in which they are given."""
        ordered = sorted(edits, key=lambda edit: (edit.start, edit.stop))
        assert all(left.stop <= right.start for left, right in pairwise(ordered)), "edits overlap"
        parts, position = [], 0
        for edit in ordered:
            parts += [self.content.text[position : edit.start], edit.text]
            position = edit.stop
        return self.content.encode("".join([*parts, self.content.text[position:]]), path=self.path)

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.content.text)]

    def format_location(self, offset: int) -> str:
        """`file:line` of a character."""
        return f"{self.path}:{bisect_left(self._line_ends, offset) + 1}"
