"""`heedful generate`, `heedful tag`, and `heedful evaluate` of what they use."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import heedful
from heedful.__main__ import main
from heedful.tasks.tagger import Tagger
from heedful.tasks.writer import Writer

LANGUAGE = """
task = "language_modelling"
output = "{folder}/run"
[data]
train = {{ path = "text.txt" }}
validation = {{ path = "text.txt" }}
length = 16
[tokenizer]
kind = "characters"
[model]
d_model = 16
layers = 1
dropout = 0.0
[training]
steps = {steps}
batch_tokens = 128
truncation = 8
evaluate_every = 10
schedule = {{ kind = "constant", rate = 2e-2 }}
"""
TAGGING = """
task = "tagging"
output = "{folder}/run"
[data]
train = {{ path = "text.txt" }}
validation = {{ path = "text.txt" }}
test = {{ path = "text.txt" }}
[tokenizer]
kind = "words"
[model]
d_model = 8
dropout = 0.0
[training]
steps = {steps}
batch_tokens = 100
monitor = "accuracy"
evaluate_every = 10
schedule = {{ kind = "constant", rate = 3e-2 }}
"""


def language(folder: Path, *, steps: int = 120) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text("the cat sat on a mat.\n" * 20)
    path = folder / "r.toml"
    path.write_text(LANGUAGE.format(folder=folder, steps=steps))
    return path


def tagging(folder: Path, *, steps: int = 40) -> Path:
    """A word is `b` behind a `q`, else `a`."""
    folder.mkdir(exist_ok=True)
    dice = random.Random(2)
    lines = []
    for _ in range(60):
        words = dice.choices("pqrs", k=dice.randint(1, 6))
        tags = ["b" if before == "q" else "a" for before in ["", *words[:-1]]]
        lines += [f"{word}\t{tag}" for word, tag in zip(words, tags, strict=True)] + [""]
    (folder / "text.txt").write_text("\n".join(lines))
    path = folder / "r.toml"
    path.write_text(TAGGING.format(folder=folder, steps=steps))
    return path


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return heedful.train(heedful.load_recipe(language(tmp_path_factory.mktemp("lm"))), device="cpu").folder


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return heedful.train(heedful.load_recipe(tagging(tmp_path_factory.mktemp("tag"))), device="cpu").folder


def test_a_model_goes_on_where_a_prompt_ends(writes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--search", "greedy", "--tokens", "22"]
    assert main(["generate", str(writes), "--prompt", "the cat", *options]) == 0
    assert capsys.readouterr().out == "the cat sat on a mat.\nthe cat\n\n"
    assert main(["generate", str(writes), "--prompt", "the c", "the cat sat on", *options, "--format", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["prompt"] for record in records] == ["the c", "the cat sat on"]
    assert records[1]["text"].startswith(" a mat.\nthe")
    assert len(records[0]["tokens"]) == 22


def test_a_seed_decides_a_sample_streamed_or_not(writes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*options: str) -> str:
        assert main(["generate", str(writes), "--prompt", "the", "--temperature", "2", "--tokens", "30", *options]) == 0
        return capsys.readouterr().out

    streamed = said("--seed", "4")
    assert streamed == said("--seed", "4") != said("--seed", "5")
    assert json.loads(said("--seed", "4", "--format", "jsonl"))["text"] == streamed.removeprefix("the").removesuffix(
        "\n"
    )
    assert len(said("--samples", "3", "--format", "jsonl").splitlines()) == 3


def test_a_tagger_tags_words_and_files(tags: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tag", str(tags), "--text", "p q r q q s", ""]) == 0
    assert capsys.readouterr().out == "p\ta\nq\ta\nr\tb\nq\ta\nq\tb\ns\tb\n\n\n"
    lines, found = tmp_path / "in", tmp_path / "out"
    lines.write_text("q s\np\n")
    assert main(["tag", str(tags), "--input", str(lines), "--output", str(found), "--format", "jsonl"]) == 0
    records = [json.loads(line) for line in found.read_text().splitlines()]
    assert [[tag["name"] for tag in record] for record in records] == [["a", "b"], ["a"]]
    assert all(0.5 < tag["probability"] <= 1 for record in records for tag in record)


def test_runs_are_measured_by_their_own_metrics(writes: Path, tags: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(tags), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["part"] == "test"
    assert report["accuracy"] == 1
    assert main(["evaluate", str(writes)]) == 0
    shown = capsys.readouterr().out
    assert "validation\nloss" in shown
    assert "perplexity" in shown


def test_load_gives_what_the_task_is_used_by(writes: Path, tags: Path) -> None:
    assert isinstance(heedful.load(writes), Writer)
    assert isinstance(heedful.load(tags), Tagger)
    with pytest.raises(heedful.RunError, match="only translation runs work together"):
        heedful.load(tags, tags)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("translate", "{tags}", "--text", "a"), "its task is tagging where translation is needed"),
        (("tag", "{writes}", "--text", "a"), "its task is language_modelling where tagging is needed"),
        (("generate", "{tags}"), "its task is tagging where language_modelling is needed"),
        (("generate", "{writes}", "--search", "greedy", "--top-k", "3"), "--top-k: does not fit --search greedy"),
        (("generate", "{writes}", "--search", "greedy", "--samples", "3"), "3 samples: greedy search finds one"),
        (("generate", "{writes}", "--temperature", "0"), "--temperature: does not fit --search sampling"),
        (("generate", "{writes}", "--samples", "0"), "--samples: 0; must be at least 1"),
        (("tag", "{tags}", "--text", "a", "--input", "b"), "--text and --input: give one of them"),
        (("evaluate", "{tags}", "--against", "{tags}"), "does not translate"),
        (("compare", "{tags}", "{writes}"), "its task is tagging where translation is needed"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    words: tuple[str, ...], message: str, writes: Path, tags: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(writes=writes, tags=tags) for word in words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize("make", [language, tagging])
def test_a_run_in_two_sittings_equals_one_in_one(
    make: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, parts = (heedful.load_recipe(make(tmp_path / name, steps=40)) for name in ("a", "b"))
    heedful.train(whole, device="cpu")
    path = str(tmp_path / "b" / "r.toml")
    for steps in ("13", "40"):
        assert main(["train", path, "--training.steps", steps, "--device", "cpu"]) == 0
    assert "going on where this run was left" in capsys.readouterr().err
    names = ["model.safetensors", "checkpoints/step-00000040.safetensors"]
    for name in names:
        assert (whole.output / name).read_bytes() == (parts.output / name).read_bytes()
