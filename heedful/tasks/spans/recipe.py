"""The recipe of an extractive question answering run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.stack import EncoderConfig
from heedful.recipes.config import FieldRole, PositiveInt, add_inferred_kind, config_error
from heedful.recipes.text import FileConfig
from heedful.recipes.training import FineTuningScheduleConfig, FineTuningTrainingConfig, LinearConfig
from heedful.tasks.auto_settings import FITTED_KEYS
from heedful.tasks.benchmarks.recipe import BenchmarkConfig, guess_file_kind
from heedful.tasks.fine_tuning import FineTuningDataConfig, FineTuningRecipe

if TYPE_CHECKING:
    from heedful.data.questions import ExtractiveQuestion
    from heedful.data.readers import ExampleReader


class SquadConfig(FileConfig):
    """A SQuAD JSON file, 1.1 or 2.0, plain or compressed."""

    read_by: ClassVar = "heedful.data.questions:SquadReader"

    kind: Literal["squad"] = "squad"


class QuestionsJsonlConfig(FileConfig):
    """A file with one JSON object per line: question, context and answers; plain or compressed."""

    read_by: ClassVar = "heedful.data.questions:QuestionsJsonl"

    kind: Literal["jsonl"] = "jsonl"
    misplaced: Literal["error", "nearest"] = "error"
    """what an answer counts as that is not where the file says: an error, or the nearest place where it occurs"""


class SubjqaConfig(FileConfig):
    """A SubjQA CSV file, plain or compressed."""

    read_by: ClassVar = "heedful.data.questions:SubjQAReader"

    kind: Literal["subjqa"] = "subjqa"


QuestionsConfig = Annotated[
    SquadConfig | QuestionsJsonlConfig | SubjqaConfig | BenchmarkConfig,
    Field(discriminator="kind"),
    add_inferred_kind(partial(guess_file_kind, csv="subjqa", other="squad")),
]


class SpansDataConfig(FineTuningDataConfig):
    """Questions about texts for training, for choosing the best checkpoint, and for evaluation."""

    train: QuestionsConfig
    """the questions to learn from"""
    validation: QuestionsConfig
    """the questions that checkpoints are compared on, and that set when the model gives no answer"""
    test: Annotated[QuestionsConfig | None, FieldRole.FREE] = None
    """the questions that `heedful evaluate` takes, instead of those of validation"""
    examples: PositiveInt | None = None
    """number of questions in train that are used, drawn by the seed; a smaller number is a subset of a larger one;
    all if not given"""
    max_length: Annotated[int, Field(ge=16), FieldRole.ENCODING] = 256
    """longest window, in tokens with question, begin and ends; longer contexts are read in several"""
    max_question: Annotated[PositiveInt, FieldRole.ENCODING] = Field(
        default_factory=lambda given: min(64, given["max_length"] // 3)
    )
    """maximum number of tokens of a question, the rest is dropped; 64 or a third of max_length if not given"""
    stride: Annotated[PositiveInt, FieldRole.ENCODING] = Field(
        default_factory=lambda given: max(1, (given["max_length"] - given["max_question"] - 3) // 2)
    )
    """tokens between the starts of two windows; half of the context in a window if not given"""
    max_answer: PositiveInt = 30
    """maximum number of tokens of an answer"""

    @field_validator("stride")
    @classmethod
    def _check_stride(cls, stride: int, info: ValidationInfo) -> int:
        """Reject a question length that leaves no room for context in a window, and a stride that leaves gaps between
        windows.
        """
        length, question = info.data.get("max_length"), info.data.get("max_question")
        if length is None or question is None:
            return stride
        room = length - question - 3
        if room < 1:
            raise config_error(
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

    def reader(self, part: str) -> ExampleReader[ExtractiveQuestion]:
        """Build the reader of the data `part`: train, validation or test."""
        config: QuestionsConfig = getattr(self, part)
        return cast(
            "ExampleReader[ExtractiveQuestion]",
            config.reader("spans") if isinstance(config, BenchmarkConfig) else config.reader(),
        )


class SpansTrainingConfig(FineTuningTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    schedule: FineTuningScheduleConfig = LinearConfig(rate=1e-4, warmup_share=0.1)
    """the learning rate of each step"""
    monitor: Annotated[Literal["loss", "exact_match", "f1"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation questions: the likelihood, exact match, or F1 of
    words"""


class SpansRecipe(FineTuningRecipe):
    """Questions are answered by a span of a text, or not at all."""

    made_by: ClassVar = "heedful.tasks.spans.task:TASK"
    forms: ClassVar = "heedful.tasks.data_formats:QUESTIONS"
    auto_keys: ClassVar = (*FITTED_KEYS, "training.layer_decay")

    task: Literal["spans"] = "spans"
    """the task to learn"""
    data: SpansDataConfig
    """the table [data] names the questions to train and validate on"""
    model: EncoderConfig = EncoderConfig()
    """the architecture; with `init` that of the given model, where only dropout can be changed"""
    training: Annotated[SpansTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
