"""Text that resembles sentences, against BM25 in longhand."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from math import log

import pytest

from heedful.data.readers import SentencePair
from heedful.data.similar_pairs import find_similar_pairs
from heedful.data.token_offsets import find_word_ranges, split_words

TEXT = [
    SentencePair("A dog runs in the snow.", "Ein Hund rennt im Schnee.", "t:1"),
    SentencePair("The snow is white.", "Der Schnee ist weiß.", "t:2"),
    SentencePair("A cat.", "Eine Katze.", "t:3"),
    SentencePair("A dog runs in the snow.", "Ein Hund rennt im Schnee.", "t:4"),
    SentencePair("the snow in runs dog a", "durcheinander", "t:5"),
    SentencePair("", "", "t:6"),
]


def grams(text: str) -> Counter[tuple[str, ...]]:
    found = split_words(text)
    return Counter(gram for size in (1, 2, 3) for gram in zip(*(found[at:] for at in range(size)), strict=False))


def longhand(query: str, text: list[SentencePair], source: str) -> float:
    """Term by term."""
    mean = sum(len(split_words(pair.source)) for pair in text) / len(text)
    mine, total = grams(source), 0.0
    for gram in set(grams(query)):
        n = sum(gram in grams(pair.source) for pair in text)
        idf = log(1 + (len(text) - n + 0.5) / (n + 0.5))
        times = mine[gram]
        total += idf * times / (times + 1.5 * (1 - 0.75 + 0.75 * len(split_words(source)) / mean))
    return total


@pytest.mark.slow
def test_scores_are_those_of_the_formula() -> None:
    dice = random.Random(1)
    letters = ["a", "b", "c", "d", "e", "f", "g", "h"]
    text = [SentencePair(" ".join(dice.choices(letters, k=dice.randint(1, 9))), "-", f"t:{n}") for n in range(60)]
    queries = [" ".join(dice.choices(letters, k=5)) for _ in range(5)]
    found = find_similar_pairs(queries, lambda: text, max_pairs=60)
    for query, nearest in zip(queries, found.similar_pairs, strict=True):
        assert [each.score for each in nearest] == pytest.approx(
            [longhand(query, text, each.pair.source) for each in nearest]
        )
        assert all(one.score >= other.score for one, other in pairwise(nearest))
        best = max(longhand(query, text, pair.source) for pair in text)
        assert nearest[0].score == pytest.approx(best)
        few = find_similar_pairs([query], lambda: text, max_pairs=3).similar_pairs[0]
        assert [each.pair for each in few] == [each.pair for each in nearest[:3]], "the others change nothing"


def test_the_order_of_words_counts_and_the_same_pair_comes_once() -> None:
    found = find_similar_pairs(["A dog runs in the SNOW!", "zebra", ""], lambda: TEXT)
    assert [each.pair.location for each in found.similar_pairs[0]] == ["t:1", "t:5", "t:2"]
    assert found.similar_pairs[1:] == [[], []]
    assert found.num_pairs == 6


def test_words_are_counted_in_sources() -> None:
    found = find_similar_pairs(["The dog and a zebra"], lambda: TEXT)
    assert {word: found.counts[word] for word in ("the", "dog", "and", "a", "zebra", "snow")} == {
        "the": 4, "dog": 3, "and": 0, "a": 4, "zebra": 0, "snow": 0,
    }  # fmt: skip


def test_a_text_without_anything() -> None:
    found = find_similar_pairs(["a"], list)
    assert (found.num_pairs, found.similar_pairs) == (0, [[]])
    assert find_similar_pairs([], lambda: TEXT).similar_pairs == []


def test_words_of_scripts() -> None:
    assert split_words("Straße, it's 3.5 हिन्दी!") == ["strasse", "it", "s", "3", "5", "हिन्दी"]
    assert split_words("犬がいる dog") == ["犬", "が", "い", "る", "dog"]
    text = "eh? 犬 dog."
    assert [text[place.start : place.stop] for place in find_word_ranges(text)] == ["eh", "犬", "dog"]
