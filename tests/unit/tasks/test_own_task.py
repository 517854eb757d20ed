"""A separate package adds a task and an architecture, and the ordinary commands train and use them."""

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
def package_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package with pip into its own folder."""
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
"""Runs several commands in one process, because importing torch takes longer than most of them."""


def run_heedful(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def write_texts(path: Path, *, count: int, seed: int) -> None:
    """Write texts whose labels are the colours and animals that they name."""
    dice = random.Random(seed)
    with path.open("w") as file:
        for _ in range(count):
            labels = dice.sample(COLOURS, dice.randint(0, 2)) + dice.sample(ANIMALS, dice.randint(0, 2))
            words = labels + dice.choices(("a", "the", "and", "here"), k=3)
            dice.shuffle(words)
            file.write(json.dumps({"text": " ".join(words), "labels": labels}) + "\n")


def train_run(site: Path, folder: Path, kind: str) -> Path:
    write_texts(folder / "train.jsonl", count=300, seed=1)
    write_texts(folder / "validation.jsonl", count=60, seed=2)
    (folder / "own.toml").write_text(RECIPE.replace("KIND", kind))
    done = run_heedful(site, folder, "train", "own.toml", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert 'next: heedful predict runs/own --text "..."' in done.stderr
    return folder / "runs/own"


@pytest.mark.slow
def test_the_task_and_the_architecture_are_trained_and_used(package_folder: Path, tmp_path: Path) -> None:
    run = train_run(package_folder, tmp_path, "averaging")
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["f1"] > 0.95, "the model finds the labels in the text"
    process = run_heedful(
        package_folder,
        tmp_path,
        *("predict", str(run), "--text", "the red dog and a bird", "here and there", "--device", "cpu"),
        *(AND, "evaluate", str(run), "--format", "json", "--device", "cpu"),
    )
    *lines, measured = process.stdout.split("\n", 2)
    assert [sorted(line.split()) for line in lines] == [["bird", "dog", "red"], []]
    assert json.loads(measured)["f1"] == pytest.approx(last["f1"], rel=1e-6)


@pytest.mark.slow
def test_the_architecture_works_with_a_task_of_heedful(package_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tagged.tsv").write_text("a\tD\ndog\tN\n\nthe\tD\ncat\tN\n")
    (tmp_path / "tags.toml").write_text(
        'task = "tagging"\nmodel.kind = "averaging"\ntokenizer.kind = "words"\ntraining.steps = 2\n'
        'data.train.path = "tagged.tsv"\ndata.validation.path = "tagged.tsv"\n'
    )
    train = ("train", "tags.toml", "--device", "cpu")
    process = run_heedful(
        package_folder, tmp_path, *train, AND, "tag", "runs/tags", "--text", "the dog", "--device", "cpu"
    )
    assert process.returncode == 0, process.stderr
    assert [line.split("\t")[0] for line in process.stdout.splitlines()] == ["the", "dog", ""]


def test_an_error_in_its_table_is_reported_like_any_other(package_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(RECIPE.replace("KIND", "averaging"))
    done = run_heedful(package_folder, tmp_path, "train", "own.toml", "--model.layerz", "2")
    assert done.returncode == 2
    assert "model.layerz = 2 is not a known key; did you mean model.layers?" in done.stderr


def test_without_the_package_its_task_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(RECIPE)
    done = run_heedful(Path(), tmp_path, "train", "own.toml")
    assert done.returncode == 2
    assert "task = 'multi_label' is not a task; choose one of" in done.stderr


def test_a_package_with_a_wrong_entry_point_is_named_in_the_error(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "odd-1.dist-info").mkdir(parents=True)
    (site / "odd-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (site / "odd-1.dist-info/entry_points.txt").write_text("[heedful.tasks]\nmulti_label = odd.recipe:Recipe\n")
    (tmp_path / "own.toml").write_text(RECIPE)
    done = run_heedful(site, tmp_path, "train", "own.toml")
    assert done.returncode == 2
    assert "task = 'multi_label': its package cannot be used (odd.recipe:Recipe: No module" in done.stderr
