"""Processes of a sweep: how many at a time, what is stopped, what failed, and that none is left behind."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from heedful.errors import RecipeError
from heedful.recipes.sweep_axes import PlannedRun, SweepAxis, build_grid, parse_sweep_axis
from heedful.runs.sweep import GridScheduler, ProcessPool, RunScheduler, share_minutes

STAND_IN = """
import json, os, signal, sys, time
from pathlib import Path

options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
folder = Path(options["output"])
folder.mkdir(exist_ok=True)
signal.signal(signal.SIGTERM, lambda *_: (folder.joinpath("saved").touch(), sys.exit(143)))
if (folder / "end").exists():
    sys.exit(0)
level = float(options["model.level"])
(folder / "words").write_text(json.dumps([sys.argv[1:], os.environ.get("OMP_NUM_THREADS"), time.time()]))
for step in (1, 2, 3):
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "validation", "step": step, "loss": level / step}) + "\\n")
    time.sleep(float(options.get("model.pause", "0.05")))
(folder / "end").write_text(str(time.time()))
sys.exit(int(options.get("model.code", "0")))
"""
"""Takes the place of `heedful train`: it writes three validation results."""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessPool:
    monkeypatch.setattr("heedful.runs.sweep._POLL_SECONDS", 0.02)
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    folder = tmp_path / "sweep"
    folder.mkdir()
    return ProcessPool(
        folder=folder,
        jobs=2,
        monitor="loss",
        command=(sys.executable, str(script)),
    )


def grid(*values: str, seeds: Sequence[int] = (1,)) -> list[PlannedRun]:
    axes = [parse_sweep_axis(each) for each in values]
    return build_grid(Path("recipe.toml"), axes, seeds=seeds, options=["--training.steps=3"])


def test_all_runs_are_trained_two_at_a_time(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("heedful.runs.sweep.count_cores", lambda: 6)
    runs = grid("model.level=6,3,9", "model.pause=0.4")
    results = list(pool.train(GridScheduler(runs)))
    assert sorted(result.run.name for result in results) == sorted(run.name for run in runs)
    assert {result.run.settings["model.level"]: result.best for result in results} == {"6": 2, "3": 1, "9": 3}
    assert all((result.exit_code, result.stopped) == (0, False) for result in results)
    begins, ends = [], []
    for run in runs:
        words, threads, begin = json.loads((pool.folder / run.name / "words").read_text())
        assert words == [
            "train",
            "recipe.toml",
            "--training.steps=3",
            *run.overrides,
            f"--output={pool.folder / run.name}",
        ]
        assert threads == "3", "six cores for two processes"
        begins.append(begin)
        ends.append(float((pool.folder / run.name / "end").read_text()))
    assert begins[1] < ends[0], "two at a time"
    assert max(begins) > min(ends), "but not three"


def test_a_run_that_fails_does_not_end_the_sweep(pool: ProcessPool) -> None:
    results = {
        r.run.settings["model.code"]: r for r in pool.train(GridScheduler(grid("model.level=3", "model.code=2,0")))
    }
    assert (results["2"].exit_code, results["0"].exit_code) == (2, 0)


class LevelSource(RunScheduler):
    """Stops the runs whose second result is above 2."""

    def __init__(self, runs: Sequence[PlannedRun]) -> None:
        self.waiting = list(runs)
        self.ended: dict[str, tuple[list[float], bool, bool]] = {}

    def next_run(self) -> PlannedRun | None:
        return self.waiting.pop(0) if self.waiting else None

    def should_stop(self, run: PlannedRun, values: Sequence[float]) -> bool:
        return len(values) > 1 and values[1] > 2

    def record_result(self, run: PlannedRun, values: Sequence[float], *, stopped: bool, failed: bool) -> None:
        self.ended[run.settings["model.level"]] = (list(values), stopped, failed)


def test_a_source_stops_runs_early(pool: ProcessPool) -> None:
    source = LevelSource(grid("model.level=1,8", "model.pause=0.4"))
    results = {result.run.settings["model.level"]: result for result in pool.train(source)}
    assert source.ended == {"1": ([1, 0.5, 1 / 3], False, False), "8": ([8, 4], True, False)}
    assert (results["8"].stopped, results["8"].exit_code) == (True, 0)
    assert (results["8"].folder / "saved").exists(), "it was told to save"


def test_no_process_is_left_when_the_caller_stops(pool: ProcessPool) -> None:
    ended = pool.train(GridScheduler(grid("model.level=1,8", "model.pause=30,0")))
    next(ended)
    waiting = pool.folder / "level=1,pause=30,seed=1"
    deadline = time.monotonic() + 20
    while not (waiting / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    ended.close()
    assert (waiting / "saved").exists()
    assert not (waiting / "end").exists()


@pytest.mark.parametrize(("visible", "expected"), [(None, {"0", "1"}), ("2,GPU-5", {"2", "GPU-5"})])
def test_gpus_are_shared_and_threads_are_then_free(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: set[str]
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    script = Path(pool.command[1])
    script.write_text(script.read_text().replace("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"))
    with_gpus = ProcessPool(**{**pool.__dict__, "gpus": 2})
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    list(with_gpus.train(GridScheduler(grid("model.level=1,2,3,4"))))
    seen = {json.loads(path.read_text())[1] for path in pool.folder.glob("*/words")}
    assert seen == expected


@pytest.mark.parametrize(("runs", "jobs", "minutes"), [(12, 2, 5), (5, 2, 10), (1, 4, 30)])
def test_minutes_are_shared_by_rounds(runs: int, jobs: int, minutes: float) -> None:
    assert share_minutes(30, runs=runs, jobs=jobs) == pytest.approx(minutes)


def axes(*options: str) -> list[SweepAxis]:
    return [parse_sweep_axis(option) for option in options]


def test_halving_stops_the_worse_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the extra heedful[sweep] is not installed: pip install 'heedful[sweep]'")
    from heedful.runs.sweep_search import SearchScheduler

    def train_all(count: int) -> dict[int, tuple[float, int]]:
        """The level of each run that is trained or found finished, and after how many evaluations it ended."""
        source = SearchScheduler(
            Path("recipe.toml"),
            axes("model.level=1.0..90.0:log"),
            count=count,
            seeds=[1],
            folder=tmp_path,
            seed=3,
            higher_is_better=False,
            stops_early=True,
        )
        found = {}
        while (run := source.next_run()) is not None:
            level = float(run.settings["model.level"])
            seen = next((n for n in range(1, 4) if source.should_stop(run, [level / k for k in range(1, n + 1)])), 4)
            source.record_result(run, [level / k for k in range(1, min(seen, 3) + 1)], stopped=seen < 4, failed=False)
            found[run.number] = level, seen
        return found

    first = train_all(9)
    assert sorted(first) == list(range(9))
    stopped = {number for number, (_, seen) in first.items() if seen < 4}
    finished = first.keys() - stopped
    assert 3 <= len(stopped) <= 8, "about a third goes on at each of two rungs"
    assert min(first.values())[0] == min(first[number][0] for number in finished), "the best one is never stopped"
    assert statistics.mean(first[n][0] for n in stopped) > statistics.mean(first[n][0] for n in finished)
    again = train_all(11)
    assert again.keys() == {*finished, 9, 10}
    assert {number: again[number][0] for number in finished} == {number: first[number][0] for number in finished}
    assert len({level for level, _ in (*first.values(), again[9], again[10])}) == 11, "none is drawn twice"


def test_an_interrupted_search_goes_on_with_its_configurations(pool: ProcessPool) -> None:
    pytest.importorskip("optuna", reason="the extra heedful[sweep] is not installed: pip install 'heedful[sweep]'")
    from heedful.runs.sweep_search import SearchScheduler

    def source() -> SearchScheduler:
        return SearchScheduler(
            Path("recipe.toml"),
            axes("model.level=1..9"),
            count=2,
            seeds=[5, 6],
            folder=pool.folder,
            seed=1,
            higher_is_better=False,
            stops_early=False,
        )

    ended = pool.train(source())
    first = next(ended)
    ended.close()
    results = list(pool.train(source()))
    assert sorted((result.run.number, result.run.settings["seed"]) for result in results) == [
        (number, seed) for number in (0, 1) for seed in "56"
    ]
    levels = {(result.run.number, result.run.settings["model.level"]) for result in (first, *results)}
    assert len(levels) == 2, "an interruption draws nothing anew"


@pytest.mark.parametrize("option", ["model.level=1..8", "model.level=1,2", "model.pause=1..9"])
def test_a_search_continues_only_with_its_own_keys_and_values(tmp_path: Path, option: str) -> None:
    pytest.importorskip("optuna", reason="the extra heedful[sweep] is not installed: pip install 'heedful[sweep]'")
    from heedful.runs.sweep_search import SearchScheduler

    def source(option: str) -> SearchScheduler:
        return SearchScheduler(
            Path("recipe.toml"),
            axes(option),
            count=2,
            seeds=[1],
            folder=tmp_path,
            seed=1,
            higher_is_better=False,
            stops_early=False,
        )

    assert source("model.level=1..9").next_run() is not None
    with pytest.raises(
        RecipeError, match=r"--over: .* has a search over other keys or values; choose another --output"
    ):
        source(option)
    assert source("model.level=1..9").next_run() is not None


def test_the_environment_of_the_user_decides_about_threads(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    (result,) = pool.train(GridScheduler(grid("model.level=1")))
    assert json.loads((result.folder / "words").read_text())[1] == os.environ["OMP_NUM_THREADS"]
