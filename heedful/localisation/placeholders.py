"""Placeholders in segments: variables, markup and other parts that must be the same in every language."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Final

from heedful.characters import remove_invisible
from heedful.localisation.placeholder_rules import (
    ESCAPE_NAME,
    MESSAGE_NAME,
    NUMBER_NAME,
    find_unknown_marks,
    iter_placeholders,
)
from heedful.localisation.segments import BREAK_NAME, CodeRole, InlineCode, Segment, flatten_nodes

_LINE_BREAK: Final = re.compile(r"(?:(?<! ) ++)?(?:\r?\n|\t)[ \t]*+")
"""A soft line break or tab with the spaces around it; runs of spaces are matched from their first one only."""
_MARKUP_SIGN: Final = re.compile(r"[<&_~\\\[\]*]")
"""A character that all markup and every accelerator mark contains."""
_TAG_NAME: Final = re.compile(r"(?:</?|(?=\[))(\[?/?[\w.:-]+)")
_ACCELERATOR: Final = re.compile(r"(?P<mark>[&~_])(?P<letter>[^\W\d_])")
_SHORT_TEXT: Final = 4
"""Number of words up to which a mark inside a word may be an accelerator mark."""
_MAX_LOWERCASE_PREFIX: Final = 2
"""Number of lower case letters of a word before an `_` that is an accelerator mark."""
_MARKUP_NAMES: Final = frozenset(("comment", "markup", ESCAPE_NAME))
"""Kinds of placeholders that readers do not see."""


def scan_placeholders(segment: Iterable[str | InlineCode]) -> Segment:
    """Replace the placeholders and soft line breaks in the texts of a segment by codes."""
    return tuple(node for part in segment for node in ([part] if isinstance(part, InlineCode) else _split_text(part)))


def _split_text(text: str) -> Iterator[str | InlineCode]:
    """Split a text into plain text and codes of placeholders and line breaks."""
    position = 0
    for token in iter_placeholders(text):
        yield from _split_line_breaks(text[position : token.start])
        position = token.stop
        yield _build_code(text[token.start : position], token.name)
    yield from _split_line_breaks(text[position:])


def _split_line_breaks(text: str) -> Iterator[str | InlineCode]:
    """Split a text at line breaks and tabs, which become codes with the spaces around them."""
    position = 0
    for match in _LINE_BREAK.finditer(text):
        if match.start() > position:
            yield text[position : match.start()]
        yield InlineCode(match[0], "alone", BREAK_NAME, in_text=True)
        position = match.end()
    if position < len(text):
        yield text[position:]


def _build_code(raw: str, kind: str) -> InlineCode:
    """Build the code of a placeholder of this kind."""
    if kind == "link":
        return InlineCode(raw, "open" if raw == "[" else "close", kind, in_text=True)
    if kind in _MARKUP_NAMES:
        return InlineCode(raw, "alone", kind, in_text=True)
    if kind != "tag":
        return InlineCode(raw, "alone", kind, value=raw, in_text=True)
    name = _TAG_NAME.match(raw)
    assert name is not None
    role: CodeRole = "close" if raw[1] == "/" else "alone" if raw.endswith("/>") else "open"
    return InlineCode(raw, role, name[1].lower(), in_text=True)


def has_message(segment: Segment) -> bool:
    """Return whether a segment holds a message of several forms, as ICU and Fluent have for plurals and selections."""
    return any(isinstance(part, InlineCode) and part.name == MESSAGE_NAME for part in scan_placeholders(segment))


def list_unknown_marks(segment: Segment) -> list[str]:
    """Return the parts of a segment's texts that look like placeholders but match no rule."""
    return [mark for part in scan_placeholders(segment) if isinstance(part, str) for mark in find_unknown_marks(part)]


def get_code_key(code: InlineCode) -> str:
    """Return the key by which two codes are compared: the raw code, or the digits of a number, because languages
    group digits differently.
    """
    return "".join(filter(str.isdigit, code.raw)) if code.name == NUMBER_NAME else code.raw


