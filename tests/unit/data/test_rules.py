"""Each rule turns away what it says, and nothing near it."""

# dashes and spaces that stand in texts

from __future__ import annotations

from collections.abc import Sequence

import pytest

from heedful.data.detect import pair_filters
from heedful.data.detect.languages import LanguageInfo
from heedful.data.detect.pair_checks import LengthRatioCounter

EN, DE, JA = LanguageInfo("en"), LanguageInfo("de"), LanguageInfo("ja")
LONG = "the dog was in the house and it was not with the children that they have seen in this garden for a day"
LANG = "der Hund war in dem Haus und er war nicht mit den Kindern die sie auf der Straße für einen Tag gesehen haben"
FRENCH = "le chien est dans la maison et il ne se trouve pas avec les enfants que nous avons vus dans le jardin"


@pytest.mark.parametrize(
    ("rule", "rejected", "passed"),
    [
        (pair_filters.EmptyFilter(), [("", "ein"), ("a", " \t"), ("", "")], [("a", "ein")]),
        (
            pair_filters.EncodingFilter(),
            [("a \ufffd", "b"), ("a", "fÃ¼r dich"), ("a\x07b", "c"), ("donâ€™t", "c")],
            [("a", "für dich"), ("Ã", "À côté"), ("a\tb", "c")],
        ),
        (pair_filters.HtmlFilter(), [("a<br>b", "c"), ("a", "b &amp; c")], [("1 < 2 > 0", "a & b"), ("<3", "R&D;")]),
        (
            pair_filters.CopyFilter(),
            [("Press  the Key", "press the key")],
            [("OK", "OK"), ("12 34", "12 34"), ("the key", "the keys")],
        ),
        (pair_filters.LengthFilter(3), [("a b c d", "x"), ("x", "1 2 3 4")], [("a b c", "a b c")]),
        (
            pair_filters.NumberFilter(),
            [("4 dogs", "5 Hunde"), ("1 or 2", "1"), ("a", "7 x"), ("1 to 1", "1")],
            [("1,000.5 km", "1.000,5 km"), ("on 12 May", "am 12. Mai"), ("1 2", "2 1"), ("two", "zwei")],
        ),
        (
            pair_filters.LanguageFilter(EN, DE),
            [(LANG, LONG), (LONG, LONG), (LANG, LANG), (LONG, FRENCH), (FRENCH, LANG)],
            [(LONG, LANG), ("dog", "dog"), ("Hund", "Hund"), ("12", "12"), (LONG, "")],
        ),
        (pair_filters.LanguageFilter(EN, JA), [("犬はここにいます", "a dog")], [("a dog is here", "犬はここにいます")]),
        (pair_filters.LanguageFilter(LanguageInfo(), DE), [(LONG, FRENCH)], [(FRENCH, LANG), (LANG, LANG)]),
        (pair_filters.LanguageFilter(LanguageInfo(), LanguageInfo()), [], [(LONG, FRENCH), (LANG, LANG)]),
    ],
)
def test_what_is_turned_away(
    rule: pair_filters.PairFilter, rejected: Sequence[tuple[str, str]], passed: Sequence[tuple[str, str]]
) -> None:
    assert [pair for pair in rejected if not rule.should_reject(*pair)] == []
    assert [pair for pair in passed if rule.should_reject(*pair)] == []
    assert rule.description


def test_a_pair_passes_once() -> None:
    rule = pair_filters.DuplicateFilter()
    assert not rule.should_reject("a dog", "ein Hund")
    assert rule.should_reject("A  dog", "ein hund"), "case and white space make no other pair"
    assert not rule.should_reject("a dog", "der Hund"), "another translation is another pair"
    assert not rule.should_reject("a", "dogein Hund")


def test_lengths_are_compared_with_the_usual_one() -> None:
    """Sources are twice as long as targets here, so eight times is four times too much, and so is half of it."""
    rule = pair_filters.LengthRatioFilter(4)
    usual = (" ".join(["word"] * 40), " ".join(["word"] * 20))
    for _ in range(9):
        rule.learn(*usual)
    rule.learn(" ".join(["word"] * 100), "word")
    words = lambda count: " ".join(["word"] * count)  # noqa: E731
    assert not rule.should_reject(*usual)
    assert not rule.should_reject(words(70), words(10))
    assert rule.should_reject(words(90), words(10))
    assert not rule.should_reject(words(30), words(50))
    assert rule.should_reject(words(10), words(25))
    assert not rule.should_reject("a b c", "a b c d e f g h i"), "short ones vary"
    assert not rule.should_reject("", words(50)), "which another rule is for"


def test_the_usual_length_is_the_median() -> None:
    balance = LengthRatioCounter()
    assert balance.median_ratio == 0
    for ratios, median in (([5], 5), ([-3, 1, 40], 1), ([2, 2, 2, 9, 9], 2), ([0, 7], 7)):
        balance.counts.clear()
        balance.counts.update(ratios)
        assert balance.median_ratio == median == sorted(ratios)[len(ratios) // 2]
