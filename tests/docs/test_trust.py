"""The limits that docs/trust.md lists are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/trust.md"
UNITS = {"": 1, " MiB": 2**20, " GiB": 2**30}
ROW = re.compile(r"^\| [^|]+ \| ([0-9,]+)( MiB| GiB|) \| `(heedful[\w.]+)\.(\w+)` \|$", re.MULTILINE)
LIMITS = [
    (int(number.replace(",", "")) * UNITS[unit], *names) for number, unit, *names in ROW.findall(PAGE.read_text())
]


@pytest.mark.parametrize(("limit", "module", "name"), LIMITS, ids=str)
def test_limits_are_those_of_the_code(limit: int, module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name) == limit


def test_all_rows_of_the_table_are_read() -> None:
    table = PAGE.read_text().partition("| what | at most | constant |")[2].partition("\n\n")[0]
    assert len(LIMITS) == table.count("\n|") - 1 > 20
