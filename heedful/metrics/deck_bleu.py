"""BLEU as the lecture deck writes it ("Training and Validation Criteria for Machine Translation"): a variant.

    BLEU = min(1, sum len(S) / sum len(S0)) * mean over (S0, S) of (prod_{n=1..4} p_n)^(1/4)
    p_n = #(n-grams of S that occur in S0) / #(n-grams of S)

Differences from corpus BLEU (Papineni et al. 2002), which `heedful.metrics.translation.bleu` computes:

- scores of sentences are averaged, not counts of the corpus added up, and without a 4-gram right a score is
  0;
- n-grams are not clipped: "the the the the" is perfect in 1-grams against any reference with a "the";
- short output is punished in proportion, not exponentially.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from heedful.metrics.translation import Score, check_pairs

_ORDERS = (1, 2, 3, 4)


def bleu_deck(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """The deck's BLEU in percent, over words between spaces; never to be compared with published BLEU.

    A hypothesis of fewer than four words has no 4-grams. The deck's fraction is then 0/0; it counts as 0, so
    even a perfect translation of three words scores 0.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """
    check_pairs(hypotheses, references)
    pairs = [
        ((h.lower() if lowercase else h).split(), (r.lower() if lowercase else r).split())
        for h, r in zip(hypotheses, references, strict=True)
    ]
    mean = sum(_sentence(h, r) for h, r in pairs) / len(pairs)
    lengths = sum(len(h) for h, _ in pairs), sum(len(r) for _, r in pairs)
    factor = min(1.0, lengths[0] / lengths[1]) if lengths[1] else 1.0
    parts = {
        "mean_precision": 100 * mean,
        "length_factor": factor,
        "hypothesis_length": float(lengths[0]),
        "reference_length": float(lengths[1]),
    }
    case = "lc" if lowercase else "mixed"
    signature = f"variant:deck|mean:sentences|clip:no|length:linear|case:{case}|tok:none|smooth:none"
    return Score("BLEU (deck variant)", 100 * factor * mean, signature, parts)


def _sentence(hypothesis: list[str], reference: list[str]) -> float:
    """The geometric mean of the four unclipped precisions."""
    return prod(_precision(hypothesis, reference, n) for n in _ORDERS) ** (1 / len(_ORDERS))


def _precision(hypothesis: list[str], reference: list[str], n: int) -> float:
    found, wanted = _ngrams(hypothesis, n), set(_ngrams(reference, n))
    return sum(gram in wanted for gram in found) / len(found) if found else 0.0


def _ngrams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
