"""A factor gives information that no word has."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import heedful

_THINGS = {"dog": "Hund", "cat": "Katze", "cow": "Kuh", "hen": "Henne", "fox": "Fuchs", "ape": "Affe"}
_BOOK = {"NOUN": "Buch", "VERB": "buchen"}
_RECIPE = """\
[data]
train = { source = "train.en", target = "train.de" }
validation = { source = "test.en", target = "test.de" }

[tokenizer]
size = 60

[model]
d_model = 32
heads = 2
layers = 1
dropout = 0.0
residual = "pre_norm"

[training]
steps = 400
batch_tokens = 600
schedule = { kind = "cosine", rate = 8e-3, warmup = 20 }
precision = "fp32"
evaluate_every = 400
threads = 1
"""


def _write_text(folder: Path, name: str, count: int, *, seed: int) -> list[str]:
    """Write a text in which `book` is a noun or a verb, independent of its context; return the right translations."""
    dice = random.Random(seed)
    lines: dict[str, list[str]] = {"en": [], "de": [], "pos": []}
    for _ in range(count):
        before, behind = dice.choices(list(_THINGS), k=2)
        kind = dice.choice(list(_BOOK))
        lines["en"].append(f"{before} book {behind}")
        lines["de"].append(f"{_THINGS[before]} {_BOOK[kind]} {_THINGS[behind]}")
        lines["pos"].append(f"NOUN {kind} NOUN")
    for ending, texts in lines.items():
        (folder / f"{name}.{ending}").write_text("".join(f"{text}\n" for text in texts))
    return lines["de"]


@pytest.mark.slow
def test_labels_decide_between_two_translations(tmp_path: Path) -> None:
    _write_text(tmp_path, "train", 600, seed=1)
    right = _write_text(tmp_path, "test", 200, seed=2)
    (tmp_path / "r.toml").write_text(_RECIPE)
    files = {part: tmp_path / f"{part}.pos" for part in ("train", "test")}
    given = ["--data.train.factors", str(files["train"]), "--data.validation.factors", str(files["test"])]
    shares = {}
    for name, words in {"without": [], "with": [*given, "--factors.pos.kind", "given"]}.items():
        recipe = heedful.load_recipe(tmp_path / "r.toml", ["--output", str(tmp_path / name), *words])
        model = heedful.load(heedful.train(recipe, device="cpu").folder, device="cpu")
        pairs = list(recipe.data.reader("validation"))
        found = model.translate([pair.source for pair in pairs])
        shares[name] = sum(each.text == text for each, text in zip(found, right, strict=True)) / len(right)
    assert shares["with"] > 0.95, shares
    assert 0.3 < shares["without"] < 0.65, shares


@pytest.mark.slow
def test_words_in_capitals_are_the_words_in_small_letters(tmp_path: Path) -> None:
    """Some words have only small letters in the training text; the case of sentences is learned from other words."""
    dice = random.Random(3)
    ways = {str.lower: "leise", str.title: "etwas", str.upper: "laut"}
    things = ["".join(each) for each in product(("ba", "do", "fi", "gu", "ke"), ("la", "mi", "no", "pu"))]

    def sample_sentence(words: list[str], changes: list[Callable[[str], str]]) -> tuple[str, str]:
        picked, change = dice.sample(words, k=3), dice.choice(changes)
        return " ".join(map(change, picked)), " ".join([ways[change], *(word[::-1] for word in picked)])

    known, plain = things[:15], things[15:]
    train = [sample_sentence(known, list(ways)) for _ in range(800)] + [
        sample_sentence(things, [str.lower]) for _ in range(400)
    ]
    seen, new = (
        [sample_sentence(words, changes) for _ in range(60)]
        for words, changes in ((known, list(ways)), (plain, [str.title, str.upper]))
    )
    for name, pairs in (("train", train), ("test", seen + new)):
        (tmp_path / f"{name}.en").write_text("".join(f"{source}\n" for source, _ in pairs))
        (tmp_path / f"{name}.de").write_text("".join(f"{target}\n" for _, target in pairs))
    (tmp_path / "r.toml").write_text(_RECIPE)
    shares = {}
    for name, words in {"without": [], "with": ["--factors.case.kind", "case"]}.items():
        own = ["--output", str(tmp_path / name), "--tokenizer.kind", "words", "--tokenizer.size", "none", *words]
        model = heedful.load(heedful.train(heedful.load_recipe(tmp_path / "r.toml", own), device="cpu").folder)
        found = [each.text.split() for each in model.translate([source for source, _ in seen + new])]
        right = [target.split() for _, target in seen + new]
        shares[name] = [
            sum(a == b for a, b in zip(found[:60], right[:60], strict=True)) / 60,
            sum(a[1:] == b[1:] for a, b in zip(found[60:], right[60:], strict=True)) / 60,
        ]
    assert min(shares["with"]) > 0.9, shares
    assert shares["without"][1] < 0.1, shares
