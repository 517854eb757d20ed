"""`--judge` of `heedful evaluate` and `heedful compare`."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from judge_models import create_untrained_judge, update_json

import heedful
from heedful.foreign.judges import open_judge
from heedful.metrics.metric import BootstrapOptions, build_mean_metric, compute_intervals, run_paired_tests

Say = Callable[..., Any]
QUICK = ("--samples", "20")
GOLDEN = Path(__file__).parents[2] / "golden"
WORDS = ("rot", "gelb", "blau", "Hund", "Katze", "Haus")
RECIPE = """
task = "classification"
output = "run"
[data]
numbers = true
train = { kind = "jsonl", path = "train.jsonl", text = "reference", pair = "candidate", label = "score" }
validation = { kind = "jsonl", path = "train.jsonl", text = "reference", pair = "candidate", label = "score" }
max_length = 24
[tokenizer]
kind = "words"
[model]
d_model = 32
heads = 2
layers = 2
d_ff = 64
dropout = 0.0
embedding_dropout = 0.0
positions = { kind = "learned", length = 24 }
summary = { kind = "first" }
[training]
steps = 500
batch_tokens = 600
evaluate_every = 500
precision = "fp32"
threads = 1
schedule = { kind = "constant", rate = 3e-3 }
"""


@pytest.fixture
def text(here: Path) -> Path:
    """Sources, references, translations and others; the third pair has no source."""
    lines = {
        "s": ["a", "b", "", "d", "e"],
        "r": ["rot Hund", "gelb Haus Katze", "blau", "blau blau", "Katze Hund rot"],
        "t": ["rot Hund", "gelb Haus Hund", "gelb", "blau rot", "katze hund Rot"],
        "u": ["rot Katze", "gelb rot Hund", "rot", "rot rot", "Hund Katze rot"],
    }
    for name, content in lines.items():
        (here / name).write_text("".join(f"{line}\n" for line in content))
    create_untrained_judge(here / "tiny", [" ".join([*WORDS, *map(str.lower, WORDS)])])
    return here


def scores(text: Path, name: str, *, fold: Callable[[str], str] = str) -> list[float]:
    """What the judge says of the lines that count."""
    sides = [[fold(line) for line in (text / side).read_text().splitlines()] for side in (name, "r")]
    candidates, references = ([*side[:2], *side[3:]] for side in sides)
    judge = open_judge(text / "tiny", device=torch.device("cpu"))
    return list(judge.score_translations(sources=[""] * 4, candidates=candidates, references=references).scores)


def test_a_file_is_judged_line_by_line(say: Say, text: Path) -> None:
    words = ("evaluate", "t", "--source", "s", "--target", "r", "--judge", "tiny", *QUICK, "--seed", "3")
    found = json.loads(say(*words, "--format", "json", "--against", "u").out)
    mine, theirs = scores(text, "t"), scores(text, "u")
    judged = found["judge"]
    assert judged["scores"] == pytest.approx([*mine[:2], None, *mine[2:]])
    assert judged["value"] == pytest.approx(np.mean(mine))
    title, sampling = "judge: tiny", BootstrapOptions(20, 3)
    expected = compute_intervals({title: build_mean_metric(mine)}, sampling)[title]
    assert (judged["low"], judged["high"]) == pytest.approx((expected.low, expected.high))
    assert next(each for each in found["intervals"] if each["name"] == title)["low"] == judged["low"]
    score = next(each for each in found["scores"] if each["name"] == title)
    signature = open_judge(text / "tiny", device=torch.device("cpu")).signature
    assert score["signature"] == judged["signature"] == f"{signature}|case:mixed|version:{heedful.__version__}"
    test = next(each for each in found["against"]["comparisons"] if each["name"] == title)
    drawn = run_paired_tests({title: build_mean_metric(mine)}, {title: build_mean_metric(theirs)}, sampling)[title]
    assert test["p_value"] == drawn.p_value
    assert test["difference"]["value"] == pytest.approx(np.mean(theirs) - np.mean(mine))
    assert found["notes"] == {}


def test_the_table_has_four_digits_and_the_signature(say: Say, text: Path) -> None:
    words = ("evaluate", "t", "--source", "s", "--target", "r", "--judge", "tiny", *QUICK)
    said = say(*words, "--against", "u", "--page", "page.html")
    value = np.mean(scores(text, "t"))
    (line,) = [line for line in said.lines if line.startswith("judge: tiny ")]
    assert line.split()[2] == f"{value:.4f}"
    assert "|weights:" in line
    (line,) = [line for line in said.lines if line.startswith("  judge: tiny ")]
    assert f" {value:.4f} and {np.mean(scores(text, 'u')):.4f}: difference " in line
    assert next(line for line in said.lines if line.startswith("chrF2 ")).split()[1].count(".") == 1
    page = (text / "page.html").read_text()
    assert "judge: tiny" in page
    assert f"{value:.4f}" in page
    assert "judge" not in say(*words[:6]).out


def test_case_is_left_aside_where_it_should(say: Say, text: Path) -> None:
    words = ("evaluate", "t", "--source", "s", "--target", "r", "--judge", "tiny", *QUICK, "--format", "json")
    found = json.loads(say(*words, "--lowercase").out)["judge"]
    assert found["value"] == pytest.approx(np.mean(scores(text, "t", fold=str.lower)))
    assert found["value"] != pytest.approx(np.mean(scores(text, "t")), abs=1e-4)
    assert "|case:lc|" in found["signature"]


def test_what_is_cut_is_told_once(say: Say, text: Path) -> None:
    update_json(text / "tiny/tokenizer_config.json", model_max_length=8)
    words = ("evaluate", "t", "--source", "s", "--target", "r", "--judge", "tiny", *QUICK)
    assert [line for line in say(*words).lines if "judge reads" in line] == [
        "2 of 4 sentences: longer than the judge reads, themselves or their references, the end not read"
    ]
    assert list(json.loads(say(*words, "--format", "json").out)["notes"].values()) == [2]


def test_runs_side_by_side(say: Say, trained: Path, second: Path, here: Path) -> None:
    sides = [(trained.parent / f"{part}.de").read_text() for part in ("train", "validation")]
    create_untrained_judge(here / "tiny", sides)
    words = ("--judge", "tiny", *QUICK)
    said = say("compare", trained, second, *words, "--json", "all.json", "--page", "page.html")
    assert said.code == 0, said.err
    told = json.loads((here / "all.json").read_text())
    alone = [json.loads(say("evaluate", run, *words, "--format", "json").out)["judge"] for run in (trained, second)]
    for run, one in zip(told["runs"], alone, strict=True):
        assert run["judge"] == {key: value for key, value in one.items() if key != "scores"}
    assert told["signatures"][-1] == alone[0]["signature"]
    (test,) = [test for test in told["runs"][1]["against_first"] if test["name"] == "judge: tiny"]
    lines = said.out.split("\njudge: tiny\n")[1].splitlines()
    assert lines[0].split() == ["run", "mean", "95", "%", "interval", "p"]
    assert lines[1].split()[-1] == "-"
    assert lines[2].split() == [
        str(second),
        f"{alone[1]['value']:.4f}",
        *f"{alone[1]['low']:.4f} to {alone[1]['high']:.4f}".split(),
        f"{test['p_value']:.3f}",
    ]
    assert "judge: tiny" in (here / "page.html").read_text()


@pytest.mark.slow
def test_a_judge_that_learned_prefers_the_better_translation(say: Say, here: Path) -> None:
    """Trained here, exported, and named: it has learned how many words a translation shares with its reference."""
    dice = random.Random(1)

    def pair() -> tuple[list[str], list[str]]:
        right = dice.choices(WORDS, k=2)
        kept = dice.random()
        return right, [word if dice.random() < kept else dice.choice(WORDS) for word in right]

    def row(right: list[str], other: list[str]) -> str:
        share = sum(one == two for one, two in zip(right, other, strict=True)) / len(right)
        return json.dumps({"reference": " ".join(right), "candidate": " ".join(other), "score": share}) + "\n"

    (here / "train.jsonl").write_text("".join(row(*pair()) for _ in range(2000)))
    (here / "judge.toml").write_text(RECIPE)
    assert say("train", "judge.toml", "--device", "cpu").code == 0
    assert "heedful export" in say("evaluate", "train.jsonl", "--judge", "run", "--data", "train.jsonl").complaint
    assert say("export", "run", "overlap").code == 0
    references = [pair()[0] for _ in range(100)]
    sides = {
        "r": references,
        "better": [[line[0], dice.choice(WORDS)] for line in references],
        "worse": [dice.choices(WORDS, k=2) for _ in references],
    }
    for name, lines in sides.items():
        (here / name).write_text("".join(f"{' '.join(line)}\n" for line in lines))
    words = ("evaluate", "worse", "--against", "better", "--source", "r", "--target", "r", "--judge", "overlap")
    told = json.loads(say(*words, "--samples", "200", "--format", "json").out)["against"]["comparisons"]
    (test,) = [each for each in told if each["name"] == "judge: overlap"]
    assert test["difference"]["low"] > 0.1
    assert test["p_value"] < 0.01


def test_what_does_not_fit(say: Say, trained: Path, text: Path) -> None:
    for name in ("unweighted", "mute"):
        shutil.copytree("tiny", name)
    Path("unweighted/model.safetensors").unlink()
    Path("mute/heedful.vocabulary").unlink()
    Path("empty").mkdir()
    Path("comet").mkdir()
    Path("comet/hparams.yaml").write_text("")
    messages = {
        "none": "none: there is no such folder; name one that contains a judge, a BertForSequenceClassification",
        "s": "s: there is no such folder",
        "empty": "empty: does not contain a judge; take a folder with a BertForSequenceClassification",
        "unweighted": "unweighted: does not contain model.safetensors; take a complete copy of this model",
        "mute": "mute: does not contain a vocabulary; it needs tokenizer.json, or vocab.txt",
        "comet": "comet: is a COMET model with pickled weights",
        str(trained): f"{trained}: is a run of heedful; write it with heedful export",
    }
    for folder, message in messages.items():
        for words in (("evaluate", trained), ("compare", trained)):
            assert say(*words, "--judge", folder).complaint.startswith(message)


def test_other_tasks_have_nothing_to_judge(say: Say, text: Path) -> None:
    run = GOLDEN / "tagging-transformer/run"
    for command in ("evaluate", "compare"):
        assert "does not support --judge; leave that out" in say(command, run, "--judge", "tiny").complaint
