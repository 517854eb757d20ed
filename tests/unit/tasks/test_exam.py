"""What models are asked, and every metric of every task: weights of examples are repetitions."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.questions import ExtractiveQuestion, ReferenceAnswer
from heedful.data.tagged import TaggedSentence
from heedful.errors import DataError
from heedful.tasks.benchmarks.definitions import BenchmarkDefinition, compute_metric_values
from heedful.tasks.benchmarks.table import DEFINITIONS
from heedful.tasks.classification.objective import build_classification_evaluator
from heedful.tasks.evaluation import Evaluator
from heedful.tasks.spans.task import build_question_evaluator
from heedful.tasks.tagging.task import build_tag_evaluator

WORDS = ("the", "red", "fox", "sees", "Anna", "Lee")
TAGS = ("O", "B-x", "I-x", "B-y")
CLASSED = [name for name, definition in DEFINITIONS.items() if definition.head != "spans"]


def phrase(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(1, 3)))


def example(
    definition: BenchmarkDefinition, dice: random.Random, number: int
) -> LabelledExample | MultipleChoiceExample:
    if definition.head == "choice":
        names = tuple(phrase(dice) for _ in range(4))
        right = dice.randrange(4)
        return MultipleChoiceExample(
            tuple((name,) for name in names), names, (right,), (names[right], phrase(dice)), "x:1"
        )
    label = float(dice.randint(0, 5)) if definition.head == "regression" else dice.choice(definition.labels)
    return LabelledExample((f"text {number}",), label, "x:1", group=f"g{dice.randrange(9)}")


def answer(definition: BenchmarkDefinition, dice: random.Random, right: LabelledExample | MultipleChoiceExample) -> Any:
    if isinstance(right, MultipleChoiceExample):
        return dice.randrange(4)
    if dice.random() < 0.6:
        return right.label
    return dice.uniform(0, 5) if definition.head == "regression" else dice.choice(definition.labels)


def values(exam: Evaluator, answers: Any) -> dict[str, float]:
    return {name: metric.value for name, metric in exam.compute_metrics(answers).items()}


def repeated(
    definition: BenchmarkDefinition,
    examples: list[LabelledExample | MultipleChoiceExample],
    answers: list[Any],
    weights: np.ndarray,
) -> tuple[Evaluator, list[Any]]:
    """An exam in which examples, or groups of them, occur as often as their weights say."""
    grouped = {"exact_groups", "f1a", "parity"} & {*definition.metrics}
    units = [each.group for each in examples] if grouped else list(range(len(answers)))
    order = list(dict.fromkeys(units))
    found, said = [], []
    for unit, weight in zip(order, weights, strict=True):
        for copy in range(int(weight)):
            for each, mine, reply in zip(examples, units, answers, strict=True):
                if mine == unit:
                    found.append(replace(each, group=f"{unit} {copy}") if isinstance(each, LabelledExample) else each)
                    said.append(reply)
    return build_classification_evaluator(definition, train=examples, examples=found), said


@pytest.mark.parametrize("name", CLASSED)
def test_weights_are_repetitions_in_every_benchmark(name: str) -> None:
    definition, dice = DEFINITIONS[name], random.Random(name)
    examples = [example(definition, dice, number) for number in range(25)]
    answers = [answer(definition, dice, each) for each in examples]
    exam = build_classification_evaluator(definition, train=examples, examples=examples)
    assert exam.main_metric == definition.metrics[0]
    for said in (answers, exam.baseline_answers):
        metrics = exam.compute_metrics(said)
        assert values(exam, said) == pytest.approx(compute_metric_values(definition, said, examples))
    size = {metric.num_examples for metric in metrics.values()}
    assert len(size) == 1
    for _ in range(5):
        weights = np.array([dice.randrange(3) for _ in range(*size)], dtype=np.float64) + (np.arange(*size) < 2)
        other, replies = repeated(definition, examples, answers, weights)
        expected = values(other, replies)
        got = {
            key: float(metric.compute_scores(weights[None])[0]) for key, metric in exam.compute_metrics(answers).items()
        }
        assert got == pytest.approx(expected, abs=1e-9)


def sentence(dice: random.Random, tags: tuple[str, ...]) -> TaggedSentence:
    count = dice.randint(1, 7)
    return TaggedSentence(tuple(dice.choices(WORDS, k=count)), tuple(dice.choices(tags, k=count)), ("x:1",) * count)


def agrees(exam: Evaluator, again: Any, answers: list[Any], weights: list[int]) -> None:
    """Weights and repetitions; `again` makes an exam of some of its examples."""
    rows = [row for row, weight in enumerate(weights) for _ in range(weight)]
    expected = values(again(rows), [answers[row] for row in rows])
    got = {
        key: metric.compute_scores(np.array([weights], dtype=float))[0]
        for key, metric in exam.compute_metrics(answers).items()
    }
    assert got == pytest.approx(expected)


@pytest.mark.parametrize("tags", [TAGS, ("NOUN", "VERB", "X")])
def test_weights_of_sentences(tags: tuple[str, ...]) -> None:
    dice = random.Random(len(tags))
    sentences = [sentence(dice, tags) for _ in range(20)]
    exam = build_tag_evaluator(sentences, train=sentences)
    assert exam.main_metric == ("f1" if tags is TAGS else "accuracy")
    assert (exam.size, exam.num_train_examples) == (sum(len(each.words) for each in sentences), 20)
    answers = [[tag if dice.random() < 0.7 else dice.choice(tags) for tag in each.tags] for each in sentences]
    for _ in range(10):
        weights = [dice.randrange(4) for _ in sentences]
        agrees(exam, lambda rows: build_tag_evaluator([sentences[i] for i in rows], train=sentences), answers, weights)
    most = max(tags, key=lambda tag: sum(each.tags.count(tag) for each in sentences))
    assert exam.constant_answer == most
    assert all(set(mine) == {most} for mine in exam.baseline_answers)


@pytest.mark.parametrize("silent", [0.0, 0.4])
def test_weights_of_questions(silent: float) -> None:
    dice = random.Random(9)
    questions = []
    for number in range(20):
        context = " ".join(phrase(dice) for _ in range(3))
        context = f"{context} dogs"
        word = dice.choice([word for word in context.split() if word != "the"])  # articles alone are no answer
        start = context.index(word)
        known = () if dice.random() < silent else (ReferenceAnswer(word, start),)
        questions.append(ExtractiveQuestion("?", context, known, str(number), "x:1"))
    exam = build_question_evaluator(questions, total=7)
    answers = [dice.choice(["", phrase(dice), *(answer.text for answer in each.answers)]) for each in questions]
    assert ("unanswerable" in exam.compute_metrics(answers)) == bool(silent)
    for _ in range(10):
        weights = [dice.randrange(1, 4) for _ in questions]
        agrees(exam, lambda rows: build_question_evaluator([questions[i] for i in rows], total=7), answers, weights)
    assert values(exam, exam.baseline_answers)["exact_match"] == pytest.approx(
        sum(not q.answers for q in questions) / 20
    )


def test_a_tag_that_the_training_text_lacks_counts_as_wrong_and_is_told() -> None:
    train = [TaggedSentence(("a", "b"), ("B-x", "O"), ("x:1",) * 2)]
    asked = [TaggedSentence(("a", "b", "c"), ("B-new", "I-new", "O"), ("y:1",) * 3)]
    exam = build_tag_evaluator([*asked, *train], train=train)
    assert exam.data_warnings == ("2 words have a tag that the training text lacks (B-new, I-new), and count as wrong",)
    found = values(exam, [["B-x", "I-x", "O"], ["B-x", "O"]])
    assert found == pytest.approx({"accuracy": 3 / 5, "precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2})
    odd = build_tag_evaluator([TaggedSentence(("a",), ("X",), ("y:1",))], train=train)
    assert values(odd, [["O"]]) == {"accuracy": 0, "precision": 0, "recall": 0, "f1": 0}


def test_exams_without_examples() -> None:
    with pytest.raises(DataError, match="there are no sentences"):
        build_tag_evaluator([], train=[])
    with pytest.raises(DataError, match="there are no questions"):
        build_question_evaluator([], total=3)
    unlabelled = [LabelledExample(("a",), None, "x:4")]
    with pytest.raises(DataError, match="x:4: has no label"):
        build_classification_evaluator(
            DEFINITIONS["glue/cola"], train=[LabelledExample(("a",), "acceptable", "x:1")], examples=unlabelled
        )
