"""bAbI: runs that differ in their seed, of which the one with the lowest error on its training questions counts.

python benchmarks/stories.py recipes/babi-task.toml --output runs/babi --tasks 2 11 15 --restarts 3 --model.hops 2

Memory networks end in local minima, and the paper keeps the best of ten (Sukhbaatar et al. 2015, 4.2). Each of the
tasks is learned alone; with --together all at once. What is finished is not trained again, so that an interrupted
benchmark goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import heedful
from heedful.atomic_io import write_json
from heedful.metrics.classification import accuracy
from heedful.metrics.metric import BootstrapOptions
from heedful.tasks.report import EvaluatedSystem
from heedful.tasks.stories.evaluation import MAX_ERROR, StoriesReport, build_story_evaluator
from heedful.tasks.stories.recipe import StoriesRecipe


@dataclass(frozen=True)
class Restart:
    """A trained run: its error on the questions that it learned from, and each task's results on others."""

    seed: int
    learned: float
    tasks: dict[str, dict[str, Any]]


def restart(recipe: Path, folder: Path, seed: int, tasks: Sequence[int], overrides: Sequence[str]) -> Restart:
    """Trains and measures one run, or takes up what was measured."""
    parts = [word for part in ("train", "validation", "test") for word in (f"--data.{part}.tasks", str(list(tasks)))]
    wanted = heedful.load_recipe(recipe, [*parts, *overrides, "--seed", str(seed), "--output", str(folder)])
    assert isinstance(wanted, StoriesRecipe)
    result = folder / "restart.json"
    if not result.exists():
        heedful.train(wanted)
        reader, asked = heedful.load(folder), list(wanted.data.reader("train"))
        said = reader.answer([(each.facts, each.question) for each in asked])
        learned = 1 - accuracy([each.answer for each in said], [each.answer for each in asked]).value
        exam = build_story_evaluator(list(wanted.data.reader(wanted.data.evaluation_part)), train=asked)
        report = StoriesReport(
            exam, EvaluatedSystem(folder.name), exam.predict(reader, wanted), BootstrapOptions(2, seed=1)
        )
        write_json(result, asdict(Restart(seed, learned, report.to_json()["tasks"])))
    return Restart(**json.loads(result.read_text(encoding="utf-8")))


def main() -> None:
    """Prints a line for each task, and their mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--output", type=Path, required=True, help="folder for all runs")
    parser.add_argument("--tasks", type=int, nargs="+", default=list(range(1, 21)))
    parser.add_argument("--together", action="store_true", help="one model of all tasks")
    parser.add_argument("--restarts", type=int, default=10)
    given, overrides = parser.parse_known_args()
    rows: dict[str, dict[str, Any]] = {}
    for tasks in [given.tasks] if given.together else [[task] for task in given.tasks]:
        name = "joint" if given.together else f"task-{tasks[0]}"
        runs = [
            restart(given.recipe, given.output / f"{name}-{seed}", seed, tasks, overrides)
            for seed in range(1, given.restarts + 1)
        ]
        best = min(runs, key=lambda run: run.learned)
        for task, told in best.tasks.items():
            rows[task] = told
            print(
                f"task {task:>2}  error {told['error']:6.1%}  facts {told['facts']:6.1%}  seed {best.seed}", flush=True
            )
    errors = [told["error"] for told in rows.values()]
    failed = sum(error > MAX_ERROR for error in errors)
    print(f"mean error {sum(errors) / len(errors):.2%}, {failed} of {len(errors)} tasks failed")
    write_json(given.output / "best.json", rows)


if __name__ == "__main__":
    main()
