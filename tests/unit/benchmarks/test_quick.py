"""The benchmarks run from end to end, with every contestant that is installed; tables are what they measured."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def quick(script: str, folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """The tables and the measurements of a benchmark's smallest run."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), "--quick", *options]
    files = ["--json", str(folder / "found.json"), "--markdown", str(folder / "found.md")]
    done = subprocess.run(
        [*command, *files],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    text = (folder / "found.md").read_text(encoding="utf-8")
    assert done.stdout == text
    return text, json.loads((folder / "found.json").read_text(encoding="utf-8"))


def cells(text: str) -> dict[str, list[str]]:
    """The rows of all tables by what they begin with, the last one where several begin alike."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return {name: row for name, *row in rows}


def told(speed: float) -> str:
    """As the tables show the speeds of a single round."""
    shown = f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}" if speed >= 10 else f"{speed:.2f}"
    return f"{shown} ({shown}-{shown})"


def assert_training_table(text: str, stretches: dict[str, Any], rivals: tuple[str, ...]) -> None:
    """Tokens for each second, how many times those of each rival, the same of the processor's time, and the loss."""
    rows, speeds = cells(text), {name: each["tokens"] / each["seconds"] for name, each in stretches.items()}
    computed = {name: each["tokens"] / each["processor"] for name, each in stretches.items()}
    for name, each in stretches.items():
        ratios = [f"{speeds[name] / speeds[rival]:.2f}" for rival in rivals]
        share = f"{computed[name] / computed['products']:.2f}"
        shown = told(computed[name]).partition(" ")[0]
        assert rows[name] == [told(speeds[name]), *ratios, shown, share, f"{each['loss']:.2f}"], name


@pytest.mark.slow
def test_training(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    text, found = quick("training.py", tmp_path)
    names = ["heedful", "heedful-2x1", "plain-fp32", "plain-bf16", "marian-fp32", "products"]
    assert [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("| ")][2:] == names
    stretches = {name: rounds[0] for name, rounds in found["tiny"].items()}
    assert list(stretches) == names
    # the same batches: as many tokens, and before anything is learned about the same loss
    assert len({stretch["tokens"] for stretch in stretches.values()}) == 1
    losses = [stretch["loss"] for name, stretch in stretches.items() if name != "products"]
    assert max(losses) - min(losses) < 0.6, losses
    assert_training_table(text, stretches, ("plain-fp32", "plain-bf16", "marian-fp32"))


@pytest.mark.slow
def test_translation(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    text, found = quick("translation.py", tmp_path)
    exact = {"heedful", "heedful-2x1", "ct2-float32", "transformers"}
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines()]
    same = {(row[0], float(row[-1].rstrip("%"))) for row in rows if row[0] in exact and row[-1].endswith("%")}
    assert same == {(name, 100.0) for name in exact}, "engines with the same weights write the same"
    assert {(each["beam"], each["batch"]) for each in found["tiny"]} == {(1, 1), (1, 4), (2, 1), (2, 4)}
    speeds = {(e["contestant"], e["beam"], e["batch"]): e["rounds"][0]["speed"] for e in found["tiny"]}
    for each in found["tiny"]:
        sentences = each["rounds"][0]["speed"] * each["rounds"][0]["seconds"]
        assert sentences == pytest.approx(max(4, 2 * each["batch"])), "each is translated once"
    names = list(dict.fromkeys(name for name, _, _ in speeds))
    assert [row[:-1] for row in rows if row[-1].endswith("%")] == [
        [name, *(told(speeds[name, beam, batch]) for batch in (1, 4))] for beam in (1, 2) for name in names
    ]


@pytest.mark.parametrize("script", ["training.py", "recurrent.py"])
def test_a_contestant_that_nobody_knows_is_named(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: nobody is started."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(sys, "argv", [script, "--quick", "--contestants", "heedful", "sloth"])
    with pytest.raises(SystemExit, match=r"^no such contestant: sloth; there are heedful, "):
        runpy.run_path(str(ROOT / "benchmarks" / script), run_name="__main__")


@pytest.mark.slow
def test_language_model(tmp_path: Path) -> None:
    text, found = quick("language_model.py", tmp_path)
    stretches = {name: rounds[0] for name, rounds in found["tiny"].items()}
    assert list(stretches) == ["heedful", "heedful-2x1", "nanogpt", "plain", "plain-keep", "products"]
    assert {stretch["tokens"] for stretch in stretches.values()} == {4 * 4 * 8}
    # the ids are drawn evenly: before anything is learned each costs about as many nats
    losses = [stretch["loss"] for name, stretch in stretches.items() if name != "products"]
    assert all(3.9 < loss < 4.6 for loss in losses), stretches
    assert_training_table(text, stretches, ("nanogpt", "plain", "plain-keep"))


@pytest.mark.slow
def test_watching(tmp_path: Path) -> None:
    text, found = quick("watching.py", tmp_path)
    assert [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("| ")][2:] == [
        "without",
        "again",
        "imported",
        "inspected",
    ]
    rows, without = cells(text), found["seconds"]["without"]
    for name, turns in found["seconds"].items():
        assert len(turns) == 2 and min(turns) > 0
        ratio = sum(base / mine for base, mine in zip(without, turns, strict=True)) / 2
        assert rows[name][1] == f"{ratio:.3f}", "of two rounds the median is the mean"
    assert rows["without"][2] == "1.000 to 1.000"


@pytest.mark.slow
def test_engines(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    text, found = quick("engines.py", tmp_path)
    rows = cells(text)
    native = find_spec("heedful_native") is not None
    names = ["heedful torch", "heedful int8", *["heedful native"] * native, "ct2 float32", "ct2 int8"]
    names += ["products alone"] * native
    assert list(found["tiny"]) == names
    for name in names:
        assert rows[name] == [f"{max(each['speeds']):,.1f}" for each in found["tiny"][name]]
        assert [(each["beam"], each["batch"]) for each in found["tiny"][name]] == [(1, 1), (1, 4), (2, 1), (2, 4)]
    greedy = [each["same"] for name in ("heedful torch", "ct2 float32") for each in found["tiny"][name][:2]]
    assert greedy == [1.0] * 4, "engines with the same weights write the same"
