"""The benchmark of detached translations: its numbers, and that it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def detachment(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import detachment

    return detachment


def test_areas_are_shares_of_pairs(detachment: Any) -> None:
    rng = np.random.default_rng(1)
    own, odd = rng.integers(0, 20, size=60).tolist(), rng.integers(5, 25, size=40).tolist()
    pairs = [(a > b) + (a == b) / 2 for a in odd for b in own]
    share = np.mean([a > np.quantile(own, 0.99) for a in odd])
    assert detachment.format_cells(own, odd) == (f"{np.mean(pairs):.3f}", f"{share:.2f}")


def test_it_runs(
    detachment: Any, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "strange").write_text("9 9 9\n\n8\n")
    source = trained.parent / "validation.en"
    monkeypatch.setattr(
        sys, "argv", ["detachment", str(trained), "--source", str(source), "--strange", str(tmp_path / "strange")]
    )
    detachment.main()
    lines = capsys.readouterr().out.splitlines()
    assert "beside another source: area" in lines[0]
    assert "strange: beyond 99 in 100" in lines[0]
    assert [line.split("  ")[0] for line in lines[1:]] == ["less sure", "scattered", "ignored source"]
