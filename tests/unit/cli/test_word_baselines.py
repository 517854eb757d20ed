"""`--baseline`: a model that only counts words, beside the scores of `heedful train` and `heedful evaluate`."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

Say = Callable[..., Any]
TOPICS = {"sport": ["ball", "goal", "team", "race"], "money": ["bank", "market", "price", "share"]}


def write_examples(path: Path, size: int) -> None:
    lines = []
    for number in range(size):
        topic = random.choice(list(TOPICS))
        words = random.choices([*TOPICS[topic], "the", "of", "a", "new"], k=7)
        label = topic if number % 10 else next(other for other in TOPICS if other != topic)
        lines.append(json.dumps({"text": " ".join(words), "label": label}) + "\n")
    path.write_text("".join(lines))


RECIPE = """
output = "run"
task = "classification"
[data]
train = { path = "train.jsonl", text = "text", label = "label" }
validation = { path = "validation.jsonl", text = "text", label = "label" }
[model]
kind = "windows"
d_model = 16
[training]
steps = 4
precision = "fp32"
"""


@pytest.fixture
def topics(here: Path) -> Path:
    write_examples(here / "train.jsonl", 200)
    write_examples(here / "validation.jsonl", 60)
    (here / "topics.toml").write_text(RECIPE)
    return here


def test_both_commands_show_it_beside_their_scores(say: Say, topics: Path) -> None:
    pytest.importorskip("sklearn")
    said = say("train", "topics.toml", "--device", "cpu")
    assert said.code == 0, said.err
    line = next(line for line in said.err.splitlines() if line.startswith("word counts alone"))
    assert line.startswith("word counts alone (TF-IDF with logistic regression, 200 texts) have accuracy 0.")
    assert line.endswith(" on the validation data")
    stored = json.loads((topics / "run/word-baseline.json").read_text())
    assert stored["part"] == "validation"
    assert 0.75 < stored["metrics"]["accuracy"] < 0.95
    assert line in say("evaluate", "run").lines, "the same text, and no random numbers"
    assert json.loads(say("evaluate", "run", "--format", "json").out)["word_baseline"] == stored
    assert "word counts" not in say("evaluate", "run", "--baseline", "none").out
    (topics / "run/word-baseline.json").unlink()
    assert "word counts" not in say("train", "topics.toml", "--device", "cpu", "--baseline", "none").err
    assert not (topics / "run/word-baseline.json").exists()


def test_what_fails_does_not_end_the_command(say: Say, topics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    said = say("train", "topics.toml", "--device", "cpu")
    assert said.code == 0
    told = 'no baseline of word counts: needs scikit-learn: pip install "heedful[baselines]" (--baseline none leaves'
    assert told in said.err
    said = say("evaluate", "run")
    assert said.code == 0
    assert told in said.err
    broken = SimpleNamespace(TfidfVectorizer=None)
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", broken)
    assert say("evaluate", "run").code == 0