def remove_accelerator(segment: Segment) -> tuple[Segment, str]:
    """Remove the accelerator mark from a segment; return the segment and the mark with its letter (empty if there is
    none).

    The mark is `&` (Qt, Windows), `_` (GTK) or `~` (LibreOffice), and the text has exactly one. Inside a word it counts
    in
    short texts only: `E_xit` has one, `max_length` in a sentence does not.
    """
    words = sum(len(part.split()) for part in segment if isinstance(part, str))
    if words > 3 * _SHORT_TEXT:
        return segment, ""
    candidates = (
        (number, mark)
        for number, part in enumerate(segment)
        if isinstance(part, str)
        for mark in _iter_accelerators(part)
    )
    first_two = list(islice(candidates, 2))
    if len(first_two) != 1:
        return segment, ""
    number, mark = first_two[0]
    text = segment[number]
    assert isinstance(text, str)
    if not _is_accelerator(text, mark, words=words):
        return segment, ""
    cleaned = text[: mark.start()] + text[mark.start("letter") :]
    return (*segment[:number], cleaned, *segment[number + 1 :]), mark[0]


def _iter_accelerators(text: str) -> Iterator[re.Match[str]]:
    """Yield the accelerator marks that are outside placeholders; a name with a single `_` may be a word with a mark."""
    placeholders = ((token.start, token.stop, text[token.start : token.stop]) for token in iter_placeholders(text))
    spans = [(start, stop) for start, stop, raw in placeholders if not (raw.isidentifier() and raw.count("_") == 1)]
    for mark in _ACCELERATOR.finditer(text):
        index = bisect_right(spans, mark.start(), key=itemgetter(0))
        if not index or spans[index - 1][1] <= mark.start():
            yield mark


def _is_accelerator(text: str, match: re.Match[str], *, words: int) -> bool:
    """Return whether a sign is an accelerator mark, and not part of an entity, `AT&T`, `~/folder` or `max_length`."""
    before = text[: match.start()]
    if not before[-1:].isalnum():
        return text[match.end() : match.end() + 1] != "/" or match["mark"] != "~"
    prefix = re.split(r"[\W\d]", before)[-1]
    is_uppercase = before[-1].isupper() and match["letter"].isupper()
    is_variable = match["mark"] == "_" and len(prefix) > _MAX_LOWERCASE_PREFIX and not prefix[0].isupper()
    return words <= _SHORT_TEXT and not is_uppercase and not is_variable


def insert_accelerator(segment: Segment, mark: str) -> Segment:
    """Insert an accelerator mark before the same letter, preferably at the beginning of a word, else before the first
    letter.

    Placeholders are not changed. A text without letters of an alphabet gets mark and letter in brackets at its end, as
    in
    Chinese and Japanese menus.
    """
    sign, letter = mark[0], mark[1]
    segment = scan_placeholders(segment)
    texts = [(number, part) for number, part in enumerate(segment) if isinstance(part, str)]
    escaped_letter = re.escape(letter)
    for pattern in (rf"\b{escaped_letter}", escaped_letter, r"(?<![^\W_])[^\W\d_]"):
        for number, text in texts:
            match = re.search(pattern, text, re.IGNORECASE)
            if match is not None and match[0] < "\u2e80":
                marked = f"{text[: match.start()]}{sign}{text[match.start() :]}"
                return (*segment[:number], marked, *segment[number + 1 :])
    if not texts:
        return segment
    number, text = texts[-1]
    bare = text.rstrip(" .:\u2026\uff1a")
    tail = text[len(bare) :]
    return (*segment[:number], f"{bare}({sign}{letter.upper()}){tail}", *segment[number + 1 :])


def to_plain_text(segment: Segment) -> str:
    """Return the text of a segment that a model reads: with the values of placeholders, without markup and
    accelerator mark.
    """
    if all(isinstance(part, str) and not _MARKUP_SIGN.search(part) for part in segment):
        return " ".join(remove_invisible("".join(map(str, segment))).split())
    cleaned, _ = remove_accelerator(segment)
    visible = (
        part if isinstance(part, str) else part.value or " " * (part.name in (BREAK_NAME, ESCAPE_NAME))
        for part in scan_placeholders(cleaned)
    )
    return " ".join(remove_invisible("".join(visible)).split())


def restore_placeholders(segment: Segment) -> Segment:
    """Turn codes that were found in texts into text again, as it is written to a file."""
    return flatten_nodes(part.raw if isinstance(part, InlineCode) and part.in_text else part for part in segment)
