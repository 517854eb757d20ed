"""From the recipe of a labelled task to what its models are asked."""

from __future__ import annotations

from typing import Final, assert_never

from heedful.recipes.build_data import build_tagged
from heedful.recipes.build_labelled import (
    answered_by,
    build_labelled,
    build_questions,
    definition_of,
    labels_of,
    positive_of,
)
from heedful.recipes.fine_tuning import ClassificationRecipe, SpansRecipe, TaggingRecipe
from heedful.tasks.benchmarks.definitions import Definition, Example, Head, Metric
from heedful.tasks.classification.examples import Answered
from heedful.tasks.exam import ClassExam, Exam, QuestionExam, TagExam

LabelledRecipe = ClassificationRecipe | TaggingRecipe | SpansRecipe

_OWN: Final[dict[Answered, tuple[Head, tuple[Metric, ...]]]] = {
    "class": ("classes", ("accuracy", "macro_f1", "matthews")),
    "number": ("regression", ("pearson", "spearman")),
}


def build_exam(recipe: LabelledRecipe, part: str) -> Exam:
    """The examples of a part of the data, whatever is learned from.

    Raises:
        DataError: a file is missing, holds no examples, or none with labels.
        RecipeError: parts of the data are of different tasks.
    """
    match recipe:
        case ClassificationRecipe():
            return _class_exam(recipe, part)
        case TaggingRecipe():
            sentences = list(build_tagged(getattr(recipe.data, part)))
            return TagExam(train=build_tagged(recipe.data.train), sentences=sentences)
        case SpansRecipe():
            questions = list(build_questions(getattr(recipe.data, part)))
            return QuestionExam(total=sum(1 for _ in build_questions(recipe.data.train)), questions=questions)
    assert_never(recipe)


def _class_exam(recipe: ClassificationRecipe, part: str) -> ClassExam:
    data = recipe.data
    train: list[Example] = [*build_labelled(data.train, numbers=data.numbers)]
    examples: list[Example] = [*build_labelled(getattr(data, part), numbers=data.numbers)]
    return ClassExam(definition_of(data, part) or _own(recipe), train=train, examples=examples)


def _own(recipe: ClassificationRecipe) -> Definition:
    """What a task with files of its own would be called among the benchmarks."""
    data = recipe.data
    head, metrics = _OWN[answered_by(data)]
    positive, known = positive_of(data), labels_of(data, build_labelled(data.train, numbers=data.numbers))
    labels = () if known is None else known.names
    if positive is not None:
        metrics = (*metrics, "f1")
        labels = (*(name for name in labels if name != positive), positive)
    return Definition(
        name=recipe.task,
        title="",
        head=head,
        metrics=metrics,
        folders=(),
        sources={},
        texts="",
        labels=labels,
    )
