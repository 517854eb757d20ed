"""Sampled attention learns where to look by REINFORCE."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import heedful

_LETTERS = "ABCDEFGHIJ"
_RECIPE = """\
seed = 1

[data]
train = { path = "train.tsv" }
validation = { path = "test.tsv" }
max_length = 10

[tokenizer]
kind = "words"

[model]
kind = "recurrent"
d_model = 32
dropout = 0.0
reading = { kind = "bahdanau", weights = "sampled" }

[training]
steps = 400
batch_tokens = 350
label_smoothing = 0.0
schedule = { kind = "inverse_sqrt", rate = 1e-2, warmup = 50 }
clip = 1.0
precision = "fp32"
evaluate_every = 400
reinforce = { entropy = 0.01 }

[generation]
kind = "greedy"
"""


def sample_pairs(count: int, *, unlike: set[str], seed: int) -> list[tuple[str, str]]:
    dice = random.Random(seed)
    found: list[tuple[str, str]] = []
    while len(found) < count:
        source = " ".join(dice.choice(_LETTERS) for _ in range(dice.randint(7, 9)))
        if source not in unlike:
            unlike.add(source)
            found.append((source, source.lower()))
    return found


def measure_accuracy(folder: Path, *overrides: str) -> float:
    """Return the share of correct letters in the translations of new sequences."""
    folder.mkdir()
    seen: set[str] = set()
    test = sample_pairs(200, unlike=seen, seed=1)
    for name, content in (("test", test), ("train", sample_pairs(4000, unlike=seen, seed=2))):
        (folder / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in content))
    recipe = folder / "copy.toml"
    recipe.write_text(f'output = "{folder / "run"}"\n\n{_RECIPE}')
    trained = heedful.train(heedful.load_recipe(recipe, overrides), device="cpu").folder
    found = heedful.load(trained, device="cpu").translate([source for source, _ in test])
    good = total = 0
    for translation, (_, target) in zip(found, test, strict=True):
        letters = target.split()
        good += sum(one == other for one, other in zip(translation.text.split(), letters, strict=False))
        total += len(letters)
    return good / total


@pytest.mark.slow
def test_hard_attention_learns_to_copy_more_than_one_vector_can_hold(tmp_path: Path) -> None:
    """The baseline is a model that samples without learning from it; it has only the encoder's last state and luck."""
    learned = measure_accuracy(tmp_path / "learned")
    ignorant = measure_accuracy(
        tmp_path / "ignorant", "--training.reinforce.reward", "0", "--training.reinforce.entropy", "0"
    )
    assert learned > 0.68
    assert learned > ignorant + 0.12
