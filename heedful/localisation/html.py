"""HTML as blocks of text with inline tags; everything that is not text of a page stays as it is written."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import unescape as read_references
from pathlib import Path
from typing import Final, Self, final

from heedful.localisation.documents import Edit, TextDocument, Unit
from heedful.localisation.encodings import Content, decoded, read_bytes
from heedful.localisation.memory import NO_MATCHES, Match
from heedful.localisation.segments import Code, Role, Segment, codes

_CHARSET: Final = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9._-]+)", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z)"
    r"|<(?P<slash>/?)(?P<tag>[a-zA-Z][^\s/<>]*+)(?P<attributes>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*+)>",
    re.DOTALL,
)
"""What never ends, or holds a `<` outside quotation marks, is no tag, so that no text is looked through twice."""
_BORDER: Final = re.compile(r"<(?P<slash>/?)(?P<tag>[a-zA-Z][^\s/<>]*+)(?P<end>[^<>]*+>)?")
_ATTRIBUTE: Final = re.compile(r"([^\s\"'>/=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'=<>`]+)))?")
_LONG_REFERENCE: Final = re.compile(r"&#0*+(\d{8,}|(?<=0000000)\d*+);?")
"""A number with more digits than any character has, zeros in front of it included."""
_LETTER: Final = re.compile(r"[^\W\d_]")
_SPACES: Final = re.compile(r"[ \t\r\n\f]+")
_PHRASES: Final = (
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark q ruby rb rp rt s samp small "
    "span strike strong sub sup time tt u var wbr"
)
_SINGLE: Final = "area base br col embed hr img input link meta param source track wbr"
_NO_TEXT: Final = "code kbd math pre samp script style svg template textarea tt var"
_INLINE: Final = frozenset(_PHRASES.split())
_VOID: Final = frozenset(_SINGLE.split())
_VERBATIM: Final = frozenset(_NO_TEXT.split())
"""Whose content is no text of a language."""
_SHOWN: Final = frozenset(("alt", "title", "placeholder", "aria-label", "aria-description"))
"""Attributes that readers see."""
_DESCRIBING: Final = frozenset(("description", "og:title", "og:description", "twitter:title", "twitter:description"))
"""Values of `name` or `property` of a `meta` whose `content` readers see."""


@final
@dataclass(frozen=True, slots=True)
class _Value:
    """An attribute's value: its text, and where it stands between its quotation marks, if it has any."""

    text: str
    start: int
    stop: int
    quote: str


@final
@dataclass(frozen=True, slots=True)
class _Place:
    """What a unit takes up: from `start` to `stop`; `value` of an attribute."""

    start: int
    stop: int
    segment: Segment
    value: _Value | None = None


@final
class Html(TextDocument):
    """Blocks of text and attributes, of which translations take the place.

    What is between two tags of blocks is a unit, with inline tags as codes. Scripts, styles, code and whatever says
    `translate="no"` stay as they are. Pages need not be well formed.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, content: Content, path: Path) -> None:
        super().__init__(content, path)
        self._places = sorted(_Page(content.text).places(), key=lambda place: place.start)
        self._units = [
            Unit(place.segment, None, "untranslated", self.at(place.start), "attribute" if place.value else "text")
            for place in self._places
        ]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file; `DataError` where it cannot be read as text."""
        data = read_bytes(path)
        found = _CHARSET.search(data[:4096])
        declared = None if found is None else found[1].decode()
        return cls(decoded(data, path=path, declared=declared, escapes=True), path)

    @property
    def units(self) -> Sequence[Unit]:
        """Texts and attributes in the order in which they begin."""
        return self._units

    def filled(self, targets: Mapping[int, Segment], matches: Mapping[int, Match] = NO_MATCHES) -> bytes:
        """Attributes first, since they stand in tags that are codes of texts."""
        values, texts = [], {}
        for number, target in targets.items():
            place = self._places[number]
            if place.value is not None:
                values.append(_requoted(place.value, "".join(part for part in target if isinstance(part, str))))
            else:
                texts[number] = target
        text = self.edited(values)[len(self.content.mark) :].decode(self.content.encoding)
        page = Html(replace(self.content, text=text), self.path)
        # a translated attribute may have no letters any more, and so no place: texts are counted by themselves
        before, after = ([n for n, place in enumerate(each._places) if place.value is None] for each in (self, page))
        again = dict(zip(before, after, strict=True))
        edits = []
        for number, target in texts.items():
            place = page._places[again[number]]
            raws: defaultdict[str, deque[str]] = defaultdict(deque)
            for old, new in zip(codes(self._places[number].segment), codes(place.segment), strict=True):
                raws[old.raw].append(new.raw)
            edits.append(Edit(place.start, place.stop, _written(target, raws)))
        return page.edited(edits)


def _requoted(value: _Value, text: str) -> Edit:
    raw = text.replace("&", "&amp;").replace("<", "&lt;")
    if not value.quote:
        return Edit(value.start, value.stop, '"' + raw.replace('"', "&quot;") + '"')
    return Edit(value.start, value.stop, raw.replace(value.quote, "&quot;" if value.quote == '"' else "&#39;"))


def _written(target: Segment, raws: Mapping[str, deque[str]]) -> str:
    """A text with its codes, whose attributes may have been translated meanwhile."""
    return "".join(
        part.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\xa0", "&nbsp;")
        if isinstance(part, str)
        else raws[part.raw].popleft()
        for part in target
    )


