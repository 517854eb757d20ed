"""Attention finds a name at the beginning of a long premise; without attention, the model forgets it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import heedful

_NAMES, _OTHERS, _LENGTH = "ab", "uvwxyz", 30
_RECIPE = """\
task = "classification"
[data]
train = { path = "train.jsonl", pair = "pair" }
validation = { path = "test.jsonl", pair = "pair" }
max_length = 40
[tokenizer]
kind = "words"
[model]
kind = "conditional"
d_model = 32
dropout = 0.0
[training]
steps = 250
batch_tokens = 2200
evaluate_every = 250
clip = 1.0
schedule = { kind = "linear", rate = 1e-2, warmup_share = 0.1 }
precision = "fp32"
threads = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write premises with one of two names among their first four letters of thirty, and hypotheses that are names."""
    here, dice = tmp_path_factory.mktemp("letters"), random.Random(1)
    for part, count in (("train", 8000), ("test", 300)):
        with (here / f"{part}.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(count):
                letters, name, there = dice.choices(_OTHERS, k=_LENGTH), dice.choice(_NAMES), dice.random() < 0.5
                letters[dice.randrange(4)] = name
                asked = name if there else dice.choice(_NAMES.replace(name, ""))
                file.write(json.dumps({"text": " ".join(letters), "pair": asked, "label": str(there)}) + "\n")
    (here / "r.toml").write_text(_RECIPE, encoding="utf-8")
    return here


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attention", "least", "most"), [("none", 0, 0.6), ("last", 0.95, 1), ("word_by_word", 0.95, 1)]
)
def test_attention_finds_what_the_cell_forgets(folder: Path, attention: str, least: float, most: float) -> None:
    words = ["--model.attention", attention, "--output", str(folder / attention)]
    run = heedful.train(heedful.load_recipe(folder / "r.toml", words), device="cpu").folder
    final = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert least <= final["accuracy"] <= most, "chance is 0.5"
