"""`heedful quickstart glimpses`: train a small network to look for digits among clutter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

import numpy as np

from heedful.errors import RecipeError
from heedful.recipes.toml import format_value
from heedful.tasks.demonstration import Demonstration, print_command, print_now, write_files
from heedful.tasks.glimpses.digits import SIDE, DrawnDigit, encode_idx, generate_digits

if TYPE_CHECKING:
    from heedful.tasks.glimpses.predictor import GlimpsePredictor

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
    """Train a small network to find digits among clutter and to classify them, glimpse by glimpse.

    Nothing is downloaded: the digits are drawn by rules.
    """

    output: Path = Path("runs/quickstart-glimpses")
    """folder for the digits, the recipe and the run"""
    steps: int = 6000
    """updates; about two minutes"""
    size: int = 5000
    """digits to learn from; each is in a new maze every time it is seen"""

    @cached_property
    def parts(self) -> Mapping[str, list[DrawnDigit]]:
        """Generated digits of each part of the data, no two of them alike."""
        if self.size < 1:
            raise RecipeError(f"--size: {self.size}; must be at least 1")
        drawn_digits = list(generate_digits(self.size + 2 * _HELD_OUT, seed=self.seed))
        return {
            "validation": drawn_digits[:_HELD_OUT],
            "test": drawn_digits[_HELD_OUT : 2 * _HELD_OUT],
            "train": drawn_digits[2 * _HELD_OUT :],
        }

    def write_recipe(self) -> Path:
        """Write the digits as IDX files and the recipe; return the recipe's path."""
        recipe = self.output / "recipe.toml"
        content = _RECIPE.format(
            recipe=quote(str(recipe)),
            run=format_value(str(self.output / "run")),
            seed=self.seed,
            steps=self.steps,
            side=SIDE,
            maze=", ".join(f"{key} = {number}" for key, number in _MAZE.items()),
        )
        files: dict[str, str | bytes] = {recipe.name: content}
        for name, part in self.parts.items():
            files[f"digits/{name}.idx"] = encode_idx(np.concatenate([digit.pixels for digit in part]))
            files[f"digits/{name}-labels.idx"] = encode_idx(np.array([digit.label for digit in part], dtype=np.uint8))
        write_files(self.output, files)
        print_now(f"{self.size:,} digits, each somewhere in a picture of 32 x 32 among pieces of others")
        return recipe

    def show_results(self, predictor: GlimpsePredictor, run_folder: Path) -> None:
        """Print the accuracy after each glimpse, and write some pictures and a page with the glimpse path of one."""
        from heedful.data.pictures import encode_png
        from heedful.inspection.page import write_page
        from heedful.inspection.web import render_viewer
        from heedful.tasks.glimpses.glimpse_inputs import render_scenes
        from heedful.tasks.glimpses.scenes import CanvasRenderer

        test = self.parts["test"]
        pictures = [digit.pixels for digit in test]
        mazes = render_scenes(CanvasRenderer(**_MAZE), pictures, others=pictures, numbers=range(len(pictures)))
        predictions = predictor.look_at(list(mazes))
        right = [
            [name == str(digit.label) for name in prediction.labels_after]
            for prediction, digit in zip(predictions, test, strict=True)
        ]
        shares = "  ".join(f"{share:.1%}" for share in np.mean(right, 0))
        print_now(
            f"\n{len(test)} mazes of digits that were never in the training part; right after each glimpse:\n  "
            f"{shares}\n"
        )
        files = {
            f"mazes/{number}.png": encode_png(np.repeat(maze.transpose(1, 2, 0), 3, axis=2))
            for number, maze in enumerate(mazes[:_SHOWN])
        }
        write_files(self.output, files)
        for name, prediction, digit in zip(files, predictions, test, strict=False):
            verdict = "" if prediction.label == str(digit.label) else f"   (should be: {digit.label})"
            print_now(f"  {self.output / name}: {' '.join(prediction.labels_after)}{verdict}")
        page = self.output / "glimpses.html"
        write_page(render_viewer(predictor.inspect(mazes[0], title="mazes/0.png")), page)
        print_now(f"\nwhere it looked: {page}  (open it in a browser)\n\nwhere to go next")
        print_command("look", run_folder, self.output / "mazes/1.png", "--page", "path.html")
        print_command("evaluate", run_folder)
        print_command("train", self.output / "recipe.toml", "--output", "runs/blind", "--model.policy", "random")
        print_now("                          what it would reach without choosing where to look")
