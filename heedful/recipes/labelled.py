"""What a classifier or an answerer learns from, as data: labelled texts, questions, and benchmark tasks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.recipes.section import Count, InputPath, Section, kind_from, misfit

Name = Annotated[str, Field(min_length=1)]


class LabelledJsonlConfig(Section):
    """One file with a JSON object on each line, plain or gzipped."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    text: Name = "text"
    """name of the field that holds the text"""
    pair: Name | None = None
    """name of the field that holds a second text, where two are judged together"""
    label: Name = "label"
    """name of the field that holds the label"""


class LabelledTsvConfig(LabelledJsonlConfig):
    """One file of tab-separated columns without any quoting, plain or gzipped."""

    kind: Literal["tsv"] = "tsv"  # type: ignore[assignment]  # the keys are those of a JSONL file
    header: bool = True
    """whether the first line names the columns; else they are counted from 0, as in text = "0" """

    @field_validator("header")
    @classmethod
    def _counted(cls, header: bool, info: ValidationInfo) -> bool:
        for key in ("text", "pair", "label"):
            column = info.data.get(key)
            if not header and column is not None and not column.isdecimal():
                raise ValueError(f'must be true where columns have names, and {key} = "{column}" is no number')
        return header


class LabelledCsvConfig(LabelledTsvConfig):
    """One file of columns between commas, some perhaps in double quotes, plain or gzipped."""

    kind: Literal["csv"] = "csv"  # type: ignore[assignment]  # the keys are those of a TSV file


class BenchmarkConfig(Section):
    """A split of a benchmark task, from the files as they are published (`heedful describe --tasks`)."""

    kind: Literal["benchmark"] = "benchmark"
    benchmark: Name
    """name of the task, such as sst-2 or superglue/copa"""
    folder: InputPath
    """the folder with its files, or that of the whole benchmark"""
    split: Literal["train", "dev", "test"]
    """which part; test often has no labels"""


def _kind_of_labelled(table: Mapping[str, Any]) -> str:
    """A benchmark where one is named, else what the file's name says."""
    if "benchmark" in table or "folder" in table:
        return "benchmark"
    name = str(table.get("path", "")).removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    return "csv" if name.endswith(".csv") else "tsv"


LabelledTextConfig = Annotated[
    LabelledTsvConfig | LabelledCsvConfig | LabelledJsonlConfig | BenchmarkConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_labelled),
]


class ClassificationDataConfig(Section):
    """Labelled texts to train on, to choose the best checkpoint by, and to report metrics of."""

    train: LabelledTextConfig
    """the labelled texts to learn from"""
    validation: LabelledTextConfig
    """the labelled texts that checkpoints are compared on"""
    test: LabelledTextConfig | None = None
    """the labelled texts that `heedful evaluate` takes, instead of those of validation"""
    examples: Count | None = None
    """how many of the examples in train are learned from, drawn by the seed, a smaller number among a larger one's;
    all if not given"""
    numbers: bool = False
    """whether labels are numbers instead of classes (regression); a benchmark task knows by itself"""
    positive: Name | None = None
    """the class whose precision and recall the metric f1 is about; a benchmark task knows by itself"""
    max_length: Annotated[int, Field(ge=8)] = 128
    """longest sequence, in tokens with its begin and ends; of longer texts the longer one loses its end"""

    @field_validator("positive")
    @classmethod
    def _of_classes(cls, positive: str | None, info: ValidationInfo) -> str | None:
        if positive is not None and info.data.get("numbers"):
            raise ValueError("names a class, and where data.numbers = true there are none: leave one of them away")
        return positive


class SquadConfig(Section):
    """SQuAD's JSON, 1.1 or 2.0, plain or gzipped."""

    kind: Literal["squad"] = "squad"
    path: InputPath
    """the file"""


class QuestionsJsonlConfig(Section):
    """One file with a question, a context and answers on each line, plain or gzipped."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    misplaced: Literal["error", "nearest"] = "error"
    """of an answer that does not stand where the file says: an error, or the nearest place where it does stand"""


class SubjqaConfig(Section):
    """SubjQA's CSV, plain or gzipped."""

    kind: Literal["subjqa"] = "subjqa"
    path: InputPath
    """the file"""


def _kind_of_questions(table: Mapping[str, Any]) -> str:
    """A benchmark where one is named, else what the file's name says."""
    if "benchmark" in table or "folder" in table:
        return "benchmark"
    name = str(table.get("path", "")).removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    return "subjqa" if name.endswith(".csv") else "squad"


QuestionsConfig = Annotated[
    SquadConfig | QuestionsJsonlConfig | SubjqaConfig | BenchmarkConfig,
    Field(discriminator="kind"),
    kind_from(_kind_of_questions),
]


class SpansDataConfig(Section):
    """Questions about texts to train on, to choose the best checkpoint by, and to report metrics of."""

    train: QuestionsConfig
    """the questions to learn from"""
    validation: QuestionsConfig
    """the questions that checkpoints are compared on, and that tell when to say nothing"""
    test: QuestionsConfig | None = None
    """the questions that `heedful evaluate` takes, instead of those of validation"""
    examples: Count | None = None
    """how many of the questions in train are learned from, drawn by the seed, a smaller number among a larger one's;
    all if not given"""
    max_length: Annotated[int, Field(ge=16)] = 256
    """longest window, in tokens with question, begin and ends; longer contexts are read in several"""
    max_question: Count = Field(default_factory=lambda given: min(64, given["max_length"] // 3))
    """tokens of a question at most, what is behind them is dropped; 64 or a third of max_length if not given"""
    stride: Count = Field(default_factory=lambda given: max(1, (given["max_length"] - given["max_question"] - 3) // 2))
    """tokens between the begins of two windows; half of what a window has room for if not given"""
    max_answer: Count = 30
    """tokens of an answer at most"""

    @field_validator("stride")
    @classmethod
    def _overlaps(cls, stride: int, info: ValidationInfo) -> int:
        length, question = info.data.get("max_length"), info.data.get("max_question")
        if length is None or question is None:
            return stride
        room = length - question - 3
        if room < 1:
            raise misfit(
                "data.max_question",
                f"= {question} leaves no room for context in windows of data.max_length = {length}: lower the first "
                "or raise the second",
            )
        if stride > room:
            raise ValueError(
                f"must be at most {room}, the tokens of context in a window (data.max_length - data.max_question - 3), "
                "or windows leave gaps"
            )
        return stride
