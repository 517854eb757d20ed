"""Caption metrics against several references each: BLEU-1 to 4 and CIDEr-D.

Both compare words: letters with their marks and digits, lowercased, without punctuation, as usual for captions, though
tools split words a little differently (the Penn Treebank tokenizer of `coco-caption` separates "'s"). Letters are
compared in composed form (NFC).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final, TypeAlias, final

from heedful.characters import remove_invisible, word_characters
from heedful.deprecation import module_getattr
from heedful.errors import DataError
from heedful.metrics.metric import RatioMetric, build_mean_metric
from heedful.metrics.weighted_sacrebleu import SacreBLEUMetric

WordNGram: TypeAlias = tuple[str, ...]

MAX_ORDER: Final = 4
_SIGMA: Final = 6.0


def split_words(text: str) -> list[str]:
    """Split a text into the words by which captions are compared."""
    return _build_word_pattern().findall(unicodedata.normalize("NFC", remove_invisible(text).lower()))


@cache
def _build_word_pattern() -> re.Pattern[str]:
    """Return the pattern of a word: letters with their marks, digits, and apostrophes inside."""
    return re.compile(rf"[{word_characters()}]+(?:['\u2019][{word_characters()}]+)*")


def count_ngrams(tokens: Sequence[str], n: int) -> Counter[WordNGram]:
    """Count each sequence of `n` consecutive words."""
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


def check_references(captions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Check that there are captions, and a list of references for each, not empty; raises `DataError` otherwise."""
    if len(captions) != len(references):
        raise DataError(f"{len(captions):,} captions but {len(references):,} lists of references: each needs its own")
    if not captions or not all(references):
        raise DataError("no captions to score, or one without a reference: give each picture a caption")


@final
class CaptionBLEU(SacreBLEUMetric):
    """Corpus BLEU with several references (Papineni et al. 2002), in percent, not smoothed.

    Matches of an n-gram are clipped at the most that one reference has. The reference length is the nearest one, the
    shorter of two.

    Args:
        captions: the captions to score.
        references: several for each.
        order: the longest n-grams; 4 is BLEU, 1 the share of words, with the brevity penalty.

    Raises:
        DataError: see `check_references`.
    """

    def __init__(self, captions: Sequence[str], references: Sequence[Sequence[str]], *, order: int = MAX_ORDER) -> None:
        from sacrebleu.metrics.bleu import BLEU

        check_references(captions, references)
        self.examples = [
            (_join_words(text), [*map(_join_words, texts)]) for text, texts in zip(captions, references, strict=True)
        ]
        self.metric = BLEU(tokenize="none", force=True, smooth_method="none", max_ngram_order=order)


def _join_words(text: str) -> str:
    return " ".join(split_words(text))


def cider_d(captions: Sequence[str], references: Sequence[Sequence[str]]) -> RatioMetric:
    """Compute CIDEr-D, the mean over pictures (Vedantam et al. 2015, eq. 3 to 5), from 0 to 10.

    Papers often multiply it by 100. For each order, n-grams are weighted by their count times the logarithm of how few
    pictures have them in a reference. A caption gets the cosine of both weight vectors, clipped at the reference, times
    a Gaussian of the length difference (sigma = 6). Words are not stemmed, as in the authors' own code. Rarity is
    computed from these references, so numbers of different sets of pictures cannot be compared.

    Raises:
        DataError: see `check_references`.
    """
    check_references(captions, references)
    reference_words = [[split_words(text) for text in texts] for texts in references]
    rarities = [_InverseFrequency(reference_words, n) for n in range(1, MAX_ORDER + 1)]
    return build_mean_metric(
        [
            _score_caption(split_words(text), words_of_references, rarities)
            for text, words_of_references in zip(captions, reference_words, strict=True)
        ]
    )


class _InverseFrequency:
    """Log inverse document frequency of n-grams: all pictures by those with the n-gram in a reference."""

    def __init__(self, references: Sequence[Sequence[Sequence[str]]], n: int) -> None:
        sets = ({gram for text in texts for gram in count_ngrams(text, n)} for texts in references)
        self.picture_counts = Counter(gram for each in sets for gram in each)
        self.num_pictures = len(references)
        self.n = n

    def weigh_ngrams(self, tokens: Sequence[str]) -> dict[WordNGram, float]:
        """Return each n-gram of a text with its count times its log inverse frequency."""
        counts = count_ngrams(tokens, self.n).items()
        return {gram: count * math.log(self.num_pictures / max(1, self.picture_counts[gram])) for gram, count in counts}


def _score_caption(caption: list[str], references: list[list[str]], frequencies: Sequence[_InverseFrequency]) -> float:
    """Return CIDEr-D of one caption against its references, from 0 to 10. `frequencies` has one table of inverse
    document frequencies for each length of n-grams.
    """
    total = 0.0
    for frequency in frequencies:
        caption_weights = frequency.weigh_ngrams(caption)
        for reference in references:
            reference_weights = frequency.weigh_ngrams(reference)
            dot_product = sum(
                min(weight, reference_weights[gram]) * reference_weights[gram]
                for gram, weight in caption_weights.items()
                if gram in reference_weights
            )
            if dot_product:
                length_factor = math.exp(-((len(caption) - len(reference)) ** 2) / (2 * _SIGMA**2))
                total += (
                    length_factor
                    * dot_product
                    / (math.hypot(*caption_weights.values()) * math.hypot(*reference_weights.values()))
                )
    return 10 * total / len(references) / len(frequencies)


__getattr__ = module_getattr(__name__, {"words": "split_words"})
"""Names of version 0.1, each with its new name; they are kept for one version."""
