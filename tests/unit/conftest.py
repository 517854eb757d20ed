"""A recipe so small that training it takes a second, and one run of it that tests may read but not change."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

_WORDS = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")

_RECIPE = """\
seed = 3

[data]
train = { source = "train.en", target = "train.de" }
validation = { source = "validation.en", target = "validation.de" }
max_length = 16

[tokenizer]
kind = "words"

[model]
d_model = 16
heads = 2
d_ff = 32
layers = 1
residual = "pre_norm"

[training]
steps = 12
batch_tokens = 200
schedule = { kind = "constant", rate = 4e-2 }
precision = "fp32"
evaluate_every = 4
average = 2

[generation]
width = 2
max_extra = 10
"""


def _pairs(count: int, *, seed: int) -> list[tuple[str, str]]:
    """Digits, and the words for them in the opposite order."""
    dice = random.Random(seed)
    numbers = [[dice.randrange(10) for _ in range(dice.randint(1, 7))] for _ in range(count)]
    return [(" ".join(map(str, n)), " ".join(_WORDS[i] for i in reversed(n))) for n in numbers]


def _write(folder: Path, name: str, pairs: Sequence[tuple[str, str]]) -> None:
    for side, language in enumerate(("en", "de")):
        (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")


def _small(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder, "train", _pairs(120, seed=1))
    _write(folder, "validation", _pairs(20, seed=2))
    path = folder / "small.toml"
    path.write_text(f'output = "{folder / "run"}"\n' + _RECIPE, encoding="utf-8")
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The recipe file, its text beside it; the run folder will be `run`, beside it too."""
    return _small(tmp_path / "small")


@pytest.fixture
def another(tmp_path: Path) -> Callable[[str], Path]:
    """Further folders with the same recipe and text."""
    return lambda name: _small(tmp_path / name)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the small recipe, to be read only; its recipe and text lie in the folder above."""
    from heedful import load_recipe, train

    path = _small(tmp_path_factory.mktemp("trained"))
    return train(load_recipe(path), device="cpu").folder


_MODEL = """\
[model]
d_model = 16
heads = 2
d_ff = 32
layers = 2
positions = { kind = "learned", length = 48 }
"""
_SITTING = """\
[training]
steps = 6
batch_tokens = 300
evaluate_every = 3
schedule = { kind = "constant", rate = 1e-2 }
precision = "fp32"
threads = 1
"""


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that answers questions about stories, to be read only; recipe and stories lie above it."""
    from heedful import load_recipe, train
    from heedful.tasks.stories import demonstration

    folder = tmp_path_factory.mktemp("told")
    with pytest.MonkeyPatch.context() as fewer:
        fewer.setattr(demonstration, "_HELD_OUT", 100)
        recipe = demonstration.StoriesDemonstration(output=folder, steps=400, size=900).write_recipe()
    small = ["--model.d_model", "20", "--training.linear_start", "1", "--training.evaluate_every", "200"]
    return train(load_recipe(recipe, [*small, "--training.threads", "1"]), device="cpu").folder


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished pre-training run that knows the words for digits, to be read only."""
    from heedful import load_recipe, train

    folder = tmp_path_factory.mktemp("pretrained")
    dice = random.Random(5)
    documents = ("".join(f"{' '.join(dice.choices(_WORDS, k=5)).capitalize()}.\n" for _ in range(4)) for _ in range(30))
    (folder / "text.txt").write_text("\n".join(documents), encoding="utf-8")
    (folder / "p.toml").write_text(
        'task = "pretraining"\n[data]\ntrain = { path = "text.txt" }\nvalidation = { path = "text.txt" }\n'
        f'max_length = 32\n[tokenizer]\nkind = "words"\nlowercase = true\n{_MODEL}{_SITTING}',
        encoding="utf-8",
    )
    return train(load_recipe(folder / "p.toml", ["--output", str(folder / "run")]), device="cpu").folder


@pytest.fixture(scope="session")
def tuning(pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of all three tasks of labels, and recipes of them that begin with `pretrained`."""
    folder = tmp_path_factory.mktemp("tuning")
    dice = random.Random(6)
    rows = [(" ".join(dice.choices(_WORDS, k=dice.randint(1, 9))), dice.choice(("low", "high"))) for _ in range(60)]
    (folder / "c.tsv").write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    with (folder / "t.txt").open("w", encoding="utf-8") as file:
        for text, _ in rows:
            file.write("".join(f"{word}\t{'B-even' if len(word) % 2 == 0 else 'O'}\n" for word in text.split()) + "\n")
    with (folder / "q.jsonl").open("w", encoding="utf-8") as file:
        for number, (text, _) in enumerate(rows):
            answers = [] if number % 3 == 0 else [{"text": text.split()[0], "start": 0}]
            file.write(json.dumps({"question": "eins", "context": text, "answers": answers}) + "\n")
    for task, data in (("classification", "c.tsv"), ("tagging", "t.txt"), ("spans", "q.jsonl")):
        (folder / f"{task}.toml").write_text(
            f'task = "{task}"\ninit = "{pretrained}"\noutput = "{folder / task}"\n[data]\n'
            f'train = {{ path = "{data}" }}\n'
            f'validation = {{ path = "{data}" }}\nmax_length = 24\n{_SITTING}',
            encoding="utf-8",
        )
    return folder


@pytest.fixture(scope="session")
def tuned(tuning: Path) -> Callable[[str], Path]:
    """The finished run of each of these recipes, to be read only."""
    from heedful import load_recipe, train

    @cache
    def one(task: str) -> Path:
        return train(load_recipe(tuning / f"{task}.toml"), device="cpu").folder

    return one
