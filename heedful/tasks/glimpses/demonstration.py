"""`heedful quickstart glimpses`: a small network learns to look for digits in mazes of strokes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

import numpy as np

from heedful.errors import RecipeError
from heedful.recipes.toml import value
from heedful.tasks.demonstration import Demonstration, command, say, write_files
from heedful.tasks.glimpses.digits import SIDE, Digit, digits, idx

if TYPE_CHECKING:
    from heedful.tasks.glimpses.face import Looker

_HELD_OUT: Final = 500
_SHOWN: Final = 6
_MAZE: Final = {"side": 32, "pieces": 3, "piece": 5}
_RECIPE = """\
# Written by: heedful quickstart glimpses. Go on with it: heedful train {recipe} --training.steps 20000

task = "glimpses"
seed = {seed}
output = {run}

[data]
train = {{ path = "digits/train.idx", labels = "digits/train-labels.idx" }}
validation = {{ path = "digits/validation.idx", labels = "digits/validation-labels.idx" }}
test = {{ path = "digits/test.idx", labels = "digits/test-labels.idx" }}
height = {side}
width = {side}
scene = {{ kind = "cluttered", {maze} }}

[model]
glimpses = 5
patch = 6
scales = 3
d_model = 192
d_glimpse = 64
spread = 0.12

[training]
steps = {steps}
batch_tokens = 100
schedule = {{ kind = "cosine", rate = 2e-3, warmup = 100 }}
evaluate_every = 500
threads = 1

[looking]
copies = 4
"""


@final
@dataclass(frozen=True, kw_only=True)
class GlimpsesDemonstration(Demonstration):
    """Train a small network to find digits among pieces of others and to tell which they are, glimpse by glimpse.

    Everything needed is on this machine: the digits are drawn by rule.
    """

    output: Path = Path("runs/quickstart-glimpses")
    """folder for the digits, the recipe and the run"""
    steps: int = 6000
    """updates; about two minutes"""
    size: int = 5000
    """digits to learn from; each is in another maze whenever it is seen"""

    @cached_property
    def parts(self) -> Mapping[str, list[Digit]]:
        """Digits of which no two look the same."""
        if self.size < 1:
            raise RecipeError(f"--size: {self.size}; learn from at least 1 digit")
        found = list(digits(self.size + 2 * _HELD_OUT, seed=self.seed))
        return {
            "validation": found[:_HELD_OUT],
            "test": found[_HELD_OUT : 2 * _HELD_OUT],
            "train": found[2 * _HELD_OUT :],
        }

    def write(self) -> Path:
        """The digits as IDX files and the recipe beside them, as a user would have them."""
        recipe = self.output / "recipe.toml"
        content = _RECIPE.format(
            recipe=quote(str(recipe)),
            run=value(str(self.output / "run")),
            seed=self.seed,
            steps=self.steps,
            side=SIDE,
            maze=", ".join(f"{key} = {number}" for key, number in _MAZE.items()),
        )
        files: dict[str, str | bytes] = {recipe.name: content}
        for name, part in self.parts.items():
            files[f"digits/{name}.idx"] = idx(np.concatenate([each.pixels for each in part]))
            files[f"digits/{name}-labels.idx"] = idx(np.array([each.label for each in part], dtype=np.uint8))
        write_files(self.output, files)
        say(f"{self.size:,} digits, each somewhere in a picture of 32 x 32 among pieces of others")
        return recipe

    def show(self, face: Looker, run: Path) -> None:
        """What it tells after each glimpse, a few pictures as files, and the path over one of them."""
        from heedful.data.pictures import png
        from heedful.inspection.page import write_page
        from heedful.inspection.web import viewer_html
        from heedful.tasks.glimpses.looking import scenes
        from heedful.tasks.glimpses.scenes import Canvas

        test = self.parts["test"]
        plain = [each.pixels for each in test]
        mazes = scenes(Canvas(**_MAZE), plain, others=plain, numbers=range(len(plain)))
        sights = face.look_at(list(mazes))
        right = [[name == str(each.label) for name in sight.after] for sight, each in zip(sights, test, strict=True)]
        shares = "  ".join(f"{share:.1%}" for share in np.mean(right, 0))
        say(f"\n{len(test)} mazes of digits that it never learned from; right after each glimpse:\n  {shares}\n")
        files = {
            f"mazes/{number}.png": png(np.repeat(maze.transpose(1, 2, 0), 3, axis=2))
            for number, maze in enumerate(mazes[:_SHOWN])
        }
        write_files(self.output, files)
        for name, sight, each in zip(files, sights, test, strict=False):
            verdict = "" if sight.label == str(each.label) else f"   (should be: {each.label})"
            say(f"  {self.output / name}: {' '.join(sight.after)}{verdict}")
        page = self.output / "glimpses.html"
        write_page(viewer_html(face.inspect(mazes[0], title="mazes/0.png")), page)
        say(f"\nwhere it looked: {page}  (open it in a browser)\n\nwhere to go next")
        command("look", run, self.output / "mazes/1.png", "--page", "path.html")
        command("evaluate", run)
        command("train", self.output / "recipe.toml", "--output", "runs/blind", "--model.policy", "random")
        say("                          what it would reach without choosing where to look")
