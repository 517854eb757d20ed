"""What models are asked, and every metric of every task: weights of examples are repetitions."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heedful.data.labelled import Choice, Labelled
from heedful.data.questions import Answer, Question
from heedful.data.tagged import TaggedSentence
from heedful.errors import DataError
from heedful.tasks.benchmarks.definitions import Definition, measure
from heedful.tasks.benchmarks.table import DEFINITIONS
from heedful.tasks.classification.exam import class_exam
from heedful.tasks.exam import Exam
from heedful.tasks.spans.exam import question_exam
from heedful.tasks.tagging.exam import tag_exam

WORDS = ("the", "red", "fox", "sees", "Anna", "Lee")
TAGS = ("O", "B-x", "I-x", "B-y")
CLASSED = [name for name, definition in DEFINITIONS.items() if definition.head != "spans"]


def phrase(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(1, 3)))


def example(definition: Definition, dice: random.Random, number: int) -> Labelled | Choice:
    if definition.head == "choice":
        names = tuple(phrase(dice) for _ in range(4))
        right = dice.randrange(4)
        return Choice(tuple((name,) for name in names), names, (right,), (names[right], phrase(dice)), "x:1")
    label = float(dice.randint(0, 5)) if definition.head == "regression" else dice.choice(definition.labels)
    return Labelled((f"text {number}",), label, "x:1", group=f"g{dice.randrange(9)}")


def answer(definition: Definition, dice: random.Random, right: Labelled | Choice) -> Any:
    if isinstance(right, Choice):
        return dice.randrange(4)
    if dice.random() < 0.6:
        return right.label
    return dice.uniform(0, 5) if definition.head == "regression" else dice.choice(definition.labels)


def values(exam: Exam, answers: Any) -> dict[str, float]:
    return {name: metric.value for name, metric in exam.metrics(answers).items()}


def repeated(
    definition: Definition, examples: list[Labelled | Choice], answers: list[Any], weights: np.ndarray
) -> tuple[Exam, list[Any]]:
    """An exam in which examples, or groups of them, occur as often as their weights say."""
    grouped = {"exact_groups", "f1a", "parity"} & {*definition.metrics}
    units = [each.group for each in examples] if grouped else list(range(len(answers)))
    order = list(dict.fromkeys(units))
    found, said = [], []
    for unit, weight in zip(order, weights, strict=True):
        for copy in range(int(weight)):
            for each, mine, reply in zip(examples, units, answers, strict=True):
                if mine == unit:
                    found.append(replace(each, group=f"{unit} {copy}") if isinstance(each, Labelled) else each)
                    said.append(reply)
    return class_exam(definition, train=examples, examples=found), said


@pytest.mark.parametrize("name", CLASSED)
def test_weights_are_repetitions_in_every_benchmark(name: str) -> None:
    definition, dice = DEFINITIONS[name], random.Random(name)
    examples = [example(definition, dice, number) for number in range(25)]
    answers = [answer(definition, dice, each) for each in examples]
    exam = class_exam(definition, train=examples, examples=examples)
    assert exam.main == definition.metrics[0]
    for said in (answers, exam.baseline):
        metrics = exam.metrics(said)
        assert values(exam, said) == pytest.approx(measure(definition, said, examples))
    size = {metric.examples for metric in metrics.values()}
    assert len(size) == 1
    for _ in range(5):
        weights = np.array([dice.randrange(3) for _ in range(*size)], dtype=np.float64) + (np.arange(*size) < 2)
        other, replies = repeated(definition, examples, answers, weights)
        expected = values(other, replies)
        got = {key: float(metric.scores(weights[None])[0]) for key, metric in exam.metrics(answers).items()}
        assert got == pytest.approx(expected, abs=1e-9)


def sentence(dice: random.Random, tags: tuple[str, ...]) -> TaggedSentence:
    count = dice.randint(1, 7)
    return TaggedSentence(tuple(dice.choices(WORDS, k=count)), tuple(dice.choices(tags, k=count)), ("x:1",) * count)


def agrees(exam: Exam, again: Any, answers: list[Any], weights: list[int]) -> None:
    """Weights and repetitions; `again` makes an exam of some of its examples."""
    rows = [row for row, weight in enumerate(weights) for _ in range(weight)]
    expected = values(again(rows), [answers[row] for row in rows])
    got = {key: metric.scores(np.array([weights], dtype=float))[0] for key, metric in exam.metrics(answers).items()}
    assert got == pytest.approx(expected)


@pytest.mark.parametrize("tags", [TAGS, ("NOUN", "VERB", "X")])
def test_weights_of_sentences(tags: tuple[str, ...]) -> None:
    dice = random.Random(len(tags))
    sentences = [sentence(dice, tags) for _ in range(20)]
    exam = tag_exam(sentences, train=sentences)
    assert exam.main == ("f1" if tags is TAGS else "accuracy")
    assert (exam.size, exam.total) == (sum(len(each.words) for each in sentences), 20)
    answers = [[tag if dice.random() < 0.7 else dice.choice(tags) for tag in each.tags] for each in sentences]
    for _ in range(10):
        weights = [dice.randrange(4) for _ in sentences]
        agrees(exam, lambda rows: tag_exam([sentences[i] for i in rows], train=sentences), answers, weights)
    most = max(tags, key=lambda tag: sum(each.tags.count(tag) for each in sentences))
    assert exam.constant == most
    assert all(set(mine) == {most} for mine in exam.baseline)


@pytest.mark.parametrize("silent", [0.0, 0.4])
def test_weights_of_questions(silent: float) -> None:
    dice = random.Random(9)
    questions = []
    for number in range(20):
        context = " ".join(phrase(dice) for _ in range(3))
        context = f"{context} dogs"
        word = dice.choice([word for word in context.split() if word != "the"])  # articles alone are no answer
        start = context.index(word)
        known = () if dice.random() < silent else (Answer(word, start),)
        questions.append(Question("?", context, known, str(number), "x:1"))
    exam = question_exam(questions, total=7)
    answers = [dice.choice(["", phrase(dice), *(answer.text for answer in each.answers)]) for each in questions]
    assert ("unanswerable" in exam.metrics(answers)) == bool(silent)
    for _ in range(10):
        weights = [dice.randrange(1, 4) for _ in questions]
        agrees(exam, lambda rows: question_exam([questions[i] for i in rows], total=7), answers, weights)
    assert values(exam, exam.baseline)["exact_match"] == pytest.approx(sum(not q.answers for q in questions) / 20)


def test_a_tag_that_the_training_text_lacks_counts_as_wrong_and_is_told() -> None:
    train = [TaggedSentence(("a", "b"), ("B-x", "O"), ("x:1",) * 2)]
    asked = [TaggedSentence(("a", "b", "c"), ("B-new", "I-new", "O"), ("y:1",) * 3)]
    exam = tag_exam([*asked, *train], train=train)
    assert exam.remarks == ("2 words have a tag that the training text lacks (B-new, I-new), and count as wrong",)
    found = values(exam, [["B-x", "I-x", "O"], ["B-x", "O"]])
    assert found == pytest.approx({"accuracy": 3 / 5, "precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2})
    odd = tag_exam([TaggedSentence(("a",), ("X",), ("y:1",))], train=train)
    assert values(odd, [["O"]]) == {"accuracy": 0, "precision": 0, "recall": 0, "f1": 0}


def test_exams_without_examples() -> None:
    with pytest.raises(DataError, match="not a single sentence"):
        tag_exam([], train=[])
    with pytest.raises(DataError, match="not a single question"):
        question_exam([], total=3)
    unlabelled = [Labelled(("a",), None, "x:4")]
    with pytest.raises(DataError, match="x:4: no label"):
        class_exam(DEFINITIONS["glue/cola"], train=[Labelled(("a",), "acceptable", "x:1")], examples=unlabelled)
