"""Office documents: archives whose members of XML hold paragraphs, which translations take the place of.

A paragraph becomes a segment whose codes know from which places of the file they were written (`CodeSource`), so that one
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
from heedful.localisation.archives import ZipArchive
from heedful.localisation.documents import TextDocument, TextEdit, TranslatableDocument, TranslationUnit
from heedful.localisation.segments import CodeRole, InlineCode, Segment, flatten_nodes
from heedful.localisation.text_content import TextContent
from heedful.localisation.translation_memory import NO_MATCHES, MemoryMatch
from heedful.localisation.xml_elements import XmlElement

CodeSource: TypeAlias = "tuple[str | tuple[int, int], ...]"
"""What a code is written of: texts, and places of the file."""
_MAX_REPETITION: Final = 50
_MIN_CODE_LIMIT: Final = 100_000
"""Letters that all codes of a paragraph may have, whatever its size."""
LETTER_PATTERN: Final = re.compile(r"[^\W\d_]")


class RepeatedPartsError(Exception):  # nobody sees it but the member that it is raised in
    """The codes of a paragraph repeat the same places of the file too often."""


@final
@dataclass(frozen=True)
class OfficeParagraph:
    """A text of an office document.

    Attributes:
        start: where the content that is translated begins, behind what is said of the paragraph.
        stop: where it ends.
        segment: the content.
        sources: of its codes, by how they are written, in their order.
        run_start: what a text outside of all pairs is written behind.
    """

    start: int
    stop: int
    segment: Segment
    sources: Mapping[str, Sequence[CodeSource]]
    run_start: CodeSource = ()


@dataclass
class ParagraphBuilder:
    """A paragraph of a text on its way together; `size` is how many letters of the file it has."""

    text: str
    size: int
    run_start: CodeSource = ()
    parts: list[str | InlineCode] = field(default_factory=list)
    sources: defaultdict[str, list[CodeSource]] = field(default_factory=lambda: defaultdict(list))
    _code_length: int = 0

    def add_text(self, text: str) -> None:
        """Adds to the text before it, or behind a code."""
        self.parts.append(text)

    def add_code(self, source: CodeSource, role: CodeRole, name: str) -> None:
        """Adds a code that is written of some places.

        Raises:
            RepeatedParts: codes are written of the same places again and again, so that they would be far larger than
                the paragraph.
        """
        raw = get_raw_code(self.text, source)
        self._code_length += len(raw)
        if self._code_length > _MIN_CODE_LIMIT + _MAX_REPETITION * self.size:
            raise RepeatedPartsError
        self.sources[raw].append(source)
        self.parts.append(InlineCode(raw, role, name))

    def build_paragraph(self, start: int, stop: int) -> OfficeParagraph | None:
        """All that was added; None where it has no words."""
        segment = flatten_nodes(self.parts)
        if not any(isinstance(part, str) and LETTER_PATTERN.search(part) for part in segment):
            return None
        return OfficeParagraph(start, stop, segment, self.sources, self.run_start)


def get_raw_code(text: str, source: CodeSource) -> str:
    """How a code is written."""
    return "".join(part if isinstance(part, str) else text[slice(*part)] for part in source)


class ParagraphDocument(TextDocument):
    """A member of XML and its paragraphs.

    Abstract: formats find paragraphs, and write what they hold.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(content, path)
        try:
            self._paragraphs = sorted(self._find_paragraphs(), key=lambda paragraph: (paragraph.start, -paragraph.stop))
        except RepeatedPartsError:
            raise DataError(
                f"{path}: has a paragraph of so many parts that look so special that it would be more than "
                f"{_MAX_REPETITION} times as large when it is filled; clear the formatting of the longest paragraphs"
            ) from None
        self._units = [
            TranslationUnit(paragraph.segment, None, "untranslated", f"{path}:{number}")
            for number, paragraph in enumerate(self._paragraphs, 1)
        ]

    @property
    def units(self) -> Sequence[TranslationUnit]:
        """Paragraphs with words, in the order in which they begin."""
        return self._units

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Those inside of others go first, since they stand in what these keep."""
        edits: list[TextEdit] = []
        for number in sorted(targets, key=lambda index: (self._paragraphs[index].stop, -self._paragraphs[index].start)):
            paragraph = self._paragraphs[number]
            inner_edits: deque[TextEdit] = deque()
            while edits and edits[-1].start >= paragraph.start:
                inner_edits.appendleft(edits.pop())
            nested_edits = list(inner_edits)
            sources = {raw: deque(index) for raw, index in paragraph.sources.items()}
            parts = [
                (
                    part,
                    part if isinstance(part, str) else self._get_edited_code(sources[part.raw].popleft(), nested_edits),
                )
                for part in targets[number]
            ]
            content = "".join(self._write_content(paragraph, parts))
            edits.append(TextEdit(paragraph.start, paragraph.stop, content))
        return self.apply_edits(edits)

    @abstractmethod
    def _find_paragraphs(self) -> Iterator[OfficeParagraph]:
        """All paragraphs that have words."""

    @abstractmethod
    def _write_content(
        self, paragraph: OfficeParagraph, parts: Sequence[tuple[str | InlineCode, str]]
    ) -> Iterator[str]:
        """The content of a paragraph, of texts and of codes with how they are written now."""

    def _get_edited_code(self, source: CodeSource, edits: Sequence[TextEdit]) -> str:
        return "".join(part if isinstance(part, str) else self._apply_inner_edits(*part, edits) for part in source)

    def _apply_inner_edits(self, start: int, stop: int, edits: Sequence[TextEdit]) -> str:
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
class OfficeDocument(TranslatableDocument):
    """The paragraphs of some members of an archive, of which translations take the place.

    Args:
        archive: the file.
        members: those that are translated, by their names.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, archive: ZipArchive, members: Mapping[str, ParagraphDocument]) -> None:
        super().__init__(archive.path)
        self._archive = archive
        self._members = members
        self._units = list(chain.from_iterable(member.units for member in members.values()))

    @property
    def units(self) -> Sequence[TranslationUnit]:
        """Member by member."""
        return self._units

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """The archive with other members; itself, where nothing is filled."""
        contents, start = {}, 0
        for name, member in self._members.items():
            stop = start + len(member.units)
            member_targets = {number - start: target for number, target in targets.items() if start <= number < stop}
            if member_targets:
                contents[name] = member.fill_targets(member_targets)
            start = stop
        return self._archive.replace_members(contents) if contents else self._archive.data


def find_namespace_prefix(element: XmlElement, namespaces: frozenset[str]) -> str | None:
    """What the names of a namespace begin with where it is declared at an element, as in `w:`; None where it is not."""
    for name, value in element.attributes.items():
        if value.text in namespaces and (name == "xmlns" or name.startswith("xmlns:")):
            return name[6:] + ":" * (name != "xmlns")
    return None


def is_inside(element: XmlElement, names: frozenset[str]) -> bool:
    """Whether an element with one of these names, without a prefix, is around another."""
    ancestor = element.parent
    while ancestor is not None:
        if ancestor.name in names:
            return True
        ancestor = ancestor.parent
    return False
