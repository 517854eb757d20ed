"""The deck's BLEU against its formula, worked by hand and longhand, and how it differs from everybody's."""

from __future__ import annotations

import random

import pytest

from heedful.metrics.translation import bleu
from heedful.metrics.weighted_sacrebleu import deck_bleu


def by_the_formula(hypotheses: list[str], references: list[str]) -> float:
    total = 0.0
    for s, s0 in zip(hypotheses, references, strict=True):
        product = 1.0
        for n in range(1, 5):
            inside = f" {s0} "
            grams = [" ".join(s.split()[i : i + n]) for i in range(max(0, len(s.split()) - n + 1))]
            product *= sum(f" {gram} " in inside for gram in grams) / len(grams) if grams else 0
        total += product**0.25
    ratio = sum(len(s.split()) for s in hypotheses) / sum(len(s.split()) for s in references)
    return 100 * min(1.0, ratio) * total / len(references)


def test_it_is_the_formula() -> None:
    for _ in range(20):
        references = [" ".join(random.choices("abcd", k=random.randint(1, 15))) for _ in range(30)]
        hypotheses = [" ".join(random.choices("abcd", k=random.randint(0, 15))) for _ in range(30)]
        assert deck_bleu(hypotheses, references).value == pytest.approx(by_the_formula(hypotheses, references))


def test_an_example_worked_by_hand() -> None:
    # precisions 5/6, 3/5, 2/4, 1/3; length factor 6/8
    score = deck_bleu(["a b c d x e"], ["a b c d e f g h"])
    assert score.value == pytest.approx(100 * 0.75 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert score.parts["length_factor"] == 0.75


def test_it_does_not_clip() -> None:
    repeated, reference = ["a b a b a b a b"], ["a b a b a x y z"]
    assert deck_bleu(repeated, reference).value == pytest.approx(100)
    assert bleu(repeated, reference).value < 60


def test_a_sentence_without_fourgrams_scores_nothing() -> None:
    assert deck_bleu(["a b c"], ["a b c"]).value == 0
    assert deck_bleu(["a b c", "a b c d"], ["a b c", "a b c d"]).value == 50


def test_the_mean_is_over_sentences() -> None:
    short, long = ("a b c d", "a b c d"), ("x " * 40, "y " * 40)
    assert deck_bleu([short[0], long[0]], [short[1], long[1]]).value == 50


def test_its_name_and_signature_say_that_it_is_a_variant() -> None:
    score = deck_bleu(["a b c D"], ["a b c d"], lowercase=True)
    assert "variant" in score.name
    assert score.signature.startswith("variant:deck|")
    assert "case:lc" in score.signature
    assert score.value == 100


def test_empty_references_are_no_reason_to_fail() -> None:
    assert deck_bleu(["a"], [""]).value == 0
    assert deck_bleu([""], [""]).value == 0
