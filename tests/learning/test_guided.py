"""Guided attention aligns words better than attention without guidance."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import heedful
from heedful.metrics.error_rates import GoldAlignment, alignment_error_rate

_SYLLABLES = ("ba", "do", "fi", "gu", "ke", "la", "mi", "no", "pu", "ra")
_RECIPE = """\
[data]
train = { path = "train.tsv" }
validation = { path = "test.tsv" }
max_length = 20

[tokenizer]
kind = "words"

[model]
d_model = 32
heads = 4
d_ff = 64
layers = 1
dropout = 0.0
residual = "pre_norm"

[training]
steps = 250
batch_tokens = 600
schedule = { kind = "cosine", rate = 8e-3, warmup = 20 }
precision = "fp32"
evaluate_every = 250
threads = 1
"""


def _write_text(folder: Path, name: str, count: int, *, seed: int) -> list[str]:
    """Write a text whose adjectives precede their noun, and follow it in the translation; some nouns are two words."""
    names = random.Random(1)
    words = ["".join(names.choices(_SYLLABLES, k=3)) for _ in range(40)]
    dice = random.Random(seed)
    pairs, links = [], []
    for _ in range(count):
        source: list[str] = []
        target: list[str] = []
        line = []
        for _ in range(dice.randint(1, 3)):
            kind, thing = dice.randrange(20), dice.randrange(20, 40)
            here = len(source)
            source += [words[kind], words[thing]]
            for place, word in ((here + 1, words[thing]), (here + 1, "zu"), (here, words[kind])):
                if word != "zu" or thing % 2:
                    line.append(f"{place}-{len(target)}")
                    target.append(word[::-1])
        pairs.append(f"{' '.join(source)}\t{' '.join(target)}\n")
        links.append(" ".join(line))
    (folder / f"{name}.tsv").write_text("".join(pairs))
    (folder / f"{name}.align").write_text("".join(f"{line}\n" for line in links))
    return links


@pytest.mark.slow
def test_guided_attention_gives_better_links(tmp_path: Path) -> None:
    """On held-out sentences, with all kinds of links; only the links of the training text are known."""
    _write_text(tmp_path, "train", 3000, seed=2)
    gold = [GoldAlignment.parse(line, location="") for line in _write_text(tmp_path, "test", 100, seed=3)]
    (tmp_path / "r.toml").write_text(_RECIPE)
    pairs = [tuple(line.split("\t")) for line in (tmp_path / "test.tsv").read_text().splitlines()]
    rates = {}
    for name, words in {
        "alone": [],
        "guided": ["--data.train.alignments", str(tmp_path / "train.align"), "--training.guided.weight", "0.1"],
    }.items():
        recipe = heedful.load_recipe(tmp_path / "r.toml", ["--output", str(tmp_path / name), *words])
        model = heedful.load(heedful.train(recipe, device="cpu").folder, device="cpu")
        rates[name] = alignment_error_rate([set(links) for links in model.link(pairs)], gold)
    assert rates["guided"] < 0.05
    assert rates["guided"] < rates["alone"] / 3, rates
