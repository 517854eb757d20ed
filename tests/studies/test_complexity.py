"""The study of table 1: how it counts, and that it runs."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import complexity
import pytest
import table_one as table
import torch
from torch import nn

from heedful.bundled import list_studies


def build_options() -> Any:
    """Build options with tiny sizes."""
    return complexity.Options((8, 16, 32), (64, 128), 16, (9, 27), 2, 1)


@pytest.fixture(scope="module")
def rows() -> Any:
    """Return the measurements of the study for tiny layers."""
    return complexity.run_study(build_options(), log=lambda _: None)


@pytest.mark.slow
def test_all_of_it(rows: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    complexity.write_results(rows, build_options(), output=tmp_path / "new/folder")
    folder = tmp_path / "new/folder"
    assert (folder / "tables.md").read_text(encoding="utf-8") == capsys.readouterr().out
    found = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
    assert len(found["rows"]) == len(found["exponents"]) == 6
    for pairs in found["exponents"].values():
        for name in ("sequential", "path"):
            fitted, theory = pairs[name]
            assert fitted == pytest.approx(theory, abs=0.25), pairs
    assert all(
        cost["bytes"] > 0 <= cost["seconds"] for row in found["rows"].values() for cost in row["by_length"].values()
    )
    names = {f"complexity-{what}-{axis}.svg" for what in ("time", "memory") for axis in ("length", "width")}
    assert {path.name for path in folder.iterdir()} == {"tables.md", "numbers.json", *names}


def test_the_study_is_listed() -> None:
    assert list_studies()["complexity"].description.startswith("Table 1 of Vaswani et al. 2017")
    assert "table_one" not in list_studies(), "a file that the study imports"


def test_time_is_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So other programs on the machine do not change the exponents."""
    ticks = iter([0.0, 9.0, 10.0, 14.0, 20.0, 25.0, 30.0, 31.0])
    monkeypatch.setattr(time, "process_time", lambda: next(ticks))
    clock = iter(float(10**number) for number in range(99))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert complexity.measure_cost(nn.Linear(2, 2), 3, 2, rounds=2).seconds == 4.0, (
        "the first pass and the last do not count"
    )


def test_exponents_of_known_laws() -> None:
    for power in (0, 1, 2.5):
        assert complexity.fit_exponent({n: 3 * n**power for n in (8, 16, 32, 64)}) == pytest.approx(power)
    assert complexity.fit_exponent({1: 9e9, 8: 64, 16: 256, 32: 1024}) == pytest.approx(2), "the last points alone"
    assert complexity.fit_log_growth({n: 5 + 2 * math.log(n, 3) for n in (8, 16, 32)}) == pytest.approx(2)


def test_paths_have_the_right_length() -> None:
    for n in (5, 9, 20):
        lengths = {
            "full": table.measure_path_length(table.SelfAttention(), n, 8),
            "formed": table.measure_path_length(table.SelfAttention(form_weights=True), n, 8),
            "restricted": table.measure_path_length(table.RestrictedAttention(3), n, 8),
            "recurrent": table.measure_path_length(table.RecurrentNetwork(), n, 8),
            "convolutional": table.measure_path_length(table.Convolution(5), n, 8),
            "dilated": table.measure_path_length(table.DilatedConvolution(3), n, 8),
        }
        assert lengths == {
            "full": 1,
            "formed": 1,
            "restricted": math.ceil((n - 1) / 3),
            "recurrent": n,
            "convolutional": math.ceil((n - 1) / 2),
            "dilated": math.ceil(math.log(n, 3) - 1e-9),
        }


def test_only_recurrent_layers_have_long_chains() -> None:
    rows = {"full": table.SelfAttention(), "convolutional": table.Convolution(), "recurrent": table.RecurrentNetwork()}
    chains = {
        name: [table.count_sequential_operations(row.build(8), n, 8) for n in (4, 8, 16)] for name, row in rows.items()
    }
    assert len(set(chains["full"])) == len(set(chains["convolutional"])) == 1
    first, second, third = chains["recurrent"]
    assert third - second == 2 * (second - first) > 0

    class Loop(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(10):
                x = x.exp()
            return x

    assert table.count_sequential_operations(Loop(), 3, 2) == 11, "ten operations after the input"


def test_dependencies_are_those_of_the_window() -> None:
    at = torch.arange(7)
    near = (at[:, None] - at).abs() <= 2
    assert torch.equal(table.find_dependencies(table.RestrictedAttention(2).build(8), 7, 8), near)
    assert torch.equal(table.find_dependencies(table.Convolution(5).build(8), 7, 8), near)
    assert torch.equal(table.find_dependencies(table.RecurrentNetwork().build(8), 7, 8), at[:, None] >= at)


def test_bytes_are_counted_until_they_are_freed() -> None:
    given = torch.zeros(1000)
    with complexity.MemoryCounter() as alive:
        view = given.view(10, 100)  # it has no storage of its own
        first = view + 1
        second = first * 2
        del first
        third = second.exp().view(-1)
        third.add_(1)
        del second
    assert alive.peak == 2 * 4000
    assert alive.current == 4000
    del third
    assert alive.current == 0
