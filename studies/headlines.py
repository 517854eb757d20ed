"""News stories and their headlines as plain text, and the overlap of two summaries (ROUGE)."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from html import unescape
from typing import Final

ENTITIES: Final = re.compile(" (#[0-9]+|quot|amp|lt|gt|hellip);")
"""HTML entities such as `&quot;` in which a space has replaced the ampersand."""
MARKUP: Final = re.compile("<a [^<>]*quote[^<>]*>[^<>]*</a>|<[^<>]*(?:>|$)", re.IGNORECASE)
"""HTML tags, also a truncated one, and stock symbols, which look like tags or are links to a quote."""
DATELINE: Final = re.compile(r"""^(?:[A-Z(]{2}.{0,58}?|[A-Z][^-]{0,58}\)) --? (?=["'$A-Z0-9])""")
"""The place at the beginning of a story: capitals, or a source in brackets, before a dash and a new sentence, as in
`BAGHDAD, Iraq - Troops` and `Athens (Sports Network) -- The`."""


def read_stories(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield descriptions and headlines from the table of AG News, whose columns are class, title and description.

    If a description occurs several times, its alphabetically first headline is used. Pairs with an empty side are left
    out.
    """
    headlines: dict[str, str] = {}
    for _, title, description in csv.reader(lines):
        text, headline = remove_source(clean_text(description), clean_text(title))
        if text and headline:
            headlines[text] = min(headline, headlines.get(text, headline))
    yield from headlines.items()


def clean_text(text: str) -> str:
    """Remove markup and normalise spaces; a backslash is a line break, except before a dollar sign."""
    text = unescape(ENTITIES.sub(r"&\1;", text.replace(r"\$", "$").replace("\\", " ")))
    return " ".join(MARKUP.sub(" ", text).split())


def remove_source(description: str, title: str) -> tuple[str, str]:
    """Remove the news agency, as in `AP - A dog barks.` and `Dog Barks (AP)`, and the place at the beginning."""
    match = re.fullmatch(r"(.*\S) \(([^()]+)\)", title)
    if match and description.startswith(f"{match[2]} - "):
        title, description = match[1], description.removeprefix(f"{match[2]} - ")
    return DATELINE.sub("", description), title


def take_first_words(text: str, length: int) -> str:
    """Return the first `length` words of a text."""
    return " ".join(text.split()[:length])


def split_words(text: str) -> list[str]:
    """Split a text into runs of Latin letters and digits, in lowercase and without stemming."""
    return re.findall("[a-z0-9]+", text.lower())


def compute_rouge_n(summary: Sequence[str], reference: Sequence[str], n: int) -> float:
    """Compute ROUGE-N: the F1 of the n-grams in common, with clipped counts (Lin 2004, 2)."""
    counts = [Counter(zip(*(text[start:] for start in range(n)), strict=False)) for text in (summary, reference)]
    return compute_f1((counts[0] & counts[1]).total(), *(ngrams.total() for ngrams in counts))


def compute_rouge_l(summary: Sequence[str], reference: Sequence[str]) -> float:
    """Compute ROUGE-L: the F1 of the longest common subsequence (Lin 2004, 3.1 with beta = 1)."""
    return compute_f1(count_common_subsequence(summary, reference), len(summary), len(reference))


def compute_f1(common: int, summary_length: int, reference_length: int) -> float:
    """Compute the harmonic mean of precision and recall; 0 if nothing is in common."""
    return 2 * common / (summary_length + reference_length) if common else 0.0


def count_common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Compute the length of the longest common subsequence."""
    lengths = [0] * (len(second) + 1)
    for item in first:
        previous = lengths
        lengths = [0]
        for index, other in enumerate(second):
            lengths.append(previous[index] + 1 if other == item else max(lengths[index], previous[index + 1]))
    return lengths[-1]
