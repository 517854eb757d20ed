"""Terms, numbers and contrasts, counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heedful.tasks.decoder_target import ForcedScore
from heedful.tasks.predictor import UnreadableInput
from heedful.tasks.translation.accuracy import ContrastiveExample, count_accuracies, count_contrasts, prefers_first
from heedful.tasks.translation.glossary import TermGlossary

ENTRIES = (("dog", "Hund"), ("hound", "Hund"), ("cat", "Katze"), ("black cat", "schwarze Katze"), ("Ada", "Ada"))
GLOSSARY = TermGlossary([(1, *entry) for entry in ENTRIES], path="g")


def counted(source: str, text: str, **how: Any) -> tuple[int, int, int]:
    """Terms that are there, those with other endings too, and all."""
    found = count_accuracies([source], [text], glossary=GLOSSARY, **how)
    exact, alike = found["terms"], found["terms, other endings too"]
    assert exact.total.tolist() == alike.total.tolist()
    return int(exact.correct[0]), int(alike.correct[0]), int(exact.total[0])


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("a dog", "ein Hund", (1, 1, 1)),
        ("a dog", "ein Hunde", (0, 1, 1)),
        ("a dog", "ein hund", (0, 1, 1)),
        ("a dog", "ein Schäferhund", (0, 0, 1)),
        ("a dog and a dog", "ein Hund", (1, 1, 2)),
        ("a dog and a dog", "ein Hund und noch ein Hund und ein Hund", (2, 2, 2)),
        ("a dog and a hound", "ein Hund", (1, 1, 2)),
        ("a dog and a dog", "ein Hund und Hunde", (1, 2, 2)),
        ("a black cat", "die Katze", (0, 0, 1)),
        ("a black cat", "der schwarzen Katze", (0, 1, 1)),
        ("a black cat and a cat", "eine schwarze Katze", (1, 1, 2)),
        ("a black cat and a cat", "Katze, schwarze Katze", (2, 2, 2)),
        ("a black cat and a cat", "schwarze Katze, Katze", (2, 2, 2)),
        ("a cat and a black cat", "schwarzen Katzen", (0, 1, 2)),
        ("Ada", "ada", (0, 1, 1)),
        ("dogs and ada", "Hunde", (0, 0, 0)),
    ],
)
def test_terms_count_where_no_other_one_is(source: str, text: str, expected: tuple[int, int, int]) -> None:
    if expected[2]:
        assert counted(source, text) == expected
    else:
        assert count_accuracies([source], [text], glossary=GLOSSARY) == {}


def test_case_is_left_aside_where_that_is_asked() -> None:
    assert counted("a dog", "EIN HUND") == (0, 1, 1)
    assert counted("a dog", "EIN HUND", lowercase=True) == (1, 1, 1)
    low = TermGlossary([(1, "green", "grün")], path="g")
    assert count_accuracies(["green"], ["Grün ist"], glossary=low)["terms"].correct.tolist() == [1], (
        "as sources are found"
    )


def test_only_what_sources_have_is_told_and_drawn() -> None:
    found = count_accuracies(["a dog 3", "x", "2 and 4"], ["Hund", "7", "4"], glossary=None)
    assert list(found) == ["numbers"]
    assert (found["numbers"].correct.tolist(), found["numbers"].total.tolist()) == ([0, 1], [1, 2])
    assert found["numbers"].metric.value == pytest.approx(100 / 3)
    weighted = found["numbers"].metric.compute_scores(np.array([[0, 2], [3, 1]]))
    assert weighted.tolist() == pytest.approx([50, 20])
    assert count_accuracies(["x"], ["7"], glossary=GLOSSARY) == {}
    assert list(count_accuracies(["a dog 3"], [""], glossary=GLOSSARY)) == [
        "terms",
        "terms, other endings too",
        "numbers",
    ]


def contrast(kind: str) -> ContrastiveExample:
    return ContrastiveExample("s", "r", ("w",), kind, "c:1")


def test_contrasts_by_their_kind() -> None:
    kinds = ["gender", "number", "gender", "", "number"]
    found = count_contrasts([contrast(kind) for kind in kinds], [True, False, None, True, True])
    told = {name: (share.correct.sum(), share.total.sum()) for name, share in found.items()}
    assert told == {
        "contrasts": (3, 4),
        "contrasts: gender": (1, 1),
        "contrasts: number": (1, 2),
        "contrasts: no kind": (1, 1),
    }
    assert list(count_contrasts([contrast("a")], [False])) == ["contrasts"]
    assert count_contrasts([contrast("a"), contrast("b")], [None, None]) == {}
    some = count_contrasts([contrast("a"), contrast("b")], [None, True])
    assert list(some) == ["contrasts", "contrasts: b"]


def score(value: float, *tokens: str) -> ForcedScore:
    return ForcedScore(value, len(tokens) + 1, (value,), tokens)


def test_the_right_text_must_be_more_probable_than_each_wrong_one() -> None:
    right = score(-2, "a")
    assert prefers_first([right, score(-3, "b")]) is True
    assert prefers_first([right, score(-3, "b"), score(-1, "c")]) is False
    assert prefers_first([right, score(-2, "b")]) is False, "equal is not more"
    assert prefers_first([right, score(-2.0001, "a")]) is False, "one text in other batches"
    assert prefers_first([right, UnreadableInput("too long")]) is None
    assert prefers_first([UnreadableInput("too long"), score(-3, "b")]) is None
