"""Word alignment error rate."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from heedful.errors import DataError

_LINK = re.compile(r"(\d+)([-p?])(\d+)")

AlignmentLink = tuple[int, int]


@dataclass(frozen=True)
class GoldAlignment:
    """Manual alignment: sure links, and possible links, which include the sure ones."""

    sure: frozenset[AlignmentLink]
    possible: frozenset[AlignmentLink]

    @classmethod
    def parse(cls, line: str, *, location: str) -> GoldAlignment:
        """Parse a line of links: `0-0` is sure, `1p2` and `1?2` are possible; source first, counted from 0.

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
    perfect.

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
