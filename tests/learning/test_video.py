"""The four models of Yao et al. 2015 on clips whose events have an order and a direction."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import heedful
from heedful.recipes.load import load_recipe
from heedful.runs.load import open_run
from heedful.tasks.evaluation import DEFAULT_OPTIONS
from heedful.tasks.task import get_task

SIZE = 12
COLOURS = {"red": (230, 40, 40), "green": (40, 210, 40), "blue": (60, 60, 240)}
DEEDS = {"left": -1, "right": 1}
RECIPE = """\
task = "video"
seed = 1
[data]
train = { path = "train.jsonl" }
validation = { path = "validation.jsonl" }
frames = 14
frame_size = 12
max_length = 8
[model]
d_model = 48
frames = { widths = [8, 16] }
motion = { widths = [8, 16] }
decoder = { kind = "recurrent" }
[training]
steps = 600
batch_tokens = 200
label_smoothing = 0.0
schedule = { kind = "cosine", rate = 4e-3, warmup = 30 }
clip = 1.0
precision = "fp32"
evaluate_every = 600
[generation]
kind = "greedy"
max_ratio = 0
max_extra = 8
"""
ROWS = {
    "basic": ("--model.local", "false", "--model.times", "false", "--model.decoder.reading.kind", "context"),
    "local": ("--model.times", "false", "--model.decoder.reading.kind", "context"),
    "global": ("--model.local", "false"),
    "both": (),
}


def write(folder: Path, part: str, count: int, *, seed: int) -> None:
    """Draw two spots that cross the picture to the left or to the right, one after the other."""
    dice = np.random.default_rng(seed)
    things = [(one, other) for one, other in product(product(COLOURS, DEEDS), repeat=2) if one[0] != other[0]]
    lines = []
    for number in range(count):
        pair = things[dice.integers(len(things))]
        frames = np.full((int(dice.integers(10, 15)), SIZE, SIZE, 3), 20, np.uint8)
        first, gap, events = int(dice.integers(0, 2)), int(dice.integers(0, 2)), []
        for start, (colour, deed) in zip((first, first + 4 + gap), pair, strict=True):
            row, column = dice.integers(0, SIZE - 3), dice.integers(0, 3)
            for step in range(4):
                at = column + 2 * step if DEEDS[deed] > 0 else SIZE - 3 - column - 2 * step
                frames[start + step, row : row + 3, at : at + 3] = COLOURS[colour]
            events.append({"phrase": f"{colour} {deed}", "start": start, "stop": start + 4})
        np.savez(folder / f"{part}{number}.npz", frames=frames)
        caption = " then ".join(str(event["phrase"]) for event in events)
        lines.append(json.dumps({"clip": f"{part}{number}.npz", "captions": [caption], "events": events}) + "\n")
    (folder / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")


@pytest.mark.slow
def test_attention_and_motion_describe_the_order_and_the_direction(tmp_path: Path) -> None:
    """The mean of frames has no order, and single frames hardly show a direction.

    Seeds 1, 2 and 3 gave 100 % with both, and attention masses of 87.6, 98.0 and 96.5. Seed 1 gave 8.5 % with neither,
    61.5 % with attention alone, and 100 % with motion alone, which sees across the border of successive events
    (docs/numbers.md).
    """
    write(tmp_path, "train", 1500, seed=1)
    write(tmp_path, "validation", 200, seed=2)
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    exact, mass = {}, {}
    for row, words in ROWS.items():
        recipe = load_recipe(tmp_path / "recipe.toml", [*words, "--output", str(tmp_path / row)])
        heedful.train(recipe, device="cpu", say=lambda _: None)
        exam = get_task(recipe).build_evaluator(recipe, DEFAULT_OPTIONS)
        found = exam.compute_metrics(
            exam.predict(heedful.load(tmp_path / row, device="cpu"), open_run(tmp_path / row).recipe)
        )
        exact[row] = found["exact match"].value
        mass[row] = found["attention mass"].value if "attention mass" in found else None
    assert exact["basic"] < exact["global"] < exact["both"], exact
    assert exact["basic"] < exact["local"], exact
    assert exact["both"] >= 95, exact
    assert mass["both"] >= 75, mass
