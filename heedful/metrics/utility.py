"""Pairwise utilities of candidate translations, for minimum Bayes risk decoding."""

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
    """Abstract base of metrics that compare all pairs of a few texts, in percent."""

    @abstractmethod
    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Return the score of each text (row) against each as reference (column)."""


@final
class ChrFUtility(PairwiseUtility):
    """Sentence-level chrF2 (Popović 2015) as in sacrebleu: n-grams of 1 to 6 characters without spaces.

    The n-grams of each text are counted once for all comparisons.
    """

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Average precision and recall over the orders for which both texts have n-grams; 0 if there is none."""
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
    """sacrebleu's sentence BLEU over the available orders; computed pair by pair, so slower than chrF."""

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Return smoothed BLEU of each pair, with the tokenizer that suits the language."""
        from sacrebleu.metrics.bleu import BLEU

        metric = BLEU(effective_order=True, tokenize=select_bleu_tokenizer(texts))
        return np.array(
            [[metric.sentence_score(hypothesis, [reference]).score for reference in texts] for hypothesis in texts]
        )


def _build_count_matrix(counters: Sequence[Counter[str]]) -> Float[np.ndarray, "N G"]:
    """Return counts with a row for each counter and a column for each n-gram."""
    columns = {
        gram: column for column, gram in enumerate(dict.fromkeys(gram for ngrams in counters for gram in ngrams))
    }
    counts = np.zeros((len(counters), len(columns)))
    for row, counter in enumerate(counters):
        counts[row, [columns[gram] for gram in counter]] = list(counter.values())
    return counts
