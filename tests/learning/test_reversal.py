"""A Transformer learns to turn sequences around: every output depends on another place of the input."""

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


def pairs(count: int, *, unlike: set[str], seed: int) -> list[tuple[str, str]]:
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
def test_a_transformer_learns_to_reverse_what_it_has_never_seen(tmp_path: Path) -> None:
    """Held-out sequences, whole ones right or wrong: without looking at the source a model gets one in a thousand, and
    one that saw its own future in training has learned to copy it and writes nonsense when there is none.
    """
    seen: set[str] = set()
    test = pairs(200, unlike=seen, seed=1)
    for name, content in (("test", test), ("train", pairs(4000, unlike=seen, seed=2))):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in content))
    recipe = tmp_path / "reverse.toml"
    recipe.write_text(f'output = "{tmp_path / "run"}"\n\n{_RECIPE}')
    model = heedful.load(heedful.train(heedful.load_recipe(recipe), device="cpu").folder, device="cpu")
    found = [each.text for each in model.translate([source for source, _ in test])]
    right = sum(text == target for text, (_, target) in zip(found, test, strict=True))
    assert right >= 0.85 * len(test)
    alignment = model.align("A B C D E", "e d c b a")
    last = list(alignment.weights.values())[-1]
    assert last.shape == (6, 6), "as many rows as target tokens and columns as source tokens, the ends included"
