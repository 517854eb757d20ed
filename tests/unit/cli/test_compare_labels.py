"""`heedful compare` of classification, tagging and spans: one exam for all, and learning curves by examples."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from heedful.atomic_io import MODEL_FILE, read_manifest, write_manifest
from heedful.data.labels import LabelVocabulary
from heedful.runs.load import open_run

Say = Callable[..., Any]
Tuned = Callable[[str], Path]
QUICK = ("--samples", "50", "--device", "cpu")
SVG = "{http://www.w3.org/2000/svg}"
RECIPE = """\
task = "classification"
[data]
train = { path = "train.tsv" }
validation = { path = "dev.tsv" }
max_length = 16
[tokenizer]
kind = "words"
[model]
kind = "recurrent"
d_model = 8
dropout = 0.0
[training]
epochs = 2
min_steps = 5
batch_tokens = 60
evaluate_every = 5
schedule = { kind = "constant", rate = 2e-2 }
precision = "fp32"
"""


def write(folder: Path, name: str, rows: list[tuple[str, str]]) -> None:
    text = "".join(f"{text}\t{label}\n" for text, label in rows)
    (folder / f"{name}.tsv").write_text(f"text\tlabel\n{text}", encoding="utf-8")


@pytest.fixture
def sizes(here: Path) -> Path:
    """A recipe whose class `rare` has one example in a hundred, and whose every text has a word of its own."""
    dice = random.Random(1)
    rows = []
    for number in range(200):
        label = "rare" if number % 100 == 99 else dice.choice(("up", "down", "down"))
        rows.append((f"word{number} {label[0]} {' '.join(dice.choices('xyz', k=3))}", label))
    write(here, "train", rows)
    write(here, "dev", [(f"new {text[text.index(' ') :]}", label) for text, label in rows[::5] + rows[99:100]])
    (here / "small.toml").write_text(RECIPE, encoding="utf-8")
    return here / "small.toml"


def compared(say: Say, *words: object) -> dict[str, Any]:
    said = say("compare", *words, *QUICK, "--json", "all.json")
    assert said.code == 0, said.err
    content: dict[str, Any] = json.loads(Path("all.json").read_text(encoding="utf-8"))
    return content


def cells(page: str, table: int) -> list[list[str]]:
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    rows = list(root.iter("table"))[table].iter("tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows]


# --- what is learned from ---------------------------------------------------------------------------------------------


def test_vocabulary_and_classes_of_few_examples(say: Say, sizes: Path) -> None:
    known: list[set[str]] = []
    for count in (10, 40, 200):
        words = ("--data.examples", str(count), "--output", f"r{count}", "--device", "cpu")
        told = say("train", sizes.name, *words)
        assert told.code == 0, told.err
        assert f"{count} training examples" in told.err
        run = open_run(Path(f"r{count}"))
        own = [f"word{n}" for n in range(200)]
        unknown = run.tokenizer.special.unk
        known.append({word for word in own if run.tokenizer.encode(word) != [unknown]})
        assert len(known[-1]) == count, "of each text that is learned from, and of no other"
        assert set(run.get_vocabulary("tokenizer/labels", LabelVocabulary).names) == {"up", "down", "rare"}
    assert known[0] < known[1] < known[2]


def test_another_number_or_seed_encodes_again(say: Say, sizes: Path) -> None:
    words = ("train", sizes.name, "--output", "r", "--device", "cpu")
    assert say(*words, "--data.examples", "20").code == 0
    assert say(*words, "--data.examples", "30").complaint.startswith(
        "r: contains a run whose recipe differs in data.exa"
    )
    shutil.rmtree("r/checkpoints")
    for name in ("model.safetensors", "metrics.jsonl"):
        Path("r", name).unlink()
    found = read_manifest(Path("r")).without_files(MODEL_FILE)
    write_manifest(Path("r"), replace(found, finished=False, checkpoints=(), last=None, best=None))
    told = say(*words, "--data.examples", "30")
    assert (told.code, "30 training examples" in told.err) == (0, True), told.err


@pytest.mark.parametrize("task", ["classification", "tagging", "spans"])
def test_every_task_can_learn_from_few(say: Say, tuning: Path, here: Path, task: str) -> None:
    words = ("--train", "--examples", "12", "24", "--training.steps", "2")
    recipe = shutil.copy(tuning / f"{task}.toml", here)
    text = Path(recipe).read_text(encoding="utf-8").replace('path = "', f'path = "{tuning}/')
    Path(recipe).write_text(re.sub(r'output = ".*"', 'output = "few"', text), encoding="utf-8")
    found = compared(say, recipe, *words)
    assert [(run["run"], run["examples"]) for run in found["runs"]] == [("few-12", 12), ("few-24", 24)]
    alone = json.loads(say("evaluate", "few-24", "--format", "json", "--device", "cpu").out)
    run = found["runs"][1]
    assert {name: each["value"] for name, each in run["metrics"].items()} == pytest.approx(alone["metrics"])
    baseline = {name: each["value"] for name, each in found["baseline"]["metrics"].items()}
    assert baseline == pytest.approx(alone["baseline"])
    assert found["baseline"]["answer"] == alone["answer"]
    for each in (*run["metrics"].values(), *found["baseline"]["metrics"].values()):
        assert each["low"] <= each["value"] <= each["high"]


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_curves_by_examples(say: Say, sizes: Path) -> None:
    wide = sizes.with_name("wide.toml")
    wide.write_text(RECIPE.replace("d_model = 8", "d_model = 12"), encoding="utf-8")
    words = ("compare", sizes.name, wide.name, "--train", "--examples", "8", "80", "20", *QUICK)
    said = say(*words, "--page", "a.html", "--figure", "a.svg", "--json", "a.json")
    assert said.code == 0, said.err
    page, found = Path("a.html").read_text(encoding="utf-8"), json.loads(Path("a.json").read_text(encoding="utf-8"))
    names = [f"runs/{name}-{count}" for name in ("small", "wide") for count in (8, 80, 20)]
    assert [run["run"] for run in found["runs"]] == names
    assert [family["runs"] for family in found["families"]] == [
        [f"runs/{name}-{count}" for count in (8, 20, 80)] for name in ("small", "wide")
    ]
    heading, *rows = cells(page, 0)
    for run, row, line in zip(found["runs"], rows, said.lines[3:9], strict=False):
        shown = dict(zip(heading[:8], row[:8], strict=True))
        accuracy = run["metrics"]["accuracy"]
        assert (shown["run"], shown["start"], shown["examples"]) == (run["run"], "scratch", str(run["examples"]))
        assert shown["accuracy"] == f"{accuracy['value']:.4f}"
        assert shown["95 % interval"] == f"{accuracy['low']:.4f} to {accuracy['high']:.4f}"
        weights = list(open_run(Path(run["run"])).init_model().parameters())
        assert shown["learned"] == f"{sum(p.numel() for p in weights):,}"
        assert re.split(r"  +", line) == row
    assert [row[8] for row in rows[:2]] == ["-", f"{found['runs'][1]['against_first']['accuracy']['p_value']:.3f}"]
    assert rows[6][:6] == ["always down", "-", "-", "200", "0", "-"]
    test_labels = Counter(line.split("\t")[1] for line in Path("dev.tsv").read_text().splitlines()[1:])
    assert rows[6][6] == f"{test_labels['down'] / test_labels.total():.4f}"
    by_size = cells(page, 1)
    assert by_size[0] == ["runs", "8", "20", "80"]
    same = found["families"][1]["against_first"]["20"]
    assert by_size[2][2] == f"{same['second']['value']:.4f} ({same['p_value']:.3f})"
    assert by_size[1][2] == f"{same['first']['value']:.4f}"
    assert_tested_against_the_first(found["runs"])
    first, last = ({name: found["runs"][i]["metrics"][name] for name in found["metrics"]} for i in (0, -1))
    against = {name: test["first"] for name, test in found["baseline"]["against_first"].items()}
    assert against == first != last
    some = compared(say, *(f"runs/{name}" for name in ("small-8", "small-20", "wide-8", "wide-80")))
    assert [list(family["against_first"]) for family in some["families"]] == [[], ["8"]], "none has 80 but one"
    figure = Path("a.svg").read_text(encoding="utf-8")
    assert figure in page
    titles = [f"{name} by examples learned from" for name in ("accuracy", "macro_f1", "matthews")]
    assert re.findall(r"<title>(.*?)</title>\n<style", page) == titles
    plot = ElementTree.fromstring(figure)
    texts = [text.text for text in plot.iter(f"{SVG}text")]
    assert texts[-3:] == ["runs/small", "runs/wide", "always down"]
    across = {text.text: float(text.attrib["x"]) for text in plot.iter(f"{SVG}text") if text.text in ("8", "20", "80")}
    assert (across["20"] - across["8"]) / (across["80"] - across["8"]) == pytest.approx(0.398, abs=0.002), "log(2.5)"
    assert len([path for path in plot.iter(f"{SVG}path") if path.get("class") == "band"]) == 2


def assert_tested_against_the_first(runs: list[dict[str, Any]]) -> None:
    first, *others = runs
    assert first["against_first"] == {}
    for run in others:
        for name, found in run["against_first"].items():
            assert found["first"]["value"] == first["metrics"][name]["value"]
            assert found["second"]["value"] == run["metrics"][name]["value"]
    values = [run["metrics"]["accuracy"]["value"] for run in runs]
    assert any(value != values[0] for value in values[1:-1]), "another one than the first would be seen"


def test_what_is_finished_stays(say: Say, sizes: Path) -> None:
    words = ("compare", sizes.name, "--train", *QUICK, "--examples")
    assert say(*words, "8").code == 0
    before = Path("runs/small-8/model.safetensors").stat().st_mtime_ns
    told = say(*words, "8", "20")
    assert f"{sizes.name}: runs/small-8 is finished (1 of 2)" in told.err
    assert f"{sizes.name}: training runs/small-20 (2 of 2)" in told.err
    assert Path("runs/small-8/model.safetensors").stat().st_mtime_ns == before
    found = compared(say, "runs/small-20", "runs/small-8")
    assert [run["examples"] for run in found["runs"]] == [20, 8]
    assert found["families"][0]["name"] == "runs/small"


def test_what_runs_begin_with_is_told(say: Say, tuning: Path, pretrained: Path, here: Path) -> None:
    text = (tuning / "classification.toml").read_text(encoding="utf-8").replace('path = "', f'path = "{tuning}/')
    text = re.sub(r'output = ".*"\n', "", text)
    moved = shutil.copytree(pretrained, here / "elsewhere")
    for name, key in (("all", "0"), ("top", "1"), ("head", '"encoder"')):
        other = text.replace(f'init = "{pretrained}"', 'init = "nowhere"')
        (here / f"{name}.toml").write_text(f"{other}freeze = {key}\n", encoding="utf-8")
    recipes = ("all.toml", "top.toml", "head.toml")
    words = ("compare", *recipes, "--train", "--training.steps", "2", *QUICK)
    assert "nowhere: no such folder" in say(*words).complaint
    said = say(*words, "--init", "elsewhere", "--page", "a.html", "--json", "a.json")
    assert said.code == 0, said.err
    rows = [dict(zip(cells(Path("a.html").read_text(), 0)[0][:5], row, strict=False))
            for row in cells(Path("a.html").read_text(), 0)[1:4]]  # fmt: skip
    assert [row["start"] for row in rows] == ["elsewhere", "elsewhere, 1 frozen", "elsewhere, frozen"]
    runs = json.loads(Path("a.json").read_text())["runs"]
    assert runs[2]["learned"] == 2 * (16 + 1) < runs[1]["learned"] < runs[0]["learned"] == runs[0]["parameters"]
    assert {run["init"] for run in runs} == {str(moved)}
    again = say(*words, "--init", "elsewhere")
    assert again.err.count("is finished") == 3, "recipes that begin with another model are known again"


# --- what cannot be compared ------------------------------------------------------------------------------------------


def test_runs_of_other_tasks_and_other_examples(
    say: Say, tuned: Tuned, trained: Path, pretrained: Path, here: Path
) -> None:
    classes, tags = tuned("classification"), tuned("tagging")
    told = say("compare", classes, tags).complaint
    assert told == f"{tags}: its task is tagging, but that of {classes} is classification; give runs of one task"
    assert "its task is translation" in say("compare", classes, trained).complaint
    assert "its task is pretraining" in say("compare", classes, pretrained).complaint


def test_other_texts_and_other_labels(say: Say, sizes: Path) -> None:
    assert say("train", sizes.name, "--output", "one", "--device", "cpu").code == 0
    rows = [tuple(line.split("\t")) for line in Path("dev.tsv").read_text().splitlines()[1:]]
    write(Path(), "other", [(text, "up") for text, _ in rows])
    write(Path(), "fewer", rows[:-1])
    for name, how in (("other", "is tested on the same texts as, but by other labels than, one"),
                      ("fewer", "is tested on other examples than one")):  # fmt: skip
        words = ("--output", name, "--data.validation.path", f"{name}.tsv", "--device", "cpu")
        assert say("train", sizes.name, *words).code == 0
        assert (
            say("compare", "one", name).complaint == f"{name}: {how}, so their scores cannot be compared; leave it out"
        )
    Path("fewer.tsv").unlink()
    assert "fewer: data.validation: " in say("compare", "one", "fewer").complaint


def test_an_unfinished_run(say: Say, sizes: Path) -> None:
    words = ("--training.evaluate_every", "2", "--device", "cpu")
    assert say("train", sizes.name, "--output", "run", *words).code == 0
    shutil.copytree("run", "half")
    (Path("half") / MODEL_FILE).unlink()
    write_manifest(Path("half"), replace(read_manifest(Path("half")).without_files(MODEL_FILE), finished=False))
    best = read_manifest(Path("half")).best
    said = say("compare", "run", "half", *QUICK)
    assert f"* half is not finished: its best checkpoint so far (step {best}) is compared" in said.lines
    assert said.lines[4].startswith("half *  ")
    write_manifest(Path("half"), replace(read_manifest(Path("half")), checkpoints=(), last=None, best=None))
    assert say("compare", "run", "half").complaint.startswith("half: no checkpoint has been saved yet")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("{sizes} --examples 8", "--examples: needs --train, which trains a run for each number"),
        ("{sizes} --init x", "--init: needs --train; runs that are trained are already initialized"),
        ("{sizes} --train --examples 0", "--examples: 0; must be at least 1"),
        ("{sizes} --train --examples x", "--examples: 'x' is not a whole number"),
        ("{sizes} --train --examples 8 300", "runs/small-300: data.examples = 300: there are only 200 to learn from"),
        ("{small} --train --examples 8", "{small}: its task is translation, where no number of examples can be set"),
        ("{sizes} --train --beam 3", "runs/small: its task is classification, which is measured on data.test or"),
        ("{sizes} --train --lowercase", "runs/small: its task is classification, which is measured on data.test or"),
        ("{sizes} --train --data dev.tsv", "runs/small: its task is classification, which is measured on data.test or"),
        (
            "{sizes} --train --training.epochs none --training.steps 9",
            "small.toml: training.min_steps = 5 extends training beyond training.epochs",
        ),
    ],
)
def test_wrong_words(say: Say, sizes: Path, trained: Path, words: str, complaint: str) -> None:
    names = {"sizes": sizes.name, "small": trained.parent / "small.toml"}
    told = say("compare", *words.format(**names).split()).complaint
    assert complaint.format(**names) in told, told
    assert not Path("runs").exists(), "nothing was trained"


def test_few_examples_are_seen_until_min_steps(say: Say, sizes: Path) -> None:
    steps = {}
    for count in (4, 200):
        words = ("--data.examples", str(count), "--output", f"r{count}", "--device", "cpu")
        assert say("train", sizes.name, *words, "--training.batch_tokens", "100").code == 0
        steps[count] = read_manifest(Path(f"r{count}")).last
    assert steps[4] == 5
    assert steps[200] > 20


def test_a_linear_schedule_falls_until_min_steps(say: Say, sizes: Path) -> None:
    """Two epochs of four examples are two updates; the rate falls over all hundred that are made."""
    rate = ("--training.schedule.kind", "linear", "--training.schedule.rate", "0.01", "--training.schedule.warmup", "0")
    steps = ("--training.min_steps", "100", "--training.evaluate_every", "100", "--training.batch_tokens", "100")
    words = ("--data.examples", "4", "--output", "run", "--device", "cpu")
    assert say("train", sizes.name, *words, *rate, *steps).code == 0
    records = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    rates = {record["step"]: record["rate"] for record in records if record["kind"] == "training"}
    assert rates == pytest.approx({50: 0.005, 100: 0.0})
