"""`heedful sweep`: mistakes are said before anything is trained, and the runs are compared by seeds at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Say = Callable[..., Any]
HEADS = ("--over", "model.heads=1,2")


@pytest.fixture
def recipe(trained: Path) -> Path:
    return trained.parent / "small.toml"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "has nothing to vary"),
        (("--over", "model.heads"), "write KEY=VALUE,VALUE"),
        (("--over", "model.heads=1,2", "model.heads=4"), "model.heads is given twice"),
        (("--over", "training.schedule.rate=1e-4..1e-2"), "an interval has no list of values"),
        (("--over", "seed=1,2"), "--seeds 3 gives three seeds"),
        ((*HEADS, "--seeds", "0"), "--seeds: 0; must be at least 1"),
        ((*HEADS, "--minutes", "0"), "--minutes: 0; must be above 0"),
        ((*HEADS, "--trials", "3"), "is for drawn configurations"),
        (("--strategy", "random", "--trials", "3", "--seeds", "2"), "needs --over"),
        ((*HEADS, "--strategy", "random"), "and the number of configurations, --trials"),
        ((*HEADS, "--strategy", "halving", "--trials", "3", "--seeds", "2"), "compares runs of one seed"),
        (("--over", "model.heads=2,3"), "model.heads"),
        (("--over", "model.hats=2,3"), "is not a known key"),
    ],
)
def test_mistakes_are_said_before_anything_is_trained(
    say: Say, recipe: Path, here: Path, words: tuple[str, ...], problem: str
) -> None:
    assert problem in say("sweep", recipe, *words).complaint
    assert not list(here.iterdir())


def test_an_option_may_exist_only_with_the_swept_values(say: Say, recipe: Path, here: Path) -> None:
    words = ("--over", "model.positions.kind=shaw", "--model.positions.clip", "2", "--training.steps", "1")
    said = say("sweep", recipe, *words, "--device", "cpu", "--samples", "10", "-o", "sweep")
    assert said.code == 0, said.err
    config = json.loads(Path("sweep/kind=shaw,seed=3/config.json").read_text())
    assert config["recipe"]["model"]["positions"]["clip"] == 2
    problem = say(
        "sweep", recipe, "--over", "model.positions.kind=learned,shaw", "--model.positions.clip", "2"
    ).complaint
    assert 'model.positions.clip needs model.positions.kind = "shaw"' in problem


@pytest.mark.slow
def test_a_sweep_ends_with_means_over_seeds(say: Say, recipe: Path, here: Path) -> None:
    words = (*HEADS, "--training.steps", "3", "--device", "cpu", "--samples", "50", "-o", "sweep")
    said = say("sweep", recipe, *words, "--seeds", "2", "--jobs", "2")
    assert said.code == 0, said.err
    assert "(4 of 4) " in said.err
    names = [f"heads={heads},seed={seed}" for heads in (1, 2) for seed in (3, 4)]
    assert sorted(path.name for path in Path("sweep").iterdir() if path.is_dir()) == names
    found = json.loads(Path("sweep/comparison.json").read_text())
    assert [run["run"] for run in found["runs"]] == [f"sweep/{name}" for name in names]
    first, second = found["seed_groups"]
    assert (first["name"], first["seeds"], first["against_first"]) == ("heads=1", [3, 4], {})
    assert (second["name"], second["settings"]) == ("heads=2", {"model.heads": 2})
    values = [run["bleu"]["value"] for run in found["runs"]]
    assert second["metrics"]["BLEU"]["values"] == pytest.approx(values[2:])
    difference = second["metrics"]["chrF2"]["mean"] - first["metrics"]["chrF2"]["mean"]
    assert second["against_first"]["chrF2"]["difference"] == pytest.approx(difference)
    assert "Means over seeds" in said.lines
    assert "BLEU by model.heads" in Path("sweep/comparison.html").read_text(encoding="utf-8")

    before = {path: path.read_bytes() for path in Path("sweep").glob("*/model.safetensors")}
    assert len(before) == 4
    again = say("sweep", recipe, *words, "--seeds", "3")
    assert again.code == 0, again.err
    assert "(6 of 6) " in again.err
    assert {path: path.read_bytes() for path in before} == before, "finished runs stay"
    assert [group["seeds"] for group in json.loads(Path("sweep/comparison.json").read_text())["seed_groups"]] == [
        [3, 4, 5],
        [3, 4, 5],
    ]


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_are_compared(say: Say, recipe: Path, here: Path) -> None:
    rates = ("--over", "training.schedule.rate=1e-2,1e30", "--training.precision", "fp32")
    said = say("sweep", recipe, *rates, "--training.steps", "6", "--device", "cpu", "--samples", "50", "-o", "sweep")
    assert said.code == 1
    assert "rate=1e30,seed=3: failed with exit code 2; see sweep/rate=1e30,seed=3.log" in said.err.replace(
        "schedule.rate", "rate"
    )
    assert len(json.loads(Path("sweep/comparison.json").read_text())["runs"]) == 1


@pytest.mark.slow
def test_minutes_are_for_the_whole_sweep(say: Say, recipe: Path, here: Path) -> None:
    said = say("sweep", recipe, *HEADS, "--minutes", "0.2", "--jobs", "1", "--device", "cpu", "--samples", "50")
    assert said.code == 0, said.err
    assert "2 runs, 1 at a time, 0.1 minutes each" in said.err
    runs = json.loads(next(Path(recipe.parent).glob("*-sweep/comparison.json")).read_text())["runs"]
    assert all(0.05 < run["minutes"] < 0.3 for run in runs)
