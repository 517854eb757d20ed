"""`heedful quickstart stories`: a memory network learns where people and things are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, final

from heedful.errors import RecipeError
from heedful.recipes.toml import value
from heedful.tasks.demonstration import Demonstration, command, say, write_files
from heedful.tasks.stories.made import Made, stories

if TYPE_CHECKING:
    from heedful.tasks.stories.face import StoryReader

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
    """Train a memory network on made-up stories, and see which of their facts it looks at.

    Everything needed is on this machine: people go to rooms, take things and give them to each other.
    """

    output: Path = Path("runs/quickstart-stories")
    """folder for the stories, the recipe and the run"""
    steps: int = 5000
    """updates; about a minute on one core"""
    size: int = 6000
    """training questions"""

    @cached_property
    def parts(self) -> dict[str, list[Made]]:
        """Questions to learn from, to validate and to test on, about stories of their own."""
        if self.size < 1 or self.steps < 1:
            raise RecipeError(f"--size {self.size} --steps {self.steps}: both must be at least 1")
        made = list(stories(seed=self.seed, size=self.size + 2 * _HELD_OUT))
        return {
            "test": made[:_HELD_OUT],
            "validation": made[_HELD_OUT : 2 * _HELD_OUT],
            "train": made[2 * _HELD_OUT :],
        }

    def write(self) -> Path:
        """JSON lines, and the recipe beside them."""
        recipe = self.output / "recipe.toml"
        texts = {
            f"{name}.jsonl": "".join(f"{json.dumps(each.record())}\n" for each in part)
            for name, part in self.parts.items()
        }
        texts["story.txt"] = "".join(f"{fact}\n" for fact in _shown(self.parts["test"])[0].facts)
        content = _RECIPE.format(
            recipe=quote(str(recipe)),
            run=value(str(self.output / "run")),
            seed=self.seed,
            steps=self.steps,
            more=2 * self.steps,
        )
        write_files(self.output, {**texts, recipe.name: content})
        first = self.parts["train"][0]
        say(f"{len(self.parts['train']):,} questions such as")
        say("".join(f"  {fact}\n" for fact in first.facts) + f"  {first.question} {first.answer}\n")
        return recipe

    def show(self, face: StoryReader, run: Path) -> None:
        """Scores, some answers with what was looked at, and a page."""
        from heedful.inspection.page import write_page
        from heedful.inspection.web import viewer_html

        test = self.parts["test"]
        answers = face.answer([(each.facts, each.question) for each in test])
        say(f"\n{len(test)} questions about stories that were never in the training text:")
        for task in dict.fromkeys(each.task for each in test):
            mine = [(each, said) for each, said in zip(test, answers, strict=True) if each.task == task]
            right = sum(each.answer == said.answer for each, said in mine) / len(mine)
            facts = sum(set(each.supporting) <= set(said.looked) for each, said in mine) / len(mine)
            say(f"  {task:<18} {right:6.1%} right, looked at all facts that answer it {facts:6.1%}")
        for each in _shown(test)[:2]:
            said = face.ask(each.facts, each.question)
            say("\n" + "".join(f"  {number:2} {fact}\n" for number, fact in enumerate(each.facts, 1)), end="")
            verdict = "" if said.answer == each.answer else f"   (should be: {each.answer})"
            looked = ", then ".join(str(place + 1) for place in said.looked)
            say(f"  {each.question} {said.answer} ({said.probability:.2f}); looked at {looked}{verdict}")
        shown, page = _shown(test)[0], run.parent / "looked.html"
        write_page(viewer_html(face.inspect(shown.facts, shown.question, supporting=shown.supporting)), page)
        say(f"\nwhat it looked at: {page}  (open it in a browser)\n\nwhere to go next")
        command("ask", run, run.parent / "story.txt", shown.question)
        command("evaluate", run)
        say("  heedful recipes    has those of bAbI's twenty tasks")


def _shown(questions: Sequence[Made]) -> list[Made]:
    """Those that two facts answer."""
    return [each for each in questions if len(each.supporting) > 1]
