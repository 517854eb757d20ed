"""The baseline that counts words."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import heedful

ROOT = Path(__file__).parents[3]
RECIPE = """\
task = "classification"

[data]
train = { path = "train.tsv" }
validation = { path = "train.tsv" }

[training]
steps = 1
"""


def test_it_learns_words_and_draws_examples_like_recipes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{'good' if n % 2 else 'bad'} film number {n}\t{n % 2}\n" for n in range(40))
    (tmp_path / "train.tsv").write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    script = runpy.run_path(str(ROOT / "benchmarks/word_counts.py"))
    found = script["measure"](heedful.load_recipe(tmp_path / "recipe.toml"))
    assert (found.examples, found.accuracy) == (40, 1.0)
    script["main"]([str(tmp_path / "recipe.toml"), "--examples", "10"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["10", "40"]
