"""Time to read texts and tables grows with their length, not with its square, whatever they repeat."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.data.detect.sniff import sniff_text
from heedful.data.labels import parse_number
from heedful.data.text_splitting import split_sentences
from heedful.errors import DataError
from heedful.recipes.error_messages import suggest_fix

LENGTH = 100_000
"""Characters for which twice nested loops take more than half a minute, and one takes less than a second."""


def suggest_for_quotes(text: str) -> str:
    """Look for a mistake in a line of a recipe."""
    return suggest_fix(f'path = "{text * 3}', "Unescaped '\\' in a string (at line 1, column 9)")


def suggest_for_bare_value(text: str) -> str:
    """Look for a mistake in a line whose value is not quoted."""
    return suggest_fix(f'path = a{text}#"', "Invalid value (at line 1, column 8)")


@pytest.mark.parametrize("read", [parse_number, split_sentences, suggest_for_quotes, suggest_for_bare_value])
@pytest.mark.parametrize("unit", ["9", " ", "!", "\u061f", "a", ".", "!)", "\u3002", "\\", "a.", "9,", "-"])
def test_repeated_signs(read: Callable[[str], object], unit: str) -> None:
    start = time.process_time()
    read(unit * (LENGTH // len(unit)) + "x")
    assert time.process_time() - start < 10


def test_hints_do_not_repeat_long_values() -> None:
    assert len(suggest_fix(f"{'k' * LENGTH} = {'v' * LENGTH}", "Invalid value (at line 1, column 8)")) < 300


def test_tables_of_too_many_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.tsv"
    path.write_text("\n".join("\t".join(map(str, range(20_000))) for _ in range(3)))
    with pytest.raises(DataError, match=r"wide\.tsv: has 20,000 columns, and at most 16,384 are read; is it a table\?"):
        sniff_text(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", ",".join(["a"] * 16_000) + "\n" + "x,1\n" * 20_000),
        ("a.tsv", "\t".join(["a"] * 16_000) + "\n" + "x\t1\n" * 20_000),
        ("a.jsonl", "".join(f'{{"k{number}": 1}}\n' for number in range(16_000))),
    ],
)
def test_tables_with_few_values_and_many_cells(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    start = time.process_time()
    sniff_text(tmp_path / name)
    assert time.process_time() - start < 10
