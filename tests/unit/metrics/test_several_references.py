"""Several references for one translation: sacrebleu's values and signatures, and the rules for all other metrics."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

import heedful
from heedful.errors import DataError
from heedful.metrics.error_rates import character_error_rate, edit_distance, word_error_rate
from heedful.metrics.judge import JudgeScores, TranslationJudge, score_with_judge
from heedful.metrics.translation import bleu, bleu_by_length, chrf, exact_match, ter
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF, CorpusTER, deck_bleu

WORDS = ["the", "a", "cat", "Dog", "sat", "on", "mat", "red", ",", ".", "runs"]


def write_line(shortest: int = 0) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(shortest, 9)))


def corpus(size: int, *, most: int, least: int) -> tuple[list[str], list[list[str]]]:
    """Hypotheses, and between `least` and `most` references of each."""
    references = [[write_line(1) for _ in range(random.randint(least, most))] for _ in range(size)]
    hypotheses = [
        " ".join(word for word in random.choice(texts).split() if random.random() < 0.8) for texts in references
    ]
    return hypotheses, references


def in_streams(references: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return list(zip_longest(*references))


@pytest.mark.parametrize(("least", "most", "count"), [(2, 2, "2"), (3, 3, "3"), (1, 3, "var")])
def test_values_and_signatures_are_those_of_sacrebleu(least: int, most: int, count: str) -> None:
    hypotheses, references = corpus(30, least=least, most=most)
    references[:2] = [references[0][:least], [*references[1], *["x"] * most][:most]]
    lower = TER(case_sensitive=False)
    for score, metric in (
        (bleu(hypotheses, references), BLEU()),
        (chrf(hypotheses, references), CHRF()),
        (chrf(hypotheses, references, word_order=2, lowercase=True), CHRF(word_order=2, lowercase=True)),
        (ter(hypotheses, references), lower),
    ):
        assert score.value == pytest.approx(metric.corpus_score(hypotheses, in_streams(references)).score, abs=1e-9)
        assert score.signature == str(metric.get_signature())
        assert score.signature.startswith(f"nrefs:{count}|")


def test_resampled_scores_are_those_of_sacrebleu() -> None:
    hypotheses, references = corpus(12, least=1, most=3)
    rows = np.random.randint(0, 12, size=(4, 12))
    weights = np.array([np.bincount(row, minlength=12) for row in rows], dtype=float)
    for counted, metric in (
        (CorpusBLEU(hypotheses, references), BLEU()),
        (CorpusChrF(hypotheses, references), CHRF()),
        (CorpusTER(hypotheses, references), TER(case_sensitive=True)),
    ):
        expected = [
            metric.corpus_score([hypotheses[i] for i in row], in_streams([references[i] for i in row])).score
            for row in rows
        ]
        assert counted.compute_scores(weights) == pytest.approx(expected, abs=1e-9)


def test_one_reference_in_a_list_is_one_reference() -> None:
    hypotheses, references = corpus(20, least=1, most=1)
    single = [texts[0] for texts in references]
    for metric in (bleu, chrf, ter, exact_match, deck_bleu):
        assert metric(hypotheses, references) == metric(hypotheses, single)
    for rate in (word_error_rate, character_error_rate):
        assert rate(hypotheses, references).value == rate(hypotheses, single).value
    assert bleu_by_length(hypotheses, references, [3] * 20) == bleu_by_length(hypotheses, single, [3] * 20)


def test_an_exact_match_is_one_with_any_reference() -> None:
    references = [["one", "eins"], ["two", "zwei"], ["three"]]
    assert exact_match(["eins", "Zwei", "drei"], references).value == pytest.approx(100 / 3)
    assert exact_match(["eins", "Zwei", "drei"], references, lowercase=True).value == pytest.approx(200 / 3)


def test_error_rates_take_the_fewest_edits_and_the_mean_length() -> None:
    hypotheses, references = corpus(15, least=1, most=3)
    for rate, cut in ((word_error_rate, str.split), (character_error_rate, str)):
        edits = sum(
            min(edit_distance(cut(hypothesis), cut(text)) for text in texts)
            for hypothesis, texts in zip(hypotheses, references, strict=True)
        )
        length = sum(sum(len(cut(text)) for text in texts) / len(texts) for texts in references)
        assert rate(hypotheses, references).value == pytest.approx(100 * edits / length)


def test_the_variant_of_the_deck_takes_the_best_reference() -> None:
    near, far = "a b c d e", "v w x y z u"
    assert deck_bleu([near], [[far, near]]).value == pytest.approx(100)
    assert deck_bleu([near], [[far, near]]).parts["reference_length"] == 5


class LengthJudge(TranslationJudge):
    name = "length"
    signature = "length"

    def score_translations(
        self, *, sources: Sequence[str], candidates: Sequence[str], references: Sequence[str]
    ) -> JudgeScores:
        assert len(sources) == len(candidates) == len(references)
        gaps = [
            -abs(len(c) - len(r)) - (s != s.lower()) for s, c, r in zip(sources, candidates, references, strict=True)
        ]
        return JudgeScores(tuple(map(float, gaps)), sum(len(text) > 3 for text in references))


def test_a_judge_takes_the_reference_that_it_scores_highest() -> None:
    texts: list[list[str]] = [["ab", "abcde"], ["a"], ["abcdefg", "abcdef", "abcd"]]
    words = {"sources": ["S", "s", "s"], "candidates": ["abc", "abc", "abc"]}
    found = score_with_judge(LengthJudge(), references=texts, **words)
    assert found == JudgeScores((-2.0, -2.0, -1.0), num_truncated=4)
    assert score_with_judge(LengthJudge(), references=texts, lowercase=True, **words).scores[0] == -1.0


def test_the_report_reads_several_references() -> None:
    hypotheses, references = corpus(12, least=2, most=2)
    found = heedful.evaluate(hypotheses, references, samples=10)
    assert found.bleu == pytest.approx(BLEU().corpus_score(hypotheses, in_streams(references)).score)
    assert [interval.value for interval in found.intervals] == pytest.approx([s.value for s in found.scores[:4]])
    with pytest.raises(DataError, match=r"references\[1\]\[0\]: 5 .int. is not a text"):
        heedful.evaluate(["a", "b"], ["a", [5]])  # type: ignore[list-item]
    with pytest.raises(DataError, match="hypothesis 2 has an empty list of references"):
        heedful.evaluate(["a", "b"], ["a", []])
