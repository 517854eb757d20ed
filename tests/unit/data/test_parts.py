# ruff: noqa: RUF001  (marks of punctuation of other scripts look alike)
"""Long texts as parts: nothing is lost, everything fits, and seams are where people would put them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from heedful.data.text_splitting import iter_gaps, split_text

LETTERS = [
    "a",
    "bc",
    "Def",
    ",",
    "; ",
    ". ",
    "! ",
    " - ",
    "–",
    "，",
    "。",
    " ",
    "\n\n",
    "\t",
    "\u3000",
    "\x1c",
    "\x85",
    "·",
]
DICE = random.Random(8)
TEXTS = ["".join(DICE.choices(LETTERS, k=DICE.randrange(24))) for _ in range(1500)]


def shorter(most: int) -> Callable[[str], bool]:
    return lambda text: len(text.strip()) <= most


def words(most: int) -> Callable[[str], bool]:
    return lambda text: len(text.split()) <= most


@pytest.mark.parametrize("measure", [shorter, words])
def test_parts_are_the_text_and_fit(measure: Callable[[int], Callable[[str], bool]]) -> None:
    split = 0
    for text in TEXTS:
        fits = measure(DICE.randrange(13))
        found = split_text(text, fits)
        assert "".join(found) == text
        for part in found:
            assert part
            assert fits(part) or len(part.split()) <= 1
            assert part.strip() or found == [text]
        for part in found[1:]:
            assert not part[0].isspace(), "white space ends the part in front of it"
        split += len(found) > 2
    assert split > 300


def test_parts_and_what_stands_between_them_are_the_text() -> None:
    for text in filter(str.strip, TEXTS):
        stripped = [part.strip() for part in split_text(text, shorter(DICE.randrange(13)))]
        between = list(iter_gaps(text, stripped))
        assert not "".join(between).strip()
        assert "".join(gap + part for gap, part in zip(between, stripped, strict=True)) == text.rstrip()


def test_what_fits_stays_whole() -> None:
    for text in TEXTS:
        assert split_text(text, lambda _: True) == ([text] if text else [])


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("One two. Three four! Five?", 4, ["One two. ", "Three four! ", "Five?"]),
        ("Dr. No came. He saw  \n\nme", 3, ["Dr. No came. ", "He saw  \n\n", "me"]),
        ("a b, c d; e f: g h", 4, ["a b, c d; ", "e f: g h"]),
        ("a b, c d - e f - g, h", 5, ["a b, c d - ", "e f - g, h"]),
        ("a b, c d e f g hh. I", 4, ["a b, ", "c d e ", "f g hh. ", "I"]),
        ("a 1,5 b:c well-known d", 3, ["a 1,5 b:c ", "well-known d"]),
        ("a b c d e f g h", 3, ["a b ", "c d ", "e f ", "g h"]),
        ("verylongword", 0, ["verylongword"]),
    ],
)
def test_seams(text: str, most: int, expected: list[str]) -> None:
    """At all ends of sentences; else at the mark nearest to the middle; else at the word nearest to it."""
    assert split_text(text, words(most)) == expected


def test_marks_of_chinese_need_no_space() -> None:
    assert split_text("我来，我见。我征服、好", shorter(4)) == ["我来，", "我见。", "我征服、", "好"]


def test_a_long_text_is_not_measured_too_often() -> None:
    """Work grows hardly faster than the text, wherever its marks are."""
    for text in ("word " * 4096, "a, " * 4096 + "b " * 4096, "One two. " * 4096):
        asked: list[int] = []

        def fits(part: str, asked: list[int] = asked) -> bool:
            asked.append(len(part))
            return len(part) <= 40

        assert len(split_text(text, fits)) > 100
        assert sum(asked) < 16 * len(text)


def test_what_is_whole_stays_in_one_part() -> None:
    whole, kept = re.compile("<[^>]*>"), 0
    for text in TEXTS:
        inner = "".join(DICE.choices(LETTERS, k=DICE.randrange(1, 6)))
        own = f"{text} <{inner}> {''.join(DICE.choices(LETTERS, k=DICE.randrange(12)))}"
        most = DICE.randrange(len(inner) + 2, len(inner) + 12)
        found = split_text(own, shorter(most), protected=whole)
        assert "".join(found) == own
        assert any(f"<{inner}>" in part for part in found)
        kept += not any(f"<{inner}>" in part for part in split_text(own, shorter(most)))
    assert kept > 50, "or nothing would have been torn"


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("a <b, c> d e", 6, ["a ", "<b, c> ", "d e"]),
        ("a <b. C> d", 6, ["a ", "<b. C> ", "d"]),
        ("a. <B. C> d", 9, ["a. ", "<B. C> d"]),
        ("a <b c, d> e", 6, ["a ", "<b c, ", "d> ", "e"]),
        ("<a b c>", 4, ["<a ", "b c>"]),
    ],
)
def test_it_is_split_only_where_nothing_else_is_left(text: str, most: int, expected: list[str]) -> None:
    assert split_text(text, shorter(most), protected=re.compile("<[^>]*>")) == expected
