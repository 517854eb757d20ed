"""Office documents: archives with XML members whose paragraphs are replaced by translations.

A paragraph becomes a segment whose codes know the offsets in the file they were copied from (`Source`), so that a
paragraph inside another, as in a text box or a footnote, can be filled with it or alone.
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
"""Origin of a code: literal texts, and offset ranges of the file."""
_MAX_REPETITION: Final = 50
_MIN_CODE_LIMIT: Final = 100_000
"""Number of letters that all codes of a paragraph may have, whatever its size."""
LETTER_PATTERN: Final = re.compile(r"[^\W\d_]")


class RepeatedPartsError(Exception):  # it is raised and caught within one member
    """Raised if the codes of a paragraph repeat the same parts of the file too often."""


@final
@dataclass(frozen=True)
class OfficeParagraph:
    """A text of an office document.

    Attributes:
        start: offset of the translated content, after the paragraph's properties.
        stop: end of the content.
        segment: the content.
        sources: origins of its codes by their raw text, in order.
        run_start: what is written before text that is outside of all pairs.
    """

    start: int
    stop: int
    segment: Segment
    sources: Mapping[str, Sequence[CodeSource]]
    run_start: CodeSource = ()


@dataclass
class ParagraphBuilder:
    """Collects the texts and codes of a paragraph; `size` is its number of letters in the file."""

    text: str
    size: int
    run_start: CodeSource = ()
    parts: list[str | InlineCode] = field(default_factory=list)
    sources: defaultdict[str, list[CodeSource]] = field(default_factory=lambda: defaultdict(list))
    _code_length: int = 0

    def add_text(self, text: str) -> None:
        """Append text."""
        self.parts.append(text)

    def add_code(self, source: CodeSource, role: CodeRole, name: str) -> None:
        """Append a code that is copied from these parts of the file.

        Raises:
            RepeatedParts: codes repeat the same parts again and again, so that they would be far larger than the
                paragraph.
        """
        raw = get_raw_code(self.text, source)
        self._code_length += len(raw)
        if self._code_length > _MIN_CODE_LIMIT + _MAX_REPETITION * self.size:
            raise RepeatedPartsError
        self.sources[raw].append(source)
        self.parts.append(InlineCode(raw, role, name))

    def build_paragraph(self, start: int, stop: int) -> OfficeParagraph | None:
        """Build the paragraph of all that was added; None if it has no words."""
        segment = flatten_nodes(self.parts)
        if not any(isinstance(part, str) and LETTER_PATTERN.search(part) for part in segment):
            return None
        return OfficeParagraph(start, stop, segment, self.sources, self.run_start)


def get_raw_code(text: str, source: CodeSource) -> str:
    """Return the raw text of a code with this origin."""
    return "".join(part if isinstance(part, str) else text[slice(*part)] for part in source)


class ParagraphDocument(TextDocument):
    """Abstract base of an XML member of an office document with its paragraphs.

    Formats find the paragraphs and write their content.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(content, path)
        try:
            self._paragraphs = sorted(self._find_paragraphs(), key=lambda paragraph: (paragraph.start, -paragraph.stop))
        except RepeatedPartsError:
            raise DataError(
                f"{path}: has a paragraph with so many differently formatted parts that it would be more than "
                f"{_MAX_REPETITION} times as large after translation; clear the formatting of the longest paragraphs"
            ) from None
        self._units = [
            TranslationUnit(paragraph.segment, None, "untranslated", f"{path}:{number}")
            for number, paragraph in enumerate(self._paragraphs, 1)
        ]

    @property
    def units(self) -> Sequence[TranslationUnit]:
        """Paragraphs with words, by start offset."""
        return self._units

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the member with translations; inner paragraphs are filled first, because outer ones keep them in
        their codes.
        """
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
        """Yield all paragraphs that have words."""

    @abstractmethod
    def _write_content(
        self, paragraph: OfficeParagraph, parts: Sequence[tuple[str | InlineCode, str]]
    ) -> Iterator[str]:
        """Yield the XML of a paragraph's content, from texts and codes with their present raw text."""

    def _get_edited_code(self, source: CodeSource, edits: Sequence[TextEdit]) -> str:
        """Return the raw text of a code after edits inside it."""
        return "".join(part if isinstance(part, str) else self._apply_inner_edits(*part, edits) for part in source)

    def _apply_inner_edits(self, start: int, stop: int, edits: Sequence[TextEdit]) -> str:
        """Return a part of the text after the edits inside it."""
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
    """An archive with members whose paragraphs are replaced by translations.

    Args:
        archive: the file.
        members: the translated members, by name.
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
        """Units of all members in order."""
        return self._units

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the archive with filled members, or the original bytes if nothing is filled."""
        contents, start = {}, 0
        for name, member in self._members.items():
            stop = start + len(member.units)
            member_targets = {number - start: target for number, target in targets.items() if start <= number < stop}
            if member_targets:
                contents[name] = member.fill_targets(member_targets)
            start = stop
        return self._archive.replace_members(contents) if contents else self._archive.data


def find_namespace_prefix(element: XmlElement, namespaces: frozenset[str]) -> str | None:
    """Return the prefix of a namespace that an element declares, as in `w:`; None if it does not declare it."""
    for name, value in element.attributes.items():
        if value.text in namespaces and (name == "xmlns" or name.startswith("xmlns:")):
            return name[6:] + ":" * (name != "xmlns")
    return None


def is_inside(element: XmlElement, names: frozenset[str]) -> bool:
    """Return whether an element is inside an element with one of these names (without prefix)."""
    ancestor = element.parent
    while ancestor is not None:
        if ancestor.name in names:
            return True
        ancestor = ancestor.parent
    return False
