"""Models learn in seconds to classify texts, find names, and answer questions, with pairs and without an answer."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import heedful

_REST = """\
[tokenizer]
kind = "words"
[model]
d_model = 32
heads = 2
layers = {layers}
dropout = 0.0
initialisation = "xavier"
positions = {{ kind = "shaw", clip = 2 }}
[training]
steps = {steps}
batch_tokens = 600
evaluate_every = {steps}
clip = 1.0
schedule = {{ kind = "linear", rate = 4e-3, warmup_share = 0.1 }}
monitor = "{monitor}"
precision = "fp32"
threads = 1
"""
_WORDS = [f"{a}{b}" for a in "klmn" for b in "aeiou"]


def train_run(folder: Path, task: str, data: str, *, monitor: str, steps: int, layers: int = 1) -> Path:
    recipe = folder / "r.toml"
    table = f'task = "{task}"\n[data]\ntrain = {{ path = "train{data}" }}\nvalidation = {{ path = "test{data}" }}\n'
    rest = _REST.format(monitor=monitor, steps=steps, layers=layers)
    recipe.write_text(f"{table}max_length = 32\n" + rest, encoding="utf-8")
    return heedful.train(heedful.load_recipe(recipe, ["--output", str(folder / "run")]), device="cpu").folder


def read_final_metrics(folder: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    return found


@pytest.mark.slow
def test_pairs_are_classified_by_a_common_word(tmp_path: Path) -> None:
    dice = random.Random(1)
    for part, count in (("train", 1500), ("test", 200)):
        with (tmp_path / f"{part}.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(count):
                chosen = dice.sample(_WORDS, 4)
                there = dice.random() < 0.5
                row = {"text": " ".join(chosen[:3]), "pair": chosen[0] if there else chosen[3], "label": there}
                file.write(json.dumps(row) + "\n")
    path = tmp_path / "r.toml"
    data = "".join(f'{name} = {{ path = "{file}.jsonl", pair = "pair" }}\n' for name, file in
                   (("train", "train"), ("validation", "test")))  # fmt: skip
    rest = _REST.format(monitor="accuracy", steps=220, layers=2)
    path.write_text(f'task = "classification"\n[data]\n{data}max_length = 16\n' + rest, encoding="utf-8")
    run = heedful.train(heedful.load_recipe(path, ["--output", str(tmp_path / "run")]), device="cpu").folder
    assert read_final_metrics(run)["accuracy"] > 0.9
    rows = [json.loads(line) for line in (tmp_path / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    answers = heedful.load(run).classify([(row["text"], row["pair"]) for row in rows])
    right = [found.label == str(row["label"]).lower() for found, row in zip(answers, rows, strict=True)]
    assert sum(right) / len(right) == read_final_metrics(run)["accuracy"]


def test_a_name_is_the_word_after_a_title(tmp_path: Path) -> None:
    dice = random.Random(2)
    for part, count in (("train", 400), ("test", 60)):
        with (tmp_path / f"{part}.txt").open("w", encoding="utf-8") as file:
            for _ in range(count):
                before, words = "", [*dice.choices(_WORDS, k=dice.randint(1, 6)), "na", *dice.choices(_WORDS, k=2)]
                for word in words:
                    file.write(f"{word}\t{'B-name' if before == 'na' else 'O'}\n")
                    before = word
                file.write("\n")
    run = train_run(tmp_path, "tagging", ".txt", monitor="f1", steps=80)
    assert read_final_metrics(run)["f1"] > 0.95
    assert [tag.name for tag in heedful.load(run).tag([["ka", "na", "lo", "mu"]])[0]] == ["O", "O", "B-name", "O"]


@pytest.mark.slow
def test_the_answer_is_the_word_after_the_one_in_the_question_or_missing(tmp_path: Path) -> None:
    dice = random.Random(3)
    for part, count in (("train", 1200), ("test", 150)):
        with (tmp_path / f"{part}.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(count):
                words = dice.sample(_WORDS, 5)
                context, at = " ".join(words), dice.randrange(4)
                if dice.random() < 0.3:
                    row = {"question": next(w for w in _WORDS if w not in words), "context": context, "answers": []}
                else:
                    answer = {"text": words[at + 1], "start": 3 * (at + 1)}
                    row = {"question": words[at], "context": context, "answers": [answer]}
                file.write(json.dumps(row) + "\n")
    run = train_run(tmp_path, "spans", ".jsonl", monitor="f1", steps=260, layers=2)
    assert read_final_metrics(run)["f1"] > 0.8, "without any answer, 0.3 is reached"
    assert heedful.load(run).answer("le", "ka le mi no nu").text == "mi"


def test_one_encoder_learns_two_tasks_at_once(tmp_path: Path) -> None:
    """The class of a text is that of its first word; a word is a name if it follows a title."""
    dice = random.Random(4)
    for part, count in (("train", 400), ("test", 60)):
        texts = [[*dice.choices(_WORDS, k=dice.randint(1, 5)), "na", *dice.choices(_WORDS, k=2)] for _ in range(count)]
        rows = "".join(f"{' '.join(words)}\t{words[0][0]}\n" for words in texts)
        (tmp_path / f"{part}.tsv").write_text(f"text\tlabel\n{rows}", encoding="utf-8")
        with (tmp_path / f"{part}.txt").open("w", encoding="utf-8") as file:
            for words in texts:
                for before, word in zip(["", *words], words, strict=False):
                    file.write(f"{word}\t{'B-name' if before == 'na' else 'O'}\n")
                file.write("\n")
    tables = "".join(
        f'[tasks.{name}]\nkind = "{kind}"\ndata = {{ train = {{ path = "train.{end}" }}, '
        f'validation = {{ path = "test.{end}" }}, max_length = 32 }}\n'
        for name, kind, end in (("letter", "classification", "tsv"), ("names", "tagging", "txt"))
    )
    path = tmp_path / "r.toml"
    path.write_text(
        'task = "multitask"\n' + tables + _REST.format(monitor="mean", steps=160, layers=1), encoding="utf-8"
    )
    run = heedful.train(heedful.load_recipe(path, ["--output", str(tmp_path / "run")]), device="cpu").folder
    assert read_final_metrics(run)["letter/accuracy"] > 0.95, "chance is a quarter"
    assert read_final_metrics(run)["names/f1"] > 0.95
    heads = heedful.load(run)
    assert heads.head("letter").classify(["ma na lo"])[0].label == "m"
    assert [tag.name for tag in heads.head("names").tag([["ka", "na", "lo", "mu"]])[0]] == ["O", "O", "B-name", "O"]
