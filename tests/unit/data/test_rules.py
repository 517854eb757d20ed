"""Each rule turns away what it says, and nothing near it."""

# dashes and spaces that stand in texts

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from heedful.data.detect import pair_checks
from heedful.data.detect.checks import GARBLED_TEXT, HTML_REMAINS, EmptyTextCheck, TextCheck
from heedful.data.detect.languages import LanguageInfo

EN, DE, JA = LanguageInfo("en"), LanguageInfo("de"), LanguageInfo("ja")
LONG = "the dog was in the house and it was not with the children that they have seen in this garden for a day"
LANG = "der Hund war in dem Haus und er war nicht mit den Kindern die sie auf der Straße für einen Tag gesehen haben"
CZECH = "Výbor řekl, že návrh nemůže přijmout, protože na to nemá čas, a že je mu to líto, ale tak to prostě je."
SLOVAK = "Výbor povedal, že návrh nemôže prijať, pretože na to nemá čas, a že je mu to ľúto, ale tak to jednoducho je."
NORWEGIAN = "Komiteen sa at den ikke kunne godta forslaget fordi de ikke hadde tid til det, og at den var lei seg."
HEBREW = "הוועדה אמרה שאינה יכולה לקבל את ההצעה כי אין להם זמן"
YIDDISH = "די קאָמיטעט האָט געזאָגט אַז זי קען ניט אָננעמען דעם פֿאָרשלאָג ווײַל זיי האָבן ניט קיין צײַט"
SWAHILI = "Kamati ilisema kwamba haiwezi kukubali pendekezo hilo kwa sababu hawakuwa na wakati wa kulijadili"
FRENCH = "le chien est dans la maison et il ne se trouve pas avec les enfants que nous avons vus dans le jardin"


@pytest.mark.parametrize(
    ("rule", "rejected", "passed"),
    [
        (EmptyTextCheck(), [("", "ein"), ("a", " \t"), ("", "")], [("a", "ein")]),
        (
            GARBLED_TEXT,
            [("a \ufffd", "b"), ("a", "fÃ¼r dich"), ("a\x07b", "c"), ("donâ€™t", "c")],
            [("a", "für dich"), ("Ã", "À côté"), ("a\tb", "c")],
        ),
        (HTML_REMAINS, [("a<br>b", "c"), ("a", "b &amp; c")], [("1 < 2 > 0", "a & b"), ("<3", "R&D;")]),
        (
            pair_checks.CopyCheck(),
            [("Press  the Key", "press the key")],
            [("OK", "OK"), ("12 34", "12 34"), ("the key", "the keys")],
        ),
        (pair_checks.LengthCheck(3), [("a b c d", "x"), ("x", "1 2 3 4")], [("a b c", "a b c")]),
        (
            pair_checks.NumberCheck(),
            [("4 dogs", "5 Hunde"), ("1 or 2", "1"), ("a", "7 x"), ("1 to 1", "1")],
            [("1,000.5 km", "1.000,5 km"), ("on 12 May", "am 12. Mai"), ("1 2", "2 1"), ("two", "zwei")],
        ),
        (
            pair_checks.PairLanguageCheck(EN, DE),
            [(LANG, LONG), (LONG, LONG), (LANG, LANG), (LONG, FRENCH), (FRENCH, LANG)],
            [(LONG, LANG), ("dog", "dog"), ("Hund", "Hund"), ("12", "12"), (LONG, "")],
        ),
        (
            pair_checks.PairLanguageCheck(EN, JA),
            [("犬はここにいます", "a dog")],
            [("a dog is here", "犬はここにいます")],
        ),
        (pair_checks.PairLanguageCheck(LanguageInfo(), DE), [(LONG, FRENCH)], [(FRENCH, LANG), (LANG, LANG)]),
        (pair_checks.PairLanguageCheck(LanguageInfo(), LanguageInfo()), [], [(LONG, FRENCH), (LANG, LANG)]),
    ],
)
def test_what_is_turned_away(
    rule: TextCheck[Any], rejected: Sequence[tuple[str, str]], passed: Sequence[tuple[str, str]]
) -> None:
    assert [pair for pair in rejected if rule.measure(pair) is None] == []
    assert [pair for pair in passed if rule.measure(pair) is not None] == []
    assert rule.name
    assert rule.description


@pytest.mark.parametrize(
    ("source", "target", "pair", "fault"),
    [
        ("en", "de", (LANG, LONG), "swapped"),
        ("en", "de", (LONG, LONG), "same"),
        ("en", "de", (LANG, LANG), "same"),
        ("en", "de", (LANG, FRENCH), "same"),
        ("en", "de", (LONG, FRENCH), "other"),
        ("en", "de", (LONG, "Rien de rien"), None),
        ("en", "de", (LONG, "委员会表示他们没有时间因此不能接受该提案"), "other"),
        ("en", "en", (LONG, LONG), None),
        ("en", "en", (LONG, LANG), "other"),
        ("cs", "sk", (CZECH, SLOVAK), None),
        ("cs", "sk", (CZECH, CZECH), None),
        ("cs", "sk", (SLOVAK, CZECH), "swapped"),
        ("da", "en", (NORWEGIAN, LONG), None),
        ("he", "yi", (HEBREW, YIDDISH), None),
        ("en", "yi", (LONG, YIDDISH), None),
        ("en", "yi", (LONG, LONG), "same"),
        ("en", "tn", (LONG, SWAHILI), None),
        ("en", "sw", (LONG, SWAHILI), None),
        ("en", "sw", (SWAHILI, SWAHILI), "same"),
    ],
)
def test_which_fault_the_languages_of_a_pair_have(
    source: str, target: str, pair: tuple[str, str], fault: str | None
) -> None:
    assert pair_checks.PairLanguageCheck(LanguageInfo(source), LanguageInfo(target)).measure(pair) == fault


def test_a_pair_passes_once() -> None:
    rule = pair_checks.RepeatedPairCheck()
    assert not rule.measure(("a dog", "ein Hund"))
    assert rule.measure(("A  dog", "ein hund")), "case and white space make no other pair"
    assert not rule.measure(("a dog", "der Hund")), "another translation is another pair"
    assert not rule.measure(("a", "dogein Hund"))


def test_lengths_are_compared_with_the_usual_one() -> None:
    """Sources are twice as long as targets here, so eight times is four times too much, and so is half of it."""
    rule = pair_checks.LengthRatioCheck()
    words = lambda count: " ".join(["word"] * count)  # noqa: E731
    usual = [(words(40), words(20))] * 9
    passed = [(words(70), words(10)), (words(30), words(50)), ("a b c", "a b c d e f g h i"), ("", words(50))]
    rejected = [(words(100), "word"), (words(90), words(10)), (words(10), words(25))]
    values = [rule.measure(pair) for pair in (*usual, *passed, *rejected)]
    assert values[11:13] == [None, None], "short ones vary, and another rule is for empty ones"
    faults = rule.find_faults(Counter(value for value in values if value is not None))
    assert [value in faults for value in values] == [False] * 13 + [True] * 3
    assert faults[0] == values[13], "the worst first"


def test_the_usual_length_is_the_median() -> None:
    assert pair_checks.find_median(Counter()) == 0
    for numbers, median in (([5], 5), ([-3, 1, 40], 1), ([2, 2, 2, 9, 9], 2), ([0, 7], 7)):
        assert pair_checks.find_median(Counter(numbers)) == median == sorted(numbers)[len(numbers) // 2]
