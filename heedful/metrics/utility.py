"""What one translation is worth if another is right, for all pairs of a few of one sentence at one time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.metrics.translation import tokenizer_for

_ORDER: Final = 6
_BETA: Final = 2


class Utility(ABC):
    """A measure of one text against another, in percent."""

    @abstractmethod
    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Of each text, a row, against each as the reference, a column."""


@final
class ChrF(Utility):
    """chrF2 of sentences (Popović 2015), as sacrebleu's: n-grams of 1 to 6 characters without spaces.

    The n-grams of a text are counted once, whatever it is compared with.
    """

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Averages of precision and recall over the orders of which both texts have n-grams; 0 where there are none."""
        bare = ["".join(text.split()) for text in texts]
        precisions, recalls = np.zeros((2, len(texts), len(texts)))
        orders = np.zeros((len(texts), len(texts)), dtype=np.int64)
        for n in range(1, _ORDER + 1):
            counts = _counted([Counter(text[at : at + n] for at in range(len(text) - n + 1)) for text in bare])
            sizes = counts.sum(1)
            matches = np.stack([np.minimum(row, counts).sum(1) for row in counts])
            both = (sizes[:, None] > 0) & (sizes > 0)
            precisions += np.divide(matches, sizes[:, None], out=np.zeros(both.shape), where=both)
            recalls += np.divide(matches, sizes, out=np.zeros(both.shape), where=both)
            orders += both
        known = np.maximum(orders, 1)
        precision, recall = precisions / known, recalls / known
        below = _BETA**2 * precision + recall
        above = (1 + _BETA**2) * precision * recall
        return 100 * np.divide(above, below, out=np.zeros(below.shape), where=below > 0)


@final
class SentenceBLEU(Utility):
    """sacrebleu's BLEU of sentences, over the orders that there are; pair by pair, so slower than chrF."""

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """With sacrebleu's smoothing, and words as the language of the texts has them."""
        from sacrebleu.metrics.bleu import BLEU

        metric = BLEU(effective_order=True, tokenize=tokenizer_for(texts))
        return np.array([[metric.sentence_score(one, [other]).score for other in texts] for one in texts])


def _counted(counters: Sequence[Counter[str]]) -> Float[np.ndarray, "N G"]:
    """A row for each, a column for each n-gram that any of them has."""
    columns = {gram: place for place, gram in enumerate(dict.fromkeys(gram for each in counters for gram in each))}
    counts = np.zeros((len(counters), len(columns)))
    for row, counter in enumerate(counters):
        counts[row, [columns[gram] for gram in counter]] = list(counter.values())
    return counts
