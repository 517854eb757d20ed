"""Subtitles as they are found: whatever is missing, numbers and times stay as they are, or the file is refused."""

from __future__ import annotations

import random
import re

import pytest

from heedful.errors import DataError
from heedful.localisation.srt_document import SrtDocument

FIRST, SECOND, THIRD = (f"00:00:0{n},000 --> 00:00:0{n + 1},500" for n in (1, 3, 5))
CASES = {
    "an empty one without a line behind": (f"1\n{FIRST}\nA\n\n2\n{SECOND}\n3\n{THIRD}\nC\n", ["A", "", "C"]),
    "no lines between": (f"1\n{FIRST}\nA\n2\n{SECOND}\nB\nb\n3\n{THIRD}\nC", ["A", "B\nb", "C"]),
    "nothing but numbers and times": (f"1\n{FIRST}\n2\n{SECOND}\n3\n{THIRD}", ["", "", ""]),
    "no numbers": (f"{FIRST}\nA\n\n{SECOND}\nB\n\n{THIRD}\nC\n", ["A", "B", "C"]),
    "no numbers and no lines between": (f"{FIRST}\nA\n{SECOND}\n{THIRD}\nC", ["A", "", "C"]),
    "a text of digits": (f"1\n{FIRST}\n1999\n\n2\n{SECOND}\n42\n3\n{THIRD}\nC\n", ["1999", "42", "C"]),
    "a text of digits and no number behind": (f"1\n{FIRST}\n1999\n\n{SECOND}\nB\n", ["1999", "B"]),
    "lines behind numbers": (f"1\n\n{FIRST}\nA\n\n2\n\n{SECOND}\nB\n", ["A", "B"]),
    "several lines between": (f"\n\n1\n{FIRST}\nA\n\n \n\t\n2\n{SECOND}\nB\n\n\n", ["A", "B"]),
    "settings": (f"1\n{FIRST} align:start position:0%\nA\n2\n{SECOND}  X1:1 X2:2\nB\n", ["A", "B"]),
    "points": (f"1\n{FIRST.replace(',', '.')}\nA\n2\n00:03.000 --> 00:04.000\nB\n", ["A", "B"]),
    "an arrow in a text": (f"1\n{FIRST}\nGo --> there, at 10:30 -> now\n2\n{SECOND}\nB\n", None),
    "line ends of a text": (f"1\n{FIRST}\na\u2028b\u0085c\u000bd\n2\n{SECOND}\nB", ["a\u2028b\u0085c\u000bd", "B"]),
    "a mark in the middle": (f"1\n{FIRST}\nA\n\ufeff2\n{SECOND}\nB", ["A", "B"]),
    "spaces at ends": (f" 1 \n{FIRST} \nA \nb \n\n 2\n  {SECOND}\nB", ["A \nb", "B"]),
    "numbers that come again": (f"7\n{FIRST}\nA\n7\n{SECOND}\nB\n007\n{THIRD}\nC", ["A", "B", "C"]),
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("text", "texts"), CASES.values(), ids=CASES)
def test_numbers_and_times_stay(write, text: str, texts: list[str] | None, mark: bytes, end: str) -> None:
    data = mark + text.replace("\n", end).encode()
    document = SrtDocument.from_file(write("a.srt", data))
    said = [str(unit.source[0]) if unit.source else "" for unit in document.units]
    assert said == texts or texts is None
    assert document.fill_targets({}) == data
    new = {number: f"x{number}\nyy" for number, each in enumerate(said) if each}
    filled = document.fill_targets({number: (each,) for number, each in new.items()})
    expected = text
    for number, each in new.items():
        expected = expected.replace(f"\n{said[number]}", f"\n{each}", 1)
    assert filled == mark + expected.replace("\n", end).encode()


def test_numbers_are_names(write) -> None:
    text, _ = CASES["an empty one without a line behind"]
    assert [unit.name for unit in SrtDocument.from_file(write("a.srt", text)).units] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"1\n{FIRST}\nA\n\nB\n2\n{SECOND}\nC", 5),
        (f"1\n{FIRST}\n\nA\n2\n{SECOND}\nC", 4),
        (f"1\n{FIRST}\nA\n2\n00:00:0x,000 --> 00:00:04,000\nB", 5),
        (f"1\n{FIRST}\nA\n2\n00:00:03,000 -> 00:00:04,000\nB", 5),
        (f"1\n{FIRST}\nA\n2\n00:00:03,000--> 00: 00:04,000\nB", 5),
        (f"WEBVTT\n\n1\n{FIRST}\nA", 1),
        (f"1\n{FIRST}\nA\n\n2\n", 5),
        ("1\nA\n", 1),
    ],
)
def test_what_could_be_destroyed_is_refused_with_its_line(write, text: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"a\.srt:{line}: "):
        SrtDocument.from_file(write("a.srt", text))


def test_random_files_keep_their_times_or_are_refused(write) -> None:
    chance = random.Random(34)
    lines = ["1", "2", "", FIRST, SECOND, "A b", "1999", " ", "--> x", "- No."]
    read = 0
    for _ in range(150):
        text = chance.choice(["\n", "\r\n"]).join(chance.choices(lines, k=chance.randint(1, 12)))
        if not text.strip():
            continue
        try:
            document = SrtDocument.from_file(write("a.srt", text))
        except DataError:
            continue
        read += 1
        assert len(document.units) == text.count(FIRST) + text.count(SECOND)
        found = document.fill_targets(
            {number: ("Z",) for number, unit in enumerate(document.units) if unit.source}
        ).decode()
        assert re.findall(r".*\d -->.*", found) == re.findall(r".*\d -->.*", text)
        assert found.count("Z") == sum(bool(unit.source) for unit in document.units)
    assert read > 20


@pytest.mark.parametrize("text", ["\x1e", "\u2003\n", "\x1c\n\n"])
def test_a_file_without_subtitles_has_no_units(write, text: str) -> None:
    document = SrtDocument.from_file(write("a.srt", text))
    assert document.units == []
    assert document.fill_targets({}) == text.encode()
