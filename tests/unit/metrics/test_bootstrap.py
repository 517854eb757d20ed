"""The bootstrap: scores of resampled corpora are sacrebleu's, and its p-values mean what they say."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from sacrebleu import significance
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from heedful.errors import DataError
from heedful.metrics.metric import (
    BootstrapOptions,
    ConfidenceInterval,
    Metric,
    PairedTest,
    RatioMetric,
    compute_intervals,
    run_paired_tests,
)
from heedful.metrics.translation import bleu, chrf, ter
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF, CorpusTER, DeckBLEU, deck_bleu

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


def both(hyps: list[str], refs: list[str]) -> dict[str, Metric]:
    return {"BLEU": CorpusBLEU(hyps, refs), "chrF2": CorpusChrF(hyps, refs)}


@pytest.mark.parametrize("size", [1, 2, 5, 30])
@pytest.mark.parametrize("errors", [0.0, 0.3, 0.9])
def test_weighted_corpora_score_as_sacrebleu_scores_them(size: int, errors: float) -> None:
    refs = references(size)
    hyps = translate(refs, errors=errors)
    pairs = [(CorpusBLEU(hyps, refs), BLEU()), (CorpusChrF(hyps, refs), CHRF()), (CorpusTER(hyps, refs), TER())]
    lower = BLEU(lowercase=True, tokenize="none", force=True)
    pairs += [(CorpusBLEU(hyps, refs, lowercase=True, tokenize="none"), lower)]
    pairs += [(CorpusChrF(hyps, refs, lowercase=True), CHRF(lowercase=True))]
    pairs += [(CorpusTER(hyps, refs, lowercase=True), TER(case_sensitive=False))]
    marked = [f"({line}), {line}!" for line in hyps], [f"({line}) {line}." for line in refs]
    pairs += [(CorpusChrF(hyps, refs, word_order=2), CHRF(word_order=2))]
    rows = np.random.randint(0, size, size=(4, size))
    weights = np.array([np.bincount(row, minlength=size) for row in rows], dtype=float)
    for counted, metric in pairs:
        expected = [metric.corpus_score([hyps[i] for i in row], [[refs[i] for i in row]]).score for row in rows]
        assert counted.compute_scores(weights) == pytest.approx(expected, abs=1e-9)
    words, metric = CorpusChrF(*marked, word_order=2, lowercase=True), CHRF(word_order=2, lowercase=True)
    expected = [metric.corpus_score([marked[0][i] for i in row], [[marked[1][i] for i in row]]).score for row in rows]
    assert words.compute_scores(weights) == pytest.approx(expected, abs=1e-9), "marks at the ends of words"
    deck = [deck_bleu([hyps[i] for i in row], [refs[i] for i in row], lowercase=True).value for row in rows]
    assert DeckBLEU(hyps, refs, lowercase=True).compute_scores(weights) == pytest.approx(deck, abs=1e-9)


def test_counted_values_are_those_that_are_reported() -> None:
    refs = references(40)
    hyps = translate(refs, errors=0.3)
    for lowercase in (False, True):
        for counted, reported in ((CorpusBLEU, bleu), (CorpusChrF, chrf), (CorpusTER, ter), (DeckBLEU, deck_bleu)):
            value = reported(hyps, refs, lowercase=lowercase).value
            assert counted(hyps, refs, lowercase=lowercase).value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [("ab", "ab"), ("abx", "ab"), ("a", "abcdefg"), ("", ""), ("a", ""), ("( ab .", "(ab) .")],
)
def test_texts_too_short_for_some_orders_score_as_sacrebleu_scores_them(hypothesis: str, reference: str) -> None:
    for counted, metric in ((CorpusBLEU, BLEU()), (CorpusChrF, CHRF()), (CorpusTER, TER())):
        expected = metric.corpus_score([hypothesis], [[reference]]).score
        assert counted([hypothesis], [reference]).value == pytest.approx(expected, abs=1e-9)
    expected = CHRF(word_order=2).corpus_score([hypothesis], [[reference]]).score
    assert CorpusChrF([hypothesis], [reference], word_order=2).value == pytest.approx(expected, abs=1e-9)


def test_an_interval_holds_its_score_and_shrinks_with_more_sentences() -> None:
    widths = []
    for size in (30, 300):
        refs = references(size)
        hyps = translate(refs, errors=0.3)
        found = compute_intervals(both(hyps, refs), BootstrapOptions(200)).values()
        for interval, metric in zip(found, (BLEU(), CHRF()), strict=True):
            assert interval.value == pytest.approx(metric.corpus_score(hyps, [refs]).score)
            assert interval.low < interval.value < interval.high
            assert interval.low < interval.mean < interval.high
            widths.append(interval.high - interval.low)
    assert widths[2] < widths[0] / 1.5
    assert widths[3] < widths[1] / 1.5


def test_an_interval_widens_with_confidence() -> None:
    refs = references(100)
    hyps = translate(refs, errors=0.3)
    narrow, wide = (compute_intervals(both(hyps, refs), BootstrapOptions(confidence=c))["BLEU"] for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(("counted", "metric"), [(CorpusTER, TER), (CorpusBLEU, BLEU)])
def test_intervals_and_p_values_are_about_those_of_sacrebleu(
    counted: Callable[..., Metric], metric: Callable[..., Any]
) -> None:
    """Random numbers differ. sacrebleu's bootstrap has the interval, and its approximate randomization a p-value of
    both directions.
    """
    refs = references(60)
    first, second = translate(refs, errors=0.3), translate(refs, errors=0.36)
    options: dict[str, Any] = {"lowercase": True} if metric is TER else {}
    metrics = ({"score": counted(hyps, refs, **options)} for hyps in (first, second))
    own = run_paired_tests(*metrics, BootstrapOptions(1000))["score"]
    systems = [("first", first), ("second", second)]
    scores = {}
    for kind in ("bs", "ar"):
        _, found = significance.PairedTest(systems, {"score": metric(references=[refs])}, None, kind, n_samples=1000)()
        (scores[kind],) = (values for name, values in found.items() if name != "System")
    for interval, score in zip((own.first, own.second), scores["bs"], strict=True):
        assert interval.value == pytest.approx(score.score)
        assert interval.mean == pytest.approx(score.mean, abs=0.5)
        assert (interval.high - interval.low) / 2 == pytest.approx(score.ci, rel=0.15)
    assert own.p_value == pytest.approx(scores["ar"][1].p_value, abs=0.1)


def test_a_system_does_not_differ_from_itself() -> None:
    refs = references(40)
    hyps = translate(refs, errors=0.4)
    for comparison in run_paired_tests(both(hyps, refs), both(hyps, refs), BootstrapOptions(100)).values():
        assert comparison.p_value == 1
        assert comparison.wins == 0
        assert comparison.difference.low == comparison.difference.high == 0


def test_a_clear_difference_is_significant_in_either_direction() -> None:
    refs = references(200)
    worse, better = translate(refs, errors=0.5), translate(refs, errors=0.2)
    one, two = both(worse, refs), both(better, refs)
    up, down = (run_paired_tests(*systems, BootstrapOptions(200)).values() for systems in ((one, two), (two, one)))
    for there, back in zip(up, down, strict=True):
        assert there.p_value == back.p_value == pytest.approx(1 / 201)
        assert (there.wins, back.wins) == (1, 0)
        assert there.difference.low > 0
        assert there.difference.value == pytest.approx(there.second.value - there.first.value)
        assert there.first == back.second


def words(hypotheses: list[str], references: list[str]) -> dict[str, Metric]:
    """The share of words at the right place: quick to count."""
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    counts = np.array([[sum(a == b for a, b in zip(h, r, strict=False)), len(r)] for h, r in pairs], float)
    return {"words": RatioMetric(100 * counts[:, 0], counts[:, 1])}


def test_equal_systems_are_called_different_no_more_often_than_promised() -> None:
    p_values = []
    for seed in range(300):
        refs = references(40)
        first, second = (words(translate(refs, errors=0.4), refs) for _ in range(2))
        p_values.append(run_paired_tests(first, second, BootstrapOptions(99, seed))["words"].p_value)
    # of 300 chances of 0.1, fewer than 14 or more than 48 come true less than once in a thousand times
    assert 14 <= sum(p <= 0.1 for p in p_values) <= 48
    assert 0.4 < np.mean(p_values) < 0.6


def test_the_seed_decides() -> None:
    refs = references(50)
    first, second = (both(translate(refs, errors=errors), refs) for errors in (0.4, 0.35))
    again = [run_paired_tests(first, second, BootstrapOptions(50, seed)) for seed in (3, 3, 4)]
    assert again[0] == again[1]
    assert again[0] != again[2]


def test_what_does_not_match_is_refused() -> None:
    for metric in (CorpusBLEU, CorpusChrF, CorpusTER, DeckBLEU):
        with pytest.raises(DataError, match="1 hypotheses but 2 references"):
            metric(["a"], ["a", "b"])


def test_numbers_are_those_of_the_first_release() -> None:
    """Recorded when BLEU and chrF still had an engine of their own, so that published intervals stay what they are.

    The draws are equal to the bit; exp and log may differ in the last digit from one processor to the next.
    """
    dice = random.Random(11)

    def wrong(errors: float) -> list[str]:
        return [" ".join(dice.choice(WORDS) if dice.random() < errors else word for word in x.split()) for x in refs]

    refs = [" ".join(dice.choices(WORDS, k=dice.randint(1, 15))) for _ in range(50)]
    first, second = wrong(0.3), wrong(0.35)
    recorded = [
        PairedTest(
            "BLEU",
            ConfidenceInterval(
                "BLEU", 50.60136137792337, 50.568139190291106, 45.38900182199499, 57.4749951233198, 0.95
            ),
            ConfidenceInterval(
                "BLEU", 45.108685122786284, 45.25173656675544, 38.44522833773056, 52.22835242753744, 0.95
            ),
            ConfidenceInterval(
                "BLEU", -5.492676255137084, -5.316402623535675, -13.507158270404602, 3.831508416816442, 0.95
            ),
            p_value=0.2926829268292683, wins=0.175, samples=40,
        ),
        PairedTest(
            "chrF2",
            ConfidenceInterval(
                "chrF2", 68.3539316880357, 68.19585577646485, 64.41856831993131, 72.42083898116319, 0.95
            ),
            ConfidenceInterval(
                "chrF2", 62.534000971045586, 62.82138684883563, 57.50077746516392, 67.26517014920385, 0.95
            ),
            ConfidenceInterval(
                "chrF2", -5.819930716990115, -5.374468927629216, -11.529948002371334, 0.18149229994729138, 0.95
            ),
            p_value=0.12195121951219512, wins=0.05, samples=40,
        ),
    ]  # fmt: skip
    found = run_paired_tests(both(first, refs), both(second, refs), BootstrapOptions(40, seed=5))
    alone = compute_intervals(both(first, refs), BootstrapOptions(40, seed=5))
    for test, expected in zip(found.values(), recorded, strict=True):
        assert (test.p_value, test.wins, test.samples) == (expected.p_value, expected.wins, expected.samples)
        assert alone[test.name] == test.first
        for mine, theirs in ((test.first, expected.first), (test.second, expected.second)):
            assert astuple(mine)[1:] == pytest.approx(astuple(theirs)[1:], rel=1e-12)
        assert astuple(test.difference)[1:] == pytest.approx(astuple(expected.difference)[1:], abs=1e-10)
