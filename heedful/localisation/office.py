"""Office documents: archives whose members of XML hold paragraphs, which translations take the place of.

A paragraph becomes a segment whose codes know from which places of the file they were written (`Source`), so that one
that stands inside of another, as in a text box or a footnote, can be filled with it or alone.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeAlias, final

from heedful.errors import DataError
from heedful.localisation.archives import Archive
from heedful.localisation.documents import Document, Edit, TextDocument, Unit
from heedful.localisation.encodings import Content
from heedful.localisation.memory import NO_MATCHES, Match
from heedful.localisation.segments import Code, Role, Segment, flat
from heedful.localisation.tags import Element

Source: TypeAlias = "tuple[str | tuple[int, int], ...]"
"""What a code is written of: texts, and places of the file."""
_REPEATED: Final = 50
_LARGEST: Final = 100_000
"""Letters that all codes of a paragraph may have, whatever its size."""
LETTER: Final = re.compile(r"[^\W\d_]")


class RepeatedParts(Exception):  # noqa: N818  # nobody sees it but the member that it is raised in
    """The codes of a paragraph repeat the same places of the file too often."""


@final
@dataclass(frozen=True)
class Paragraph:
    """A text of an office document.

    Attributes:
        start: where the content that is translated begins, behind what is said of the paragraph.
        stop: where it ends.
        segment: the content.
        sources: of its codes, by how they are written, in their order.
        look: what a text outside of all pairs is written behind.
    """

    start: int
    stop: int
    segment: Segment
    sources: Mapping[str, Sequence[Source]]
    look: Source = ()


@dataclass
class Writing:
    """A paragraph of a text on its way together; `size` is how many letters of the file it has."""

    text: str
    size: int
    look: Source = ()
    parts: list[str | Code] = field(default_factory=list)
    sources: defaultdict[str, list[Source]] = field(default_factory=lambda: defaultdict(list))
    _written: int = 0

    def add(self, text: str) -> None:
        """Adds to the text before it, or behind a code."""
        self.parts.append(text)

    def code(self, source: Source, role: Role, name: str) -> None:
        """Adds a code that is written of some places.

        Raises:
            RepeatedParts: codes are written of the same places again and again, so that they would be far larger than
                the paragraph.
        """
        raw = raw_of(self.text, source)
        self._written += len(raw)
        if self._written > _LARGEST + _REPEATED * self.size:
            raise RepeatedParts
        self.sources[raw].append(source)
        self.parts.append(Code(raw, role, name))

    def paragraph(self, start: int, stop: int) -> Paragraph | None:
        """All that was added; None where it has no words."""
        segment = flat(self.parts)
        if not any(isinstance(part, str) and LETTER.search(part) for part in segment):
            return None
        return Paragraph(start, stop, segment, self.sources, self.look)


def raw_of(text: str, source: Source) -> str:
    """How a code is written."""
    return "".join(part if isinstance(part, str) else text[slice(*part)] for part in source)


class Paragraphs(TextDocument):
    """A member of XML and its paragraphs.

    Abstract: formats find paragraphs, and write what they hold.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, content: Content, path: Path) -> None:
        super().__init__(content, path)
        try:
            self._paragraphs = sorted(self._find(), key=lambda each: (each.start, -each.stop))
        except RepeatedParts:
            raise DataError(
                f"{path}: has a paragraph of so many parts that look so special that it would be more than "
                f"{_REPEATED} times as large when it is filled; clear the formatting of the longest paragraphs"
            ) from None
        self._units = [
            Unit(each.segment, None, "untranslated", f"{path}:{number}")
            for number, each in enumerate(self._paragraphs, 1)
        ]

    @property
    def units(self) -> Sequence[Unit]:
        """Paragraphs with words, in the order in which they begin."""
        return self._units

    def filled(self, targets: Mapping[int, Segment], matches: Mapping[int, Match] = NO_MATCHES) -> bytes:
        """Those inside of others go first, since they stand in what these keep."""
        edits: list[Edit] = []
        for number in sorted(targets, key=lambda each: (self._paragraphs[each].stop, -self._paragraphs[each].start)):
            paragraph = self._paragraphs[number]
            inner: deque[Edit] = deque()
            while edits and edits[-1].start >= paragraph.start:
                inner.appendleft(edits.pop())
            within = list(inner)
            sources = {raw: deque(each) for raw, each in paragraph.sources.items()}
            parts = [
                (part, part if isinstance(part, str) else self._now(sources[part.raw].popleft(), within))
                for part in targets[number]
            ]
            written = "".join(self._written(paragraph, parts))
            edits.append(Edit(paragraph.start, paragraph.stop, written))
        return self.edited(edits)

    @abstractmethod
    def _find(self) -> Iterator[Paragraph]:
        """All paragraphs that have words."""

    @abstractmethod
    def _written(self, paragraph: Paragraph, parts: Sequence[tuple[str | Code, str]]) -> Iterator[str]:
        """The content of a paragraph, of texts and of codes with how they are written now."""

    def _now(self, source: Source, edits: Sequence[Edit]) -> str:
        return "".join(part if isinstance(part, str) else self._changed(*part, edits) for part in source)

    def _changed(self, start: int, stop: int, edits: Sequence[Edit]) -> str:
        """A piece of the text after those edits that are in it."""
        parts = []
        for number in range(bisect_left(edits, start, key=attrgetter("start")), len(edits)):
            if (edit := edits[number]).start >= stop:
                break
            if edit.stop <= stop:
                parts += [self.content.text[start : edit.start], edit.text]
                start = edit.stop
        return "".join([*parts, self.content.text[start:stop]])


@final
class Office(Document):
    """The paragraphs of some members of an archive, of which translations take the place.

    Args:
        archive: the file.
        members: those that are translated, by their names.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, archive: Archive, members: Mapping[str, Paragraphs]) -> None:
        super().__init__(archive.path)
        self._archive = archive
        self._members = members
        self._units = list(chain.from_iterable(member.units for member in members.values()))

    @property
    def units(self) -> Sequence[Unit]:
        """Member by member."""
        return self._units

    def filled(self, targets: Mapping[int, Segment], matches: Mapping[int, Match] = NO_MATCHES) -> bytes:
        """The archive with other members; itself, where nothing is filled."""
        contents, first = {}, 0
        for name, member in self._members.items():
            behind = first + len(member.units)
            own = {number - first: target for number, target in targets.items() if first <= number < behind}
            if own:
                contents[name] = member.filled(own)
            first = behind
        return self._archive.replaced(contents) if contents else self._archive.data


def bound(element: Element, spaces: frozenset[str]) -> str | None:
    """What the names of a namespace begin with where it is declared at an element, as in `w:`; None where it is not."""
    for name, value in element.attributes.items():
        if value.text in spaces and (name == "xmlns" or name.startswith("xmlns:")):
            return name[6:] + ":" * (name != "xmlns")
    return None


def is_within(element: Element, names: frozenset[str]) -> bool:
    """Whether an element with one of these names, without a prefix, is around another."""
    around = element.parent
    while around is not None:
        if around.name in names:
            return True
        around = around.parent
    return False
