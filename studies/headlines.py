"""News stories and their headlines as readable text, and how much a summary has in common with another (ROUGE)."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from html import unescape
from typing import Final

ENTITIES: Final = re.compile(" (#[0-9]+|quot|amp|lt|gt|hellip);")
"""What is left of `&quot;` and its kin where a space stands for the ampersand."""
MARKUP: Final = re.compile("<a [^<>]*quote[^<>]*>[^<>]*</a>|<[^<>]*(?:>|$)", re.IGNORECASE)
"""Tags, one that was cut off too, and abbreviations of companies, which are tags themselves or links to a quote."""
DATELINE: Final = re.compile(r"""^(?:[A-Z(]{2}.{0,58}?|[A-Z][^-]{0,58}\)) --? (?=["'$A-Z0-9])""")
"""The place that a story comes from, at its beginning: capitals, or a source in brackets, before a dash and a new
sentence, as in `BAGHDAD, Iraq - Troops` and `Athens (Sports Network) -- The`."""


def stories(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Descriptions and headlines of AG News's table, whose columns are class, title and description.

    Of a description that is there several times the alphabetically first headline is taken; what is empty is left out.
    """
    found: dict[str, str] = {}
    for _, title, description in csv.reader(lines):
        text, headline = unsigned(readable(description), readable(title))
        if text and headline:
            found[text] = min(headline, found.get(text, headline))
    yield from found.items()


def readable(text: str) -> str:
    """Without markup, with one space between words; a backslash is a line break, except before a dollar sign."""
    text = unescape(ENTITIES.sub(r"&\1;", text.replace(r"\$", "$").replace("\\", " ")))
    return " ".join(MARKUP.sub(" ", text).split())


def unsigned(description: str, title: str) -> tuple[str, str]:
    """Without who reported it, as in `AP - A dog barks.` and `Dog Barks (AP)`, and without the place in front."""
    signed = re.fullmatch(r"(.*\S) \(([^()]+)\)", title)
    if signed and description.startswith(f"{signed[2]} - "):
        title, description = signed[1], description.removeprefix(f"{signed[2]} - ")
    return DATELINE.sub("", description), title


def lead(text: str, length: int) -> str:
    """The first words of a text."""
    return " ".join(text.split()[:length])


def words_in(text: str) -> list[str]:
    """Runs of Latin letters and digits, in lowercase; they are not stemmed."""
    return re.findall("[a-z0-9]+", text.lower())


def rouge_n(summary: Sequence[str], reference: Sequence[str], n: int) -> float:
    """F1 of the runs of n words that both have, each as often as the text that has it less often (Lin 2004, 2)."""
    counts = [Counter(zip(*(text[start:] for start in range(n)), strict=False)) for text in (summary, reference)]
    return f1((counts[0] & counts[1]).total(), *(each.total() for each in counts))


def rouge_l(summary: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of the longest common subsequence (Lin 2004, 3.1 with beta = 1)."""
    return f1(longest_common(summary, reference), len(summary), len(reference))


def f1(common: int, found: int, wanted: int) -> float:
    """The harmonic mean of precision and recall, 0 where nothing is common."""
    return 2 * common / (found + wanted) if common else 0.0


def longest_common(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """How many items the longest subsequence of both has."""
    lengths = [0] * (len(other) + 1)
    for item in one:
        before = lengths
        lengths = [0]
        for place, each in enumerate(other):
            lengths.append(before[place] + 1 if each == item else max(lengths[place], before[place + 1]))
    return lengths[-1]
