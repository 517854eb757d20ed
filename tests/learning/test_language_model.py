"""A GPT learns to write new sequences in reverse order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import heedful

_RECIPE = """\
task = "language_modelling"

[data]
train = { path = "train.txt", kind = "lines" }
validation = { path = "test.txt", kind = "lines" }
length = 32

[tokenizer]
kind = "characters"

[model]
kind = "transformer"
d_model = 64
heads = 4
layers = 2
dropout = 0.0
initialisation = "xavier"
positions = { kind = "rotary" }

[training]
steps = 400
batch_tokens = 1024
schedule = { kind = "cosine", rate = 4e-3, warmup = 30 }
optimizer = { beta2 = 0.99 }
clip = 1.0
precision = "fp32"
evaluate_every = 400

[generation]
kind = "greedy"
"""


def sample_sequences(count: int, *, unlike: set[str], seed: int) -> list[str]:
    dice = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        letters = "".join(dice.choices("ABCDEF", k=5))
        if letters not in unlike:
            unlike.add(letters)
            found.append(letters)
    return found


@pytest.mark.slow
def test_a_gpt_learns_to_reverse_new_sequences(tmp_path: Path) -> None:
    """Held-out sequences must be correct as a whole; without attention to the past, one in 7,776 would be."""
    seen: set[str] = set()
    test, train = (sample_sequences(count, unlike=seen, seed=seed) for count, seed in ((200, 1), (4000, 2)))
    for name, content in (("test", test), ("train", train)):
        lines = (f"{letters}={letters[::-1].lower()}\n" for letters in content)
        (tmp_path / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    recipe = tmp_path / "reverse.toml"
    recipe.write_text(_RECIPE, encoding="utf-8")
    outcome = heedful.train(heedful.load_recipe(recipe, ["--output", str(tmp_path / "run"), "--training.threads", "1"]))
    writer = heedful.load(outcome.folder, device="cpu")
    written = writer.write([f"{letters}=" for letters in test], limit=5)
    right = sum(one.text == letters[::-1].lower() for (one, *_), letters in zip(written, test, strict=True))
    assert right >= 0.9 * len(test), f"{right} of {len(test)}"
