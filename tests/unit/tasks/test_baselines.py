"""A model that is not better than the same answer to everything is told, and so are examples of one class."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.data.labelled import LabelledExample
from heedful.metrics.metric import BootstrapOptions
from heedful.tasks.benchmarks.definitions import BenchmarkDefinition
from heedful.tasks.classification.objective import build_classification_evaluator
from heedful.tasks.label_evaluation import LabelEvaluator, LabelReport
from heedful.tasks.report import EvaluatedSystem

RECIPE = """\
{head}
[training]
steps = {steps}
batch_tokens = 300
evaluate_every = {steps}
average = 1
schedule = {{ kind = "constant", rate = {rate} }}
precision = "fp32"
threads = 1
"""
CLASSES = """\
task = "classification"
[data]
train = { path = "train.tsv" }
validation = { path = "validation.tsv" }
numbers = NUMBERS
[tokenizer]
kind = "words"
[model]
kind = "windows"
d_model = 8
dropout = 0.0
"""
TAGS = """\
task = "tagging"
[data]
train = { path = "train.conll" }
validation = { path = "validation.conll" }
[tokenizer]
kind = "words"
[model]
kind = "recurrent"
d_model = 8
d_embedding = 8
layers = 1
"""
NOT_BETTER = "warning: the model is not better than the same answer to everything: it has "


def exam(golds: Sequence[str | float], *, train: Sequence[str | float] | None = None) -> LabelEvaluator:
    head: Any = "regression" if isinstance(golds[0], float) else "classes"
    metrics: Any = ("pearson",) if head == "regression" else ("accuracy", "macro_f1")
    definition = BenchmarkDefinition(
        name="", title="", head=head, metrics=metrics, folders=(), files={}, texts="", labels=("a", "b")
    )
    seen = [LabelledExample(("x",), label, "here") for label in (train or golds)]
    return build_classification_evaluator(
        definition, train=seen, examples=[LabelledExample(("x",), label, "here") for label in golds]
    ).with_location("test", "test.tsv", table="data")


def report(exam: LabelEvaluator, answers: Sequence[Any]) -> LabelReport:
    return LabelReport(exam, EvaluatedSystem("model"), answers, BootstrapOptions())


@pytest.mark.parametrize(
    ("answers", "reached"), [("aaab", "accuracy 0.5000"), ("bbbb", "accuracy 0.2500"), ("aaaa", "accuracy 0.7500")]
)
def test_classes_are_compared_with_the_most_frequent_one(answers: str, reached: str) -> None:
    told = report(exam(list("aaba")), list(answers))
    (warning,) = told.warnings
    assert warning.startswith(f"{NOT_BETTER}{reached}, and always a has 0.7500; ")
    assert told.format_text().endswith(warning)
    assert told.to_json()["warnings"] == [warning]


def test_nothing_is_said_of_a_better_model() -> None:
    told = report(exam(list("aaba")), list("aaba"))
    assert told.warnings == ()
    assert "warning" not in told.format_text()
    assert report(exam([1.0, 2.0, 3.0]), [1.5, 2.0, 2.5]).warnings == ()


def test_numbers_are_compared_with_the_mean_by_squared_error() -> None:
    # in the right order and far away: a correlation of 1, and no use
    (warning,) = report(exam([1.0, 2.0, 3.0]), [11.0, 12.0, 13.0]).warnings
    assert f"{NOT_BETTER}a mean squared error of 100, and always 2 has 0.6667; " in warning
    asked = exam([1.0, 2.0, 3.0], train=[0.0, 0.0])
    assert asked.describe_failure({"pearson": 0.1}, error=4.0) == ""
    assert "a mean squared error of 4.7, and always 0 has 4.667" in asked.describe_failure({"pearson": 0.9}, error=4.7)


def test_examples_of_one_class_tell_nothing() -> None:
    (warning,) = report(exam(list("aaa"), train=list("aab")), list("aaa")).warnings
    assert warning == "warning: all 3 examples have the label 'a', so the result says nothing about the model"
    (warning,) = report(exam([2.5, 2.5]), [2.5, 2.5]).warnings
    assert warning.startswith("warning: all 2 examples have the label 2.5")


def test_where_less_is_more_less_is_better() -> None:
    asked = exam(list("aaba"))
    asked.measure, asked.main_metric = lambda answers: {"error": asked_error(answers)}, "error"
    assert asked.describe_failure({"error": 0.2}) == ""
    assert "it has error 0.3000, and always a has 0.2500" in asked.describe_failure({"error": 0.3})
    assert asked.describe_failure({"something else": 0.0}) == "", "what both have is compared"


def asked_error(answers: Any) -> Any:
    from heedful.metrics.metric import build_mean_metric

    return build_mean_metric([gold != answer for gold, answer in zip("aaba", answers, strict=True)])


Told = Callable[..., list[str]]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What training says that is a warning."""
    monkeypatch.chdir(tmp_path)

    def train(head: str, *, steps: int = 40, rate: float = 3e-2) -> list[str]:
        Path("r.toml").write_text(RECIPE.format(head=head, steps=steps, rate=rate), encoding="utf-8")
        lines: list[str] = []
        heedful.train(heedful.load_recipe("r.toml"), say=lines.append, device="cpu")
        warnings = [line.replace("not useful yet: ", "warning: ") for line in lines]
        return [line for line in warnings if "warning: " in line and "also in the training text" not in line]

    return train


