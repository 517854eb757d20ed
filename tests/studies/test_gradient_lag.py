"""The study of gradients by lag: what it measures, and that it runs."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

STUDY = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "studies/gradient_lag.py")))


def build_sizes(**changes: Any) -> Any:
    tiny = {"lengths": (4, 6), "drawn": 6, "d": 8, "batch": 8, "steps": 3, "look": 2}
    return STUDY.Sizes(**{**tiny, **changes})


def test_each_half_has_one_marker_and_the_answer_is_the_sum_of_the_marked_numbers() -> None:
    x, answers = STUDY.sample_adding_problem(200, 7, rng=torch.Generator().manual_seed(2))
    for numbers, answer in zip(x.tolist(), answers.tolist(), strict=True):
        marked = [place for place, (_, mark) in enumerate(numbers) if mark == 1]
        assert all(mark in (0, 1) and 0 <= number < 1 for number, mark in numbers)
        assert len(marked) == 2
        assert marked[0] < 3 <= marked[1]
        assert answer == pytest.approx(sum(numbers[place][0] for place in marked))
    places = x[..., 1].sum(0)
    assert places.min() > 0, "each place is marked sometimes"
    assert float((answers - 1).square().mean()) == pytest.approx(STUDY.CONSTANT_ERROR, rel=0.2)


@pytest.mark.parametrize("name", list(STUDY.READERS))
def test_norms_are_those_of_the_jacobian(name: str) -> None:
    reader = STUDY.READERS[name](5)
    x = STUDY.sample_adding_problem(3, 6, rng=torch.Generator().manual_seed(1))[0]
    exact = [torch.autograd.functional.jacobian(reader, row.unsqueeze(0))[0, :, 0] for row in x]
    expected = [(sum(float(row[:, 5 - lag].square().sum()) for row in exact) / 3) ** 0.5 for lag in range(6)]
    assert STUDY.compute_gradient_norms(reader, x) == pytest.approx(expected, rel=1e-4)


def test_a_product_of_jacobians_shrinks_exponentially() -> None:
    """At h = 0, tanh is the identity, so each step halves the gradient if the recurrent map halves."""
    reader = STUDY.READERS["Elman, orthogonal start"](4)
    nn.init.eye_(reader.layer.cell.recurrent.weight)
    reader.layer.cell.recurrent.weight.data.mul_(0.5)
    norms = STUDY.compute_gradient_norms(reader, torch.zeros(1, 60, 2))
    width = float(reader.layer.cell.input.weight.detach().norm())
    assert norms == pytest.approx([width * 0.5**lag for lag in range(60)], rel=1e-6)


def test_training_ends_when_the_problem_is_solved() -> None:
    outcome = STUDY.train_reader("attention", 6, build_sizes(steps=2000, look=20, batch=32, d=16, rate=1e-2))
    assert outcome.solved_at == outcome.errors[-1][0] < 2000
    assert outcome.errors[-1][1] < 0.01 <= outcome.errors[-2][1]
    assert len(outcome.before) == len(outcome.after) == 6
    assert outcome.before != outcome.after
    assert str(outcome) == f"{outcome.solved_at:,}"


def test_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    found = STUDY.run_study(build_sizes(), log=said.append)
    assert len(said) == 2 * len(STUDY.READERS)
    STUDY.write_results(found, build_sizes(), output=tmp_path / "new/folder")
    folder = tmp_path / "new/folder"
    rows = (folder / "table.md").read_text(encoding="utf-8").splitlines()
    assert capsys.readouterr().out.splitlines() == rows
    assert [row.split(" | ")[0].strip("| ") for row in rows[2:]] == list(STUDY.READERS)
    numbers = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
    assert numbers["found"]["GRU"]["6"]["errors"] == [list(pair) for pair in found["GRU"][6].errors]
    assert not numbers["found"]["GRU"]["4"]["before"], "gradients are measured at one length"
    for name in ("start", "trained"):
        svg = (folder / f"gradient_lag_{name}.svg").read_text(encoding="utf-8")
        assert svg.count('class="course"') == len(STUDY.READERS)


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second, other = (STUDY.train_reader("LSTM", 6, build_sizes(seed=seed)) for seed in (1, 1, 2))
    assert first.errors == second.errors != other.errors
    assert first.after == second.after
