"""From scores to orders."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heedful import RecipeError
from heedful.retrieval.bm25 import extract_terms
from heedful.retrieval.passages import SearchPassage
from heedful.retrieval.rankings import (
    PassageScores,
    build_hits,
    combine_scores,
    find_ranks,
    find_term_matches,
    standardize,
)


def longhand(bm25: list[float], cosine: list[float]) -> list[float]:
    """The product of two softmaxes of standardised scores, divided by its sum."""

    def chances(scores: list[float]) -> list[float]:
        mean = sum(scores) / len(scores)
        deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
        parts = [math.exp((score - mean) / deviation) for score in scores]
        return [part / sum(parts) for part in parts]

    both = [a * b for a, b in zip(chances(bm25), chances(cosine), strict=True)]
    return [each / sum(both) for each in both]


def drawn(count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(seed)
    return dice.exponential(3, count) * (dice.random(count) > 0.4), dice.uniform(-0.2, 0.9, count)


def test_the_product_is_that_of_two_softmaxes() -> None:
    bm25, cosine = drawn(40, seed=1)
    found = np.exp(combine_scores(bm25, cosine))
    assert found == pytest.approx(longhand(bm25.tolist(), cosine.tolist()))
    assert found.sum() == pytest.approx(1)


def test_neither_unit_nor_zero_of_a_score_changes_the_product() -> None:
    bm25, cosine = drawn(40, seed=2)
    assert combine_scores(7 * bm25 + 100, 0.01 * cosine - 5) == pytest.approx(combine_scores(bm25, cosine))


@pytest.mark.parametrize("even", [0.0, 3.25])
def test_a_score_that_says_nothing_leaves_the_order_to_the_other(even: float) -> None:
    bm25, cosine = drawn(40, seed=3)
    same = np.full(40, even)
    assert (
        PassageScores(same, cosine).rank_passages("product").tolist()
        == PassageScores(same, cosine).rank_passages("encoder").tolist()
    )
    assert np.argsort(-combine_scores(bm25, same), kind="stable").tolist() == np.argsort(-bm25, kind="stable").tolist()


def test_rounding_is_no_difference() -> None:
    scores = np.float32(0.7) + np.array([0, 6e-8, -6e-8], dtype=np.float32)
    assert standardize(scores).tolist() == [0, 0, 0]
    assert standardize(np.zeros(0)).shape == (0,)


def test_extreme_scores_stay_finite_and_ordered() -> None:
    bm25 = np.zeros(1_000_000, dtype=np.float32)
    bm25[17], bm25[5] = 40, 39
    found = PassageScores(bm25, np.zeros(1_000_000, dtype=np.float32))
    assert np.isfinite(found.get_scores("product")).all()
    assert found.rank_passages("product", top=3).tolist() == [17, 5, 0]


def test_equal_scores_keep_the_order_of_the_index() -> None:
    scores = PassageScores(np.array([1.0, 2.0, 1.0, 2.0]), np.array([0.5, 0.5, 0.5, 0.5]))
    assert scores.rank_passages("bm25").tolist() == [1, 3, 0, 2]
    assert scores.rank_passages("encoder").tolist() == [0, 1, 2, 3]
    assert scores.rank_passages("product").tolist() == [1, 3, 0, 2]
    assert scores.rank_passages("product", top=2).tolist() == [1, 3]


def test_bm25_finds_only_what_shares_a_word() -> None:
    scores = PassageScores(np.array([0.0, 2.0, 0.0]), np.array([0.9, 0.1, 0.2]))
    assert scores.rank_passages("bm25").tolist() == [1]
    assert PassageScores(np.zeros(3), None).rank_passages("bm25").tolist() == []
    assert len(scores.rank_passages("product")) == 3
    assert find_ranks(scores.rank_passages("bm25"), [1, 0]) == [1, None]
    assert find_ranks(scores.rank_passages("encoder"), [1, 0]) == [3, 1]


def test_without_vectors_there_is_only_bm25() -> None:
    for ordering in ("encoder", "product"):
        with pytest.raises(RecipeError, match=f"--by {ordering}: this index has no vectors"):
            PassageScores(np.ones(2), None).rank_passages(ordering)


def test_hits_tell_what_they_were_ordered_by() -> None:
    scores = PassageScores(np.array([0.5, 2.0, 0.0]), np.array([0.9, 0.1, 0.2]))
    passages = [SearchPassage(str(row), "text") for row in range(3)]
    for ordering, values in (
        ("bm25", [0.5, 2.0, 0.0]),
        ("encoder", [0.9, 0.1, 0.2]),
        ("product", longhand([0.5, 2.0, 0.0], [0.9, 0.1, 0.2])),
    ):
        found = build_hits(scores, ordering, top=2, load_passage=passages.__getitem__)
        assert [hit.rank for hit in found] == [1, 2]
        for hit in found:
            row = int(hit.passage.id)
            assert (hit.score, hit.bm25, hit.cosine) == pytest.approx(
                (values[row], scores.bm25[row], scores.cosine[row])
            )
        assert found[0].score >= found[1].score


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("the CAT", "Cats? The cat!", ["The", "cat"]),
        ("東京都", "in 東京都.", ["東京都"]),
        ("京都", "東京都", ["京都"]),
        ("", "anything", []),
        ("none", "of these", []),
    ],
)
def test_matches(query: str, text: str, found: list[str]) -> None:
    sought = [term.text for term in extract_terms(query)]
    assert [text[start:stop] for start, stop in find_term_matches(sought, text)] == found
