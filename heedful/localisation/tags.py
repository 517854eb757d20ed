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
from heedful.localisation.encodings import Content, decoded, marked, read_bytes

_DECLARED: Final = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
_VERSION: Final = re.compile(rb"^\s*<\?xml\s+version\s*=\s*[\"']([0-9.]{1,8})[\"']")
_READ_VERSION: Final = "1.0"
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
_DEEPEST: Final = 200


@dataclass(frozen=True)
class Value:
    """What an attribute says, and where that stands, without its quotation marks."""

    text: str
    start: int
    stop: int


@dataclass(frozen=True)
class Text:
    """What stands between tags, without escapes."""

    text: str
    start: int
    stop: int


@dataclass
class Element:
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
    attributes: Mapping[str, Value]
    parent: Element | None
    start: int
    inside: int
    inside_stop: int = -1
    stop: int = -1
    children: list[Element | Text] = field(default_factory=list)

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

    def find(self, name: str) -> Element | None:
        """The first child of a name."""
        return next(self.all(name), None)

    def all(self, name: str) -> Iterator[Element]:
        """The children of a name."""
        return (child for child in self.children if isinstance(child, Element) and child.name == name)

    def get(self, name: str) -> str | None:
        """What an attribute says."""
        found = self.attributes.get(name)
        return None if found is None else found.text

    def inherited(self, name: str) -> str | None:
        """What an attribute says, or that of the nearest element around."""
        element: Element | None = self
        while element is not None:
            if (value := element.get(name)) is not None:
                return value
            element = element.parent
        return None


def read_xml(path: Path) -> Content:
    """The text of a well-formed file.

    Raises:
        DataError: it is not, or declares entities.
    """
    return judged(read_bytes(path), path)


def judged(data: bytes, path: Path) -> Content:
    """The same of the bytes of a file."""
    _judge(data, path)
    mark, encoding = marked(data)
    found = _DECLARED.search(data[len(mark) :] if not encoding or encoding == "utf-8" else b"")
    return decoded(data, path=path, declared=encoding or (found[1].decode() if found else None), escapes=True)


def _judge(data: bytes, path: Path) -> None:
    """Expat's word on a file."""
    mark, _ = marked(data)
    found = _VERSION.search(data[len(mark) :][:400].replace(b"\0", b""))
    if found is not None and (version := found[1].decode()) != _READ_VERSION:
        raise DataError(f"{path}: is XML {version}, and {_READ_VERSION} is what is read; save it as {_READ_VERSION}")
    parser = expat.ParserCreate()

    def refuse(name: str, *_: Any) -> NoReturn:
        raise DataError(
            f"{path}:{parser.CurrentLineNumber}: declares or uses the entity {name!r}; entities of a file's own are "
            "not read, since they can grow without end: write out what it stands for"
        )

    deep = 0

    def begin(*_: Any) -> None:
        nonlocal deep
        deep += 1
        if deep > _DEEPEST:
            raise DataError(f"{path}:{parser.CurrentLineNumber}: more than {_DEEPEST} elements inside each other")

    def end(_: str) -> None:
        nonlocal deep
        deep -= 1

    parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = refuse
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code)
        raise DataError(f"{path}:{error.lineno}: not well-formed XML ({problem}); mend it or fetch it again") from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{path}: declares an encoding that cannot be read ({error}); convert it to UTF-8") from None


def root(text: str, name: str | None = None, *, path: Path) -> Element:
    """The element around all others, without what it encloses; `DataError` where it has another name than needed."""
    found = next(each for each in _MARKUP.finditer(text) if each["open"] is not None)
    element = Element(found["open"], _attributes(found), None, found.start(), found.end())
    if name is not None and element.name != name:
        raise DataError(f"{path}: begins with <{element.tag}> where <{name}> is needed; is it the right file?")
    return element


def elements(text: str, wanted: Collection[str], *, within: int = 0) -> Iterator[Element]:
    """The elements of some names, without a prefix, each with all that it encloses, as their ends are reached.

    What is in none of them is not kept, so that a file may be long; elements around know their attributes. A wanted
    element in a wanted one is a child of it, and comes alone first.

    Args:
        text: of a well-formed file.
        wanted: the names.
        within: where to begin.
    """
    stack: list[Element] = []
    kept = 0  # open elements that are wanted
    place = within
    for found in _MARKUP.finditer(text, within):
        if kept and found.start() > place:
            stack[-1].children.append(Text(plain(text[place : found.start()]), place, found.start()))
        place = found.end()
        if (tag := found["open"]) is not None:
            parent = stack[-1] if stack else None
            element = Element(tag, _attributes(found), parent, found.start(), found.end())
            if kept and parent is not None:
                parent.children.append(element)
            stack.append(element)
            kept += element.name in wanted
            if not found["empty"]:
                continue
        elif found["cdata"] is not None and kept:
            stack[-1].children.append(Text(found["cdata"], found.start(), found.end()))
        if found["empty"] or found["close"] is not None:
            element = stack.pop()
            element.inside_stop = element.inside if found["empty"] else found.start()
            element.stop = found.end()
            if element.name in wanted:
                kept -= 1
                yield element


def _attributes(found: re.Match[str]) -> dict[str, Value]:
    begin = found.start("attributes")
    attributes = {}
    for each in _ATTRIBUTE.finditer(found["attributes"]):
        group = 2 if each[2] is not None else 3
        attributes[each[1]] = Value(plain(each[group]), begin + each.start(group), begin + each.end(group))
    return attributes


def plain(raw: str) -> str:
    """Text without escapes."""
    if "&" not in raw:
        return raw
    return unescape(_REFERENCE.sub(_character, raw), {"&quot;": '"', "&apos;": "'"})


def _character(found: re.Match[str]) -> str:
    number = int(found[1][1:], 16) if found[1][0] == "x" else int(found[1].lstrip("0") or "0")
    return "&amp;" if number == ord("&") else chr(number)


def escaped(text: str) -> str:
    """Text as it may stand between tags; what XML cannot say is left out."""
    return escape(_CONTROL.sub("", text))
