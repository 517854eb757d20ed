"""Safe XML reading with element offsets, and the inline elements that become codes; nothing is expanded or fetched.

Expat (XML 1.0) checks that a file is well formed; entities that a file declares itself are refused, so that none can
grow. Then elements are found in the text, each with its offsets, so that single ones can be changed and everything else
stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, Final, NoReturn, final
from xml.parsers import expat
from xml.sax.saxutils import escape, unescape

from heedful.errors import DataError
from heedful.localisation.documents import TextContent, decode_text, detect_byte_order_mark, read_file_bytes
from heedful.localisation.segments import InlineCode, Segment

_DECLARED_ENCODING: Final = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
_VERSION: Final = re.compile(rb"^\s*<\?xml\s+version\s*=\s*[\"']([0-9.]{1,8})[\"']")
_SUPPORTED_VERSION: Final = "1.0"
_MARKUP: Final = re.compile(
    r"<!--.*?-->|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<\?.*?\?>|"
    r"<!DOCTYPE(?:[^\[>\"']|\"[^\"]*\"|'[^']*')*+"
    r"(?:\[(?:<!--.*?-->|<\?.*?\?>|<!(?:[^>\"']|\"[^\"]*\"|'[^']*')*+>|[^\]<])*+\]\s*)?>"
    r"|</(?P<close>[^\s>]+)\s*>"
    r"|<(?P<open>[^\s/>!?]+)(?P<attributes>(?:[^>\"'/]++|\"[^\"]*\"|'[^']*'|/(?!>))*+)(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(r"([^\s=]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_REFERENCE: Final = re.compile(r"&#(x[0-9a-fA-F]+|[0-9]+);")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_MAX_DEPTH: Final = 200


@dataclass(frozen=True, slots=True)
class XmlAttribute:
    """The value of an attribute, and its offsets without quotation marks."""

    text: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class XmlText:
    """Unescaped text between tags, with its offsets."""

    text: str
    start: int
    stop: int


@dataclass(slots=True)
class XmlElement:
    """A single tag, or a pair of tags with the content that they enclose; a file may have a million of them.

    Attributes:
        tag: name as written, with its prefix.
        attributes: by their names as written.
        parent: the enclosing element.
        start: offset of the whole element.
        inside: start of the content; the end of a single tag.
        inside_stop: end of the content.
        stop: end of the whole element.
        children: the content, if it is kept.
        name: tag name without its prefix.
    """

    tag: str
    attributes: Mapping[str, XmlAttribute]
    parent: XmlElement | None
    start: int
    inside: int
    inside_stop: int = -1
    stop: int = -1
    children: list[XmlElement | XmlText] = field(default_factory=list)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.tag = intern(self.tag)
        self.name = intern(self.tag.rpartition(":")[2])

    @property
    def is_single(self) -> bool:
        """Whether it is a single tag, as in `<target/>`."""
        return self.inside == self.stop

    @property
    def text(self) -> str:
        """All text in the element."""
        return "".join(child.text for child in self.children)

    def find_child(self, name: str) -> XmlElement | None:
        """Return the first child with this name, or None."""
        return next(self.iter_children(name), None)

    def iter_children(self, name: str) -> Iterator[XmlElement]:
        """Iterate over the children with this name."""
        return (child for child in self.children if isinstance(child, XmlElement) and child.name == name)

    def get_attribute(self, name: str) -> str | None:
        """Return the value of an attribute, or None."""
        attribute = self.attributes.get(name)
        return None if attribute is None else attribute.text

    def get_inherited(self, name: str) -> str | None:
        """Return the value of an attribute of this element or of the nearest ancestor that has it; None if none has."""
        element: XmlElement | None = self
        while element is not None:
            if (value := element.get_attribute(name)) is not None:
                return value
            element = element.parent
        return None


_NO_ATTRIBUTES: Final[Mapping[str, XmlAttribute]] = MappingProxyType({})


def read_xml_file(path: Path) -> TextContent:
    """Read the text of a well-formed XML file.

    Raises:
        DataError: it is not well formed, or declares entities.
    """
    return decode_xml(read_file_bytes(path), path)


def decode_xml(data: bytes, path: Path) -> TextContent:
    """Check and decode the bytes of an XML file; raises the same errors as `read_xml_file`, which name `path`."""
    _check_well_formed(data, path)
    mark, encoding = detect_byte_order_mark(data)
    match = _DECLARED_ENCODING.search(data[len(mark) :] if not encoding or encoding == "utf-8" else b"")
    return decode_text(data, path=path, declared=encoding or (match[1].decode() if match else None), escapes=True)


def _check_well_formed(data: bytes, path: Path) -> None:
    """Check with expat that the bytes of a file are well-formed XML 1.0 without its own entities; raise DataError with
    `path` if not, or if elements are nested too deeply.
    """
    mark, _ = detect_byte_order_mark(data)
    match = _VERSION.search(data[len(mark) :][:400].replace(b"\0", b""))
    if match is not None and (version := match[1].decode()) != _SUPPORTED_VERSION:
        raise DataError(
            f"{path}: is XML {version}, but only {_SUPPORTED_VERSION} can be read; save it as {_SUPPORTED_VERSION}"
        )
    parser = expat.ParserCreate()

    def reject_entity(name: str, *_: Any) -> NoReturn:
        """Raise DataError, because entities are not supported."""
        raise DataError(
            f"{path}:{parser.CurrentLineNumber}: declares or uses the entity {name!r}; entities that a file defines "
            "are not read, since they can grow without limit: write their text instead"
        )

    depth = 0

    def start_element(*_: Any) -> None:
        """Raise DataError if elements are nested too deeply."""
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise DataError(
                f"{path}:{parser.CurrentLineNumber}: more than {_MAX_DEPTH} elements inside each other; check whether "
                "this is the right file"
            )

    def end_element(_: str) -> None:
        """Count the end of an element."""
        nonlocal depth
        depth -= 1

    parser.EntityDeclHandler = reject_entity
    parser.SkippedEntityHandler = reject_entity
    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code)
        raise DataError(
            f"{path}:{error.lineno}: not well-formed XML ({problem}); correct it or fetch it again"
        ) from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{path}: declares an encoding that cannot be read ({error}); convert it to UTF-8") from None


def find_root(text: str, name: str | None = None, *, path: Path) -> XmlElement:
    """Return the root element of an XML text without its content; raise DataError with `path` if it is not named
    `name`.
    """
    match = next(candidate for candidate in _MARKUP.finditer(text) if candidate["open"] is not None)
    element = XmlElement(match["open"], _parse_attributes(match), None, match.start(), match.end())
    if name is not None and element.name != name:
        raise DataError(f"{path}: begins with <{element.tag}> where <{name}> is needed; is it the right file?")
    return element


def iter_elements(text: str, names: Collection[str], *, start: int = 0) -> Iterator[XmlElement]:
    """Yield the elements with these names (without prefix), each with its content, when its end is reached.

    Content outside of them is not kept, so that a file may be long; enclosing elements keep their attributes. A wanted
    element inside another one is yielded first, and is also its child.

    Args:
        text: of a well-formed file.
        names: names of the elements.
        start: offset to begin at.
    """
    stack: list[XmlElement] = []
    open_wanted = 0  # open elements that the caller asked for
    position = start
    for match in _MARKUP.finditer(text, start):
        if open_wanted and match.start() > position:
            stack[-1].children.append(XmlText(unescape_xml(text[position : match.start()]), position, match.start()))
        position = match.end()
        if (tag := match["open"]) is not None:
            parent = stack[-1] if stack else None
            element = XmlElement(tag, _parse_attributes(match), parent, match.start(), match.end())
            if open_wanted and parent is not None:
                parent.children.append(element)
            stack.append(element)
            open_wanted += element.name in names
            if not match["empty"]:
                continue
        elif match["cdata"] is not None and open_wanted:
            stack[-1].children.append(XmlText(match["cdata"], match.start(), match.end()))
        if match["empty"] or match["close"] is not None:
            element = stack.pop()
            element.inside_stop = element.inside if match["empty"] else match.start()
            element.stop = match.end()
            if element.name in names:
                open_wanted -= 1
                yield element


def _parse_attributes(tag: re.Match[str]) -> Mapping[str, XmlAttribute]:
    """Return the attributes of a tag with their offsets; tags without any share one mapping."""
    if not tag["attributes"]:
        return _NO_ATTRIBUTES
    offset = tag.start("attributes")
    attributes = {}
    for match in _ATTRIBUTE.finditer(tag["attributes"]):
        group = 2 if match[2] is not None else 3
        attributes[intern(match[1])] = XmlAttribute(
            unescape_xml(match[group]), offset + match.start(group), offset + match.end(group)
        )
    return attributes


def unescape_xml(raw: str) -> str:
    """Return text without XML escapes."""
    if "&" not in raw:
        return raw
    return unescape(_REFERENCE.sub(_decode_reference, raw), {"&quot;": '"', "&apos;": "'"})


def _decode_reference(match: re.Match[str]) -> str:
    """Return the character of a numeric reference; an ampersand stays escaped."""
    number = int(match[1][1:], 16) if match[1][0] == "x" else int(match[1].lstrip("0") or "0")
    return "&amp;" if number == ord("&") else chr(number)


def escape_xml(text: str) -> str:
    """Escape text for XML content; characters that XML cannot express are removed."""
    return escape(_CONTROL.sub("", text))


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
        """Convert the content of an element to a segment; elements that are not pairs become codes with all of their
        content. `text` is that of the whole file.
        """
        return tuple(self._iter_parts(element, text, begin=element.start))

    def _iter_parts(self, element: XmlElement, text: str, *, begin: int) -> Iterator[str | InlineCode]:
        """Yield the texts and codes of an element's content. `text` is that of the whole file; pairs are named by their
        offset from `begin`.
        """
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
        """Build the code of an element that is not a pair of tags; `raw` is the whole element as XML. It opens or
        closes a pair if the format says so for its name, else it stands alone.
        """
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
