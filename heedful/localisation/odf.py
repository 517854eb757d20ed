"""ODT and ODP, text documents and presentations of OpenDocument 1.3 (OASIS), as LibreOffice writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, final

from heedful.errors import DataError
from heedful.localisation.archives import Archive
from heedful.localisation.encodings import Content
from heedful.localisation.office import Office, Paragraph, Paragraphs, Writing, bound, is_within
from heedful.localisation.segments import BREAK, Code
from heedful.localisation.tags import Element, Text, elements, escaped, judged, root

_TEXT: Final = frozenset(("urn:oasis:names:tc:opendocument:xmlns:text:1.0",))
_MANIFEST: Final = "META-INF/manifest.xml"
_MEMBERS: Final = ("content.xml", "styles.xml")
"""The text, and its headers and footers."""
_PARAGRAPHS: Final = frozenset(("p", "h"))
_SILENT: Final = frozenset(["annotation", "tracked-changes", "deletion"])
"""What encloses comments, and what was deleted."""
_AROUND: Final = frozenset(("a", "span", "meta"))
_LINES: Final = frozenset(("line-break", "tab"))
_ONE: Final = frozenset(("s",))
_NOTHING: Final = frozenset(("soft-page-break",))
_INVISIBLE: Final = re.compile(
    r"\s+[\w-]+:(?:(?:paragraph-)?rsid|(?:language|country|script|rfc-language-tag)(?:-asian|-complex)?)"
    r"\s*=\s*(?:\"[^\"]*\"|'[^']*')"
)
"""Properties of a style that change nothing of how text looks."""
_WHITE: Final = re.compile(r"[ \t\r\n]+")
_SPACES: Final = re.compile(" {2,}")
_EMPTY: Final = re.compile(r"<[\w-]+:text-properties\s*/>|<([\w-]+:text-properties)\s*>\s*</\1>")
_MOST: Final = 1000
"""Spaces in a row."""


def read_odf(path: Path) -> Office:
    """The text of a document, with its headers, footers and notes.

    Raises:
        DataError: it is none, damaged, encrypted or too large.
    """
    archive = Archive.read(path)
    if _MANIFEST in archive and next(
        elements(judged(archive.member(_MANIFEST), path / _MANIFEST).text, ("encryption-data",)), None
    ):
        raise DataError(f"{path}: is encrypted; save it without a password and try again")
    first, *others = _MEMBERS
    names = [first, *(name for name in others if name in archive)]
    return Office(archive, {name: Story(judged(archive.member(name), path / name), path / name) for name in names})


@final
class Story(Paragraphs):
    """The paragraphs and headings of a member.

    Spans side by side whose styles look the same are one, and one whose style shows nothing is none.
    """

    def __init__(self, content: Content, path: Path) -> None:
        mark = bound(root(content.text, path=path), _TEXT)
        if mark is None:
            raise DataError(f"{path}: has no text of OpenDocument; is the file what its ending says?")
        self._mark = mark
        self._looks = dict(_looks(content.text))
        super().__init__(content, path)

    def _find(self) -> Iterator[Paragraph]:
        for element in elements(self.content.text, _PARAGRAPHS):
            if self._is_text(element, _PARAGRAPHS) and not element.is_single and not is_within(element, _SILENT):
                writing = Writing(self.content.text, element.stop - element.start)
                self._flow(element.children, writing)
                if (found := writing.paragraph(element.inside, element.inside_stop)) is not None:
                    yield found

    def _is_text(self, element: Element, names: frozenset[str]) -> bool:
        return element.name in names and element.tag == f"{self._mark}{element.name}"

    def _flow(self, children: Sequence[Element | Text], writing: Writing) -> None:
        """What stands in an element, in order."""
        place = 0
        while place < len(children):
            child = children[place]
            place += 1
            if isinstance(child, Text):
                writing.add(_WHITE.sub(" ", child.text))
            elif self._is_text(child, _ONE):
                count = child.get(f"{self._mark}c") or ""
                writing.add(" " * (min(int(count.lstrip("0")[:9] or "0"), _MOST) if count.isdecimal() else 1))
            elif self._is_text(child, _AROUND) and not child.is_single:
                look, inside, last = self._look(child), [*child.children], child
                while look is not None and place < len(children) and self._is_same(children[place], look):
                    last = children[place]  # type: ignore[assignment]  # `_is_same` says that it is an element
                    inside += last.children
                    place += 1
                if look == "":
                    self._flow(inside, writing)
                    continue
                writing.code(((child.start, child.inside),), "open", child.name)
                self._flow(inside, writing)
                writing.code(((last.inside_stop, last.stop),), "close", child.name)
            elif not self._is_text(child, _NOTHING):
                name = BREAK if self._is_text(child, _LINES) else child.name
                writing.code(((child.start, child.stop),), "alone", name)

    def _look(self, element: Element) -> str | None:
        """What a span looks like, empty where it shows nothing; None of other elements."""
        if element.name != "span":
            return None
        style = element.get(f"{self._mark}style-name") or ""
        return self._looks.get(style, style)

    def _is_same(self, child: Element | Text, look: str) -> bool:
        if isinstance(child, Text) or not self._is_text(child, _AROUND) or child.is_single:
            return False
        return self._look(child) == look

    def _written(self, paragraph: Paragraph, parts: Sequence[tuple[str | Code, str]]) -> Iterator[str]:
        for number, (part, raw) in enumerate(parts):
            if isinstance(part, Code):
                yield raw
                continue
            text = raw.replace("\t", " ").replace("\n", " ")
            if number == 0 and text.startswith(" "):  # which would not be seen
                text = f" {text}"
            yield _SPACES.sub(self._spaces, escaped(text))

    def _spaces(self, found: re.Match[str]) -> str:
        """Several spaces, which would be seen as one."""
        return f' <{self._mark}s {self._mark}c="{len(found[0]) - 1}"/>'


def _looks(text: str) -> Iterator[tuple[str, str]]:
    """What styles of spans say that shows, by their names; those that are made for one place only."""
    for style in elements(text, ("style",)):
        if style.parent is None or style.parent.name != "automatic-styles":
            continue
        said = {key.rpartition(":")[2]: value.text for key, value in style.attributes.items()}
        if said.get("family") == "text" and "name" in said:
            shows = _EMPTY.sub("", _INVISIBLE.sub("", text[style.inside : style.inside_stop])).strip()
            yield said["name"], f"{said.get('parent-style-name', '')} {shows}".strip()
