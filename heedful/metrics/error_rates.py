"""Edit distance, and the error rates of words, characters and word alignments."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from heedful.errors import DataError
from heedful.metrics.metric import RatioMetric
from heedful.metrics.translation import References, check_pairs, list_references


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that turn one sequence into the other (Levenshtein
    1966).

    Columns of the table are integers, with a bit for each difference between neighbours (Hyyrö 2003, figure 3).
    """
    masks: dict[Hashable, int] = {}
    for index, item in enumerate(first):
        masks[item] = masks.get(item, 0) | 1 << index
    all_bits, last_bit = (1 << len(first)) - 1, 1 << len(first) >> 1
    up, down, distance = all_bits, 0, len(first)
    for item in second:
        match_bits = masks.get(item, 0)
        diagonal = (((match_bits & up) + up) ^ up) | match_bits | down
        right, left = down | ~(diagonal | up), diagonal & up
        distance += bool(right & last_bit) - bool(left & last_bit) if first else 1
        right, left = right << 1 | 1, left << 1
        up, down = (left | ~(diagonal | right)) & all_bits, right & diagonal & all_bits
    return distance


def word_error_rate(hypotheses: Sequence[str], references: References) -> RatioMetric:
    """Return the word edits of all texts, in percent of the reference words. Several references count as in TER: the
    fewest edits of a text, and the mean length of its references (Snover et al. 2006).

    Raises:
        DataError: no texts, or not as many hypotheses as references.
    """
    return _compute_error_rate(hypotheses, references, split=str.split)


def character_error_rate(hypotheses: Sequence[str], references: References) -> RatioMetric:
    """Return the character edits of all texts, in percent of the reference characters, with one space between words;
    several references count as in `word_error_rate`.
    """
    return _compute_error_rate(hypotheses, references, split=lambda text: " ".join(text.split()))


def _compute_error_rate(
    hypotheses: Sequence[str], references: References, *, split: Callable[[str], Sequence[str]]
) -> RatioMetric:
    """Return the edits between each hypothesis and its references, in percent of the reference items (words or
    characters) into which `split` divides a text.
    """
    check_pairs(hypotheses, references)
    edits, lengths = [], []
    for hypothesis, texts in zip(map(split, hypotheses), list_references(references), strict=True):
        items = list(map(split, texts))
        edits.append(100.0 * min(edit_distance(hypothesis, reference) for reference in items))
        lengths.append(fmean(map(len, items)))
    return RatioMetric(np.array(edits), np.array(lengths))


_LINK = re.compile(r"(\d+)([-p?])(\d+)")

AlignmentLink = tuple[int, int]


@dataclass(frozen=True)
class GoldAlignment:
    """Manual alignment: sure links, and possible links, which include the sure ones."""

    sure: frozenset[AlignmentLink]
    possible: frozenset[AlignmentLink]

    @classmethod
    def parse(cls, line: str, *, location: str) -> GoldAlignment:
        """Parse a line of links: `0-0` is sure, `1p2` and `1?2` are possible; source first, counted from 0. Errors name
        `location`.

        Raises:
            DataError: a word is not a link; the message names `location`.
        """
        sure, possible = set(), set()
        for word in line.split():
            match = _LINK.fullmatch(word)
            if match is None:
                raise DataError(
                    f"{location}: {word!r} is not a link; write source-target, as in 0-0, or 0p0 if it is possible"
                )
            link = (int(match[1]), int(match[3]))
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        return cls(frozenset(sure), frozenset(possible))


def alignment_error_rate(predicted: Sequence[Collection[AlignmentLink]], gold: Sequence[GoldAlignment]) -> float:
    """Return AER = 1 - (|A and S| + |A and P|) / (|A| + |S|) over all sentences (Och and Ney 2003, eq. 21); 0 is
    perfect. A are the predicted links, S the sure and P the possible gold links.

    Raises:
        DataError: there are no links at all, or not as many sentences.
    """
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted)} alignments and {len(gold)} gold alignments; they must match, line by line")
    hits = total = 0
    for links, gold_links in zip(predicted, gold, strict=True):
        predicted_links = set(links)
        hits += len(predicted_links & gold_links.sure) + len(predicted_links & gold_links.possible)
        total += len(predicted_links) + len(gold_links.sure)
    if not total:
        raise DataError("no links in any sentence; there is no error rate without them")
    return 1 - hits / total
