"""Inline elements of XML formats: text and elements that become codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

from heedful.localisation.segments import InlineCode, Segment
from heedful.localisation.xml_elements import XmlElement, XmlText, escape_xml


@final
@dataclass(frozen=True)
class InlineElements:
    """The inline elements of a format that form pairs.

    Attributes:
        around: elements that enclose text to be translated, a pair of tags.
        opening: elements that begin a pair whose end is another element.
        closing: elements that end a pair, with the attributes that may name the pair; the first one that is there
            counts.
    """

    around: frozenset[str]
    opening: Mapping[str, tuple[str, ...]]
    closing: Mapping[str, tuple[str, ...]]

    def to_segment(self, element: XmlElement, text: str) -> Segment:
        """Convert the content of an element to a segment; other elements become codes with all of their content."""
        return tuple(self._iter_parts(element, text, begin=element.start))

    def _iter_parts(self, element: XmlElement, text: str, *, begin: int) -> Iterator[str | InlineCode]:
        """Yield the texts and codes of an element's content."""
        for child in element.children:
            if isinstance(child, XmlText):
                yield child.text.replace("\r\n", "\n")
            elif child.name in self.around and not child.is_single and child.get_attribute("translate") != "no":
                name = f"{child.tag} at {child.start - begin}"
                yield InlineCode(text[child.start : child.inside], "open", name)
                yield from self._iter_parts(child, text, begin=begin)
                yield InlineCode(text[child.inside_stop : child.stop], "close", name)
            else:
                yield self._build_code(child, text[child.start : child.stop])

    def _build_code(self, element: XmlElement, raw: str) -> InlineCode:
        """Build the code of an element that is not a pair of tags."""
        if element.name in self.opening:
            return InlineCode(raw, "open", _get_pair_name(element, self.opening[element.name]))
        if element.name in self.closing:
            return InlineCode(raw, "close", _get_pair_name(element, self.closing[element.name]))
        return InlineCode(raw, "alone", element.name)


def _get_pair_name(element: XmlElement, names: tuple[str, ...]) -> str:
    """Return the value of the first of these attributes that the element has, else the element's name."""
    return next((value for name in names if (value := element.get_attribute(name)) is not None), element.name)


XLIFF_1_INLINE: Final = InlineElements(
    frozenset(("g", "mrk")),
    {"bpt": ("rid", "id"), "bx": ("rid", "id")},
    {"ept": ("rid", "id"), "ex": ("rid", "id")},
)
"""XLIFF 1.2, section 2.4: https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html."""
XLIFF_2_INLINE: Final = InlineElements(
    frozenset(("pc", "mrk")), {"sc": ("id",), "sm": ("id",)}, {"ec": ("startRef", "id"), "em": ("startRef",)}
)
"""XLIFF 2.0, section 4.2.3: https://docs.oasis-open.org/xliff/xliff-core/v2.0/xliff-core-v2.0.html."""
TMX_INLINE: Final = InlineElements(frozenset(("hi",)), {"bpt": ("i",)}, {"ept": ("i",)})
"""TMX 1.4b, "content markup": https://www.gala-global.org/tmx-14b."""


def to_xml(segment: Segment) -> str:
    """Write a segment as XML content."""
    return "".join(escape_xml(part) if isinstance(part, str) else part.raw for part in segment)


def has_content(segment: Segment) -> bool:
    """Return whether a segment contains a code or text that is not white space."""
    return any(isinstance(part, InlineCode) or part.strip() for part in segment)
