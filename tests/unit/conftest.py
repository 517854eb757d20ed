"""A recipe so small that training it takes a second, and one run of it that tests may read but not change."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
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
