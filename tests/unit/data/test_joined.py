"""Longer pairs that are made of two: which, how many, and what becomes of their links."""

from __future__ import annotations

from collections import Counter

import pytest

from heedful.data.composed import Joined
from heedful.data.readers import Pair

PAIRS = [Pair(f"a{number} b{number}", f"A{number}", f"t.tsv:{number}", ("<x>",), ((1, 0),)) for number in range(400)]


def made(share: float, pairs: list[Pair] = PAIRS) -> list[Pair]:
    return [pair for pair in Joined(pairs, share) if " and " in pair.place]


@pytest.mark.parametrize("share", [0.25, 1.0, 2.5])
def test_all_pairs_stay_and_as_many_joined_ones_are_added(share: float) -> None:
    found = list(Joined(PAIRS, share))

    assert [pair for pair in found if " and " not in pair.place] == PAIRS
    assert len(found) - len(PAIRS) == pytest.approx(share * len(PAIRS), abs=share + 1)


def test_a_joined_pair_has_two_that_are_there_in_the_same_order_on_both_sides() -> None:
    originals = set(PAIRS)
    for pair in made(1.0):
        first, second = pair.source.split()[::2]
        assert pair.target == f"{first.upper()} {second.upper()}"
        assert first != second
        assert pair.tags == ("<x>",)
        assert pair.links == ((1, 0), (3, 1)), "the words of the second stand behind those of the first"
        assert {f"t.tsv:{first[1:]}", f"t.tsv:{second[1:]}"} == set(pair.place.split(" and "))
    assert set(PAIRS) == originals


def test_each_stands_first_about_as_often() -> None:
    older_first = sum(int(each.place.split(":")[1].split()[0]) < int(each.place.split(":")[2]) for each in made(1.0))
    assert 160 < older_first < 240, "five standard deviations around a half of 400"


def test_the_second_is_drawn_from_all_that_were_seen() -> None:
    others = Counter(min(int(part.split(":")[1]) for part in each.place.split(" and ")) for each in made(1.0))
    assert max(others.values()) < 20, "no pair is everybody's partner"
    assert len(others) > 150


def test_the_same_pairs_are_joined_each_time() -> None:
    joined = Joined(PAIRS, 0.5)
    assert list(joined) == list(joined)


def test_a_pair_with_an_empty_side_stays_alone() -> None:
    pairs = [Pair("a", "", "t:1"), Pair(" ", "b", "t:2"), Pair("c", "C", "t:3"), Pair("d", "D", "t:4")]

    assert {pair.source for pair in made(3.0, pairs)} <= {"c d", "d c"}
    assert made(3.0, pairs[:3]) == [], "one pair alone has no partner"
