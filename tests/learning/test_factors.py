"""What no word says, a factor does."""

from __future__ import annotations

import random
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

[training]
steps = 200
batch_tokens = 400
schedule = { kind = "constant", rate = 5e-3 }
precision = "fp32"
evaluate_every = 200
threads = 1
"""


def _text(folder: Path, name: str, count: int, *, seed: int) -> list[str]:
    """`book` is a noun or a verb, whatever stands around it; returns what `test` is to say of each."""
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
def test_labels_tell_which_translation_is_right(tmp_path: Path) -> None:
    _text(tmp_path, "train", 600, seed=1)
    right = _text(tmp_path, "test", 200, seed=2)
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
def test_case_is_read_apart_from_words(tmp_path: Path) -> None:
    """Words that were only ever seen in lower case are known in capitals, of which others told what they do."""
    dice = random.Random(3)
    ways = (str.lower, str.title, str.upper)

    def lines(words: list[str], count: int, kinds: range) -> list[tuple[str, str]]:
        found = []
        for _ in range(count):
            change = ways[dice.choice(kinds)]
            source = dice.choices(words, k=3)
            found.append((" ".join(map(change, source)), " ".join(change(_THINGS[word]) for word in source)))
        return found

    known, plain = list(_THINGS)[:4], list(_THINGS)[4:]
    train = [*lines(known, 500, range(3)), *lines(list(_THINGS), 300, range(1))]
    test = lines(known, 30, range(3)) + [(a.title(), b) for a, b in lines(plain, 30, range(1))]
    for name, pairs in (("train", train), ("test", test)):
        (tmp_path / f"{name}.en").write_text("".join(f"{source}\n" for source, _ in pairs))
        (tmp_path / f"{name}.de").write_text("".join(f"{target}\n" for _, target in pairs))
    (tmp_path / "r.toml").write_text(_RECIPE)
    recipe = heedful.load_recipe(
        tmp_path / "r.toml",
        ["--output", str(tmp_path / "run"), "--factors.case.kind", "case", "--tokenizer.size", "110"],
    )
    model = heedful.load(heedful.train(recipe, device="cpu").folder, device="cpu")
    found = [each.text for each in model.translate([source for source, _ in test])]
    first = sum(said == target for said, (_, target) in zip(found[:30], test[:30], strict=True))
    other = sum(said.lower() == target.lower() for said, (_, target) in zip(found[30:], test[30:], strict=True))
    assert first >= 29, found[:30]
    assert other >= 25, found[30:]
