"""Office documents: zip archives with XML members whose paragraphs are replaced by translations.

Archives are read with size limits, and rewritten with some members replaced. A paragraph becomes a segment whose codes
know the offsets in the file they were copied from (`Source`), so that a paragraph inside another, as in a text box or a
footnote, can be filled with it or alone.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from abc import abstractmethod
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Final, Self, TypeAlias, final

from heedful.errors import DataError
from heedful.localisation.documents import (
    TextContent,
    TextDocument,
    TextEdit,
    TranslatableDocument,
    TranslationUnit,
    read_file_bytes,
)
from heedful.localisation.segments import CodeRole, InlineCode, Segment, flatten_nodes
from heedful.localisation.translation_memory import NO_MATCHES, MemoryMatch
from heedful.localisation.xml_elements import XmlElement

_OLE_SIGNATURE: Final = bytes.fromhex("d0cf11e0a1b11ae1")
"""First bytes of files in Microsoft's older formats, and of encrypted OOXML."""
_ENCRYPTED_FLAG: Final = 0x1
"""Flag of a member that needs a password (APPNOTE 4.4.4)."""
_ZIP64_FIELD: Final = 0x0001
"""Extra field that repeats sizes (APPNOTE 4.5.3); they are written anew."""
_COMPRESSION_METHODS: Final = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
"""Compression methods that office documents may use."""
_MAX_COMPRESSION_RATIO: Final = 200
"""Maximum ratio of unpacked to packed size; ordinary documents unpack to 10 to 50 times their size."""
_UNLIMITED_SIZE: Final = 1 << 20
"""Number of unpacked bytes up to which any compression ratio is allowed."""
MAX_MEMBERS: Final = 20_000
MAX_BYTES: Final = 1 << 29
"""Maximum unpacked size of all members together."""


@final
class ZipArchive:
    """The members of a zip file by name; https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.

    Args:
        data: the file.
        path: of the file, for messages.

    Raises:
        DataError: it is not a zip file, damaged, encrypted or too large, or uses a compression that office documents do
            not.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self.data = data
        self.path = path
        if data.startswith(_OLE_SIGNATURE):
            raise DataError(
                f"{path}: is encrypted, or has an older format in spite of its ending; save it again, without a "
                "password"
            )
        try:
            self._file = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, EOFError, struct.error, NotImplementedError) as error:
            raise self._damaged_error(error) from None
        self._members = {member.filename: member for member in self._file.infolist()}
        self._check_limits()

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read the archive in a file; raise DataError if it is missing, too large or damaged."""
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise DataError(
                f"{path}: is larger than {MAX_BYTES >> 20} MiB; take pictures and videos out, and try again"
            )
        return cls(read_file_bytes(path), path)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def read_member(self, name: str) -> bytes:
        """Return the unpacked content of the text member with this name.

        Raises:
            DataError: it does not exist, is damaged, or unpacks to a suspiciously large size.
        """
        if name not in self._members:
            raise DataError(f"{self.path}: has no {name}; does it have the right ending? save it again and try again")
        member = self._members[name]
        if member.file_size > max(_UNLIMITED_SIZE, _MAX_COMPRESSION_RATIO * member.compress_size):
            raise DataError(
                f"{self.path}: {name} unpacks to more than {_MAX_COMPRESSION_RATIO} times its size, which no normal "
                "document does; is it an attack?"
            )
        return self._read_unchecked(name)

    def _read_unchecked(self, name: str) -> bytes:
        """Return the unpacked content of the member with this name, without a check of its size; raise DataError if it
        is damaged.
        """
        try:
            return self._file.read(self._members[name])
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error, NotImplementedError) as error:
            raise self._damaged_error(error) from None

    def replace_members(self, contents: Mapping[str, bytes]) -> bytes:
        """Return the bytes of the archive with new contents of some members, by their names.

        All members keep order, name, date, method, permissions and comment; unpacked contents that are not replaced
        stay the same.
        """
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            file.comment = self._file.comment
            for name, member in self._members.items():
                info = copy(member)
                info.extra = _drop_extra_field(member.extra, _ZIP64_FIELD)
                data = contents[name] if name in contents else self._read_unchecked(name)
                file.writestr(info, data)
                info.external_attr = member.external_attr  # if it has none, zipfile sets others
        return buffer.getvalue()

    def _check_limits(self) -> None:
        """Raise DataError if there are too many members, two with one name or too many bytes in all, or if a member is
        encrypted or not compressed by method 0 or 8.
        """
        members = self._file.infolist()
        if len(members) > MAX_MEMBERS:
            raise DataError(
                f"{self.path}: is an archive of {len(members):,} files, but at most {MAX_MEMBERS:,} are read; split "
                "the document"
            )
        if len(self._members) < len(members):
            raise DataError(f"{self.path}: contains two files with the same name; save it again and try again")
        if sum(member.file_size for member in members) > MAX_BYTES:
            raise DataError(
                f"{self.path}: unpacks to more than {MAX_BYTES >> 20} MiB, which no normal document does; is it an "
                "attack?"
            )
        for member in members:
            if member.flag_bits & _ENCRYPTED_FLAG:
                raise DataError(f"{self.path}: is encrypted; save it without a password and try again")
            if member.compress_type not in _COMPRESSION_METHODS:
                raise DataError(
                    f"{self.path}: {member.filename} is compressed by method {member.compress_type}, but 0 or 8 is "
                    "needed; save it again and try again"
                )

    def _damaged_error(self, error: Exception) -> DataError:
        return DataError(
            f"{self.path}: is not a zip archive, or is damaged ({error}); fetch it again, or save it again"
        )


