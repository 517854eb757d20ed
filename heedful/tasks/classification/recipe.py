"""Recipe of classification."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer

from heedful.architectures.classifiers import EncoderClassifierConfig
from heedful.architectures.model import ClassifierConfig
from heedful.errors import RecipeError
from heedful.recipes.config import Config, FieldRole, InputPath, PositiveInt, add_inferred_kind, config_error
from heedful.recipes.recipe import PARTS
from heedful.recipes.text import NonEmptyName
from heedful.recipes.training import (
    FineTuningScheduleConfig,
    FineTuningTrainingConfig,
    FloatBelowOne,
    LinearConfig,
    NonNegativeFloat,
    PredictionTrainingConfig,
)
from heedful.tasks.auto_settings import FITTED_KEYS
from heedful.tasks.benchmarks.recipe import BenchmarkConfig, guess_file_kind
from heedful.tasks.fine_tuning import FineTuningDataConfig, FineTuningRecipe

if TYPE_CHECKING:
    from heedful.data.labelled import ColumnKey, LabelledExample, MultipleChoiceExample
    from heedful.data.readers import ExampleReader
    from heedful.tasks.benchmarks.definitions import BenchmarkDefinition


AnswerType = Literal["class", "number", "choice"]
"""What is predicted for a text: a class, a number, or one of several candidates."""


class LabelledFileConfig(Config):
    """One file of labelled texts.

    Abstract: the file format defines how it is read.
    """

    kind: str
    path: InputPath
    """the file"""
    text: NonEmptyName = "text"
    """name of the field that holds the text"""
    pair: NonEmptyName | None = None
    """name of the field that holds a second text, where two are judged together"""
    label: NonEmptyName = "label"
    """name of the field that holds the label"""

    @property
    def file_answer_type(self) -> AnswerType | None:
        """Answer type, if the file alone determines it."""
        return None

    @property
    def has_pairs(self) -> bool:
        """Whether each example has two texts."""
        return self.pair is not None

    @property
    def _text_fields(self) -> list[str]:
        return [self.text] if self.pair is None else [self.text, self.pair]

    @abstractmethod
    def reader(self, *, numbers: bool = False) -> ExampleReader[LabelledExample | MultipleChoiceExample]:
        """Open a reader of one or two texts with a label per line; `numbers` if labels are numbers and no classes."""


class LabelledJsonlConfig(LabelledFileConfig):
    """One file with a JSON object per line, plain or compressed."""

    kind: Literal["jsonl"] = "jsonl"
    candidates: NonEmptyName | None = None
    """name of the field that holds a list of candidates, each of which is read behind the text; label is then the
    number of the right one, from 0"""

    @field_validator("candidates")
    @classmethod
    def _check_no_pair(cls, candidates: str | None, info: ValidationInfo) -> str | None:
        """Reject `candidates` together with `pair`."""
        if candidates is not None and info.data.get("pair") is not None:
            raise ValueError("names the second texts, as pair does: leave one of them out")
        return candidates

    @model_serializer(mode="wrap")
    def _serialize_without_candidates(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # these keys say what a text was encoded from; runs of earlier versions had no candidates
        table: dict[str, Any] = serialise(self)
        return {key: value for key, value in table.items() if key != "candidates" or value is not None}

    @property
    def file_answer_type(self) -> AnswerType | None:
        """`choice` if there are candidates."""
        return None if self.candidates is None else "choice"

    @property
    def has_pairs(self) -> bool:
        """Whether each example has two texts."""
        return super().has_pairs or self.candidates is not None

    def reader(self, *, numbers: bool = False) -> ExampleReader[LabelledExample | MultipleChoiceExample]:
        """Open a reader of one or two texts with a label, or of candidates, per line; `numbers` if labels are numbers
        and no classes.
        """
        from heedful.data.labelled import ChoicesJsonl, LabelledJsonl

        if self.candidates is not None:
            return ChoicesJsonl(self.path, text=self.text, candidates=self.candidates, label=self.label)
        return LabelledJsonl(self.path, texts=self._text_fields, label=self.label, number=numbers)


class LabelledTsvConfig(LabelledFileConfig):
    """One file of tab-separated columns without quoting, plain or compressed."""

    kind: Literal["tsv"] = "tsv"
    header: bool = True
    """whether the first line names the columns; else they are counted from 0, as in text = "0" """

    @field_validator("header")
    @classmethod
    def _check_column_numbers(cls, header: bool, info: ValidationInfo) -> bool:
        """Reject `header = false` if a column is given by name instead of number."""
        for key in ("text", "pair", "label"):
            column = info.data.get(key)
            if not header and column is not None and not column.isdecimal():
                raise ValueError(f'must be true if columns have names, and {key} = "{column}" is not a number')
        return header

    def reader(self, *, numbers: bool = False) -> ExampleReader[LabelledExample | MultipleChoiceExample]:
        """Open a reader of one or two texts with a label per line; `numbers` if labels are numbers and no classes."""
        from heedful.data.labelled import LabelledCsv, LabelledTsv

        reader_class = LabelledCsv if isinstance(self, LabelledCsvConfig) else LabelledTsv
        names = [*self._text_fields, self.label]
        columns: list[ColumnKey] = list(names) if self.header else [int(name) for name in names]
        return reader_class(self.path, texts=columns[:-1], label=columns[-1], number=numbers, header=self.header)


class LabelledCsvConfig(LabelledTsvConfig):
    """One file of comma-separated columns, with or without double quotes, plain or compressed."""

    kind: Literal["csv"] = "csv"  # type: ignore[assignment]  # the keys are those of a TSV file


LabelledTextConfig = Annotated[
    LabelledTsvConfig | LabelledCsvConfig | LabelledJsonlConfig | BenchmarkConfig,
    Field(discriminator="kind"),
    add_inferred_kind(partial(guess_file_kind, csv="csv", other="tsv")),
]


ANSWER_TYPES: Final[Mapping[str, AnswerType]] = {
    "classes": "class",
    "pair": "class",
    "regression": "number",
    "choice": "choice",
}
"""Answer type by the head type of a benchmark task."""


_PAIR_HEADS: Final = ("pair", "regression")
"""Head types of benchmark tasks whose examples have two texts."""


def _has_candidates(info: ValidationInfo) -> bool:
    """Return whether a part of the data has candidates."""
    return any(getattr(info.data.get(part), "candidates", None) is not None for part in PARTS)


class ClassificationDataConfig(FineTuningDataConfig):
    """Labelled texts for training, for choosing the best checkpoint, and for evaluation."""

    train: LabelledTextConfig
    """the labelled texts to learn from"""
    validation: LabelledTextConfig
    """the labelled texts that checkpoints are compared on"""
    test: Annotated[LabelledTextConfig | None, FieldRole.FREE] = None
    """the labelled texts that `heedful evaluate` takes, instead of those of validation"""
    examples: PositiveInt | None = None
    """number of examples in train that are used, drawn by the seed; a smaller number is a subset of a larger one;
    all if not given"""
    numbers: Annotated[bool, FieldRole.ENCODING] = False
    """whether labels are numbers instead of classes (regression); a benchmark task sets this itself"""
    positive: NonEmptyName | None = None
    """the class whose precision and recall the metric f1 is about; a benchmark task sets this itself"""
    max_length: Annotated[int, Field(ge=8), FieldRole.ENCODING] = 128
    """longest sequence, in tokens, begin and end tokens included; the longer of two texts is cut at its end"""

    @field_validator("positive")
    @classmethod
    def _check_positive_class(cls, positive: str | None, info: ValidationInfo) -> str | None:
        """Reject `positive` for data without classes: numbers or candidates."""
        if positive is not None and info.data.get("numbers"):
            raise ValueError(
                "names a class, but data.numbers = true means that there are no classes: leave one of them out"
            )
        if positive is not None and _has_candidates(info):
            raise ValueError("names a class, but data with candidates has no classes: leave one of them out")
        return positive

    @field_validator("numbers")
    @classmethod
    def _check_numbers(cls, numbers: bool, info: ValidationInfo) -> bool:
        """Reject `numbers = true` for data with candidates."""
        if numbers and _has_candidates(info):
            raise ValueError(
                "must be false for data with candidates, because a model cannot learn their labels as numbers"
            )
        return numbers

    def reader(self, part: str) -> ExampleReader[LabelledExample | MultipleChoiceExample]:
        """Open a reader of labelled texts, or of candidates, of the data `part`: train, validation or test."""
        config: LabelledTextConfig = getattr(self, part)
        if isinstance(config, BenchmarkConfig):
            return cast("ExampleReader[LabelledExample | MultipleChoiceExample]", config.reader(*ANSWER_TYPES))
        return config.reader(numbers=self.numbers)

    def get_definition(self, part: str = "train") -> BenchmarkDefinition | None:
        """Return the benchmark definition of a part of the data; None for the user's own files."""
        config = getattr(self, part)
        return config.get_definition(*ANSWER_TYPES) if isinstance(config, BenchmarkConfig) else None

    @property
    def answer_type(self) -> AnswerType:
        """Answer type of all parts.

        Raises:
            RecipeError: two parts belong to different tasks.
        """
        types_by_part = {part: self._part_answer_type(part) for part in PARTS if getattr(self, part) is not None}
        for part, answered in types_by_part.items():
            if answered != types_by_part["train"]:
                raise RecipeError(
                    f"data.{part}: asks for a {answered} where data.train asks for a {types_by_part['train']}; take "
                    "parts of one task, or set data.numbers"
                )
        return types_by_part["train"]

    def _part_answer_type(self, part: str) -> AnswerType:
        """Return the answer type of a part of the data: that of its benchmark task, or of the user's file."""
        definition, config = self.get_definition(part), getattr(self, part)
        if definition is not None:
            return ANSWER_TYPES[definition.head]
        return config.file_answer_type or ("number" if self.numbers else "class")

    @property
    def has_pairs(self) -> bool:
        """Whether each training example has two texts."""
        if isinstance(self.train, BenchmarkConfig):
            return self.train.get_definition(*ANSWER_TYPES).head in _PAIR_HEADS
        return self.train.has_pairs

    @property
    def has_marked_words(self) -> bool:
        """Whether the benchmark task marks a word in its texts with asterisks."""
        definition = self.get_definition()
        return definition is not None and "asterisks" in definition.texts

    @property
    def positive_class(self) -> str | None:
        """The class that F1 is computed for; None if unknown."""
        definition = self.get_definition()
        if self.positive is not None or definition is None:
            return self.positive
        return definition.labels[-1] if {"f1", "f1a"} & {*definition.metrics} else None


