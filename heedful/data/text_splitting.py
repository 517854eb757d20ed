# ruff: noqa: RUF001  (marks of punctuation and letters of other scripts look alike)
"""Split texts into sentences, and long texts into parts that a model can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
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
"""Words that end with a period but usually do not end a sentence, in English, German, French and Russian; in lower
case, without the period."""

_AMBIGUOUS: Final = frozenset(("no", "art", "fig", "par", "mar", "wed", "sat", "sun"))
"""Abbreviations that are also words: they continue the sentence only before a number."""

_WIDE_MARKS = "。！？｡"
_CLOSING = "\"'”’»›)]}」』】）〉》"
_OPENING = "\"'“‘„‚«‹([{「『【（〈《¿¡-–—*"
_SENTENCE_END: Final = re.compile(
    rf"(?P<wide>[{_WIDE_MARKS}]+[{re.escape(_CLOSING)}]*)\s*"
    rf"|(?P<marks>(?<![.!?…؟۔।])[.!?…؟۔।]+)(?P<close>[{re.escape(_CLOSING)}]*)(?P<gap>\s+|$)"
)
_LAST_WORD: Final = re.compile(r"[^\s(\[{\"'“‘„«/-]*$")
_BEFORE_ORDINAL: Final = re.compile(r"\b(?:am|ab|bis|vom|zum|im|beim|seit|der|die|das|den|dem|des)\s+$", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")
_INITIALS: Final = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_OPENERS: Final = re.compile(rf"[{re.escape(_OPENING)}\s]*")


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences without the white space around them; joined together they are the text except for
    that.

    A sentence ends

    - after a full stop, exclamation or question mark of Chinese or Japanese, with or without space after it, and
      after the quotation marks and brackets that close there;
    - after `.`, `!`, `?`, `…`, or the marks of Arabic, Urdu and Hindi, if white space follows, unless what follows
      begins with a lower-case letter on the same line (as after `he said "Go!" and went`, an ellipsis, or an
      abbreviation);
    - at an empty line. Other line ends are white space.

    A single period does not end a sentence after one of `ABBREVIATIONS`, after initials (`J. S. Bach`, `U.S. Army`),
    after a number that begins the sentence (`3. Results`), or after a German ordinal number (`am 3. Mai`).

    These are rules without knowledge. They miss sentence ends before a name in lower case (`iPhone`), and after
    abbreviations and single letters that happen to end a sentence (`made in the U.S. He went`, `plan B. Then`); they
    find false ends after abbreviations that they do not know. Languages without marks at the end of a
    sentence, such as Thai, are not split.
    """
    return [sentence for block in re.split(r"\n[^\S\n]*\n", text) for sentence in _split_block(block)]


def _split_block(text: str) -> Iterator[str]:
    """Yield the sentences of a text without empty lines."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if end["wide"] is None and not _is_sentence_end(text, start, end):
            continue
        stop = end.end("wide" if end["wide"] is not None else "close")
        if sentence := text[start:stop].strip():
            yield sentence
        start = stop
    if sentence := text[start:].strip():
        yield sentence


def _is_sentence_end(text: str, start: int, end: re.Match[str]) -> bool:
    """Return whether a match of `_SENTENCE_END` ends the sentence that begins at `start`."""
    next_start = _skip_openers(text, end.end())
    next_character = text[next_start : next_start + 1]
    if next_character.islower() and "\n" not in end["gap"]:
        return False
    if end["marks"] != "." or end["close"]:
        return True
    word = _find_last_word(text, start, end.start())
    if _NUMBER.fullmatch(word):
        preceding = text[max(start, end.start() - len(word) - 40) : end.start() - len(word)]
        is_ordinal = len(word) <= 2 and next_character.isalpha() and _BEFORE_ORDINAL.search(preceding)
        return bool(preceding.strip()) and not is_ordinal
    if word.lower() in _AMBIGUOUS:
        return not next_character.isdigit()
    return word.lower() not in ABBREVIATIONS and not _INITIALS.fullmatch(word)


def _skip_openers(text: str, position: int) -> int:
    """Return the position after opening quotes, brackets and white space."""
    match = _OPENERS.match(text, position)
    return match.end() if match else position


def _find_last_word(text: str, start: int, stop: int) -> str:
    # No word that matters here is longer, and the search must not grow with the sentence.
    """Return the last word of a text between `start` and `stop`; empty if a space, a bracket or a quotation mark stands
    before `stop`.
    """
    match = _LAST_WORD.search(text[max(start, stop - 40) : stop])
    return match[0] if match else ""


_CLAUSE_END: Final = re.compile(r"(?:[,;:،؛]|\s[-–—])\s+(?=\S)|[，、；：](?=\S)\s*")
"""Marks of punctuation behind which a clause ends; those of Chinese and Japanese need no space."""
_WORD_GAP: Final = re.compile(r"(?<=\S)\s+(?=\S)")
_NOTHING: Final = re.compile(r"(?!)")


def split_text(text: str, fits: Callable[[str], bool], *, protected: re.Pattern[str] = _NOTHING) -> list[str]:
    """Split a text into parts for which `fits` is True; joined together, they are the text. Matches of `protected` are
    split only if there is no other place.

    A text that does not fit is split at the ends of its sentences. A sentence that does not fit is split after the
    punctuation mark nearest to its middle, or between words if it has no marks. So every part fits, except words that
    do not fit alone. No part is empty or, unless the whole text is, of white space; white space between two parts ends
    the first.

    Args:
        text: a text of any length.
        fits: returns whether a part is short enough.
        protected: matches of this pattern are split only if there is no other place to split.
    """
    if not text:
        return []
    if fits(text):
        return [text]
    split_points = _find_split_points(text, protected)
    if not split_points:
        return [text]
    borders = [0, *split_points, len(text)]
    return [
        piece for start, stop in pairwise(borders) for piece in split_text(text[start:stop], fits, protected=protected)
    ]


def iter_gaps(text: str, stripped_parts: Iterable[str]) -> Iterator[str]:
    """Yield the white space before each part in a text, given the parts without their outer white space."""
    position = 0
    for part in stripped_parts:
        start = text.index(part, position)
        yield text[position:start]
        position = start + len(part)


def _find_sentence_starts(text: str) -> Iterator[int]:
    """Yield the start of every sentence but the first."""
    position = 0
    for number, sentence in enumerate(split_sentences(text)):
        start = text.index(sentence, position)
        if number:
            yield start
        position = start + len(sentence)


def _find_split_points(text: str, protected: re.Pattern[str]) -> list[int]:
    """Return where to split a text: between all sentences, or else at the place within one that is nearest to the
    middle. Places inside matches of `protected` are used only if there are no others.
    """
    protected_positions = {
        position for match in protected.finditer(text) for position in range(match.start() + 1, match.end())
    }
    for excluded in (protected_positions, set[int]()):
        if starts := [position for position in _find_sentence_starts(text) if position not in excluded]:
            return starts
        for pattern in (_CLAUSE_END, _WORD_GAP):
            if ends := [end for match in pattern.finditer(text) if (end := match.end()) not in excluded]:
                return [min(ends, key=lambda end: abs(2 * end - len(text)))]
    return []
