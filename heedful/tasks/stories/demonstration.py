"""`heedful quickstart stories`: train a memory network to answer where people and things are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, final

from heedful.errors import RecipeError
from heedful.recipes.toml import format_value
from heedful.tasks.demonstration import Demonstration, print_command, print_now, write_files
from heedful.tasks.stories.generator import GeneratedQuestion, generate_questions

if TYPE_CHECKING:
    from heedful.tasks.stories.predictor import StoryPredictor

_RECIPE = """\
# Written by: heedful quickstart stories. Go on with it: heedful train {recipe} --training.steps {more}

task = "stories"
seed = {seed}
output = {run}

[data]
train = {{ path = "train.jsonl" }}
validation = {{ path = "validation.jsonl" }}
test = {{ path = "test.jsonl" }}
memory = 20

[model]
d_model = 32
hops = 2

[training]
steps = {steps}
schedule = {{ kind = "cosine", rate = 5e-3, warmup = 0 }}
optimizer = {{ beta2 = 0.999, epsilon = 1e-8 }}
clip = 1.0
linear_start = 5
noise = 0.1
precision = "fp32"
evaluate_every = 1000
"""
_HELD_OUT = 500


@final
@dataclass(frozen=True, kw_only=True)
class StoriesDemonstration(Demonstration):
    """Train a memory network on generated stories, and show which facts it attends to.

    Nothing is downloaded: in the stories people go to rooms, take things and give them to each other.
    """

    output: Path = Path("runs/quickstart-stories")
    """folder for the stories, the recipe and the run"""
    steps: int = 5000
    """updates; about a minute on one core"""
    size: int = 6000
    """training questions"""

    @cached_property
    def parts(self) -> dict[str, list[GeneratedQuestion]]:
        """Generated questions of each part of the data; no two have the same story."""
        if self.size < 1 or self.steps < 1:
            raise RecipeError(f"--size {self.size} --steps {self.steps}: both must be at least 1")
        generated = list(generate_questions(seed=self.seed, size=self.size + 2 * _HELD_OUT))
        return {
            "test": generated[:_HELD_OUT],
            "validation": generated[_HELD_OUT : 2 * _HELD_OUT],
            "train": generated[2 * _HELD_OUT :],
        }

    def write_recipe(self) -> Path:
        """Write the questions as JSON lines, one story as text, and the recipe; return the recipe's path."""
        recipe = self.output / "recipe.toml"
        texts = {
            f"{name}.jsonl": "".join(f"{json.dumps(generated.to_json())}\n" for generated in part)
            for name, part in self.parts.items()
        }
        texts["story.txt"] = "".join(f"{fact}\n" for fact in _select_two_fact_questions(self.parts["test"])[0].facts)
        content = _RECIPE.format(
            recipe=quote(str(recipe)),
            run=format_value(str(self.output / "run")),
            seed=self.seed,
            steps=self.steps,
            more=2 * self.steps,
        )
        write_files(self.output, {**texts, recipe.name: content})
        example = self.parts["train"][0]
        print_now(f"{len(self.parts['train']):,} questions such as")
        print_now("".join(f"  {fact}\n" for fact in example.facts) + f"  {example.question} {example.answer}\n")
        return recipe

    def show_results(self, predictor: StoryPredictor, run_folder: Path) -> None:
        """Print scores and some answers with the attended facts, and write a page of one story."""
        from heedful.inspection.page import write_page
        from heedful.inspection.web import render_viewer

        test = self.parts["test"]
        answers = predictor.answer([(generated.facts, generated.question) for generated in test])
        print_now(f"\n{len(test)} questions about stories that were never in the training text:")
        for task in dict.fromkeys(generated.task for generated in test):
            of_task = [
                (generated, prediction)
                for generated, prediction in zip(test, answers, strict=True)
                if generated.task == task
            ]
            accuracy = sum(generated.answer == prediction.answer for generated, prediction in of_task) / len(of_task)
            facts = sum(set(generated.supporting) <= set(prediction.looked) for generated, prediction in of_task) / len(
                of_task
            )
            print_now(f"  {task:<18} {accuracy:6.1%} right, looked at all facts that answer it {facts:6.1%}")
        for generated in _select_two_fact_questions(test)[:2]:
            prediction = predictor.ask(generated.facts, generated.question)
            print_now(
                "\n" + "".join(f"  {number:2} {fact}\n" for number, fact in enumerate(generated.facts, 1)), end=""
            )
            verdict = "" if prediction.answer == generated.answer else f"   (should be: {generated.answer})"
            looked = ", then ".join(str(index + 1) for index in prediction.looked)
            print_now(
                f"  {generated.question} {prediction.answer} ({prediction.probability:.2f}); looked at "
                f"{looked}{verdict}"
            )
        shown, page = _select_two_fact_questions(test)[0], run_folder.parent / "looked.html"
        write_page(render_viewer(predictor.inspect(shown.facts, shown.question, supporting=shown.supporting)), page)
        print_now(f"\nwhat it looked at: {page}  (open it in a browser)\n\nwhere to go next")
        print_command("ask", run_folder, run_folder.parent / "story.txt", shown.question)
        print_command("evaluate", run_folder)
        print_now("  heedful recipes    has those of bAbI's twenty tasks")


def _select_two_fact_questions(questions: Sequence[GeneratedQuestion]) -> list[GeneratedQuestion]:
    """Return the questions that need two facts."""
    return [generated for generated in questions if len(generated.supporting) > 1]
