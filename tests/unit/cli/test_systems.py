"""`heedful evaluate --against` and `heedful compare` of every task: what is asked, tested and told."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.errors import RecipeError
from heedful.runs import evaluate as evaluating
from heedful.runs import load as loading
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.language.evaluation import TextEvaluator
from heedful.tasks.pretraining.task import PretrainingTask
from heedful.tensors import Tokens

pytestmark = pytest.mark.usefixtures("here")  # so that what commands write lies nowhere else

Say = Callable[..., Any]
Tuned = Callable[[str], Path]
QUICK = ("--samples", "60", "--device", "cpu")
SITTING = """
[training]
steps = 12
batch_tokens = 200
evaluate_every = 6
schedule = { kind = "constant", rate = 2e-2 }
precision = "fp32"
threads = 1
"""


def report(said: Any) -> dict[str, Any]:
    assert said.code == 0, said.err
    content: dict[str, Any] = json.loads(said.out)
    return content


def fit(path: Path, *words: str) -> Path:
    return heedful.train(heedful.load_recipe(path, list(words)), device="cpu").folder


# --- planted bugs that no test noticed --------------------------------------------------------------------------------


def systems(here: Path) -> None:
    dice = random.Random(2)
    lines = [" ".join(dice.choices("abcdefgh", k=9)) for _ in range(40)]
    for name, errors in (("r", 0.0), ("good", 0.1), ("bad", 0.4)):
        shown = (" ".join("x" if dice.random() < errors else word for word in line.split()) for line in lines)
        (here / name).write_text("".join(f"{line}\n" for line in shown))


def test_the_first_system_is_the_one_that_is_evaluated(say: Say, here: Path) -> None:
    systems(here)
    words = ("--source", "r", "--target", "r", *QUICK, "--format", "json")
    for first, second in (("good", "bad"), ("bad", "good")):
        found = report(say("evaluate", first, "--against", second, *words))
        alone = [report(say("evaluate", name, *words))["intervals"] for name in (first, second)]
        for number, test in enumerate(found["against"]["comparisons"]):
            assert [test["first"], test["second"]] == [alone[0][number], alone[1][number]]
            assert test["difference"]["value"] == pytest.approx(test["second"]["value"] - test["first"]["value"])
            better = test["difference"]["value"] * (-1 if test["name"] in ("TER", "WER", "CER") else 1) > 0
            assert better == (second == "good")
        assert found["intervals"] == alone[0]


def test_the_seed_decides_intervals_and_tests(say: Say, here: Path) -> None:
    systems(here)
    words = ("evaluate", "good", "--against", "bad", "--source", "r", "--target", "r", *QUICK, "--format", "json")
    one, again, other = (report(say(*words, "--seed", seed)) for seed in (5, 5, 6))
    assert one == again
    assert one["intervals"][0]["low"] != other["intervals"][0]["low"]
    assert one["against"]["comparisons"][0]["first"]["low"] != other["against"]["comparisons"][0]["first"]["low"]


def test_exact_match_leaves_case_aside_when_told(say: Say, here: Path) -> None:
    (here / "r").write_text("Ein Hund\nx\n")
    (here / "h").write_text("ein hund\ny\n")
    words = ("evaluate", "h", "--source", "r", "--target", "r", *QUICK, "--format", "json")
    mixed, lower = ({s["name"]: s for s in report(say(*words, *more))["scores"]}["exact match"]
                    for more in ((), ("--lowercase",)))  # fmt: skip
    assert (mixed["value"], lower["value"]) == (0, 50)
    assert lower["signature"].startswith("case:lc")


# --- every task -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classification", "tagging", "spans"])
def test_labels_against_those_of_another_run(say: Say, tuning: Path, tuned: Tuned, here: Path, task: str) -> None:
    other = fit(tuning / f"{task}.toml", "--training.steps", "60", "--output", str(here / "other"))
    words = ("--against", other, *QUICK)
    found = report(say("evaluate", tuned(task), *words, "--format", "json"))
    alone = report(say("evaluate", other, "--format", "json"))
    tests = {test["name"]: test for test in found["against"]["comparisons"]}
    assert {name: test["first"]["value"] for name, test in tests.items()} == pytest.approx(found["metrics"])
    assert {name: test["second"]["value"] for name, test in tests.items()} == pytest.approx(alone["metrics"])
    said = say("evaluate", tuned(task), *words)
    assert f"against {other} (paired bootstrap)" in said.lines
    runs = compared(say, tuned(task), other)["runs"]
    assert list(runs[1]["against_first"].values()) == found["against"]["comparisons"]


def compared(say: Say, *words: object) -> dict[str, Any]:
    said = say("compare", *words, *QUICK, "--json", "all.json", "--page", "all.html")
    assert said.code == 0, said.err
    content: dict[str, Any] = json.loads(Path("all.json").read_text(encoding="utf-8"))
    Path("all.json").unlink()
    return content


def test_runs_of_several_tasks_side_by_side(say: Say, tuning: Path, here: Path) -> None:
    tables = "".join(
        f'[tasks.{name}]\nkind = "{kind}"\ndata = {{ train = {file}, validation = {file}, max_length = 24 }}\n'
        for name, kind, file in (
            ("tone", "classification", f'{{ path = "{tuning / "c.tsv"}" }}'),
            ("even", "tagging", f'{{ path = "{tuning / "t.txt"}" }}'),
        )
    )
    shape = '[tokenizer]\nkind = "words"\n[model]\nd_model = 16\nheads = 2\nlayers = 1\n'
    (here / "m.toml").write_text(f'task = "multitask"\n{tables}{shape}{SITTING}', encoding="utf-8")
    one, two = (fit(here / "m.toml", "--seed", seed, "--output", f"run{seed}") for seed in ("1", "2"))
    found = compared(say, one, two)
    assert found["metrics"][0] == "tone/accuracy"
    assert found["baseline"]["answer"] == {"tone": "low", "even": "B-even"}
    for run, folder in zip(found["runs"], (one, two), strict=True):
        alone = report(say("evaluate", folder, "--format", "json"))["tasks"]
        expected = {f"{name}/{key}": value for name, each in alone.items() for key, value in each["metrics"].items()}
        assert {name: each["value"] for name, each in run["metrics"].items()} == pytest.approx(expected)
        assert run["examples"] == 120
    against = report(say("evaluate", one, "--against", two, "--task", "even", *QUICK, "--format", "json"))["against"]
    both = {test["name"]: test for test in against["comparisons"]}
    assert both == {name: test for name, test in found["runs"][1]["against_first"].items() if name.startswith("even/")}


def test_a_run_without_an_exam_is_measured_alone(say: Say, pretrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_exam = report(say("evaluate", pretrained, "--format", "json", *QUICK))
    monkeypatch.setattr(PretrainingTask, "report_class", None)
    assert report(say("evaluate", pretrained, "--format", "json", "--device", "cpu")) == pytest.approx(with_exam)
    told = say("evaluate", pretrained, "--against", pretrained).complaint
    assert told.endswith("runs of this task are only measured on their own test or validation set")
    told = say("compare", pretrained).complaint
    assert told.startswith(f"{pretrained}: its task is pretraining, whose runs do not get the same questions")


def reseeded(run: Path, folder: Path, **changes: Any) -> Path:
    """The same weights in a run that hides other tokens, or is changed in its training."""
    shutil.copytree(run, folder)
    config = json.loads((folder / "config.json").read_text())
    config["recipe"]["seed"] += 1
    config["recipe"]["training"] |= changes
    (folder / "config.json").write_text(json.dumps(config))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["config.json"] = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_pre_trained_models_are_asked_for_the_same_tokens(say: Say, pretrained: Path, here: Path) -> None:
    same = reseeded(pretrained, here / "same")
    alone, other = (report(say("evaluate", run, "--format", "json", *QUICK)) for run in (pretrained, same))
    final = json.loads((pretrained / "metrics.jsonl").read_text().splitlines()[-1])
    names = ("loss", "masked_accuracy", "masked_loss", "pair_accuracy", "pair_loss")
    assert {name: alone[name] for name in names} == pytest.approx({name: final[name] for name in names}, abs=1e-5)
    assert other["masked_loss"] != pytest.approx(alone["masked_loss"], abs=1e-4), "by itself each is asked its own"
    found = compared(say, pretrained, same)
    assert found["drawn"] == "100 stretches of the text"
    first, second = ({name: each["value"] for name, each in run["metrics"].items()} for run in found["runs"])
    assert first == second == pytest.approx({name: alone[name] for name in names})
    assert all(each["low"] <= each["value"] <= each["high"] for each in found["runs"][0]["metrics"].values())
    drawn = found["runs"][0]["metrics"]["masked_loss"]
    assert 0.9 * drawn["value"] < drawn["low"] < drawn["high"] < 1.1 * drawn["value"]
    assert {each["p_value"] for each in found["runs"][1]["against_first"].values()} == {1.0}


def test_a_model_that_learned_more_is_told_from_one_that_did_not(say: Say, pretrained: Path, here: Path) -> None:
    recipe = pretrained.parent / "p.toml"
    least = fit(recipe, "--output", str(here / "least"), "--training.steps", "1")
    tests = report(say("evaluate", pretrained, "--against", least, "--format", "json", *QUICK))["against"][
        "comparisons"
    ]
    masked = next(test for test in tests if test["name"] == "masked_loss")
    assert masked["difference"]["value"] > 0.05
    assert masked["p_value"] < 0.1
    assert masked["first"]["value"] < masked["second"]["value"]


@pytest.mark.slow
def test_pre_trained_models_that_cannot_be_asked_the_same(say: Say, pretrained: Path, here: Path) -> None:
    recipe, few = pretrained.parent / "p.toml", ("--training.steps", "1")
    shorter = fit(recipe, "--output", str(here / "shorter"), "--data.max_length", "24", *few)
    told = say("compare", pretrained, shorter).complaint
    assert told.startswith(
        f"{shorter}: data.max_length = 24, and passages of the first run have 32 tokens; name the run"
    )
    assert say("compare", shorter, pretrained, *QUICK).code == 0
    alone = fit(recipe, "--output", str(here / "alone"), "--training.pairing", "alone", *few)
    told = say("compare", pretrained, alone).complaint
    assert told.startswith(f'{alone}: training.pairing = "alone", and "next_sentence" in the first run')
    letters = fit(recipe, "--output", str(here / "letters"), "--tokenizer.kind", "characters", *few)
    for command in (("compare", pretrained, letters), ("evaluate", pretrained, "--against", letters)):
        told = say(*command, *QUICK).complaint
        assert told.startswith(f"{letters}: has another vocabulary than {pretrained}")


def test_options_that_say_nothing_to_a_task_are_refused(say: Say, tuned: Tuned, trained: Path) -> None:
    told = say("evaluate", tuned("spans"), "--lowercase", "--beam", "3").complaint
    assert told.endswith("does not support --lowercase, search options; leave that out")
    assert say("evaluate", trained, "--stride", "3").complaint.endswith("does not support --stride; leave that out")


def test_folders_are_opened_once(say: Say, trained: Path, second: Path, here: Path, monkeypatch: Any) -> None:
    opened: list[Path] = []
    real = loading.open_run
    for module in (loading, evaluating):
        monkeypatch.setattr(module, "open_run", lambda folder, *more: opened.append(folder) or real(folder, *more))
    assert say("compare", trained, second, *QUICK).code == 0
    assert opened == [trained, second]
    assert say("evaluate", trained, "--against", second, *QUICK).code == 0
    assert opened == [trained, second] * 2


def test_a_tag_that_occurs_in_the_dev_part_alone(say: Say, here: Path) -> None:
    (here / "train.txt").write_text("a\tX\nb\tY\n\n" * 20)
    (here / "dev.txt").write_text("a\tX\nb\tNEW\n\n" * 5)
    (here / "t.toml").write_text(
        'task = "tagging"\n[data]\ntrain = { path = "train.txt" }\nvalidation = { path = "dev.txt" }\n'
        f'[tokenizer]\nkind = "words"\n[model]\nkind = "recurrent"\nd_model = 8\ndropout = 0.0\n{SITTING}'
    )
    said = say("train", "t.toml", "--device", "cpu", "--training.steps", "40")
    assert said.code == 0, said.err
    assert "validation: 5 words have a tag that the training text lacks, and count as wrong" in said.err
    final = json.loads(Path("runs/t/metrics.jsonl").read_text().splitlines()[-1])
    found = say("evaluate", "runs/t", "--format", "json")
    assert "5 words have a tag that the training text lacks (NEW), and count as wrong" in found.err.splitlines()
    assert final["accuracy"] == report(found)["metrics"]["accuracy"] == 0.5


def test_candidates_from_files_of_ones_own(say: Say, here: Path) -> None:
    dice = random.Random(1)
    lines = []
    for _ in range(80):
        right, count = dice.randrange(2), dice.randint(2, 4)
        options = [f"{'yes' if n == right else 'no'} {dice.choice('uvw')}" for n in range(count)]
        lines.append({"q": dice.choice("xyz"), "options": options, "answer": right})
    (here / "c.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    file = '{ path = "c.jsonl", text = "q", candidates = "options", label = "answer" }'
    text = (
        f'task = "classification"\n[data]\ntrain = {file}\nvalidation = {file}\n[tokenizer]\nkind = "words"\n'
        f'[model]\nkind = "recurrent"\nd_model = 8\ndropout = 0.0\n{SITTING}monitor = "accuracy"\n'
    )
    (here / "c.toml").write_text(text)
    run = fit(here / "c.toml", "--training.steps", "40")
    found = report(say("evaluate", run, "--format", "json"))
    most = max(sum(line["answer"] == n for line in lines) for n in (0, 1)) / 80  # type: ignore[misc]
    assert (found["metrics"], found["baseline"]) == ({"accuracy": 1}, {"accuracy": pytest.approx(most)})
    assert heedful.load(run).choose([[("x", "no u"), ("x", "yes u")]])[0].number == 1
    for change, message in (
        ("numbers = true", "data.numbers = true must be false for data with candidates"),
        ('positive = "0"', "data.positive = .* names a class, but data with candidates has no classes"),
    ):
        (here / "c.toml").write_text(text.replace("[tokenizer]", f"{change}\n[tokenizer]"))
        with pytest.raises(RecipeError, match=message):
            heedful.load_recipe("c.toml")
    (here / "c.toml").write_text(text.replace('text = "q"', 'text = "q", pair = "p"'))
    with pytest.raises(RecipeError, match=r"candidates = .* names the second texts, as pair does"):
        heedful.load_recipe("c.toml")


# --- language models --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs over one text of few documents, each with a vocabulary of its own."""
    folder, dice = tmp_path_factory.mktemp("writers"), random.Random(4)
    words = ["the", "cat", "sat", "Naïve", "on", "mats", "ﬁne", "x..."]
    lines = [f"{' '.join(dice.choices(words, k=8))}.\n" for _ in range(120)]
    (folder / "text.txt").write_text("".join(lines), encoding="utf-8")
    (folder / "r.toml").write_text(
        'task = "language_modelling"\n[data]\ntrain = { path = "text.txt" }\nvalidation = { path = "text.txt" }\n'
        'length = 16\n[tokenizer]\nkind = "words"\n[model]\nkind = "recurrent"\nd_model = 12\nlayers = 1\n'
        f"dropout = 0.0\n{SITTING}",
        encoding="utf-8",
    )
    options = {
        "words": ("--seed", "1"),
        "other": ("--seed", "2", "--training.steps", "30"),
        "characters": ("--tokenizer.kind", "characters"),
        "bpe": ("--tokenizer.kind", "bpe", "--tokenizer.size", "60", "--data.length", "24"),
        "apart": ("--data.documents", "apart", "--data.validation.kind", "lines"),
    }
    return {name: fit(folder / "r.toml", *more, "--output", str(folder / name)) for name, more in options.items()}


