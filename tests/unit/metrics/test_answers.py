"""Answers, compared as SQuAD's scripts compare them."""

from __future__ import annotations

import random
import re
import string

import pytest

from heedful.errors import DataError
from heedful.metrics.spans import compute_answer_metrics, exact_match, find_best_threshold, normalize_answer, token_f1

WORDS = ["The", "a", "an", "cat", "Cat,", "dog", "dog's", "1990.", "--", "an-other", "théâtre", "«x»"]


def longhand_f1(answer: str, gold: str) -> float:
    """Precision and recall of words, each used up once."""
    mine = [w for w in clean(answer).split(" ") if w]
    left = [w for w in clean(gold).split(" ") if w]
    if not mine or not left:
        return 1.0 if mine == left else 0.0
    wanted, hits = len(left), 0
    for word in mine:
        if word in left:
            left.remove(word)
            hits += 1
    if not hits:
        return 0.0
    precision, recall = hits / len(mine), hits / wanted
    return 2 * precision * recall / (precision + recall)


def clean(text: str) -> str:
    letters = "".join(c for c in text.lower() if c not in string.punctuation)
    words = re.split(r"(\W+)", letters)
    return re.sub(r"\s+", " ", "".join(" " if word in ("a", "an", "the") else word for word in words)).strip()


def phrase() -> str:
    return " ".join(random.choices(WORDS, k=random.randrange(5)))


def test_normalisation() -> None:
    assert normalize_answer("  The U.S.  Army's (an) «answer», ") == "us armys «answer»"
    assert normalize_answer("A, b & the end-of-an-era") == "b endofanera"
    assert normalize_answer("the A. an") == ""
    for _ in range(300):
        text = phrase()
        assert normalize_answer(text) == clean(text)
        assert normalize_answer(normalize_answer(text)) == normalize_answer(text)


def test_f1_and_exact_match_are_the_best_over_gold_answers() -> None:
    for _ in range(500):
        answer, golds = phrase(), [phrase() for _ in range(random.randrange(1, 4))]
        real = [gold for gold in golds if clean(gold)] or [""]
        assert token_f1(answer, golds) == pytest.approx(max(longhand_f1(answer, gold) for gold in real))
        assert exact_match(answer, golds) == (clean(answer) in [clean(gold) for gold in real])


def test_no_answer_agrees_with_nothing_else() -> None:
    assert exact_match("", []) == token_f1("", []) == 1
    assert exact_match("the", []) == 1
    assert exact_match("cat", []) == token_f1("cat", []) == token_f1("", ["cat"]) == 0


def test_scores_of_answerable_and_unanswerable_questions() -> None:
    answers, golds = ["cat", "big dog", "", "x"], [["the cat", "dog"], ["dog"], [], []]
    scores = {name: metric.value for name, metric in compute_answer_metrics(answers, golds).items()}
    one = (1 + 2 / 3) / 2
    expected = {"exact_match": 0.5, "answer_f1": (2 * one + 1) / 4, "answerable_f1": one, "unanswerable": 0.5}
    assert scores == pytest.approx(expected)
    assert {*compute_answer_metrics(["a b"], [["b"]])} == {"exact_match", "answer_f1"}
    with pytest.raises(DataError, match="1 answers or scores but 2 questions"):
        compute_answer_metrics(["x"], [[], []])
    with pytest.raises(DataError, match="list of texts"):
        compute_answer_metrics(["x"], ["x"])


@pytest.mark.parametrize("metric", [token_f1, exact_match])
def test_no_threshold_does_better(metric) -> None:  # type: ignore[no-untyped-def]
    for _ in range(100):
        count = random.randrange(1, 12)
        answers = [random.choice(["cat", "big cat", "dog"]) for _ in range(count)]
        golds = [random.choice([["cat"], ["dog"], []]) for _ in range(count)]
        silence = [random.choice([-1.0, 0.0, 0.5, 2.0]) for _ in range(count)]

        cases = list(zip(answers, golds, silence, strict=True))
        reached = {
            cut: sum(metric(a if s < cut else "", g) for a, g, s in cases) / count
            for cut in (-9.0, -1.0, 0.0, 0.5, 2.0, float("inf"))
        }
        found = find_best_threshold(answers, golds, no_answer_scores=silence, metric=metric)
        assert found.score == pytest.approx(reached[found.threshold])
        assert found.score == pytest.approx(max(reached.values()))
