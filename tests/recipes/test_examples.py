"""The examples run, and their output is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))

Example = Callable[..., str]


@pytest.mark.slow
def test_training(workshop: Path) -> None:
    first = (workshop / "printed.txt").read_text(encoding="utf-8")
    assert first.startswith("learning the vocabulary\n400 training examples, ")
    assert "two black cats and a white dog -> zwei schwarze Katzen und ein weißer Hund\n" in first


@pytest.mark.slow
def test_training_again_resumes(workshop: Path, example: Example) -> None:
    before = (workshop / "runs/tiny/model.safetensors").read_bytes()
    assert "resuming this run\n" in example("train_in_python.py", workshop)
    assert (workshop / "runs/tiny/model.safetensors").read_bytes() == before


def test_translation(workshop: Path, example: Example) -> None:
    printed = example("translate_in_python.py", workshop)
    scores = [float(score) for score in re.findall(r"^ +(-\d+\.\d{3})  ", printed, re.MULTILINE)]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert "\nbeginning with 'drei': drei " in printed
    right, wrong = re.search(r"right (\S+), wrong (\S+)\n", printed).groups()  # type: ignore[union-attr]
    assert float(right) > float(wrong) + 1
    assert (workshop / "runs/alignment.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_sizes(tmp_path: Path, example: Example) -> None:
    _, base, big = example("size_of_a_transformer.py", tmp_path).splitlines()
    # 65M and 213M in table 3 of the paper, whose vocabularies had other sizes (docs/papers.md)
    assert re.split(r" {2,}", base)[:5] == ["base", "6+6", "512", "2048", "63.1M"]
    assert re.split(r" {2,}", big)[:5] == ["big", "6+6", "1024", "4096", "214.2M"]


def test_attention_by_hand(tmp_path: Path, example: Example) -> None:
    printed = example("attention_by_hand.py", tmp_path)
    assert printed.endswith("MultiHeadAttention gives the same weights and contexts\n")
    matrices = [
        [[float(number) for number in row.split()] for row in rows.splitlines()]
        for rows in re.findall(r"weights, a row for each query\n((?: +[-\d. ]+\n){3})", printed)
    ]
    assert len(matrices) == 4
    assert all(sum(row) == pytest.approx(1, abs=0.002) for matrix in matrices for row in matrix)
    assert all(matrix[i][j] == 0 for matrix in matrices[2:] for i in range(3) for j in range(i + 1, 3))


def test_all_examples_are_tested() -> None:
    assert EXAMPLES == [
        "attention_by_hand.py",
        "size_of_a_transformer.py",
        "train_in_python.py",
        "translate_in_python.py",
    ]
