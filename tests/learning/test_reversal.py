"""A Transformer learns to reverse sequences: each output depends on a different input position."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import heedful

_LETTERS = "ABCDEFGH"
_RECIPE = """\
[data]
train = { path = "train.tsv" }
validation = { path = "test.tsv" }
max_length = 10

[tokenizer]
kind = "words"

[model]
d_model = 32
heads = 4
d_ff = 64
layers = 2
dropout = 0.0
residual = "pre_norm"

[training]
steps = 320
batch_tokens = 350
label_smoothing = 0.0
schedule = { kind = "cosine", rate = 1e-2, warmup = 30 }
clip = 1.0
precision = "fp32"
evaluate_every = 320

[generation]
kind = "greedy"
"""


def sample_pairs(count: int, *, unlike: set[str], seed: int) -> list[tuple[str, str]]:
    dice = random.Random(seed)
    found: list[tuple[str, str]] = []
    while len(found) < count:
        letters = [dice.choice(_LETTERS) for _ in range(dice.randint(3, 6))]
        source, target = " ".join(letters), " ".join(reversed(letters)).lower()
        if source not in unlike:
            unlike.add(source)
            found.append((source, target))
    return found


@pytest.mark.slow
def test_a_transformer_learns_to_reverse_new_sequences(tmp_path: Path) -> None:
    """Held-out sequences must be correct as a whole. Without attention to the source, one in a thousand would be. A
    model that saw its own future in training would only have learned to copy it.
    """
    seen: set[str] = set()
    test = sample_pairs(200, unlike=seen, seed=1)
    for name, content in (("test", test), ("train", sample_pairs(4000, unlike=seen, seed=2))):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in content))
    recipe = tmp_path / "reverse.toml"
    recipe.write_text(f'output = "{tmp_path / "run"}"\n\n{_RECIPE}')
    model = heedful.load(heedful.train(heedful.load_recipe(recipe), device="cpu").folder, device="cpu")
    found = [each.text for each in model.translate([source for source, _ in test])]
    right = sum(text == target for text, (_, target) in zip(found, test, strict=True))
    assert right >= 0.85 * len(test)
    alignment = model.align("A B C D E", "e d c b a")
    last = list(alignment.weights.values())[-1]
    assert last.shape == (6, 6), "a row for each target token, a column for each source token, ends included"
