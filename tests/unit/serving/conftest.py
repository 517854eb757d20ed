"""Small runs that translate, of which recipes name the languages."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from shape_checks import disable_shape_checks

NUMERALS = {
    "en": ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
    "de": ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"],
    "fr": ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"],
}
_RECIPE = """\
seed = 3
output = "{output}"

[data]
train = {{ source = "train.{source}", target = "train.{target}", {languages} }}
validation = {{ source = "validation.{source}", target = "validation.{target}", {languages} }}
max_length = 20

[tokenizer]
kind = "words"
lowercase = true

[model]
d_model = 32
heads = 2
d_ff = 64
layers = 1
residual = "pre_norm"

[training]
steps = {steps}
batch_tokens = 600
schedule = {{ kind = "constant", rate = 1e-2 }}
precision = "fp32"
evaluate_every = {steps}
threads = 1

[generation]
width = 3
max_extra = 5
"""


def _run(folder: Path, source: str, target: str, *, steps: int, both_ways: bool) -> Path:
    """That learns to write the numerals of one language in another, word by word."""
    from heedful import load_recipe, train

    folder.mkdir()
    for name, count, seed in (("train", 300, 1), ("validation", 20, 2)):
        dice = random.Random(seed)
        rows = [[dice.randrange(10) for _ in range(dice.randint(1, 6))] for _ in range(count)]
        for language in (source, target):
            lines = (" ".join(NUMERALS[language][number] for number in row) + " .\n" for row in rows)
            (folder / f"{name}.{language}").write_text("".join(lines), encoding="utf-8")
    said = f'source_language = "{source}", target_language = "{target}"' + ", both_ways = true" * both_ways
    recipe = _RECIPE.format(output=folder / "run", source=source, target=target, languages=said, steps=steps)
    (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
    with disable_shape_checks():
        return train(load_recipe(folder / "recipe.toml"), device="cpu").folder


@pytest.fixture(scope="session")
def interpreting(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Finished runs by their names, to be read only: one of English and German both ways, which does what it is to, and
    one of French to German, which has learned nothing yet.
    """
    folder = tmp_path_factory.mktemp("interpreting")
    return {
        "both": _run(folder / "both", "en", "de", steps=160, both_ways=True),
        "french": _run(folder / "french", "fr", "de", steps=1, both_ways=False),
    }