class _Page:
    """Tokens of a page on their way to units."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._run = _Run()
        self._codes: dict[tuple[str, str], Code] = {}

    def places(self) -> Iterator[_Place]:
        place = 0
        while (found := _TOKEN.search(self._text, place)) is not None:
            if found.start() > place:
                self._run.add(place, found.start(), None)
            place = found.end()
            tag = (found["tag"] or "").lower()
            if not tag:
                self._run.add(found.start(), place, self._code(found.start(), place, "alone", "comment"))
                continue
            values = {} if found["slash"] else _attributes(found)
            verbatim = not found["slash"] and _is_verbatim(tag, values)
            if verbatim:
                place = self._end(tag, found.start(), place)
            else:
                yield from self._shown(tag, values)
            if tag in _INLINE:
                role: Role = "alone" if verbatim or tag in _VOID else "close" if found["slash"] else "open"
                self._run.add(found.start(), place, self._code(found.start(), place, role, tag))
            else:
                yield from self._unit()
        self._run.add(place, len(self._text), None)
        yield from self._unit()

    def _code(self, start: int, stop: int, role: Role, name: str) -> Code:
        """The code of a tag; tags that are written alike are one, so that many take little memory."""
        raw = self._text[start:stop]
        return self._codes.setdefault((raw, role), Code(raw, role, name))

    def _end(self, tag: str, start: int, place: int) -> int:
        """Where an element ends that begins at `start`; where it is never closed, `place`, the end of its tag."""
        if tag in _VOID or self._text[place - 2 : place] == "/>":
            return place
        if tag == "p":  # which the next one ends
            found = re.compile(r"</?p(?=[\s/>])", re.IGNORECASE).search(self._text, place)
            return place if found is None else found.start()
        return self._ends.get(start, place)

    @cached_property
    def _ends(self) -> Mapping[int, int]:
        """Where elements end that are closed, by where they begin."""
        ends: dict[int, int] = {}
        begun: defaultdict[str, list[int]] = defaultdict(list)
        for found in _BORDER.finditer(self._text):
            own = begun[tag := found["tag"].lower()]
            if not found["slash"]:
                own.append(found.start())
            elif found["end"] and own:
                closed = len(own) if tag in ("script", "style") else 1
                ends |= dict.fromkeys(own[-closed:], found.end())
                del own[-closed:]
        return ends

    def _shown(self, tag: str, values: Mapping[str, _Value]) -> Iterator[_Place]:
        about = {values[name].text.lower() for name in ("name", "property") if name in values}
        names = set(_SHOWN)
        if tag == "meta" and about & _DESCRIBING:
            names.add("content")
        if tag == "input" and "type" in values and values["type"].text.lower() in ("submit", "button", "reset"):
            names.add("value")
        for name in sorted(names & {*values}):
            value = values[name]
            if _LETTER.search(value.text):
                yield _Place(value.start, value.stop, (value.text,), value)

    def _unit(self) -> Iterator[_Place]:
        """What was read since the last block, if there are words; comments and white space around it are left out."""
        run, self._run = self._run, _Run()
        first, last = 0, len(run) - 1
        while first <= last and self._is_blank(*run[first]):
            first += 1
        while last >= first and self._is_blank(*run[last]):
            last -= 1
        if not self._has_words(run, first, last):
            return
        (start, begins, opening), (ends, stop, closing) = run[first], run[last]
        if opening is None:
            start += len(self._text[start:begins]) - len(self._text[start:begins].lstrip())
        if closing is None:
            stop = ends + len(self._text[ends:stop].rstrip())
        read = (
            _SPACES.sub(" ", unescape(self._text[max(one, start) : min(other, stop)])) if code is None else code
            for one, other, code in (run[number] for number in range(first, last + 1))
        )
        yield _Place(start, stop, tuple(part for part in read if part != ""))

    def _has_words(self, run: _Run, first: int, last: int) -> bool:
        parts = (run[number] for number in range(first, last + 1))
        return any(code is None and _LETTER.search(unescape(self._text[start:stop])) for start, stop, code in parts)

    def _is_blank(self, start: int, stop: int, code: Code | None) -> bool:
        return not self._text[start:stop].strip() if code is None else code.name == "comment"


class _Run:
    """Texts and tags in a row, by where they stand; a page may be one run of a million of them."""

    def __init__(self) -> None:
        self._places = array("q")
        self._codes: list[Code | None] = []

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, number: int) -> tuple[int, int, Code | None]:
        return self._places[2 * number], self._places[2 * number + 1], self._codes[number]

    def add(self, start: int, stop: int, code: Code | None) -> None:
        """Adds a tag, or a text, which has no code."""
        self._places.extend((start, stop))
        self._codes.append(code)


def unescape(text: str) -> str:
    """Text without character references; a number that no character has is U+FFFD, however long it is."""
    if "&" not in text:
        return text
    return read_references(_LONG_REFERENCE.sub(lambda found: f"&#{found[1][:8] or '0'};", text))


def _is_verbatim(tag: str, values: Mapping[str, _Value]) -> bool:
    said = values.get("translate")
    if said is not None and said.text.lower() in ("", "yes"):
        return False
    classes = values["class"].text.split() if "class" in values else []
    return tag in _VERBATIM or said is not None or "notranslate" in classes


def _attributes(found: re.Match[str]) -> dict[str, _Value]:
    begin = found.start("attributes")
    values: dict[str, _Value] = {}
    for each in _ATTRIBUTE.finditer(found["attributes"]):
        group = next((number for number in (2, 3, 4) if each[number] is not None), 0)
        quote = {2: '"', 3: "'"}.get(group, "")
        text = unescape(each[group]) if group else ""
        values.setdefault(each[1].lower(), _Value(text, begin + each.start(group), begin + each.end(group), quote))
    return values
