"""Train on bAbI with several seeds and report the run with the lowest error on its training questions.

python benchmarks/stories.py recipes/babi-task.toml --output runs/babi --tasks 2 11 15 --restarts 3 --model.hops 2

Memory networks can end in local minima, and the paper keeps the best of ten runs (Sukhbaatar et al. 2015, 4.2). A
model learns one task, or all tasks with --together. Finished runs are not trained again, so an interrupted benchmark
can be resumed.
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
from heedful.tasks.stories.recipe import StoriesRecipe
from heedful.tasks.stories.task import MAX_ERROR, StoriesReport, build_story_evaluator


@dataclass(frozen=True)
class Restart:
    """A trained run: its error on its training questions, and the results of each task on other questions."""

    seed: int
    learned: float
    tasks: dict[str, dict[str, Any]]


def run_restart(recipe: Path, folder: Path, seed: int, tasks: Sequence[int], overrides: Sequence[str]) -> Restart:
    """Train and evaluate a run, unless its results exist; return the results."""
    parts = [word for part in ("train", "validation", "test") for word in (f"--data.{part}.tasks", str(list(tasks)))]
    loaded = heedful.load_recipe(recipe, [*parts, *overrides, "--seed", str(seed), "--output", str(folder)])
    assert isinstance(loaded, StoriesRecipe)
    result = folder / "restart.json"
    if not result.exists():
        heedful.train(loaded)
        reader, questions = heedful.load(folder), list(loaded.data.reader("train"))
        answers = reader.answer([(each.facts, each.question) for each in questions])
        learned = 1 - accuracy([each.answer for each in answers], [each.answer for each in questions]).value
        exam = build_story_evaluator(list(loaded.data.reader(loaded.data.evaluation_part)), train=questions)
        report = StoriesReport(
            exam, EvaluatedSystem(folder.name), exam.predict(reader, loaded), BootstrapOptions(2, seed=1)
        )
        write_json(result, asdict(Restart(seed, learned, report.to_json()["tasks"])))
    return Restart(**json.loads(result.read_text(encoding="utf-8")))


def main() -> None:
    """Print a line for each task, and their mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--output", type=Path, required=True, help="folder for all runs")
    parser.add_argument("--tasks", type=int, nargs="+", default=list(range(1, 21)))
    parser.add_argument("--together", action="store_true", help="one model of all tasks")
    parser.add_argument("--restarts", type=int, default=10)
    options, overrides = parser.parse_known_args()
    rows: dict[str, dict[str, Any]] = {}
    for tasks in [options.tasks] if options.together else [[task] for task in options.tasks]:
        name = "joint" if options.together else f"task-{tasks[0]}"
        runs = [
            run_restart(options.recipe, options.output / f"{name}-{seed}", seed, tasks, overrides)
            for seed in range(1, options.restarts + 1)
        ]
        best = min(runs, key=lambda run: run.learned)
        for task, result in best.tasks.items():
            rows[task] = result
            print(
                f"task {task:>2}  error {result['error']:6.1%}  facts {result['facts']:6.1%}  seed {best.seed}",
                flush=True,
            )
    errors = [result["error"] for result in rows.values()]
    failed = sum(error > MAX_ERROR for error in errors)
    print(f"mean error {sum(errors) / len(errors):.2%}, {failed} of {len(errors)} tasks failed")
    write_json(options.output / "best.json", rows)


if __name__ == "__main__":
    main()
