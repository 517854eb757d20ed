"""The bootstrap: scores of resampled corpora are sacrebleu's, and its p-values mean what they say."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from heedful.errors import DataError, RecipeError
from heedful.metrics.bootstrap import Counted, CountedBLEU, CountedChrF, bootstrap, paired_bootstrap

WORDS = ["one", "two", "three", "four", "five", "six", ",", "Seven", "eight.", "nine"]


def references(sentences: int) -> list[str]:
    return [" ".join(random.choices(WORDS, k=random.randint(0, 15))) for _ in range(sentences)]


def translate(sentences: list[str], *, errors: float) -> list[str]:
    """Every word is wrong with probability `errors`; some lines are empty."""
    return [
        " ".join(random.choice(WORDS) if random.random() < errors else word for word in sentence.split())
        if random.random() > errors / 10
        else ""
        for sentence in sentences
    ]


@pytest.mark.parametrize("size", [1, 2, 5, 30])
@pytest.mark.parametrize("errors", [0.0, 0.3, 0.9])
def test_resampled_corpora_score_as_sacrebleu_scores_them(size: int, errors: float) -> None:
    refs = references(size)
    hyps = translate(refs, errors=errors)
    pairs = [(CountedBLEU(), BLEU()), (CountedChrF(), CHRF())]
    pairs += [(CountedBLEU(lowercase=True, tokenize="none"), BLEU(lowercase=True, tokenize="none", force=True))]
    pairs += [(CountedChrF(lowercase=True), CHRF(lowercase=True))]
    for counted, metric in pairs:
        counts = counted.count(hyps, refs)
        rows = np.random.randint(0, size, size=(4, size))
        scores = counted.score(counts[rows].sum(1))
        for row, score in zip(rows, scores, strict=True):
            expected = metric.corpus_score([hyps[i] for i in row], [[refs[i] for i in row]]).score
            assert score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("hypothesis", "reference"), [("ab", "ab"), ("abx", "ab"), ("a", "abcdefg"), ("", ""), ("a", "")]
)
def test_texts_too_short_for_some_orders_score_as_sacrebleu_scores_them(hypothesis: str, reference: str) -> None:
    for counted, metric in ((CountedBLEU(), BLEU()), (CountedChrF(), CHRF())):
        (score,) = counted.score(counted.count([hypothesis], [reference]))
        assert score == pytest.approx(metric.corpus_score([hypothesis], [[reference]]).score, abs=1e-9)


def test_an_interval_holds_its_score_and_shrinks_with_more_sentences() -> None:
    widths = []
    for size in (30, 300):
        refs = references(size)
        hyps = translate(refs, errors=0.3)
        for interval, metric in zip(bootstrap(hyps, refs, samples=200), (BLEU(), CHRF()), strict=True):
            assert interval.value == pytest.approx(metric.corpus_score(hyps, [refs]).score)
            assert interval.low < interval.value < interval.high
            assert interval.low < interval.mean < interval.high
            widths.append(interval.high - interval.low)
    assert widths[2] < widths[0] / 1.5
    assert widths[3] < widths[1] / 1.5


def test_an_interval_widens_with_confidence() -> None:
    refs = references(100)
    hyps = translate(refs, errors=0.3)
    narrow, wide = (bootstrap(hyps, refs, confidence=c)[0] for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_system_does_not_differ_from_itself() -> None:
    refs = references(40)
    hyps = translate(refs, errors=0.4)
    for comparison in paired_bootstrap(hyps, hyps, refs, samples=100):
        assert comparison.p_value == 1
        assert comparison.wins == 0
        assert comparison.difference.low == comparison.difference.high == 0


def test_a_clear_difference_is_significant_in_either_direction() -> None:
    refs = references(200)
    worse, better = translate(refs, errors=0.5), translate(refs, errors=0.2)
    up, down = (paired_bootstrap(*systems, refs, samples=200) for systems in ((worse, better), (better, worse)))
    for there, back in zip(up, down, strict=True):
        assert there.p_value == back.p_value == pytest.approx(1 / 201)
        assert (there.wins, back.wins) == (1, 0)
        assert there.difference.low > 0
        assert there.difference.value == pytest.approx(there.second.value - there.first.value)
        assert there.first == back.second


class Words(Counted):
    """The share of words at the right place: quick to count."""

    name = "words"

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
        pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
        return np.array([[sum(a == b for a, b in zip(h, r, strict=False)), len(r)] for h, r in pairs], float)

    def score(self, sums: np.ndarray) -> np.ndarray:
        return 100 * sums[:, 0] / sums[:, 1]


def test_equal_systems_are_called_different_no_more_often_than_promised() -> None:
    p_values = []
    for seed in range(300):
        refs = references(40)
        systems = (translate(refs, errors=0.4) for _ in range(2))
        (comparison,) = paired_bootstrap(*systems, refs, metrics=[Words()], samples=99, seed=seed)
        p_values.append(comparison.p_value)
    # of 300 chances of 0.1, fewer than 14 or more than 48 come true less than once in a thousand times
    assert 14 <= sum(p <= 0.1 for p in p_values) <= 48
    assert 0.4 < np.mean(p_values) < 0.6


def test_the_seed_decides() -> None:
    refs = references(50)
    first, second = translate(refs, errors=0.4), translate(refs, errors=0.35)
    again = [paired_bootstrap(first, second, refs, samples=50, seed=seed) for seed in (3, 3, 4)]
    assert again[0] == again[1]
    assert again[0] != again[2]


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(RecipeError, match="at least 2"):
        bootstrap(["a"], ["a"], samples=1)
    with pytest.raises(RecipeError, match="between 0 and 1"):
        paired_bootstrap(["a"], ["a"], ["a"], confidence=95)
    with pytest.raises(DataError, match="1 hypotheses but 2 references"):
        paired_bootstrap(["a", "b"], ["a"], ["a", "b"])
