"""HTML documents as blocks of text with inline tags; everything that is not page text stays as it is written."""

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

from heedful.localisation.documents import (
    TextContent,
    TextDocument,
    TextEdit,
    TranslationUnit,
    decode_text,
    read_file_bytes,
)
from heedful.localisation.segments import CodeRole, InlineCode, Segment, list_codes
from heedful.localisation.translation_memory import NO_MATCHES, MemoryMatch

_CHARSET: Final = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9._-]+)", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z)"
    r"|<(?P<slash>/?)(?P<tag>[a-zA-Z][^\s/<>]*+)(?P<attributes>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*+)>",
    re.DOTALL,
)
"""A tag, comment or declaration; a tag that never ends or has an unquoted `<` does not match, so that no text is
scanned twice."""
_TAG_START: Final = re.compile(r"<(?P<slash>/?)(?P<tag>[a-zA-Z][^\s/<>]*+)(?P<end>[^<>]*+>)?")
_ATTRIBUTE: Final = re.compile(r"([^\s\"'>/=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'=<>`]+)))?")
_LONG_REFERENCE: Final = re.compile(r"&#0*+(\d{8,}|(?<=0000000)\d*+);?")
"""A character reference with more digits than any character needs, leading zeros included."""
_LETTER: Final = re.compile(r"[^\W\d_]")
_SPACES: Final = re.compile(r"[ \t\r\n\f]+")
_INLINE_NAMES: Final = (
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark q ruby rb rp rt s samp small "
    "span strike strong sub sup time tt u var wbr"
)
_VOID_NAMES: Final = "area base br col embed hr img input link meta param source track wbr"
_VERBATIM_NAMES: Final = "code kbd math pre samp script style svg template textarea tt var"
_INLINE: Final = frozenset(_INLINE_NAMES.split())
_VOID: Final = frozenset(_VOID_NAMES.split())
_VERBATIM: Final = frozenset(_VERBATIM_NAMES.split())
"""Elements whose content is not natural language."""
_VISIBLE_ATTRIBUTES: Final = frozenset(("alt", "title", "placeholder", "aria-label", "aria-description"))
"""Attributes whose values readers see."""
_READ_ATTRIBUTES: Final = _VISIBLE_ATTRIBUTES | {"class", "content", "name", "property", "translate", "type", "value"}
"""Attributes whose values decide what is translated, or are translated; others are not kept."""
_VISIBLE_META: Final = frozenset(("description", "og:title", "og:description", "twitter:title", "twitter:description"))
"""Values of `name` or `property` of `meta` elements whose `content` readers see."""


@final
@dataclass(frozen=True, slots=True)
class _HtmlAttribute:
    """The value of an attribute: its text, its offsets without quotation marks, and the quotation mark (possibly
    empty).
    """

    text: str
    start: int
    stop: int
    quote: str


@final
@dataclass(frozen=True, slots=True)
class _HtmlUnit:
    """A unit of a page from `start` to `stop`; `value` is set for an attribute."""

    start: int
    stop: int
    segment: Segment
    value: _HtmlAttribute | None = None


