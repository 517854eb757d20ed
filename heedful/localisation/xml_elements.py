"""XML as elements that know where they stand, read safely: nothing is expanded, nothing is fetched.

Expat (XML 1.0) judges whether a file is well formed; entities that a file declares itself are refused, whatever they
say, so that none can grow. Then elements are found in the text, each with its offsets, so that single ones can be
changed and everything else stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape, unescape

from heedful.errors import DataError
from heedful.localisation.text_content import TextContent, decode_text, detect_byte_order_mark, read_file_bytes

_DECLARED_ENCODING: Final = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
_VERSION: Final = re.compile(rb"^\s*<\?xml\s+version\s*=\s*[\"']([0-9.]{1,8})[\"']")
_SUPPORTED_VERSION: Final = "1.0"
_MARKUP: Final = re.compile(
    r"<!--.*?-->|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<\?.*?\?>|"
    r"<!DOCTYPE(?:[^\[>\"']|\"[^\"]*\"|'[^']*')*+"
    r"(?:\[(?:<!--.*?-->|<\?.*?\?>|<!(?:[^>\"']|\"[^\"]*\"|'[^']*')*+>|[^\]<])*+\]\s*)?>"
    r"|</(?P<close>[^\s>]+)\s*>|<(?P<open>[^\s/>!?]+)(?P<attributes>(?:[^>\"']|\"[^\"]*\"|'[^']*')*?)(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(r"([^\s=]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_REFERENCE: Final = re.compile(r"&#(x[0-9a-fA-F]+|[0-9]+);")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_MAX_DEPTH: Final = 200


@dataclass(frozen=True)
class XmlAttribute:
    """What an attribute says, and where that stands, without its quotation marks."""

    text: str
    start: int
    stop: int


@dataclass(frozen=True)
class XmlText:
    """What stands between tags, without escapes."""

    text: str
    start: int
    stop: int


@dataclass
class XmlElement:
    """A tag, or a pair of tags and what they enclose.

    Attributes:
        tag: its name as it is written, with its prefix.
        attributes: by their names as they are written.
        parent: the element around it.
        start: of all of it.
        inside: where what it encloses begins; where it ends, of one that is a single tag.
        inside_stop: where what it encloses ends.
        stop: of all of it.
        children: what it encloses, where that is kept.
    """

    tag: str
    attributes: Mapping[str, XmlAttribute]
    parent: XmlElement | None
    start: int
    inside: int
    inside_stop: int = -1
    stop: int = -1
    children: list[XmlElement | XmlText] = field(default_factory=list)

    @cached_property
    def name(self) -> str:
        """Its name without a prefix."""
        return self.tag.rpartition(":")[2]

    @property
    def is_single(self) -> bool:
        """Whether it is one tag, as in `<target/>`."""
        return self.inside == self.stop

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(child.text for child in self.children)

    def find_child(self, name: str) -> XmlElement | None:
        """The first child of a name."""
        return next(self.iter_children(name), None)

    def iter_children(self, name: str) -> Iterator[XmlElement]:
        """The children of a name."""
        return (child for child in self.children if isinstance(child, XmlElement) and child.name == name)

    def get_attribute(self, name: str) -> str | None:
        """What an attribute says."""
        attribute = self.attributes.get(name)
        return None if attribute is None else attribute.text

    def get_inherited(self, name: str) -> str | None:
        """What an attribute says, or that of the nearest element around."""
        element: XmlElement | None = self
        while element is not None:
            if (value := element.get_attribute(name)) is not None:
                return value
            element = element.parent
        return None


def read_xml_file(path: Path) -> TextContent:
    """The text of a well-formed file.

    Raises:
        DataError: it is not, or declares entities.
    """
    return decode_xml(read_file_bytes(path), path)


def decode_xml(data: bytes, path: Path) -> TextContent:
    """The same of the bytes of a file."""
    _check_well_formed(data, path)
    mark, encoding = detect_byte_order_mark(data)
    match = _DECLARED_ENCODING.search(data[len(mark) :] if not encoding or encoding == "utf-8" else b"")
    return decode_text(data, path=path, declared=encoding or (match[1].decode() if match else None), escapes=True)


def _check_well_formed(data: bytes, path: Path) -> None:
    """Expat's word on a file."""
    mark, _ = detect_byte_order_mark(data)
    match = _VERSION.search(data[len(mark) :][:400].replace(b"\0", b""))
    if match is not None and (version := match[1].decode()) != _SUPPORTED_VERSION:
        raise DataError(
            f"{path}: is XML {version}, and {_SUPPORTED_VERSION} is what is read; save it as {_SUPPORTED_VERSION}"
        )
    parser = expat.ParserCreate()

    def reject_entity(name: str, *_: Any) -> NoReturn:
        raise DataError(
            f"{path}:{parser.CurrentLineNumber}: declares or uses the entity {name!r}; entities of a file's own are "
            "not read, since they can grow without end: write out what it stands for"
        )

    depth = 0

    def start_element(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise DataError(f"{path}:{parser.CurrentLineNumber}: more than {_MAX_DEPTH} elements inside each other")

    def end_element(_: str) -> None:
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
        raise DataError(f"{path}:{error.lineno}: not well-formed XML ({problem}); mend it or fetch it again") from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{path}: declares an encoding that cannot be read ({error}); convert it to UTF-8") from None


def find_root(text: str, name: str | None = None, *, path: Path) -> XmlElement:
    """The element around all others, without what it encloses; `DataError` where it has another name than needed."""
    match = next(candidate for candidate in _MARKUP.finditer(text) if candidate["open"] is not None)
    element = XmlElement(match["open"], _parse_attributes(match), None, match.start(), match.end())
    if name is not None and element.name != name:
        raise DataError(f"{path}: begins with <{element.tag}> where <{name}> is needed; is it the right file?")
    return element


def iter_elements(text: str, names: Collection[str], *, start: int = 0) -> Iterator[XmlElement]:
    """The elements of some names, without a prefix, each with all that it encloses, as their ends are reached.

    What is in none of them is not kept, so that a file may be long; elements around know their attributes. A wanted
    element in a wanted one is a child of it, and comes alone first.

    Args:
        text: of a well-formed file.
        names: the names.
        start: where to begin.
    """
    stack: list[XmlElement] = []
    open_wanted = 0  # open elements that are wanted
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


def _parse_attributes(tag: re.Match[str]) -> dict[str, XmlAttribute]:
    offset = tag.start("attributes")
    attributes = {}
    for match in _ATTRIBUTE.finditer(tag["attributes"]):
        group = 2 if match[2] is not None else 3
        attributes[match[1]] = XmlAttribute(
            unescape_xml(match[group]), offset + match.start(group), offset + match.end(group)
        )
    return attributes


def unescape_xml(raw: str) -> str:
    """Text without escapes."""
    if "&" not in raw:
        return raw
    return unescape(_REFERENCE.sub(_decode_reference, raw), {"&quot;": '"', "&apos;": "'"})


def _decode_reference(match: re.Match[str]) -> str:
    number = int(match[1][1:], 16) if match[1][0] == "x" else int(match[1].lstrip("0") or "0")
    return "&amp;" if number == ord("&") else chr(number)


def escape_xml(text: str) -> str:
    """Text as it may stand between tags; what XML cannot say is left out."""
    return escape(_CONTROL.sub("", text))
