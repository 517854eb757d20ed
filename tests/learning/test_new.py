"""Two commands lead from files to a trained model: `heedful new`, then `heedful train`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.__main__ import main

WORDS = [f"{a}{b}" for a in "bdgklm" for b in "aeiou"]
SMALL = "--tokenizer.kind words --model.d_model 32 --model.heads 2 --model.d_ff 64 --model.layers 1"
FAST = "--training.schedule.kind constant --training.schedule.rate 5e-3 --training.batch_tokens 1024"
Measure = Callable[[str, str], float]


def sample_sentences(count: int) -> list[list[str]]:
    draw = random.Random(1)
    return [draw.choices(WORDS, k=draw.randint(2, 5)) for _ in range(count)]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Measure:
    """Train on files of the current folder, and return a score on the test part."""
    monkeypatch.chdir(tmp_path)

    def run(files: str, steps: str) -> float:
        assert main(["new", *files.split()]) == 0
        keys = [*SMALL.split(), *FAST.split(), "--training.steps", steps, "--training.evaluate-every", steps]
        assert main(["train", "recipe.toml", *keys, "--device", "cpu"]) == 0
        capsys.readouterr()
        assert main(["evaluate", "runs/recipe", "--format", "json", "--device", "cpu"]) == 0
        measured = json.loads(capsys.readouterr().out)
        if "metrics" in measured:
            return float(measured["metrics"]["accuracy"])
        return next(float(score["value"]) / 100 for score in measured["scores"] if score["name"] == "exact match")

    return run


@pytest.mark.slow
def test_translation(measure: Measure) -> None:
    pairs = sample_sentences(1500)
    Path("text.source").write_text("".join(f"{' '.join(words)}\n" for words in pairs))
    Path("text.target").write_text("".join(f"{' '.join(word.upper() for word in words)}\n" for words in pairs))
    assert measure("text.source text.target", "120") > 0.5


def test_classification(measure: Measure) -> None:
    rows = [f"{' '.join(words)} it is\t{'good' if words[0][0] in 'bdg' else 'bad'}" for words in sample_sentences(1000)]
    Path("tones.tsv").write_text("".join(f"{row}\n" for row in rows))
    assert measure("tones.tsv", "60") > 0.8


def test_tagging(measure: Measure) -> None:
    blocks = ["".join(f"{word}\t{word[1].upper()}\n" for word in [*words, "la"]) for words in sample_sentences(1000)]
    Path("words.txt").write_text("".join(f"{block}\n" for block in blocks))
    assert measure("words.txt", "60") > 0.8
