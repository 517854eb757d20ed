"""How good captions are against several references each: BLEU-1 to 4 and CIDEr-D.

Both compare words: letters with their marks and digits, lowercased, punctuation left out, as captions are compared
everywhere, though tools cut words a little differently (the Penn Treebank tokenizer of `coco-caption` keeps "'s"
apart). A letter is the same however it is composed (NFC).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Final, TypeAlias, final

import numpy as np
from jaxtyping import Float

from heedful.characters import without_invisible, word_characters
from heedful.errors import DataError
from heedful.metrics.metric import Ratio, Summed, divided, mean

Gram: TypeAlias = tuple[str, ...]

ORDERS: Final = 4
_SIGMA: Final = 6.0


def words(text: str) -> list[str]:
    """What captions are compared by."""
    return _word_pattern().findall(unicodedata.normalize("NFC", without_invisible(text).lower()))


@cache
def _word_pattern() -> re.Pattern[str]:
    """Letters with the marks that belong to them, and digits; apostrophes inside."""
    return re.compile(rf"[{word_characters()}]+(?:['\u2019][{word_characters()}]+)*")


def grams(tokens: Sequence[str], n: int) -> Counter[Gram]:
    """How often each sequence of n words occurs."""
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


def require_references(captions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """`DataError` where there are no captions, not as many as lists of references, or one without any."""
    if len(captions) != len(references):
        raise DataError(f"{len(captions):,} captions but {len(references):,} lists of references: each needs its own")
    if not captions or not all(references):
        raise DataError("no captions to score, or one without a reference: give each picture a caption")


@final
class CaptionBLEU(Summed):
    """BLEU of a corpus with several references (Papineni et al. 2002), in percent, not smoothed.

    Matches of an n-gram are clipped at the most that one reference has; the length is that of the reference nearest in
    length, the shorter of two.

    Args:
        captions: what was written.
        references: what is right, several for each.
        order: the longest n-grams; 4 is what is called BLEU, 1 the share of words, with the brevity penalty.

    Raises:
        DataError: see `require_references`.
    """

    def __init__(self, captions: Sequence[str], references: Sequence[Sequence[str]], *, order: int = ORDERS) -> None:
        require_references(captions, references)
        self.pairs = [(words(text), [*map(words, told)]) for text, told in zip(captions, references, strict=True)]
        self.order = order

    @cached_property
    def counts(self) -> Float[np.ndarray, "N counts"]:
        """Both lengths; of each order matches and n-grams."""
        return np.array([self._row(*pair) for pair in self.pairs], dtype=np.float64)

    def _row(self, caption: list[str], references: list[list[str]]) -> list[int]:
        length = len(caption)
        nearest = min(map(len, references), key=lambda each: (abs(each - length), each))
        row = [length, nearest]
        for n in range(1, self.order + 1):
            most: Counter[Gram] = Counter()
            for reference in references:
                most |= grams(reference, n)
            found = grams(caption, n)
            row += [(found & most).total(), found.total()]
        return row

    def score(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """exp(min(0, 1 - r/c)) times the geometric mean of the precisions."""
        length, nearest, matches, totals = sums[:, 0], sums[:, 1], sums[:, 2::2], sums[:, 3::2]
        precisions = divided(matches, totals)
        possible = precisions.min(1) > 0
        logs = np.log(np.where(precisions > 0, precisions, 1.0)).mean(1)
        penalty = np.minimum(0, 1 - nearest / np.maximum(length, 1))
        return np.where(possible, 100 * np.exp(penalty + logs), 0.0)


def cider_d(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Ratio:
    """CIDEr-D, the mean over pictures (Vedantam et al. 2015, eq. 3 to 5), from 0 to 10; papers often multiply by 100.

    Of each order, n-grams weigh as often as they occur times the logarithm of how few pictures' references have them. A
    caption is worth the cosine of both, clipped at the reference, times a Gauss of the difference of lengths (sigma =
    6). Words are not stemmed, as in the authors' own code. These references tell how rare n-grams are, so that numbers
    of different sets of pictures cannot be compared.

    Raises:
        DataError: see `require_references`.
    """
    require_references(captions, references)
    told = [[words(text) for text in texts] for texts in references]
    rarities = [_Rarity(told, n) for n in range(1, ORDERS + 1)]
    return mean([_consensus(words(text), right, rarities) for text, right in zip(captions, told, strict=True)])


class _Rarity:
    """How much an n-gram tells: the logarithm of all pictures by those whose references have it, at least one."""

    def __init__(self, references: Sequence[Sequence[Sequence[str]]], n: int) -> None:
        sets = ({gram for text in texts for gram in grams(text, n)} for texts in references)
        self.pictures = Counter(gram for each in sets for gram in each)
        self.total = len(references)
        self.n = n

    def weighed(self, tokens: Sequence[str]) -> dict[Gram, float]:
        """Each n-gram of a text as often as it occurs, times what it tells."""
        found = grams(tokens, self.n).items()
        return {gram: count * math.log(self.total / max(1, self.pictures[gram])) for gram, count in found}


def _consensus(caption: list[str], references: list[list[str]], rarities: Sequence[_Rarity]) -> float:
    total = 0.0
    for rarity in rarities:
        mine = rarity.weighed(caption)
        for reference in references:
            theirs = rarity.weighed(reference)
            both = sum(min(weight, theirs[gram]) * theirs[gram] for gram, weight in mine.items() if gram in theirs)
            if both:
                near = math.exp(-((len(caption) - len(reference)) ** 2) / (2 * _SIGMA**2))
                total += near * both / (math.hypot(*mine.values()) * math.hypot(*theirs.values()))
    return 10 * total / len(references) / len(rarities)
