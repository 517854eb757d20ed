"""What stands inside a segment of XML: text, and elements that are codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

from heedful.localisation.segments import Code, Segment
from heedful.localisation.tags import Element, Text, escaped


@final
@dataclass(frozen=True)
class Inline:
    """Which elements of a format are pairs.

    Attributes:
        around: elements that enclose text to be translated, a pair of tags.
        opening: elements that begin a pair whose end is another element.
        closing: those, and the attributes that name what they close, the first that is there.
    """

    around: frozenset[str]
    opening: Mapping[str, tuple[str, ...]]
    closing: Mapping[str, tuple[str, ...]]

    def segment(self, element: Element, text: str) -> Segment:
        """What an element encloses; all other elements are codes with all that they hold."""
        return tuple(self._parts(element, text, begin=element.start))

    def _parts(self, element: Element, text: str, *, begin: int) -> Iterator[str | Code]:
        for child in element.children:
            if isinstance(child, Text):
                yield child.text.replace("\r\n", "\n")
            elif child.name in self.around and not child.is_single and child.get("translate") != "no":
                name = f"{child.tag} at {child.start - begin}"
                yield Code(text[child.start : child.inside], "open", name)
                yield from self._parts(child, text, begin=begin)
                yield Code(text[child.inside_stop : child.stop], "close", name)
            else:
                yield self._code(child, text[child.start : child.stop])

    def _code(self, element: Element, raw: str) -> Code:
        if element.name in self.opening:
            return Code(raw, "open", _key(element, self.opening[element.name]))
        if element.name in self.closing:
            return Code(raw, "close", _key(element, self.closing[element.name]))
        return Code(raw, "alone", element.name)


def _key(element: Element, names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := element.get(name)) is not None), element.name)


XLIFF_1: Final = Inline(
    frozenset(("g", "mrk")),
    {"bpt": ("rid", "id"), "bx": ("rid", "id")},
    {"ept": ("rid", "id"), "ex": ("rid", "id")},
)
"""XLIFF 1.2, section 2.4: https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html."""
XLIFF_2: Final = Inline(
    frozenset(("pc", "mrk")), {"sc": ("id",), "sm": ("id",)}, {"ec": ("startRef", "id"), "em": ("startRef",)}
)
"""XLIFF 2.0, section 4.2.3: https://docs.oasis-open.org/xliff/xliff-core/v2.0/xliff-core-v2.0.html."""
TMX: Final = Inline(frozenset(("hi",)), {"bpt": ("i",)}, {"ept": ("i",)})
"""TMX 1.4b, "content markup": https://www.gala-global.org/tmx-14b."""


def written(segment: Segment) -> str:
    """A segment as it stands in XML."""
    return "".join(escaped(part) if isinstance(part, str) else part.raw for part in segment)


def is_filled(segment: Segment) -> bool:
    """Whether there is anything but white space."""
    return any(isinstance(part, Code) or part.strip() for part in segment)
