"""What translations must have right: terms, numbers, and what contrasts ask; counted, not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.contrasts import Contrast
from heedful.data.spelling import lowered, occurrences
from heedful.metrics.metric import Metric, Ratio
from heedful.metrics.numerals import kept
from heedful.tasks.faces import Unread
from heedful.tasks.target import ForcedScore
from heedful.tasks.translation.annotation import standing
from heedful.tasks.translation.glossary import Glossary

TERMS: Final = "terms"
ENDINGS: Final = "terms, other endings too"
NUMBERS: Final = "numbers"
CONTRASTS: Final = "contrasts"


@final
@dataclass(frozen=True)
class Share:
    """How many of some things are right, example by example.

    Attributes:
        found: of each example that has some, how many are right.
        of: how many there are.
    """

    found: Float[np.ndarray, " N"]
    of: Float[np.ndarray, " N"]

    @property
    def metric(self) -> Metric:
        """In percent of all of them."""
        return Ratio(100 * self.found, self.of)


def shares(
    sources: Sequence[str], texts: Sequence[str], *, glossary: Glossary | None, lowercase: bool = False
) -> dict[str, Share]:
    """Terms of a glossary and numbers that stand in sources, and how many of them their translations have.

    What no source has is left out.

    Args:
        sources: sentences.
        texts: a translation of each.
        glossary: what terms become; None where nobody asks.
        lowercase: whether case is left aside; otherwise a target term that has a capital is found as it is written.
    """
    counts = {NUMBERS: [kept(source, text) for source, text in zip(sources, texts, strict=True)]}
    if glossary is not None:
        wanted = [Counter(glossary.entries[term] for _, term in glossary.places(source)) for source in sources]
        held = [_held(each, text, lowercase=lowercase) for each, text in zip(wanted, texts, strict=True)]
        totals = [each.total() for each in wanted]
        counts = {
            TERMS: [(exact, total) for (exact, _), total in zip(held, totals, strict=True)],
            ENDINGS: [(alike, total) for (_, alike), total in zip(held, totals, strict=True)],
            **counts,
        }
    having = {name: [row for row in rows if row[1]] for name, rows in counts.items()}
    return {name: Share(*np.array(rows, dtype=np.float64).T) for name, rows in having.items() if rows}


def contrasted(contrasts: Sequence[Contrast], answers: Sequence[bool | None]) -> dict[str, Share]:
    """How many contrasts a model tells apart, in all and of each kind where there are several.

    What it cannot read (None) does not count.
    """
    right = np.array([answer is True for answer in answers], dtype=np.float64)
    read = np.array([answer is not None for answer in answers], dtype=np.float64)
    found = {CONTRASTS: Share(right, read)}
    of = {kind: [each.kind == kind for each in contrasts] for kind in dict.fromkeys(each.kind for each in contrasts)}
    if len(of) > 1:
        found |= {f"{CONTRASTS}: {kind or 'no kind'}": Share(right[mine], read[mine]) for kind, mine in of.items()}
    return {name: share for name, share in found.items() if share.of.any()}


def tells_apart(scores: Sequence[ForcedScore | Unread]) -> bool | None:
    """Whether the first text is more probable than all others, as wholes (Sennrich 2017); None where one is unread.

    Texts that are cut into the same pieces are not told apart.
    """
    read = [score for score in scores if not isinstance(score, Unread)]
    if len(read) < len(scores):
        return None
    right, *wrong = read
    return all(right.log_probability > each.log_probability and right.tokens != each.tokens for each in wrong)


def _held(wanted: Mapping[str, int], text: str, *, lowercase: bool) -> tuple[int, int]:
    """How many terms a text holds as they are, and with other endings too; none stands where another one is counted."""

    def exact(term: str) -> Iterator[range]:
        fold = lowered if lowercase or term == term.lower() else str
        return (range(at, at + len(term)) for at in occurrences(fold(term), fold(text)))

    left, taken, counts = Counter(wanted), list[range](), []
    for places in (exact, partial(standing, text)):
        for term in sorted(left, key=len, reverse=True):
            for here in places(term):
                if left[term] and not any(here.start < other.stop and other.start < here.stop for other in taken):
                    left[term] -= 1
                    taken.append(here)
        counts.append(len(taken))
    return counts[0], counts[1]
