"""From configs to labelled texts and questions, and to the benchmark task that they are of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar, assert_never, cast

from heedful.data.drawn import Drawn
from heedful.data.labelled import Choice, Column, Labelled, LabelledCsv, LabelledJsonl, LabelledTsv
from heedful.data.labels import Labels
from heedful.data.questions import Question, QuestionsJsonl, Squad, SubjQA
from heedful.data.records import Reader
from heedful.errors import RecipeError
from heedful.recipes.fine_tuning import FineTuningRecipe
from heedful.recipes.labelled import (
    BenchmarkConfig,
    ClassificationDataConfig,
    LabelledCsvConfig,
    LabelledTextConfig,
    LabelledTsvConfig,
    QuestionsConfig,
    QuestionsJsonlConfig,
    SpansDataConfig,
    SquadConfig,
    SubjqaConfig,
)
from heedful.tasks.benchmarks.definitions import Definition, Head
from heedful.tasks.benchmarks.table import find
from heedful.tasks.classification.examples import Answered

T = TypeVar("T")

_ANSWERED: Final[dict[Head, Answered]] = {
    "classes": "class",
    "pair": "class",
    "regression": "number",
    "choice": "choice",
}


def build_labelled(config: LabelledTextConfig, *, numbers: bool = False) -> Reader[Labelled] | Reader[Choice]:
    """Labelled texts, to be read as often as one likes; `numbers` where labels are no classes."""
    if isinstance(config, BenchmarkConfig):
        definition = _of_head(config, *_ANSWERED)
        return cast(Reader[Labelled] | Reader[Choice], definition.reader(config.folder, config.split))
    names = [name for name in (config.text, config.pair, config.label) if name is not None]
    if isinstance(config, LabelledTsvConfig):
        columns: list[Column] = list(names) if config.header else [int(name) for name in names]
        kind = LabelledCsv if isinstance(config, LabelledCsvConfig) else LabelledTsv
        return kind(config.path, texts=columns[:-1], label=columns[-1], number=numbers, header=config.header)
    return LabelledJsonl(config.path, texts=names[:-1], label=names[-1], number=numbers)


def build_questions(config: QuestionsConfig) -> Reader[Question]:
    """Questions about texts, to be read as often as one likes."""
    match config:
        case BenchmarkConfig():
            return cast(Reader[Question], _of_head(config, "spans").reader(config.folder, config.split))
        case SquadConfig():
            return Squad(config.path)
        case SubjqaConfig():
            return SubjQA(config.path)
        case QuestionsJsonlConfig():
            return QuestionsJsonl(config.path, misplaced=config.misplaced)
    assert_never(config)


def used(examples: Iterable[T], recipe: FineTuningRecipe, *, part: str) -> Iterable[T]:
    """The examples of a part of the data that a run takes: of those to learn from as many as `data.examples` says."""
    count = recipe.data.examples if part == "train" else None
    return examples if count is None else Drawn(examples, count=count, seed=recipe.seed)


def labels_of(data: ClassificationDataConfig, examples: Iterable[Labelled | Choice]) -> Labels | None:
    """The classes of a benchmark task, or of all training examples; None where answers are no classes."""
    if answered_by(data) != "class":
        return None
    definition = definition_of(data)
    if definition is not None:
        return Labels(definition.labels)
    return Labels.learn(str(each.label) for each in examples if isinstance(each, Labelled) and each.label is not None)


def definition_of(data: ClassificationDataConfig | SpansDataConfig, part: str = "train") -> Definition | None:
    """The benchmark task that a part of the data is of; None for files of one's own."""
    config = getattr(data, part)
    return find(config.benchmark) if isinstance(config, BenchmarkConfig) else None


def answered_by(data: ClassificationDataConfig) -> Answered:
    """What is said of each text.

    Raises:
        RecipeError: two parts of the data are of different tasks.
    """
    found = {part: _answered(data, part) for part in ("train", "validation", "test") if getattr(data, part) is not None}
    for part, answered in found.items():
        if answered != found["train"]:
            raise RecipeError(
                f"data.{part}: asks for a {answered} where data.train asks for a {found['train']}; take parts of one "
                "task, or set data.numbers"
            )
    return found["train"]


def positive_of(data: ClassificationDataConfig) -> str | None:
    """The class that F1 is about; None where that is not said."""
    definition = definition_of(data)
    if data.positive is not None or definition is None:
        return data.positive
    return definition.labels[-1] if {"f1", "f1a"} & {*definition.metrics} else None


def _answered(data: ClassificationDataConfig, part: str) -> Answered:
    definition = definition_of(data, part)
    if definition is None:
        return "number" if data.numbers else "class"
    return _ANSWERED[_of_head(getattr(data, part), *_ANSWERED).head]


def _of_head(config: BenchmarkConfig, *heads: Head) -> Definition:
    definition = find(config.benchmark)
    if definition.head not in heads:
        task = "spans" if definition.head == "spans" else "classification"
        raise RecipeError(f'benchmark = "{config.benchmark}": is for recipes with task = "{task}"')
    return definition
