"""What words are made of, wherever they are cut, counted or compared."""

from __future__ import annotations

import re
import unicodedata

import pytest

from heedful.characters import combining_marks, compile_comparison_words, compile_word_pattern, remove_invisible
from heedful.localisation.markup_projection import find_words

HINDI = "\u0915\u0941\u0924\u094d\u0924\u093e \u0918\u093e\u0938 \u092e\u0947\u0902"
THAI = "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48"


def test_marks_are_those_of_unicode() -> None:
    pattern = re.compile(f"[{combining_marks()}]")
    for code in (0x300, 0x93E, 0x94D, 0xE31, 0xFE0F, 0x1E947, 0x41, 0x5F, 0x200D):
        assert bool(pattern.fullmatch(chr(code))) == unicodedata.category(chr(code)).startswith("M")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HINDI, HINDI.split()),
        (f"{THAI}!", ["\u0e17\u0e35\u0e48", "\u0e19\u0e35\u0e48", "!"]),
        ("\u4eca\u65e5 10", ["\u4eca", "\u65e5", "10"]),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"]),
        ("nai\u0308ve, max_length", ["nai\u0308ve", ",", "max_length"]),
    ],
)
def test_no_mark_is_parted_from_its_letter(text: str, found: list[str]) -> None:
    assert compile_comparison_words().findall(text) == found


@pytest.mark.parametrize("text", [HINDI, THAI, "e\u0301te\u0301", "\u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd"])
def test_nothing_is_put_inside_of_a_letter_with_its_marks(text: str) -> None:
    for start, _ in find_words(text):
        assert not unicodedata.category(text[start]).startswith("M")


def test_a_name_that_ends_in_a_vowel_sign_is_found_as_a_word() -> None:
    name = "\u0915\u0941\u0924\u094d\u0924\u093e"
    assert compile_word_pattern(name).search(f"\u090f\u0915 {name} \u0939\u0948") is not None
    assert compile_word_pattern(name[:-1]).search(name) is None  # another word begins alike
    assert compile_word_pattern("Dog").search("a dog!") is not None
    assert compile_word_pattern("dog").search("hotdogs") is None


def test_text_without_anything_invisible_is_the_same_text() -> None:
    text = "A na\u00efve \u2013 \u0915\u094d\u200d\u0937, \u0645\u06cc\u200c\u0631 \U0001f469\u200d\U0001f680\n\t\u00a0"
    assert remove_invisible(text) == text
