"""A new thing of each kind touches few files, and works."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MOST = {"search": 3, "sampling option": 2, "file format": 3, "route": 1, "task": 2}
"""Maximal number of files for each kind; a folder counts as one file."""


@pytest.fixture(name="additions")
def _import_additions(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("additions")


def test_each_touches_few_files(additions: Any) -> None:
    assert {addition.kind: len(addition.touched) for addition in additions.ADDITIONS} == MOST


def test_each_edit_fits_the_package(additions: Any) -> None:
    for addition in additions.ADDITIONS:
        for name, edits in addition.edits.items():
            text = (ROOT / "heedful" / name).read_text(encoding="utf-8")
            assert additions.apply_edits(name, text, edits) != text


@pytest.mark.slow
@pytest.mark.parametrize("kind", MOST)
def test_each_works(additions: Any, kind: str) -> None:
    (addition,) = (each for each in additions.ADDITIONS if each.kind == kind)
    assert additions.try_addition(addition)
