"""What one translation is worth if another is right, for all pairs of a few of one sentence at one time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.metrics.translation import select_bleu_tokenizer

_ORDER: Final = 6
_BETA: Final = 2


class PairwiseUtility(ABC):
    """A measure of one text against another, in percent."""

    @abstractmethod
    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Of each text, a row, against each as the reference, a column."""


@final
class ChrFUtility(PairwiseUtility):
    """chrF2 of sentences (Popović 2015), as sacrebleu's: n-grams of 1 to 6 characters without spaces.

    The n-grams of a text are counted once, whatever it is compared with.
    """

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Averages of precision and recall over the orders of which both texts have n-grams; 0 where there are none."""
        unspaced = ["".join(text.split()) for text in texts]
        precisions, recalls = np.zeros((2, len(texts), len(texts)))
        orders = np.zeros((len(texts), len(texts)), dtype=np.int64)
        for n in range(1, _ORDER + 1):
            counts = _build_count_matrix(
                [Counter(text[start : start + n] for start in range(len(text) - n + 1)) for text in unspaced]
            )
            sizes = counts.sum(1)
            matches = np.stack([np.minimum(row, counts).sum(1) for row in counts])
            have_ngrams = (sizes[:, None] > 0) & (sizes > 0)
            precisions += np.divide(matches, sizes[:, None], out=np.zeros(have_ngrams.shape), where=have_ngrams)
            recalls += np.divide(matches, sizes, out=np.zeros(have_ngrams.shape), where=have_ngrams)
            orders += have_ngrams
        num_orders = np.maximum(orders, 1)
        precision, recall = precisions / num_orders, recalls / num_orders
        denominator = _BETA**2 * precision + recall
        numerator = (1 + _BETA**2) * precision * recall
        return 100 * np.divide(numerator, denominator, out=np.zeros(denominator.shape), where=denominator > 0)


@final
class SentenceBLEUUtility(PairwiseUtility):
    """sacrebleu's BLEU of sentences, over the orders that there are; pair by pair, so slower than chrF."""

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """With sacrebleu's smoothing, and words as the language of the texts has them."""
        from sacrebleu.metrics.bleu import BLEU

        metric = BLEU(effective_order=True, tokenize=select_bleu_tokenizer(texts))
        return np.array(
            [[metric.sentence_score(hypothesis, [reference]).score for reference in texts] for hypothesis in texts]
        )


def _build_count_matrix(counters: Sequence[Counter[str]]) -> Float[np.ndarray, "N G"]:
    """A row for each, a column for each n-gram that any of them has."""
    columns = {
        gram: column for column, gram in enumerate(dict.fromkeys(gram for ngrams in counters for gram in ngrams))
    }
    counts = np.zeros((len(counters), len(columns)))
    for row, counter in enumerate(counters):
        counts[row, [columns[gram] for gram in counter]] = list(counter.values())
    return counts
