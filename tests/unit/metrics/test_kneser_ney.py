"""Kneser-Ney beside the formulas of Chen and Goodman 1999 in plain loops, and numbers that were computed by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product

import pytest

from heedful.errors import DataError, RecipeError
from heedful.metrics.likelihood import KneserNeyModel

SIZE = 6


def texts(count: int, *, seed: int) -> list[list[int]]:
    """Each begins with 0, which nothing else does."""
    dice = random.Random(seed)
    return [[0, *(dice.choice([1, 1, 1, 1, 2, 2, 3, 4]) for _ in range(dice.randint(1, 9)))] for _ in range(count)]


class Longhand:
    """The recursion as the paper writes it, each count looked up in the whole text."""

    def __init__(self, sequences: Sequence[Sequence[int]], order: int) -> None:
        self.sequences = [tuple(each) for each in sequences]
        self.order = order

    def count(self, gram: tuple[int, ...]) -> int:
        places = [(s, i) for s in self.sequences for i in range(len(s) - len(gram) + 1)]
        found = [(s, i) for s, i in places if s[i : i + len(gram)] == gram and i + len(gram) > 1]
        if len(gram) == self.order or gram[0] == 0:
            return len(found)
        return len({s[i - 1] for s, i in found})

    def discounts(self, n: int) -> tuple[float, float, float]:
        counts = [self.count(gram) for gram in product(range(SIZE), repeat=n)]
        n1, n2, n3, n4 = (counts.count(number) for number in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return 0.5, 1.0, 1.5
        y = n1 / (n1 + 2 * n2)
        return 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3

    def probability(self, word: int, before: tuple[int, ...]) -> float:
        lower = self.probability(word, before[1:]) if before else 1 / SIZE
        counts = [self.count((*before, each)) for each in range(SIZE)]
        if not sum(counts):
            return lower
        of = (0.0, *self.discounts(len(before) + 1))
        own = max(counts[word] - of[min(counts[word], 3)], 0.0)
        return (own + sum(of[min(count, 3)] for count in counts) * lower) / sum(counts)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_probabilities_are_those_of_the_paper(order: int) -> None:
    sequences = texts(25, seed=3)
    model, longhand = KneserNeyModel(sequences, vocab_size=SIZE, order=order), Longhand(sequences, order)
    for n in range(1, order + 1):
        assert model.discounts[n - 1] == pytest.approx(longhand.discounts(n))
    if order > 1:
        assert any(each != (0.5, 1.0, 1.5) for each in model.discounts), "counts of counts decide"
    contexts = [(0,), (1,), (5,), (0, 1), (4, 4), (1, 1), (2, 3), (5, 1)]
    for context, word in product(contexts, range(SIZE)):
        before = context[len(context) - min(order - 1, len(context)) :]
        assert model.get_probability(word, context) == pytest.approx(longhand.probability(word, before))


@pytest.mark.parametrize("order", [1, 2, 5])
def test_probabilities_sum_to_one(order: int) -> None:
    model = KneserNeyModel(texts(40, seed=5), vocab_size=SIZE, order=order)
    for context in ([], [0], [0, 1], [1, 2, 3, 4, 1, 2], [5, 5], [1, 5, 1]):
        assert math.fsum(model.get_probability(word, context) for word in range(SIZE)) == pytest.approx(1)


def test_two_words_by_hand() -> None:
    """0 1 2 and 0 1 1: bigrams 01 twice, 12 and 11 once; 1 follows two words (0 and 1), 2 follows one."""
    model = KneserNeyModel([[0, 1, 2], [0, 1, 1]], vocab_size=4, order=2)
    assert model.discounts == ((0.5, 1.0, 1.5), (0.5, 1.0, 1.5)), "no counts of three and four"
    base = (1.0 + 0.5) / 3 / 4  # freed by both words: D2 of the 1 and D1 of the 2, of three kinds, for each of four ids
    one, two = (2 - 1.0) / 3 + base, (1 - 0.5) / 3 + base
    assert model.get_probability(1, []) == pytest.approx(one)
    assert model.get_probability(2, []) == pytest.approx(two)
    assert model.get_probability(3, []) == pytest.approx(base)
    assert model.get_probability(2, [1]) == pytest.approx((1 - 0.5 + 1.0 * two) / 2)
    assert model.get_probability(1, [0]) == pytest.approx((2 - 1.0 + 1.0 * one) / 2)
    assert model.get_probability(1, [3]) == pytest.approx(one), "nothing follows 3"


def test_nats_are_of_each_id_behind_those_before_it() -> None:
    sequences = texts(30, seed=7)
    model, text = KneserNeyModel(sequences, vocab_size=SIZE, order=3), sequences[4]
    wanted = [-math.log(model.get_probability(text[place], text[:place])) for place in range(1, len(text))]
    assert model.score_sequence(text) == pytest.approx(wanted)
    assert model.score_sequence([0]) == []


def test_longer_n_grams_know_a_repeated_text_better() -> None:
    text = [0, 1, 2, 1, 3, 1, 4, 2, 2, 1]
    nats = [sum(KneserNeyModel([text] * 8, vocab_size=SIZE, order=order).score_sequence(text)) for order in (1, 2, 4)]
    assert nats == sorted(nats, reverse=True)


def test_what_cannot_be_counted_is_said() -> None:
    with pytest.raises(DataError, match="no n-grams to count"):
        KneserNeyModel([[0], []], vocab_size=SIZE)
    with pytest.raises(RecipeError, match="order: 0"):
        KneserNeyModel([[0, 1]], vocab_size=SIZE, order=0)
