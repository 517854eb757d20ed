"""Placeholders in text: what a program replaces, what marks it up, and what must be the same in every language."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Final

from heedful.characters import without_invisible
from heedful.localisation.placeholder_rules import ESCAPE, MESSAGE, NUMBER, tokens, unknown_marks
from heedful.localisation.segments import BREAK, Code, Role, Segment, flat

_BREAK: Final = re.compile(r"(?:(?<! ) ++)?(?:\r?\n|\t)[ \t]*+")
"""A soft end of a line; spaces are looked at from the first of them alone, however many there are."""
_MARKING: Final = re.compile(r"[<&_~\\\[\]*]")
"""What all markup and every mark of an accelerator has."""
_TAG_NAME: Final = re.compile(r"(?:</?|(?=\[))(\[?/?[\w.:-]+)")
_ACCELERATOR: Final = re.compile(r"(?P<mark>[&~_])(?P<letter>[^\W\d_])")
_FEW: Final = 4
"""Words of a text in which a mark inside a word may be an accelerator's."""
_BEFORE: Final = 2
"""Letters of a word in small letters before an `_` that is an accelerator's."""
_MARKUP: Final = frozenset(("comment", "markup", ESCAPE))
"""What no reader sees as it is written."""


def scanned(segment: Iterable[str | Code]) -> Segment:
    """A segment whose texts have their placeholders as codes; soft ends of lines are codes too."""
    return tuple(part for each in segment for part in ([each] if isinstance(each, Code) else _scan(each)))


def _scan(text: str) -> Iterator[str | Code]:
    place = 0
    for token in tokens(text):
        yield from _lines(text[place : token.start])
        place = token.stop
        yield _code(text[token.start : place], token.name)
    yield from _lines(text[place:])


def _lines(text: str) -> Iterator[str | Code]:
    """Text with its line ends and tabs, and the spaces around them, as codes."""
    place = 0
    for found in _BREAK.finditer(text):
        if found.start() > place:
            yield text[place : found.start()]
        yield Code(found[0], "alone", BREAK, spelled=True)
        place = found.end()
    if place < len(text):
        yield text[place:]


def _code(raw: str, kind: str) -> Code:
    if kind == "link":
        return Code(raw, "open" if raw == "[" else "close", kind, spelled=True)
    if kind in _MARKUP:
        return Code(raw, "alone", kind, spelled=True)
    if kind != "tag":
        return Code(raw, "alone", kind, value=raw, spelled=True)
    name = _TAG_NAME.match(raw)
    assert name is not None
    role: Role = "close" if raw[1] == "/" else "alone" if raw.endswith("/>") else "open"
    return Code(raw, role, name[1].lower(), spelled=True)


def has_forms(segment: Segment) -> bool:
    """Return whether a segment holds a message of several forms, as ICU and Fluent have for plurals and selections."""
    return any(isinstance(part, Code) and part.name == MESSAGE for part in scanned(segment))


def unchecked(segment: Segment) -> list[str]:
    """Return what in the texts of a segment looks like a placeholder and is none by any rule."""
    return [each for part in scanned(segment) if isinstance(part, str) for each in unknown_marks(part)]


def key(code: Code) -> str:
    """What makes two codes the same: how they are written, but that languages group digits in their own way."""
    return "".join(filter(str.isdigit, code.raw)) if code.name == NUMBER else code.raw


def without_accelerator(segment: Segment) -> tuple[Segment, str]:
    """A segment without the mark before the letter that chooses it from a menu, and that mark with the letter.

    The mark is `&` (Qt, Windows), `_` (GTK) or `~` (LibreOffice), and the text has exactly one. Inside a word it is
    one in short texts only: `E_xit` is, `max_length` in a sentence is not.
    """
    words = sum(len(part.split()) for part in segment if isinstance(part, str))
    if words > 3 * _FEW:
        return segment, ""
    marks = ((number, each) for number, part in enumerate(segment) if isinstance(part, str) for each in _marks(part))
    found = list(islice(marks, 2))
    if len(found) != 1:
        return segment, ""
    number, each = found[0]
    text = segment[number]
    assert isinstance(text, str)
    if not _may_mark(text, each, words=words):
        return segment, ""
    plain = text[: each.start()] + text[each.start("letter") :]
    return (*segment[:number], plain, *segment[number + 1 :]), each[0]


def _marks(text: str) -> Iterator[re.Match[str]]:
    """Signs before letters that are no part of a placeholder; what looks like the name of a variable may be a word with
    a mark.
    """
    found = ((each.start, each.stop, text[each.start : each.stop]) for each in tokens(text))
    inside = [(start, stop) for start, stop, raw in found if not (raw.isidentifier() and raw.count("_") == 1)]
    for mark in _ACCELERATOR.finditer(text):
        before = bisect_right(inside, mark.start(), key=itemgetter(0))
        if not before or inside[before - 1][1] <= mark.start():
            yield mark


def _may_mark(text: str, found: re.Match[str], *, words: int) -> bool:
    """Whether a sign is one before a letter: not that of an entity, of `AT&T`, of `~/folder`, of `max_length`."""
    before = text[: found.start()]
    if not before[-1:].isalnum():
        return text[found.end() : found.end() + 1] != "/" or found["mark"] != "~"
    inside = re.split(r"[\W\d]", before)[-1]
    shouted = before[-1].isupper() and found["letter"].isupper()
    named = found["mark"] == "_" and len(inside) > _BEFORE and not inside[0].isupper()
    return words <= _FEW and not shouted and not named


def with_accelerator(segment: Segment, mark: str) -> Segment:
    """A segment with the mark before the same letter, at the beginning of a word if that can be, else before the first.

    Placeholders are left alone. A text without letters of an alphabet gets mark and letter in brackets behind it, as
    menus in Chinese and Japanese do.
    """
    sign, letter = mark[0], mark[1]
    segment = scanned(segment)
    texts = [(number, part) for number, part in enumerate(segment) if isinstance(part, str)]
    wanted = re.escape(letter)
    for pattern in (rf"\b{wanted}", wanted, r"(?<![^\W_])[^\W\d_]"):
        for number, text in texts:
            found = re.search(pattern, text, re.IGNORECASE)
            if found is not None and found[0] < "\u2e80":
                marked = f"{text[: found.start()]}{sign}{text[found.start() :]}"
                return (*segment[:number], marked, *segment[number + 1 :])
    if not texts:
        return segment
    number, text = texts[-1]
    bare = text.rstrip(" .:\u2026\uff1a")
    tail = text[len(bare) :]
    return (*segment[:number], f"{bare}({sign}{letter.upper()}){tail}", *segment[number + 1 :])


def plain(segment: Segment) -> str:
    """What of a segment a model learns from or translates: its text with values, without markup and accelerator."""
    if all(isinstance(part, str) and not _MARKING.search(part) for part in segment):
        return " ".join(without_invisible("".join(map(str, segment))).split())
    bare, _ = without_accelerator(segment)
    shown = (
        part if isinstance(part, str) else part.value or " " * (part.name in (BREAK, ESCAPE)) for part in scanned(bare)
    )
    return " ".join(without_invisible("".join(shown)).split())


def spelled(segment: Segment) -> Segment:
    """A segment as a file takes it: what was found in texts is text again."""
    return flat(part.raw if isinstance(part, Code) and part.spelled else part for part in segment)
