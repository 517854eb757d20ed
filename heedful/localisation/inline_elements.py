"""What stands inside a segment of XML: text, and elements that are codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

from heedful.localisation.segments import InlineCode, Segment
from heedful.localisation.xml_elements import XmlElement, XmlText, escape_xml


@final
@dataclass(frozen=True)
class InlineElements:
    """Which elements of a format are pairs.

    Attributes:
        around: elements that enclose text to be translated, a pair of tags.
        opening: elements that begin a pair whose end is another element.
        closing: those, and the attributes that name what they close, the first that is there.
    """

    around: frozenset[str]
    opening: Mapping[str, tuple[str, ...]]
    closing: Mapping[str, tuple[str, ...]]

    def to_segment(self, element: XmlElement, text: str) -> Segment:
        """What an element encloses; all other elements are codes with all that they hold."""
        return tuple(self._iter_parts(element, text, begin=element.start))

    def _iter_parts(self, element: XmlElement, text: str, *, begin: int) -> Iterator[str | InlineCode]:
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
        if element.name in self.opening:
            return InlineCode(raw, "open", _get_pair_name(element, self.opening[element.name]))
        if element.name in self.closing:
            return InlineCode(raw, "close", _get_pair_name(element, self.closing[element.name]))
        return InlineCode(raw, "alone", element.name)


def _get_pair_name(element: XmlElement, names: tuple[str, ...]) -> str:
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
    """A segment as it stands in XML."""
    return "".join(escape_xml(part) if isinstance(part, str) else part.raw for part in segment)


def has_content(segment: Segment) -> bool:
    """Whether there is anything but white space."""
    return any(isinstance(part, InlineCode) or part.strip() for part in segment)