@pytest.mark.parametrize("name", ["words", "characters", "bpe"])
def test_pieces_are_the_same_for_every_vocabulary(writers: dict[str, Path], name: str) -> None:
    run = loading.open_run(writers[name])
    exam = run.task.build_evaluator(run.recipe, EvaluatorOptions())
    assert isinstance(exam, TextEvaluator)
    assert (exam.size, exam.sample_unit_text) == (10, "10 pieces of about 100 words")
    writer = heedful.load(writers[name], device="cpu")
    found = exam.predict(writer, run.recipe)
    text = (writers[name].parent / "text.txt").read_text(encoding="utf-8").split()
    read = [writer.tokenizer.normalise(" ".join(text[start : start + 100])) for start in range(0, 960, 100)]
    assert found.words.tolist() == [len(piece.split()) for piece in read]
    assert found.ends.tolist() == [0] * 9 + [1]
    letters = [len("".join(piece.split())) for piece in read]
    spaces = found.characters - letters
    assert np.all((spaces >= 59) & (spaces <= 101)), "a piece begins with the white space before it"
    tokens = [len(writer.tokenizer.encode(piece)) for piece in read]
    assert np.abs(found.tokens - found.ends - tokens).max() <= 1 + (name == "characters"), "but for white space around"
    if name == "characters":
        assert (found.tokens - found.ends).tolist() == found.characters.tolist()


