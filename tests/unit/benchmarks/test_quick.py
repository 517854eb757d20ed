"""The benchmarks run from end to end with all installed contestants, and the tables contain what they measured."""

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


def run_quick_benchmark(script: str, folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Run a benchmark with --quick; return its tables and its measurements."""
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


def read_cells(text: str) -> dict[str, list[str]]:
    """Return the rows of all tables by their first cell; the last one counts if several begin with the same cell."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return {name: row for name, *row in rows}


def format_speed(speed: float) -> str:
    """Format the speed of a single round as the tables do."""
    shown = f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}" if speed >= 10 else f"{speed:.2f}"
    return f"{shown} ({shown}-{shown})"


def assert_training_table(text: str, measurements: dict[str, Any], rivals: tuple[str, ...]) -> None:
    """Check tokens per second, ratios to the rivals, tokens per processor second, and the loss."""
    rows, speeds = read_cells(text), {name: each["tokens"] / each["seconds"] for name, each in measurements.items()}
    computed = {name: each["tokens"] / each["processor"] for name, each in measurements.items()}
    for name, each in measurements.items():
        ratios = [f"{speeds[name] / speeds[rival]:.2f}" for rival in rivals]
        share = f"{computed[name] / computed['products']:.2f}"
        shown = format_speed(computed[name]).partition(" ")[0]
        assert rows[name] == [format_speed(speeds[name]), *ratios, shown, share, f"{each['loss']:.2f}"], name


