"""ODT and ODP, text documents and presentations of OpenDocument 1.3 (OASIS), as LibreOffice writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, final

from heedful.errors import DataError
from heedful.localisation.documents import TextContent
from heedful.localisation.office_document import (
    OfficeDocument,
    OfficeParagraph,
    ParagraphBuilder,
    ParagraphDocument,
    ZipArchive,
    find_namespace_prefix,
    is_inside,
)
from heedful.localisation.segments import BREAK_NAME, InlineCode
from heedful.localisation.xml_elements import XmlElement, XmlText, decode_xml, escape_xml, find_root, iter_elements

_TEXT_NAMESPACES: Final = frozenset(("urn:oasis:names:tc:opendocument:xmlns:text:1.0",))
_MANIFEST: Final = "META-INF/manifest.xml"
_TEXT_MEMBERS: Final = ("content.xml", "styles.xml")
"""The text, and its headers and footers."""
_PARAGRAPH_ELEMENTS: Final = frozenset(("p", "h"))
_IGNORED_CONTAINERS: Final = frozenset(["annotation", "tracked-changes", "deletion"])
"""Elements around comments and deleted text."""
_SPAN_ELEMENTS: Final = frozenset(("a", "span", "meta"))
_BREAK_ELEMENTS: Final = frozenset(("line-break", "tab"))
_SPACE_ELEMENTS: Final = frozenset(("s",))
_IGNORED_ELEMENTS: Final = frozenset(("soft-page-break",))
_INVISIBLE_PROPERTIES: Final = re.compile(
    r"(?<!\s)\s+[\w-]+:(?:(?:paragraph-)?rsid|(?:language|country|script|rfc-language-tag)(?:-asian|-complex)?)"
    r"\s*=\s*(?:\"[^\"]*\"|'[^']*')"
)
"""Style properties that do not change how text looks."""
_WHITE_SPACE: Final = re.compile(r"[ \t\r\n]+")
_SPACES: Final = re.compile(" {2,}")
_EMPTY_PROPERTIES: Final = re.compile(r"<[\w-]+:text-properties\s*/>|<([\w-]+:text-properties)\s*>\s*</\1>")
_MAX_SPACES: Final = 1000
"""Maximum number of spaces in a row."""


def read_odf(path: Path) -> OfficeDocument:
    """Read the text of an OpenDocument file, with its headers, footers and notes.

    Raises:
        DataError: it is not an OpenDocument file, damaged, encrypted or too large.
    """
    archive = ZipArchive.from_file(path)
    if _MANIFEST in archive and next(
        iter_elements(decode_xml(archive.read_member(_MANIFEST), path / _MANIFEST).text, ("encryption-data",)), None
    ):
        raise DataError(f"{path}: is encrypted; save it without a password and try again")
    first, *optional_names = _TEXT_MEMBERS
    names = [first, *(name for name in optional_names if name in archive)]
    return OfficeDocument(
        archive, {name: OdfPart(decode_xml(archive.read_member(name), path / name), path / name) for name in names}
    )


@final
class OdfPart(ParagraphDocument):
    """The paragraphs and headings of a member of an OpenDocument file.

    Adjacent spans with the same visible style are one, and spans whose style has no visible effect are ignored.
    """

    def __init__(self, content: TextContent, path: Path) -> None:
        mark = find_namespace_prefix(find_root(content.text, path=path), _TEXT_NAMESPACES)
        if mark is None:
            raise DataError(f"{path}: has no OpenDocument text; does it have the right ending?")
        self._prefix = mark
        self._visible_styles = dict(_iter_visible_styles(content.text))
        super().__init__(content, path)

    def _find_paragraphs(self) -> Iterator[OfficeParagraph]:
        """Yield the paragraphs and headings of the member that have words, except comments and deleted text."""
        for element in iter_elements(self.content.text, _PARAGRAPH_ELEMENTS):
            if (
                self._is_text_element(element, _PARAGRAPH_ELEMENTS)
                and not element.is_single
                and not is_inside(element, _IGNORED_CONTAINERS)
            ):
                builder = ParagraphBuilder(self.content.text, element.stop - element.start)
                self._add_children(element.children, builder)
                if (paragraph := builder.build_paragraph(element.inside, element.inside_stop)) is not None:
                    yield paragraph

    def _is_text_element(self, element: XmlElement, names: frozenset[str]) -> bool:
        return element.name in names and element.tag == f"{self._prefix}{element.name}"

    def _add_children(self, children: Sequence[XmlElement | XmlText], builder: ParagraphBuilder) -> None:
        """Add the children of an element to the paragraph in `builder` as texts and codes, in order. Adjacent spans
        with the same visible style become one pair of codes.
        """
        index = 0
        while index < len(children):
            child = children[index]
            index += 1
            if isinstance(child, XmlText):
                builder.add_text(_WHITE_SPACE.sub(" ", child.text))
            elif self._is_text_element(child, _SPACE_ELEMENTS):
                count = child.get_attribute(f"{self._prefix}c") or ""
                builder.add_text(
                    " " * (min(int(count.lstrip("0")[:9] or "0"), _MAX_SPACES) if count.isdecimal() else 1)
                )
            elif self._is_text_element(child, _SPAN_ELEMENTS) and not child.is_single:
                style, content, last_span = self._get_style(child), [*child.children], child
                while style is not None and index < len(children) and self._has_style(children[index], style):
                    last_span = children[index]  # type: ignore[assignment]  # `_has_style` returns true for elements only
                    content += last_span.children
                    index += 1
                if style == "":
                    self._add_children(content, builder)
                    continue
                builder.add_code(((child.start, child.inside),), "open", child.name)
                self._add_children(content, builder)
                builder.add_code(((last_span.inside_stop, last_span.stop),), "close", child.name)
            elif not self._is_text_element(child, _IGNORED_ELEMENTS):
                name = BREAK_NAME if self._is_text_element(child, _BREAK_ELEMENTS) else child.name
                builder.add_code(((child.start, child.stop),), "alone", name)

    def _get_style(self, element: XmlElement) -> str | None:
        """Return the style of a span: for an automatic style its parent style and visible properties, else its name;
        empty if it has no style or no visible effect. Return None for elements that are not spans.
        """
        if element.name != "span":
            return None
        style = element.get_attribute(f"{self._prefix}style-name") or ""
        return self._visible_styles.get(style, style)

    def _has_style(self, child: XmlElement | XmlText, style: str) -> bool:
        """Return whether a child is a span with this visible style."""
        if isinstance(child, XmlText) or not self._is_text_element(child, _SPAN_ELEMENTS) or child.is_single:
            return False
        return self._get_style(child) == style

    def _write_content(
        self, paragraph: OfficeParagraph, parts: Sequence[tuple[str | InlineCode, str]]
    ) -> Iterator[str]:
        """Yield the XML of a paragraph's content, with leading and repeated spaces encoded so that they are shown.
        `parts` are its texts and codes in order, each with the raw text to write for it.
        """
        for number, (part, raw) in enumerate(parts):
            if isinstance(part, InlineCode):
                yield raw
                continue
            text = raw.replace("\t", " ").replace("\n", " ")
            if number == 0 and text.startswith(" "):  # which would be invisible
                text = f" {text}"
            yield _SPACES.sub(self._encode_spaces, escape_xml(text))

    def _encode_spaces(self, match: re.Match[str]) -> str:
        """Encode several spaces, which would otherwise be shown as one."""
        return f' <{self._prefix}s {self._prefix}c="{len(match[0]) - 1}"/>'


def _iter_visible_styles(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of automatic text styles in the XML of a member, each with its visible properties as XML."""
    for style in iter_elements(text, ("style",)):
        if style.parent is None or style.parent.name != "automatic-styles":
            continue
        attributes = {key.rpartition(":")[2]: value.text for key, value in style.attributes.items()}
        if attributes.get("family") == "text" and "name" in attributes:
            properties = _EMPTY_PROPERTIES.sub(
                "", _INVISIBLE_PROPERTIES.sub("", text[style.inside : style.inside_stop])
            ).strip()
            yield attributes["name"], f"{attributes.get('parent-style-name', '')} {properties}".strip()
