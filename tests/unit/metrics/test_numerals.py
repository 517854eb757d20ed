"""Numbers of a source that stand in a translation."""

from __future__ import annotations

import pytest

from heedful.metrics.judge import count_kept_numbers


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3", "3"),
        ("in 2016.", "2016"),
        ("1,000.5", "1.000,5"),
        ("1,000.5", "1000,5"),
        ("1 000,5", "1,000.5"),
        ("1\u202f000\u202f000", "1000000"),
        ("12'345", "12345"),
        ("1,00,000", "100000"),
        ("1.000", "1000"),
        ("0.125", "0,125"),
        ("10:30", "10.30"),
        ("12.05.2020", "12,05,2020"),
        ("\u0663", "3"),
        ("A4", "DIN-A4"),
        ("the 2nd", "2."),
        ("5%", "5 %"),
    ],
)
def test_one_number(one: str, other: str) -> None:
    assert count_kept_numbers(one, other) == (1, 1)
    assert count_kept_numbers(other, one) == (1, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3.5", "35"),
        ("3", "13"),
        ("0.125", "0125"),
        ("10:300", "10300"),
        ("1.50", "1.5"),
        ("1000", "10000"),
        ("1,000.5", "1.0005"),
        ("1234,567", "1234567"),
        ("12,34", "1234"),
        ("7", "seven"),
    ],
)
def test_two_numbers(one: str, other: str) -> None:
    assert count_kept_numbers(one, other) == (0, 1)


def test_each_counts_as_often_as_it_is_there() -> None:
    assert count_kept_numbers("2 and 2 and 3", "2, 3") == (2, 3)
    assert count_kept_numbers("2", "2 2") == (1, 1)
    assert count_kept_numbers("", "5") == count_kept_numbers("five dogs", "5") == (0, 0)
    assert count_kept_numbers("2020 300", "2020: 300") == (2, 2), "no thousands, since these have three digits at most"
    assert count_kept_numbers("pages 5-7", "5 bis 7") == (2, 2)
    assert count_kept_numbers("5 200 or 12 0000", "5200, 12, 0000") == (3, 3)