@pytest.mark.slow
def test_training(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    text, found = run_quick_benchmark("training.py", tmp_path)
    names = ["heedful", "heedful-2x1", "plain-fp32", "plain-bf16", "marian-fp32", "products"]
    assert [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("| ")][2:] == names
    measurements = {name: rounds[0] for name, rounds in found["tiny"].items()}
    assert list(measurements) == names
    # with the same batches, the number of tokens is equal, and the loss of untrained models is similar
    assert len({measurement["tokens"] for measurement in measurements.values()}) == 1
    losses = [measurement["loss"] for name, measurement in measurements.items() if name != "products"]
    assert max(losses) - min(losses) < 0.6, losses
    assert_training_table(text, measurements, ("plain-fp32", "plain-bf16", "marian-fp32"))


@pytest.mark.slow
def test_translation(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    text, found = run_quick_benchmark("translation.py", tmp_path)
    exact = {"heedful", "heedful-2x1", "ct2-float32", "transformers"}
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines()]
    same = {(row[0], float(row[-1].rstrip("%"))) for row in rows if row[0] in exact and row[-1].endswith("%")}
    assert same == {(name, 100.0) for name in exact}, "engines with the same weights have the same output"
    assert {(each["beam"], each["batch"]) for each in found["tiny"]} == {(1, 1), (1, 4), (2, 1), (2, 4)}
    speeds = {(e["contestant"], e["beam"], e["batch"]): e["rounds"][0]["speed"] for e in found["tiny"]}
    for each in found["tiny"]:
        sentences = each["rounds"][0]["speed"] * each["rounds"][0]["seconds"]
        assert sentences == pytest.approx(max(4, 2 * each["batch"])), "each is translated once"
    names = list(dict.fromkeys(name for name, _, _ in speeds))
    assert [row[:-1] for row in rows if row[-1].endswith("%")] == [
        [name, *(format_speed(speeds[name, beam, batch]) for batch in (1, 4))] for beam in (1, 2) for name in names
    ]


@pytest.mark.parametrize("script", ["training.py", "recurrent.py"])
def test_an_unknown_contestant_is_an_error(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script runs in this process and starts no worker."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(sys, "argv", [script, "--quick", "--contestants", "heedful", "sloth"])
    with pytest.raises(SystemExit, match=r"^no such contestant: sloth; there are heedful, "):
        runpy.run_path(str(ROOT / "benchmarks" / script), run_name="__main__")


@pytest.mark.slow
def test_language_model(tmp_path: Path) -> None:
    text, found = run_quick_benchmark("language_model.py", tmp_path)
    measurements = {name: rounds[0] for name, rounds in found["tiny"].items()}
    assert list(measurements) == [
        *("heedful", "heedful-compiled", "heedful-2x1", "nanogpt", "plain", "plain-keep", "products")
    ]
    assert {measurement["tokens"] for measurement in measurements.values()} == {4 * 4 * 8}
    # the ids are drawn uniformly, so the loss of an untrained model is about their entropy
    losses = [measurement["loss"] for name, measurement in measurements.items() if name != "products"]
    assert all(3.9 < loss < 4.6 for loss in losses), measurements
    assert_training_table(text, measurements, ("nanogpt", "plain", "plain-keep"))


@pytest.mark.slow
def test_watching(tmp_path: Path) -> None:
    text, found = run_quick_benchmark("watching.py", tmp_path)
    assert [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("| ")][2:] == [
        "without",
        "again",
        "imported",
        "inspected",
    ]
    rows, without = read_cells(text), found["seconds"]["without"]
    for name, turns in found["seconds"].items():
        assert len(turns) == 2 and min(turns) > 0
        ratio = sum(base / mine for base, mine in zip(without, turns, strict=True)) / 2
        assert rows[name][1] == f"{ratio:.3f}", "the median of two rounds is their mean"
    assert rows["without"][2] == "1.000 to 1.000"


@pytest.mark.slow
def test_engines(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    text, found = run_quick_benchmark("engines.py", tmp_path)
    rows = read_cells(text)
    native = find_spec("heedful_native") is not None
    native_names = ["heedful native", "heedful native-float32", "heedful native-bfloat16"] if native else []
    names = ["heedful torch", "heedful int8", *native_names, "ct2 float32", "ct2 int8"]
    names += ["products alone"] * native
    assert list(found["tiny"]) == names
    for name in names:
        assert rows[name] == [f"{max(each['speeds']):,.1f}" for each in found["tiny"][name]]
        assert [(each["beam"], each["batch"]) for each in found["tiny"][name]] == [(1, 1), (1, 4), (2, 1), (2, 4)]
    greedy = [each["same"] for name in ("heedful torch", "ct2 float32") for each in found["tiny"][name][:2]]
    assert greedy == [1.0] * 4, "engines with the same weights have the same output"


@pytest.mark.slow
def test_gpu(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    text, found = run_quick_benchmark("gpu.py", tmp_path, "--device", "cpu")
    assert not [note for note in found["notes"] if "left out" in note]
    rows, training = read_cells(text), found["tiny, training, 256 tokens a batch"]
    names = ["heedful-bf16", "heedful-fp32", "heedful-checkpointing", "plain-bf16", "marian-bf16", "heedful-compiled"]
    assert list(training) == ["products", *names]
    assert len({tuple(each["tokens"] for each in training[name]["rounds"]) for name in training}) == 1
    assert [rows[name][-1] for name in names] == [f"{training[name]['loss']:.3f}" for name in names]
    # computing layers again does not change the updates; compiling them does, because they drop other numbers
    losses = {name: training[name]["loss"] for name in names}
    assert losses["heedful-checkpointing"] == pytest.approx(losses["heedful-bf16"], rel=1e-4)
    assert losses["heedful-compiled"] == pytest.approx(losses["heedful-bf16"], rel=1e-2)
    assert rows["tiny, training, 256 tokens a batch"][-1] == "yes"
    translation = found["tiny, translation"]
    assert list(translation) == ["1 x 1", "4 x 1", "1 x 2", "4 x 2"]
    assert all(each["transformers"]["same"] == 1.0 for each in translation.values()), "the weights are the same"
    batching = found["tiny, continuous batching"]
    assert list(batching) == ["torch", "torch-bfloat16", "torch-graphs", "torch-graphs-bfloat16"]
    assert [len(speeds) for by_places in batching.values() for speeds in by_places.values()] == [2, 2] * len(batching)
    assert all(f"heedful {engine}" in translation["4 x 2"] for engine in batching)