@final
class HtmlDocument(TextDocument):
    """An HTML page whose text blocks and attributes are replaced by translations.

    The text between two block tags is a unit, with inline tags as codes. Scripts, styles, code and elements with
    `translate="no"` stay as they are. Pages do not need to be well formed.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(content, path)
        self._page_units = sorted(_PageParser(content.text).iter_units(), key=lambda unit: unit.start)
        self._units = [
            TranslationUnit(
                unit.segment,
                None,
                "untranslated",
                self.format_location(unit.start),
                "attribute" if unit.value else "text",
            )
            for unit in self._page_units
        ]

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a page from a file; raise DataError if it cannot be decoded."""
        data = read_file_bytes(path)
        match = _CHARSET.search(data[:4096])
        declared = None if match is None else match[1].decode()
        return cls(decode_text(data, path=path, declared=declared, escapes=True), path)

    @property
    def units(self) -> Sequence[TranslationUnit]:
        """Text blocks and attributes by start offset."""
        return self._units

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the page with translations, given by unit number; `matches` have no effect. Attributes are replaced
        first, because they are in tags that are codes of texts.
        """
        attribute_edits, texts = [], {}
        for number, target in targets.items():
            unit = self._page_units[number]
            if unit.value is not None:
                attribute_edits.append(
                    _replace_attribute(unit.value, "".join(part for part in target if isinstance(part, str)))
                )
            else:
                texts[number] = target
        page = self
        if attribute_edits:
            text = self.apply_edits(attribute_edits)[len(self.content.mark) :].decode(self.content.encoding)
            page = HtmlDocument(replace(self.content, text=text), self.path)
        # a translated attribute may have no letters and so no position: texts are counted separately
        old_numbers, new_numbers = (
            [index for index, unit in enumerate(document._page_units) if unit.value is None]
            for document in (self, page)
        )
        new_number_of = dict(zip(old_numbers, new_numbers, strict=True))
        edits = []
        for number, target in texts.items():
            unit = page._page_units[new_number_of[number]]
            new_codes: defaultdict[str, deque[str]] = defaultdict(deque)
            for old, new in zip(list_codes(self._page_units[number].segment), list_codes(unit.segment), strict=True):
                new_codes[old.raw].append(new.raw)
            edits.append(TextEdit(unit.start, unit.stop, _to_html(target, new_codes)))
        return page.apply_edits(edits)


def _replace_attribute(value: _HtmlAttribute, text: str) -> TextEdit:
    """Return the edit that sets an attribute's value to a text, quoted as before; without quotes, in double quotes."""
    raw = text.replace("&", "&amp;").replace("<", "&lt;")
    if not value.quote:
        return TextEdit(value.start, value.stop, '"' + raw.replace('"', "&quot;") + '"')
    return TextEdit(value.start, value.stop, raw.replace(value.quote, "&quot;" if value.quote == '"' else "&#39;"))


def _to_html(target: Segment, raw_codes: Mapping[str, deque[str]]) -> str:
    """Write a translation as HTML. Each of its codes is replaced by the next one that `raw_codes` has for its raw text,
    in which attributes may already be translated; this one is removed from `raw_codes`.
    """
    return "".join(
        part.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\xa0", "&nbsp;")
        if isinstance(part, str)
        else raw_codes[part.raw].popleft()
        for part in target
    )