def test_likelihood_is_that_of_each_token_after_those_before_it(writers: dict[str, Path]) -> None:
    for name, asking in (("bpe", EvaluatorOptions()), ("words", EvaluatorOptions(context=9, stride=4))):
        run, writer = loading.open_run(writers[name]), heedful.load(writers[name], device="cpu")
        found = run.task.build_evaluator(run.recipe, asking).predict(writer, run.recipe)
        text = (writers[name].parent / "text.txt").read_text(encoding="utf-8")
        ids = [*writer.tokenizer.encode(text), 2]
        context, stride = found.context, found.stride
        nats, start = [], 0
        while len(nats) < len(ids):
            window = [2, *ids][start : start + context + 1]
            read = Tokens(torch.tensor([window[:-1]]), torch.arange(len(window) - 1).unsqueeze(0))
            with torch.inference_mode():
                logits, _ = writer.model.step(read, writer.model.init_state())
            each = -logits[0].log_softmax(-1)[range(len(window) - 1), window[1:]].double()
            nats += each[len(nats) - start :].tolist()
            start += stride
        assert math.fsum(found.nats) == pytest.approx(math.fsum(nats), rel=1e-5)
        assert found.tokens.sum() == len(ids)


def test_language_models_side_by_side_whatever_their_vocabularies(
    say: Say, writers: dict[str, Path], here: Path
) -> None:
    names = ("words", "other", "characters", "bpe")
    found = compared(say, *(writers[name] for name in names))
    assert (found["drawn"], found["examples"]) == ("10 pieces of about 100 words", 10)
    for name, run in zip(names, found["runs"], strict=True):
        alone = report(say("evaluate", writers[name], "--format", "json"))
        assert run["values"] == {key: alone[key] for key in run["values"]}
        assert run["metrics"]["bits_per_byte"]["low"] < alone["bits_per_byte"] < run["metrics"]["bits_per_byte"]["high"]
        assert {key: run[key] for key in ("nats", "tokens", "bytes", "context")} == {
            key: alone[key] for key in ("nats", "tokens", "bytes", "context")
        }
    tests = [run["against_first"] for run in found["runs"]]
    assert "perplexity" in tests[1], "of one vocabulary"
    assert "perplexity" not in tests[2], "of another one"
    against = report(say("evaluate", writers["words"], "--against", writers["bpe"], *QUICK, "--format", "json"))[
        "against"
    ]
    assert {test["name"]: test for test in against["comparisons"]} == tests[3]
    table = say("compare", *(writers[name] for name in names), *QUICK)
    assert (
        f"perplexity is per token, so it is shown only for runs with the vocabulary of {writers['words']}"
        in table.lines
    )
    rows = [re.split(r"  +", line) for line in table.lines[2:7]]
    assert [row[0] for row in rows[1:]] == [str(writers[name]) for name in names]
    assert [row[-2] == "-" for row in rows[1:]] == [False, False, True, True]
    page = Path("all.html").read_text(encoding="utf-8")
    assert "Bits per byte by parameters" in page


def test_a_model_does_not_differ_from_itself(say: Say, writers: dict[str, Path], here: Path) -> None:
    again = shutil.copytree(writers["words"], here / "again")
    for test in compared(say, writers["words"], again)["runs"][1]["against_first"].values():
        assert (test["difference"]["value"], test["p_value"]) == (0, 1)


def test_documents_are_drawn_where_there_are_enough(say: Say, writers: dict[str, Path], here: Path) -> None:
    assert compared(say, writers["apart"])["drawn"] == "120 documents"
    told = say("compare", writers["apart"], writers["words"]).complaint
    assert "is tested on other examples than" in told
