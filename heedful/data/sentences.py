# ruff: noqa: RUF001  (marks of punctuation and letters of other scripts look alike)
"""Raw text as sentences, by rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TITLES = (
    "mr mrs ms mx dr prof st mme mlle sr sra hr fr rev hon gen col capt lt sgt cmdr maj pres gov sen rep supt messrs"
)
_REFERENCES = "no nos nr vol vols fig figs eq eqs sec secs ch chap pp ed eds op cit art par bd"
_OTHERS = (
    "vs cf approx ca al viz resp incl est tel ext dept univ assn bros e.g i.e z.b d.h u.a p.ex v.chr n.chr a.d "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur fri sat sun "
    "bzw bspw sog vgl evtl ggf env т.е т.д т.п гг вв стр рис см им ул тыс млн млрд руб"
)
ABBREVIATIONS: Final = frozenset(f"{_TITLES} {_REFERENCES} {_OTHERS}".split())
"""What ends with a period and usually goes on, in English, German, French and Russian; in small letters, without it."""

_WORDS_TOO: Final = frozenset(("no", "art", "fig", "par", "mar", "wed", "sat", "sun"))
"""Abbreviations that are words too: they go on only before a number."""

_WIDE = "。！？｡"
_CLOSING = "\"'”’»›)]}」』】）〉》"
_OPENING = "\"'“‘„‚«‹([{「『【（〈《¿¡-–—*"
_END: Final = re.compile(
    rf"(?P<wide>[{_WIDE}]+[{re.escape(_CLOSING)}]*)\s*"
    rf"|(?P<marks>[.!?…؟۔।]+)(?P<close>[{re.escape(_CLOSING)}]*)(?P<gap>\s+|$)"
)
_LAST_WORD: Final = re.compile(r"[^\s(\[{\"'“‘„«/-]*$")
_BEFORE_ORDINAL: Final = re.compile(r"\b(?:am|ab|bis|vom|zum|im|beim|seit|der|die|das|den|dem|des)\s+$", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")
_INITIALS: Final = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_OPENERS: Final = re.compile(rf"[{re.escape(_OPENING)}\s]*")


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, without white space around them; joined they are the text but for that.

    A sentence ends

    - after a full stop, exclamation or question mark of Chinese or Japanese, with or without space behind it, and
      after the quotation marks and brackets that close there;
    - after `.`, `!`, `?`, `…`, or the marks of Arabic, Urdu and Hindi, if white space follows, unless what follows
      begins with a small letter on the same line (as after `he said "Go!" and went`, an ellipsis, or an abbreviation);
    - at an empty line. Other ends of lines are white space.

    A single period does not end a sentence behind one of `ABBREVIATIONS`, behind initials (`J. S. Bach`, `U.S. Army`),
    behind a number that begins the sentence (`3. Results`), or behind a German ordinal number (`am 3. Mai`).

    These are rules, not knowledge. They miss ends before a name that is written small (`iPhone`), and behind
    abbreviations and single letters that happen to end a sentence (`made in the U.S. He went`, `plan B. Then`); they
    find ends that are none behind abbreviations that they do not know. Languages without marks at the end of a
    sentence, such as Thai, stay whole.
    """
    return [sentence for block in re.split(r"\n[^\S\n]*\n", text) for sentence in _block(block)]


def _block(text: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(text):
        if end["wide"] is None and not _ends(text, start, end):
            continue
        stop = end.end("wide" if end["wide"] is not None else "close")
        if sentence := text[start:stop].strip():
            yield sentence
        start = stop
    if sentence := text[start:].strip():
        yield sentence


def _ends(text: str, start: int, end: re.Match[str]) -> bool:
    goes_on = _skip(text, end.end())
    rest = text[goes_on : goes_on + 1]
    if rest.islower() and "\n" not in end["gap"]:
        return False
    if end["marks"] != "." or end["close"]:
        return True
    word = _last_word(text, start, end.start())
    if _NUMBER.fullmatch(word):
        before = text[max(start, end.start() - len(word) - 40) : end.start() - len(word)]
        ordinal = len(word) <= 2 and rest.isalpha() and _BEFORE_ORDINAL.search(before)
        return bool(before.strip()) and not ordinal
    if word.lower() in _WORDS_TOO:
        return not rest.isdigit()
    return word.lower() not in ABBREVIATIONS and not _INITIALS.fullmatch(word)


def _skip(text: str, place: int) -> int:
    found = _OPENERS.match(text, place)
    return found.end() if found else place


def _last_word(text: str, start: int, stop: int) -> str:
    # No word that matters here is longer, and the search must not grow with the sentence.
    found = _LAST_WORD.search(text[max(start, stop - 40) : stop])
    return found[0] if found else ""
