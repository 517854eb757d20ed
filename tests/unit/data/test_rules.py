"""Each rule turns away what it says, and nothing near it."""

# dashes and spaces that stand in texts

from __future__ import annotations

from collections.abc import Sequence

import pytest

from heedful.data.forms import rules
from heedful.data.forms.languages import Language
from heedful.data.forms.pairing import Balance

EN, DE, JA = Language("en"), Language("de"), Language("ja")
LONG = "the dog was in the house and it was not with the children that they have seen in this garden for a day"
LANG = "der Hund war in dem Haus und er war nicht mit den Kindern die sie auf der Straße für einen Tag gesehen haben"
FRENCH = "le chien est dans la maison et il ne se trouve pas avec les enfants que nous avons vus dans le jardin"


@pytest.mark.parametrize(
    ("rule", "rejected", "passed"),
    [
        (rules.Bare(), [("", "ein"), ("a", " \t"), ("", "")], [("a", "ein")]),
        (
            rules.Spoiled(),
            [("a \ufffd", "b"), ("a", "fÃ¼r dich"), ("a\x07b", "c"), ("donâ€™t", "c")],
            [("a", "für dich"), ("Ã", "À côté"), ("a\tb", "c")],
        ),
        (rules.Marked(), [("a<br>b", "c"), ("a", "b &amp; c")], [("1 < 2 > 0", "a & b"), ("<3", "R&D;")]),
        (
            rules.Same(),
            [("Press  the Key", "press the key")],
            [("OK", "OK"), ("12 34", "12 34"), ("the key", "the keys")],
        ),
        (rules.Long(3), [("a b c d", "x"), ("x", "1 2 3 4")], [("a b c", "a b c")]),
        (
            rules.Numbers(),
            [("4 dogs", "5 Hunde"), ("1 or 2", "1"), ("a", "7 x"), ("1 to 1", "1")],
            [("1,000.5 km", "1.000,5 km"), ("on 12 May", "am 12. Mai"), ("1 2", "2 1"), ("two", "zwei")],
        ),
        (
            rules.Foreign(EN, DE),
            [(LANG, LONG), (LONG, LONG), (LANG, LANG), (LONG, FRENCH), (FRENCH, LANG)],
            [(LONG, LANG), ("dog", "dog"), ("Hund", "Hund"), ("12", "12"), (LONG, "")],
        ),
        (rules.Foreign(EN, JA), [("犬はここにいます", "a dog")], [("a dog is here", "犬はここにいます")]),
        (rules.Foreign(Language(), DE), [(LONG, FRENCH)], [(FRENCH, LANG), (LANG, LANG)]),
        (rules.Foreign(Language(), Language()), [], [(LONG, FRENCH), (LANG, LANG)]),
    ],
)
def test_what_is_turned_away(
    rule: rules.Rule, rejected: Sequence[tuple[str, str]], passed: Sequence[tuple[str, str]]
) -> None:
    assert [pair for pair in rejected if not rule.rejects(*pair)] == []
    assert [pair for pair in passed if rule.rejects(*pair)] == []
    assert rule.about


def test_a_pair_passes_once() -> None:
    rule = rules.Again()
    assert not rule.rejects("a dog", "ein Hund")
    assert rule.rejects("A  dog", "ein hund"), "case and white space make no other pair"
    assert not rule.rejects("a dog", "der Hund"), "another translation is another pair"
    assert not rule.rejects("a", "dogein Hund")


def test_lengths_are_compared_with_the_usual_one() -> None:
    """Sources are twice as long as targets here, so eight times is four times too much, and so is half of it."""
    rule = rules.Unbalanced(4)
    usual = (" ".join(["word"] * 40), " ".join(["word"] * 20))
    for _ in range(9):
        rule.learn(*usual)
    rule.learn(" ".join(["word"] * 100), "word")
    words = lambda count: " ".join(["word"] * count)  # noqa: E731
    assert not rule.rejects(*usual)
    assert not rule.rejects(words(70), words(10))
    assert rule.rejects(words(90), words(10))
    assert not rule.rejects(words(30), words(50))
    assert rule.rejects(words(10), words(25))
    assert not rule.rejects("a b c", "a b c d e f g h i"), "short ones vary"
    assert not rule.rejects("", words(50)), "which another rule is for"


def test_the_usual_length_is_the_median() -> None:
    balance = Balance()
    assert balance.usual == 0
    for ratios, median in (([5], 5), ([-3, 1, 40], 1), ([2, 2, 2, 9, 9], 2), ([0, 7], 7)):
        balance.counts.clear()
        balance.counts.update(ratios)
        assert balance.usual == median == sorted(ratios)[len(ratios) // 2]
