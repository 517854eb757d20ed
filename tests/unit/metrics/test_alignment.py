"""The alignment error rate, by its definition."""

from __future__ import annotations

import pytest

from heedful.errors import DataError
from heedful.metrics.error_rates import GoldAlignment, alignment_error_rate


def test_by_hand() -> None:
    """A = {0-0, 1-1, 2-2}, S = {0-0, 1-2}, P = S and {1-1}: 1 - (1 + 2) / (3 + 2)."""
    gold = GoldAlignment.parse("0-0 1-2 1p1", location="gold:1")
    assert gold.sure == {(0, 0), (1, 2)}
    assert gold.possible == {(0, 0), (1, 2), (1, 1)}
    assert alignment_error_rate([[(0, 0), (1, 1), (2, 2)]], [gold]) == pytest.approx(1 - 3 / 5)
    assert GoldAlignment.parse("1?1 0-0 1-2", location="x") == gold


def test_sentences_are_counted_together() -> None:
    golds = [GoldAlignment.parse(line, location="gold") for line in ("0-0", "0-0 1-1 2-2", "")]
    found = [[(0, 0)], [(0, 0), (5, 5)], []]
    assert alignment_error_rate(found, golds) == pytest.approx(1 - (2 * 1 + 2 * 1) / (3 + 4))


def test_perfect_and_hopeless() -> None:
    gold = GoldAlignment.parse("0-0 1-1", location="gold")
    assert alignment_error_rate([gold.sure], [gold]) == 0
    assert alignment_error_rate([[(0, 1), (1, 0)]], [gold]) == 1


@pytest.mark.parametrize("word", ["0", "0-", "a-b", "0-0-0", "-1-2", "0 - 0", "0,0"])
def test_what_is_no_link_is_named(word: str) -> None:
    with pytest.raises(DataError, match=r"gold\.txt:7: '.+' is not a link; write source-target"):
        GoldAlignment.parse(f"1-1 {word}", location="gold.txt:7")


def test_what_cannot_be_judged() -> None:
    gold = GoldAlignment.parse("", location="gold")
    with pytest.raises(DataError, match="1 alignments and 2 gold alignments"):
        alignment_error_rate([[]], [gold, gold])
    with pytest.raises(DataError, match="no links in any sentence"):
        alignment_error_rate([[]], [gold])
