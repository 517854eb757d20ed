"""A package outside heedful adds a task and a family of models, and the ordinary commands train and use them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "examples/own_task"
COLOURS, ANIMALS = ("red", "blue", "green"), ("dog", "cat", "bird")
RECIPE = """
task = "multi_label"
data.train.path = "train.jsonl"
data.validation.path = "validation.jsonl"
data.max_length = 16
tokenizer.kind = "words"
model.kind = "KIND"
model.d_model = 16
training.steps = 240
training.evaluate_every = 60
training.batch_tokens = 300
training.monitor = "f1"
training.precision = "fp32"
training.threads = 1
training.schedule = { kind = "constant", rate = 1e-2 }
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as pip installs it, in a folder of its own."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*command, "--no-build-isolation", "--target", str(folder), str(PACKAGE)], check=True)
    return folder


AND = "and"
RUN = f"""
import sys
from itertools import groupby
from heedful.__main__ import main
commands = [list(words) for is_and, words in groupby(sys.argv[1:], lambda word: word == {AND!r}) if not is_and]
sys.exit(max(map(main, commands)))
"""
"""One command after the other; to load torch takes longer than most of them."""


def heedful(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def texts(path: Path, *, count: int, seed: int) -> None:
    """Which colours and animals a text names is what is true of it."""
    dice = random.Random(seed)
    with path.open("w") as file:
        for _ in range(count):
            labels = dice.sample(COLOURS, dice.randint(0, 2)) + dice.sample(ANIMALS, dice.randint(0, 2))
            words = labels + dice.choices(("a", "the", "and", "here"), k=3)
            dice.shuffle(words)
            file.write(json.dumps({"text": " ".join(words), "labels": labels}) + "\n")


def trained(site: Path, folder: Path, kind: str) -> Path:
    texts(folder / "train.jsonl", count=300, seed=1)
    texts(folder / "validation.jsonl", count=60, seed=2)
    (folder / "own.toml").write_text(RECIPE.replace("KIND", kind))
    done = heedful(site, folder, "train", "own.toml", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert 'next: heedful predict runs/own --text "..."' in done.stderr
    return folder / "runs/own"


@pytest.mark.slow
def test_a_task_and_a_family_of_ones_own_are_trained_and_used(installed: Path, tmp_path: Path) -> None:
    run = trained(installed, tmp_path, "averaging")
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["f1"] > 0.95, "it names what stands there"
    said = heedful(
        installed,
        tmp_path,
        *("predict", str(run), "--text", "the red dog and a bird", "here and there", "--device", "cpu"),
        *(AND, "evaluate", str(run), "--format", "json", "--device", "cpu"),
    )
    *lines, measured = said.stdout.split("\n", 2)
    assert [sorted(line.split()) for line in lines] == [["bird", "dog", "red"], []]
    assert json.loads(measured)["f1"] == pytest.approx(last["f1"], rel=1e-6)


@pytest.mark.slow
def test_a_family_of_ones_own_serves_the_tasks_that_are_there(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "tagged.tsv").write_text("a\tD\ndog\tN\n\nthe\tD\ncat\tN\n")
    (tmp_path / "tags.toml").write_text(
        'task = "tagging"\nmodel.kind = "averaging"\ntokenizer.kind = "words"\ntraining.steps = 2\n'
        'data.train.path = "tagged.tsv"\ndata.validation.path = "tagged.tsv"\n'
    )
    train = ("train", "tags.toml", "--device", "cpu")
    said = heedful(installed, tmp_path, *train, AND, "tag", "runs/tags", "--text", "the dog", "--device", "cpu")
    assert said.returncode == 0, said.stderr
    assert [line.split("\t")[0] for line in said.stdout.splitlines()] == ["the", "dog", ""]


def test_a_mistake_in_its_table_is_told_like_any_other(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(RECIPE.replace("KIND", "averaging"))
    done = heedful(installed, tmp_path, "train", "own.toml", "--model.layerz", "2")
    assert done.returncode == 2
    assert "model.layerz = 2 is not a known key; did you mean model.layers?" in done.stderr


def test_without_the_package_its_task_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(RECIPE)
    done = heedful(Path(), tmp_path, "train", "own.toml")
    assert done.returncode == 2
    assert "task = 'multi_label' is not a task; choose one of" in done.stderr


def test_a_package_that_says_what_is_not_true_is_named(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "odd-1.dist-info").mkdir(parents=True)
    (site / "odd-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (site / "odd-1.dist-info/entry_points.txt").write_text("[heedful.tasks]\nmulti_label = odd.recipe:Recipe\n")
    (tmp_path / "own.toml").write_text(RECIPE)
    done = heedful(site, tmp_path, "train", "own.toml")
    assert done.returncode == 2
    assert "task = 'multi_label': its package cannot be used (odd.recipe:Recipe: No module" in done.stderr