def write(rows: Mapping[str, Sequence[tuple[str, object]]]) -> None:
    for part, texts in rows.items():
        lines = "".join(f"{text}\t{label}\n" for text, label in texts)
        Path(f"{part}.tsv").write_text(f"text\tlabel\n{lines}", encoding="utf-8")


def test_training_ends_with_a_word_where_nothing_was_learned(told: Told) -> None:
    dice = random.Random(3)
    useless = [(f"{dice.choice('xyz')} {dice.choice('uvw')}", "no" if i % 4 else "yes") for i in range(40)]
    write({"train": useless, "validation": useless[:20]})
    (warning,) = told(CLASSES.replace("NUMBERS", "false"), steps=2, rate=1e-6)
    assert warning.startswith(f"{NOT_BETTER}accuracy ")
    assert "always no has 0.7500" in warning

    write(
        {
            part: [(f"{label} {i}", label) for i, label in enumerate(["no", "yes"] * 20)]
            for part in ("train", "validation")
        }
    )
    Path("runs/r").rename("runs/old")
    assert told(CLASSES.replace("NUMBERS", "false")) == []


def test_training_on_numbers_ends_with_a_word_where_the_mean_is_as_good(told: Told) -> None:
    write({"train": [("x y", 1), ("y x", 4), ("x x", 1), ("y y", 2)], "validation": [("x y", 2), ("x x", 2.01)]})
    (warning,) = told(CLASSES.replace("NUMBERS", "true"), steps=2, rate=1e-6)
    assert f"{NOT_BETTER}a mean squared error of " in warning
    assert "always 2 has 5e-05; " in warning


def test_compared_pairs_begin_with_the_mean_of_the_numbers(told: Told) -> None:
    write(
        {
            "train": [("x\ty", 11), ("y\tx", 14), ("x\tx", 11), ("y\ty", 12)],
            "validation": [("x\ty", 12), ("x\tx", 12.01)],
        }
    )
    for part in ("train", "validation"):
        path = Path(f"{part}.tsv")
        path.write_text(path.read_text(encoding="utf-8").replace("text\tlabel", "text\tpair\tlabel"), encoding="utf-8")
    recipe = (
        CLASSES.replace("NUMBERS", "true").replace("windows", "siamese").replace('.tsv" }', '.tsv", pair = "pair" }')
    )
    (warning,) = told(recipe, steps=2, rate=1e-6)
    # the mean is 12, and two steps of nothing change nothing; from 0 on the error would be 144
    assert float(warning.split("error of ")[1].split(",")[0]) < 10


@pytest.mark.parametrize(("numbers", "label"), [("false", "'1'"), ("true", "1")])
def test_one_class_alone_is_told_before_training(told: Told, numbers: str, label: str) -> None:
    write({"train": [("x", 1), ("y", 1)], "validation": [("x y", 1), ("y", 1)]})
    found = told(CLASSES.replace("NUMBERS", numbers), steps=1)
    expected = f"warning: all 2 examples have the label {label}, so there is nothing to learn"
    assert found[:2] == [f"train: {expected}", f"validation: {expected}"]


def test_taggers_are_compared_too(told: Told) -> None:
    for part in ("train", "validation"):
        Path(f"{part}.conll").write_text("x\tA\ny\tA\nz\tB\n\n" * 3, encoding="utf-8")
    (warning,) = told(TAGS, steps=2, rate=1e-6)
    assert warning.startswith(NOT_BETTER)
    assert "always A has 0.6667" in warning
    Path("runs/r").rename("runs/old")
    assert told(TAGS) == []


def test_all_words_of_one_tag_are_told(told: Told) -> None:
    for part in ("train", "validation"):
        Path(f"{part}.conll").write_text("x\tA\ny\tA\n\n", encoding="utf-8")
    found = told(TAGS, steps=1)
    assert found[0] == "train: warning: all words have the tag 'A', so there is nothing to learn"


def test_each_of_several_tasks_is_compared(tmp_path: Path) -> None:
    exams = {"one": exam(list("aab")), "two": exam(list("ab"))}
    from heedful.tasks.multitask.task import MultitaskEvaluator, MultitaskReport

    answers = {"one": list("aaa"), "two": list("ab")}
    text = MultitaskReport(
        MultitaskEvaluator(exams), EvaluatedSystem("model"), answers, BootstrapOptions()
    ).format_text()
    assert text.count("warning: ") == 1
    assert json.dumps(text).index("always a has 0.6667") < json.dumps(text).index("two:")