def _drop_extra_field(extra: bytes, field_id: int) -> bytes:
    """Return the extra fields of a zip member without those that have this id."""
    result, position = b"", 0
    while position + 4 <= len(extra):
        field_kind, size = struct.unpack_from("<HH", extra, position)
        if field_kind != field_id:
            result += extra[position : position + 4 + size]
        position += 4 + size
    return result + extra[position:]


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
        """Append a code that is copied from the parts of the file in `source`; `role` and `name` are those of the
        `InlineCode`.

        Raises:
            RepeatedPartsError: codes repeat the same parts again and again, so that they would be far larger than the
                paragraph.
        """
        raw = get_raw_code(self.text, source)
        self._code_length += len(raw)
        if self._code_length > _MIN_CODE_LIMIT + _MAX_REPETITION * self.size:
            raise RepeatedPartsError
        self.sources[raw].append(source)
        self.parts.append(InlineCode(raw, role, name))

    def build_paragraph(self, start: int, stop: int) -> OfficeParagraph | None:
        """Build the paragraph of all that was added; None if it has no words. `start` and `stop` are the offsets of its
        content in the file.
        """
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
        """Return the member with translations, given by unit number; `matches` have no effect. Inner paragraphs are
        filled first, because outer ones keep them in their codes.
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
        """Yield the XML of a paragraph's content. `parts` are its texts and codes in order, each with the raw text to
        write for it.
        """

    def _get_edited_code(self, source: CodeSource, edits: Sequence[TextEdit]) -> str:
        """Return the raw text of a code after edits inside it."""
        return "".join(part if isinstance(part, str) else self._apply_inner_edits(*part, edits) for part in source)

    def _apply_inner_edits(self, start: int, stop: int, edits: Sequence[TextEdit]) -> str:
        """Return the text of the file from `start` to `stop` after those edits that are inside it; `edits` are sorted
        by start.
        """
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
        """Return the archive with filled members, or the original bytes if nothing is filled. Translations are given by
        unit number over all members; `matches` have no effect.
        """
        contents, start = {}, 0
        for name, member in self._members.items():
            stop = start + len(member.units)
            member_targets = {number - start: target for number, target in targets.items() if start <= number < stop}
            if member_targets:
                contents[name] = member.fill_targets(member_targets)
            start = stop
        return self._archive.replace_members(contents) if contents else self._archive.data


def find_namespace_prefix(element: XmlElement, namespaces: frozenset[str]) -> str | None:
    """Return the prefix that an element declares for one of these namespaces, as in `w:`, or empty if that is the
    default namespace; None if it declares none of them.
    """
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
