"""Matching from the command line: an encoder that learned it, what it finds, and mistakes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import heedful
from heedful.runs.load import open_run
from heedful.tasks.embedder import Embedder
from heedful.tasks.matching.task import embed_normalized

WORDS = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
RECIPE = """
task = "matching"
seed = 2

[data]
train = { path = "train.tsv" }
validation = { path = "validation.tsv" }
test = { path = "test.tsv" }
max_length = 10

[tokenizer]
kind = "words"

[model]
d_model = 32
heads = 2
d_ff = 32
layers = 1
residual = "pre_norm"
dropout = 0.0

[training]
steps = 120
pairs = 24
batch_tokens = 100
schedule = { kind = "cosine", rate = 1e-2, warmup = 10 }
precision = "fp32"
monitor = "recall"
evaluate_every = 60
threads = 1
"""


def numbers(count: int, *, seed: int) -> list[tuple[str, str]]:
    """Different digits in words, and in figures from the smallest to the largest."""
    dice = random.Random(seed)
    drawn = {tuple(dice.sample(range(10), dice.randint(1, 4))) for _ in range(count)}
    return [(" ".join(WORDS[n] for n in each), " ".join(map(str, sorted(each)))) for each in sorted(drawn)]


def write(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [f"{source}\t{target}\n" for source, target in numbers(400, seed=1)]
    random.Random(1).shuffle(lines)
    seen: dict[str, str] = {}
    for line in lines:  # the same digits in another order are the same text on one side
        seen.setdefault(line.partition("\t")[2], line)
    held = list(seen.values())[:40]
    parts = {"train": [x for x in lines if x.partition("\t")[2] not in {h.partition("\t")[2] for h in held}]}
    parts |= {"validation": held[:20], "test": [*held[20:], "\n", "nur hier\t\n"]}
    for name, rows in parts.items():
        (folder / f"{name}.tsv").write_text("".join(rows))
    (folder / "m.toml").write_text(RECIPE)
    return folder / "m.toml"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("matching"))


@pytest.fixture(scope="module")
def learned(recipe: Path) -> Path:
    """A trained run, to be read only."""
    given = heedful.load_recipe(recipe, ["--output", str(recipe.parent / "run")])
    return heedful.train(given, device="cpu").folder


@pytest.mark.slow
def test_vectors_are_those_that_are_searched_by(learned: Path) -> None:
    """Training compares what `embed` gives; padding changes nothing beyond rounding."""
    face = heedful.load(learned, device="cpu")
    assert isinstance(face, Embedder)
    model = open_run(learned).init_model()
    model.load_state_dict({f"encoder.{k}": v for k, v in face.encoder.state_dict().items()}, strict=False)
    texts = ["eins zwei", "1 2 3 4 5", "drei"]
    vectors = face.embed(texts)
    rows = [face.add_special_tokens(face.tokenizer.encode(text), 1) for text in texts]
    with torch.no_grad():
        found = model.eval()(face.pad_rows(rows)).numpy()
    assert np.abs(found - vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).max() < 1e-5


def test_numbers_in_words_find_numbers_in_figures(say, learned: Path) -> None:
    """None of them was in the training text: chance is 5 %."""
    done = say("evaluate", learned, "--format", "json", "--device", "cpu")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["examples"] == 20
    assert told["baseline"]["targets recall@1"] == pytest.approx(0.05)
    assert told["metrics"]["targets recall@1"] >= 0.9
    assert told["metrics"]["sources recall@5"] >= told["metrics"]["sources recall@1"] >= 0.9
    assert "2 pairs with an empty side are left out" in done.err
    last = json.loads((learned / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["recall"] > 0.8


def test_it_indexes_searches_and_embeds(say, learned: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s", reason="the extra [search] is not installed")
    passages = tmp_path / "passages.txt"
    passages.write_text("1 2\n3 4 5\n6 7\n0 9\n")
    assert say("index", tmp_path / "index", passages, "--model", learned).code == 0
    done = say("search", tmp_path / "index", "--by", "encoder", "--query", "neun null", "--format", "jsonl", "--top", 1)
    assert json.loads(done.out)["orders"]["encoder"][0]["text"] == "0 9"
    vectors = [json.loads(line) for line in say("embed", learned, "--text", "eins", "", "--normalise").lines]
    assert [len(each) for each in vectors] == [32, 32]
    assert np.square(vectors).sum(1) == pytest.approx(1, abs=1e-4)


def test_runs_are_compared_and_looked_at(say, learned: Path, tmp_path: Path) -> None:
    done = say("compare", learned, "--samples", 20, "--page", tmp_path / "c.html")
    assert done.code == 0, done.err
    assert "the order of the file" in done.out
    done = say("inspect", learned, "--text", "eins zwei", "--output", tmp_path / "look.html")
    assert done.code == 0, done.err


def test_going_on_ends_where_going_through_ends(recipe: Path, tmp_path: Path) -> None:
    """Byte for byte, also across an epoch."""

    def weights(folder: str, *sittings: int) -> bytes:
        for steps in sittings:
            words = ["--output", str(tmp_path / folder), "--training.steps", str(steps)]
            words += ["--training.schedule.kind", "constant", "--training.schedule.rate", "1e-2"]
            trained = heedful.train(heedful.load_recipe(recipe, words), device="cpu")
        (file,) = trained.folder.glob(f"checkpoints/step-*{sittings[-1]}.safetensors")
        return file.read_bytes()

    assert weights("through", 24) == weights("twice", 7, 24)


def test_it_begins_with_a_pretrained_encoder(pretrained: Path, recipe: Path, tmp_path: Path) -> None:
    text = RECIPE.partition("[tokenizer]")[0] + RECIPE.partition("[training]")[1] + RECIPE.partition("[training]")[2]
    (recipe.parent / "init.toml").write_text(text)
    words = ["--init", str(pretrained), "--output", str(tmp_path / "run"), "--training.steps", "2"]
    said: list[str] = []
    made = heedful.train(
        heedful.load_recipe(recipe.parent / "init.toml", [*words, "--training.freeze", "1"]),
        device="cpu",
        say=said.append,
    )
    assert any("weights taken over" in line for line in said)
    assert heedful.load(made.folder, device="cpu").embed(["eins"]).shape == (1, 16)


def test_bf16_learns_and_a_temperature_may_stay(recipe: Path, tmp_path: Path) -> None:
    words = ["--output", str(tmp_path / "run"), "--training.steps", "30", "--training.precision", "bf16"]
    words += ["--training.learn_temperature", "false"]
    folder = heedful.train(heedful.load_recipe(recipe, words), device="cpu").folder
    first, *_, last = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert last["recall"] > 0.2, (first, last)


def test_a_text_that_is_too_long_is_known_by_its_beginning(learned: Path) -> None:
    face = heedful.load(learned, device="cpu")
    long = " ".join(["eins", "zwei"] * 20)
    begin = " ".join(["eins", "zwei"] * 4)
    assert embed_normalized(face, [long])[0] @ embed_normalized(face, [begin])[0] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--training.pairs", "1"), "training.pairs = 1 must be at least 2"),
        (("--training.temperature", "0"), "training.temperature = 0"),
        (("--training.margin", "-1"), "training.margin = -1"),
        (("--training.monitor", "bleu"), "training.monitor"),
        (("--data.max_length", "2"), "data.max_length = 2"),
        (("--data.train.path", "nowhere.tsv"), "nowhere.tsv: there is no such file"),
    ],
)
def test_mistakes_are_told(say, recipe: Path, tmp_path: Path, option: tuple[str, str], message: str) -> None:
    assert message in say("train", recipe, "--output", tmp_path / "run", *option).complaint