class _PageParser:
    """Splits a page into units."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TokenList()
        self._codes: dict[tuple[str, str], InlineCode] = {}

    def iter_units(self) -> Iterator[_HtmlUnit]:
        """Yield the units of the page: blocks of text with their inline tags, and attribute values that readers see."""
        position = 0
        while (match := _TOKEN.search(self._text, position)) is not None:
            if match.start() > position:
                self._tokens.append(position, match.start(), None)
            position = match.end()
            tag = (match["tag"] or "").lower()
            if not tag:
                self._tokens.append(
                    match.start(), position, self._intern_code(match.start(), position, "alone", "comment")
                )
                continue
            attributes = {} if match["slash"] else _parse_attributes(match)
            is_verbatim = not match["slash"] and _is_verbatim(tag, attributes)
            if is_verbatim:
                position = self._find_element_end(tag, match.start(), position)
            else:
                yield from self._iter_attributes(tag, attributes)
            if tag in _INLINE:
                role: CodeRole = "alone" if is_verbatim or tag in _VOID else "close" if match["slash"] else "open"
                self._tokens.append(match.start(), position, self._intern_code(match.start(), position, role, tag))
            else:
                yield from self._finish_block()
        self._tokens.append(position, len(self._text), None)
        yield from self._finish_block()

    def _intern_code(self, start: int, stop: int, role: CodeRole, name: str) -> InlineCode:
        """Return the code of a tag; identical tags share one object to save memory."""
        raw = self._text[start:stop]
        return self._codes.setdefault((raw, role), InlineCode(raw, role, name))

    def _find_element_end(self, tag: str, start: int, tag_end: int) -> int:
        """Return the end of the element whose opening tag is from `start` to `tag_end`; this if it is never closed."""
        if tag in _VOID or self._text[tag_end - 2 : tag_end] == "/>":
            return tag_end
        if tag == "p":  # which the next one ends
            match = re.compile(r"</?p(?=[\s/>])", re.IGNORECASE).search(self._text, tag_end)
            return tag_end if match is None else match.start()
        return self._element_ends.get(start, tag_end)

    @cached_property
    def _element_ends(self) -> Mapping[int, int]:
        """End offsets of closed elements by start offset."""
        ends: dict[int, int] = {}
        open_tags: defaultdict[str, list[int]] = defaultdict(list)
        for match in _TAG_START.finditer(self._text):
            starts = open_tags[tag := match["tag"].lower()]
            if not match["slash"]:
                starts.append(match.start())
            elif match["end"] and starts:
                num_closed = len(starts) if tag in ("script", "style") else 1
                ends |= dict.fromkeys(starts[-num_closed:], match.end())
                del starts[-num_closed:]
        return ends

    def _iter_attributes(self, tag: str, attributes: Mapping[str, _HtmlAttribute]) -> Iterator[_HtmlUnit]:
        """Yield the units of those attributes of a tag, named `tag`, that readers see and that contain a letter."""
        meta_names = {attributes[name].text.lower() for name in ("name", "property") if name in attributes}
        names = set(_VISIBLE_ATTRIBUTES)
        if tag == "meta" and meta_names & _VISIBLE_META:
            names.add("content")
        if tag == "input" and "type" in attributes and attributes["type"].text.lower() in ("submit", "button", "reset"):
            names.add("value")
        for name in sorted(names & {*attributes}):
            value = attributes[name]
            if _LETTER.search(value.text):
                yield _HtmlUnit(value.start, value.stop, (value.text,), value)

    def _finish_block(self) -> Iterator[_HtmlUnit]:
        """Yield the unit of the tokens since the last block tag, if it has words; comments and white space around
        it are excluded.
        """
        tokens, self._tokens = self._tokens, _TokenList()
        first, last = 0, len(tokens) - 1
        while first <= last and self._is_blank(*tokens[first]):
            first += 1
        while last >= first and self._is_blank(*tokens[last]):
            last -= 1
        if not self._has_words(tokens, first, last):
            return
        (start, begins, opening), (ends, stop, closing) = tokens[first], tokens[last]
        if opening is None:
            start += len(self._text[start:begins]) - len(self._text[start:begins].lstrip())
        if closing is None:
            stop = ends + len(self._text[ends:stop].rstrip())
        parts = (
            _SPACES.sub(" ", unescape_html(self._text[max(begin, start) : min(end, stop)])) if code is None else code
            for begin, end, code in (tokens[number] for number in range(first, last + 1))
        )
        yield _HtmlUnit(start, stop, tuple(part for part in parts if part != ""))

    def _has_words(self, tokens: _TokenList, first: int, last: int) -> bool:
        """Return whether the tokens from `first` to `last`, both included, contain text with a letter."""
        parts = (tokens[number] for number in range(first, last + 1))
        return any(
            code is None and _LETTER.search(unescape_html(self._text[start:stop])) for start, stop, code in parts
        )

    def _is_blank(self, start: int, stop: int, code: InlineCode | None) -> bool:
        """Return whether a token is white space or a comment."""
        return not self._text[start:stop].strip() if code is None else code.name == "comment"


class _TokenList:
    """Compact list of texts and tags with their offsets; a page may have a million of them."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._codes: list[InlineCode | None] = []

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, number: int) -> tuple[int, int, InlineCode | None]:
        return self._offsets[2 * number], self._offsets[2 * number + 1], self._codes[number]

    def append(self, start: int, stop: int, code: InlineCode | None) -> None:
        """Append a tag, or a text, which has no code."""
        self._offsets.extend((start, stop))
        self._codes.append(code)


def unescape_html(text: str) -> str:
    """Return text without character references; numbers that are not characters become U+FFFD."""
    if "&" not in text:
        return text
    return read_references(_LONG_REFERENCE.sub(lambda match: f"&#{match[1][:8] or '0'};", text))


def _is_verbatim(tag: str, attributes: Mapping[str, _HtmlAttribute]) -> bool:
    """Return whether the content of an element is not translated, by its tag name, `translate` and `class`."""
    translate = attributes.get("translate")
    if translate is not None and translate.text.lower() in ("", "yes"):
        return False
    classes = attributes["class"].text.split() if "class" in attributes else []
    return tag in _VERBATIM or translate is not None or "notranslate" in classes


def _parse_attributes(tag: re.Match[str]) -> dict[str, _HtmlAttribute]:
    """Return the attributes of a tag that are translated or decide what is translated, by name, with their offsets."""
    offset = tag.start("attributes")
    values: dict[str, _HtmlAttribute] = {}
    for match in _ATTRIBUTE.finditer(tag["attributes"]):
        name = match[1].lower()
        if name not in _READ_ATTRIBUTES or name in values:
            continue
        group = next((number for number in (2, 3, 4) if match[number] is not None), 0)
        quote = {2: '"', 3: "'"}.get(group, "")
        text = unescape_html(match[group]) if group else ""
        values[name] = _HtmlAttribute(text, offset + match.start(group), offset + match.end(group), quote)
    return values
