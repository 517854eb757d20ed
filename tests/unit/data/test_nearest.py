"""Text that resembles sentences, against BM25 in longhand."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from math import log

import pytest

from heedful.data.nearest import resemblance
from heedful.data.readers import Pair
from heedful.data.spelling import word_places, words

TEXT = [
    Pair("A dog runs in the snow.", "Ein Hund rennt im Schnee.", "t:1"),
    Pair("The snow is white.", "Der Schnee ist weiß.", "t:2"),
    Pair("A cat.", "Eine Katze.", "t:3"),
    Pair("A dog runs in the snow.", "Ein Hund rennt im Schnee.", "t:4"),
    Pair("the snow in runs dog a", "durcheinander", "t:5"),
    Pair("", "", "t:6"),
]


def grams(text: str) -> Counter[tuple[str, ...]]:
    found = words(text)
    return Counter(gram for size in (1, 2, 3) for gram in zip(*(found[at:] for at in range(size)), strict=False))


def longhand(query: str, text: list[Pair], source: str) -> float:
    """Term by term."""
    mean = sum(len(words(pair.source)) for pair in text) / len(text)
    mine, total = grams(source), 0.0
    for gram in set(grams(query)):
        n = sum(gram in grams(pair.source) for pair in text)
        idf = log(1 + (len(text) - n + 0.5) / (n + 0.5))
        times = mine[gram]
        total += idf * times / (times + 1.5 * (1 - 0.75 + 0.75 * len(words(source)) / mean))
    return total


def test_scores_are_those_of_the_formula() -> None:
    dice = random.Random(1)
    letters = ["a", "b", "c", "d", "e", "f", "g", "h"]
    text = [Pair(" ".join(dice.choices(letters, k=dice.randint(1, 9))), "-", f"t:{n}") for n in range(60)]
    queries = [" ".join(dice.choices(letters, k=5)) for _ in range(5)]
    found = resemblance(queries, lambda: text, most=60)
    for query, nearest in zip(queries, found.nearest, strict=True):
        assert [each.score for each in nearest] == pytest.approx(
            [longhand(query, text, each.pair.source) for each in nearest]
        )
        assert all(one.score >= other.score for one, other in pairwise(nearest))
        best = max(longhand(query, text, pair.source) for pair in text)
        assert nearest[0].score == pytest.approx(best)
        few = resemblance([query], lambda: text, most=3).nearest[0]
        assert [each.pair for each in few] == [each.pair for each in nearest[:3]], "the others change nothing"


def test_the_order_of_words_counts_and_the_same_pair_comes_once() -> None:
    found = resemblance(["A dog runs in the SNOW!", "zebra", ""], lambda: TEXT)
    assert [each.pair.place for each in found.nearest[0]] == ["t:1", "t:5", "t:2"]
    assert found.nearest[1:] == [[], []]
    assert found.pairs == 6


def test_words_are_counted_in_sources() -> None:
    found = resemblance(["The dog and a zebra"], lambda: TEXT)
    assert {word: found.counts[word] for word in ("the", "dog", "and", "a", "zebra", "snow")} == {
        "the": 4, "dog": 3, "and": 0, "a": 4, "zebra": 0, "snow": 0,
    }  # fmt: skip


def test_a_text_without_anything() -> None:
    found = resemblance(["a"], list)
    assert (found.pairs, found.nearest) == (0, [[]])
    assert resemblance([], lambda: TEXT).nearest == []


def test_words_of_scripts() -> None:
    assert words("Straße, it's 3.5 हिन्दी!") == ["strasse", "it", "s", "3", "5", "हिन्दी"]
    assert words("犬がいる dog") == ["犬", "が", "い", "る", "dog"]
    text = "eh? 犬 dog."
    assert [text[place.start : place.stop] for place in word_places(text)] == ["eh", "犬", "dog"]
