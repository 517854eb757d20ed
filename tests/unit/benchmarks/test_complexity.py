"""The benchmark of table 1: how it counts, and that it runs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[3]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """`complexity` and `table_one`, which are scripts beside each other."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import complexity
    import table_one

    return complexity, table_one


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path: Path) -> None:
    script = ROOT / "benchmarks/complexity.py"
    files = {name: tmp_path / f"found.{name}" for name in ("json", "markdown")}
    options = [each for name, file in files.items() for each in (f"--{name}", str(file))]
    command = [sys.executable, str(script), "--quick", "--figures", str(tmp_path / "figures"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert files["markdown"].read_text(encoding="utf-8") == done.stdout
    found = json.loads(files["json"].read_text(encoding="utf-8"))
    assert len(found["rows"]) == len(found["exponents"]) == 6
    for pairs in found["exponents"].values():
        for name in ("sequential", "path"):
            fitted, theory = pairs[name]
            assert fitted == pytest.approx(theory, abs=0.25), pairs
    assert all(
        cost["bytes"] > 0 < cost["seconds"] for row in found["rows"].values() for cost in row["by_length"].values()
    )
    names = {f"complexity-{what}-{axis}.svg" for what in ("time", "memory") for axis in ("length", "width")}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == names


def test_exponents_of_known_laws(modules: tuple[Any, Any]) -> None:
    complexity, _ = modules
    for power in (0, 1, 2.5):
        assert complexity.exponent({n: 3 * n**power for n in (8, 16, 32, 64)}) == pytest.approx(power)
    assert complexity.exponent({1: 9e9, 8: 64, 16: 256, 32: 1024}) == pytest.approx(2), "the last points alone"
    assert complexity.growth({n: 5 + 2 * math.log(n, 3) for n in (8, 16, 32)}) == pytest.approx(2)


def test_paths_are_as_long_as_they_must_be(modules: tuple[Any, Any]) -> None:
    _, table = modules
    for n in (5, 9, 20):
        lengths = {
            "full": table.path_length(table.SelfAttention(), n, 8),
            "formed": table.path_length(table.SelfAttention(formed=True), n, 8),
            "restricted": table.path_length(table.Restricted(3), n, 8),
            "recurrent": table.path_length(table.Recurrent(), n, 8),
            "convolutional": table.path_length(table.Convolutional(5), n, 8),
            "dilated": table.path_length(table.Dilated(3), n, 8),
        }
        assert lengths == {
            "full": 1,
            "formed": 1,
            "restricted": math.ceil((n - 1) / 3),
            "recurrent": n,
            "convolutional": math.ceil((n - 1) / 2),
            "dilated": math.ceil(math.log(n, 3) - 1e-9),
        }


def test_chains_wait_for_each_other_in_recurrent_layers_alone(modules: tuple[Any, Any]) -> None:
    _, table = modules
    rows = {"full": table.SelfAttention(), "convolutional": table.Convolutional(), "recurrent": table.Recurrent()}
    chains = {name: [table.sequential_operations(row.build(8), n, 8) for n in (4, 8, 16)] for name, row in rows.items()}
    assert len(set(chains["full"])) == len(set(chains["convolutional"])) == 1
    first, second, third = chains["recurrent"]
    assert third - second == 2 * (second - first) > 0

    class Loop(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(10):
                x = x.exp()
            return x

    assert table.sequential_operations(Loop(), 3, 2) == 11, "ten operations after the input"


def test_dependence_is_that_of_the_window(modules: tuple[Any, Any]) -> None:
    _, table = modules
    at = torch.arange(7)
    near = (at[:, None] - at).abs() <= 2
    assert torch.equal(table.depends(table.Restricted(2).build(8), 7, 8), near)
    assert torch.equal(table.depends(table.Convolutional(5).build(8), 7, 8), near)
    assert torch.equal(table.depends(table.Recurrent().build(8), 7, 8), at[:, None] >= at)


def test_bytes_are_counted_while_they_live(modules: tuple[Any, Any]) -> None:
    complexity, _ = modules
    given = torch.zeros(1000)
    with complexity.Alive() as alive:
        view = given.view(10, 100)  # no storage of its own
        first = view + 1
        second = first * 2
        del first
        third = second.exp().view(-1)
        third.add_(1)
        del second
    assert alive.peak == 2 * 4000
    assert alive.now == 4000
    del third
    assert alive.now == 0