class ClassificationTrainingConfig(FineTuningTrainingConfig, PredictionTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    schedule: FineTuningScheduleConfig = LinearConfig(rate=1e-4, warmup_share=0.1)
    """the learning rate of each step"""
    label_smoothing: Annotated[FloatBelowOne, FieldRole.FIXED] = 0.0
    """probability taken from the right class and spread over all"""
    decorrelation: Annotated[NonNegativeFloat | None, FieldRole.FIXED] = None
    """weight of the penalty |A A^T - I|^2 on hops that attend to the same tokens, for each text; 1 if not given where
    model.summary.kind = "self_attentive" """
    monitor: Annotated[
        Literal["loss", "accuracy", "f1", "macro_f1", "matthews", "pearson", "spearman"], FieldRole.FIXED
    ] = "loss"
    """metric that selects the best checkpoint on the validation texts: the likelihood or mean squared error, or one of
    the metrics that classes or numbers have"""


class ClassificationRecipe(FineTuningRecipe):
    """A class or a number is predicted for a text or a pair of texts, or one of several candidates is chosen."""

    made_by: ClassVar = "heedful.tasks.classification.task:TASK"
    forms: ClassVar = "heedful.tasks.data_formats:LABELLED_TEXTS"
    auto_keys: ClassVar = (
        "tokenizer",
        *(f"model.{key}" for key in ("kind", "embedding_dropout", "summary", "bag")),
        *FITTED_KEYS,
        *(f"training.{key}" for key in ("layer_decay", "average")),
    )

    task: Literal["classification"] = "classification"
    """the task to learn"""
    data: ClassificationDataConfig
    """the table [data] names the texts to train and validate on"""
    model: ClassifierConfig = EncoderClassifierConfig()
    """the architecture; with `init` that of the given model, where only dropout, summary and d_hidden can be changed"""
    training: Annotated[ClassificationTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""

    @field_validator("model")
    @classmethod
    def _check_pairs(cls, model: ClassifierConfig, info: ValidationInfo) -> ClassifierConfig:
        """Reject the user's own files without second texts if the model reads only pairs."""
        data = info.data.get("data")
        if data is None or not model.requires_pairs:
            return model
        for part in ("train", "validation", "test"):
            text = getattr(data, part)
            if text is not None and not isinstance(text, BenchmarkConfig) and not text.has_pairs:
                raise config_error(
                    f"data.{part}.pair",
                    f'must name the second text: a model of kind "{model.kind}" reads two texts together',
                )
        return model

    @field_validator("model")
    @classmethod
    def _check_voting(cls, model: ClassifierConfig, info: ValidationInfo) -> ClassifierConfig:
        """Reject a model with an n-gram classifier (`bag`) if the answers are not classes."""
        data = info.data.get("data")
        if data is not None and model.ngram_inverse_penalty is not None and data.answer_type != "class":
            raise config_error(
                "model.bag", f"predicts classes, but the answer here is a {data.answer_type}: leave it out"
            )
        return model

    @field_validator("training")
    @classmethod
    def _check_hops(cls, training: ClassificationTrainingConfig, info: ValidationInfo) -> ClassificationTrainingConfig:
        """Set `decorrelation` to 1 if the model has hops and the recipe leaves it out; reject it without hops."""
        model = info.data.get("model")
        if model is None:
            return training
        if model.has_hops and training.decorrelation is None:
            return training.model_copy(update={"decorrelation": 1.0})
        if training.decorrelation and not model.has_hops:
            raise config_error(
                "training.decorrelation",
                f"= {training.decorrelation} makes hops differ, but this model has no hops: set model.summary.kind = "
                '"self_attentive" or leave training.decorrelation out',
            )
        return training
