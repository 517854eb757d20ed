"""The recipe of a tagging run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.model import TaggerConfig
from heedful.architectures.stack import EncoderConfig
from heedful.compression import strip_compression_suffix
from heedful.recipes.config import FieldRole, InputPath, PositiveInt, add_inferred_kind
from heedful.recipes.text import ColumnIndex, FileConfig, TokenizerConfig, WordsTokenizerConfig
from heedful.recipes.training import FineTuningTrainingConfig, FloatBelowOne, PredictionTrainingConfig
from heedful.tasks.auto_settings import FITTED_KEYS
from heedful.tasks.fine_tuning import FineTuningDataConfig, FineTuningRecipe

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader
    from heedful.data.tagged import TaggedSentence


class ColumnsConfig(FileConfig):
    """A file with a word and its tag per line in columns, and an empty line between sentences; plain or compressed."""

    read_by: ClassVar = "heedful.data.tagged:TaggedColumnsReader"

    kind: Literal["columns"] = "columns"
    path: InputPath
    """the file; columns are separated by tabs, or by spaces where a line has no tab"""
    word_column: ColumnIndex = 0
    """column of the words, counted from 0"""
    tag_column: ColumnIndex = 1
    """column of their tags, counted from 0"""

    @field_validator("tag_column")
    @classmethod
    def _check_columns_differ(cls, tag_column: int, info: ValidationInfo) -> int:
        """Reject a tag column that is the word column."""
        if tag_column == info.data.get("word_column"):
            raise ValueError("must be another column than word_column")
        return tag_column


class ConlluConfig(FileConfig):
    """A CoNLL-U file of Universal Dependencies, plain or compressed; ranges and empty nodes are skipped."""

    read_by: ClassVar = "heedful.data.tagged:ConlluReader"

    kind: Literal["conllu"] = "conllu"
    tag: Literal["upos", "xpos", "deprel"] = "upos"
    """the annotation that is used as the tag"""


def _guess_tagged_kind(table: Mapping[str, Any]) -> str:
    """Guess the format from the file name: CoNLL-U or columns."""
    return "conllu" if strip_compression_suffix(str(table.get("path", ""))).endswith(".conllu") else "columns"


TaggedTextConfig = Annotated[
    ColumnsConfig | ConlluConfig, Field(discriminator="kind"), add_inferred_kind(_guess_tagged_kind)
]


class TaggingDataConfig(FineTuningDataConfig):
    """Tagged text for training, for choosing the best checkpoint, and for evaluation."""

    train: TaggedTextConfig
    """the tagged text to learn from"""
    validation: TaggedTextConfig
    """the tagged text that checkpoints are compared on"""
    test: Annotated[TaggedTextConfig | None, FieldRole.FREE] = None
    """the tagged text that `heedful evaluate` takes unless it is given another"""
    examples: PositiveInt | None = None
    """number of sentences in train that are used, drawn by the seed; a smaller number is a subset of a larger one;
    all if not given"""
    max_length: Annotated[int, Field(ge=1), FieldRole.ENCODING] = 256
    """longest sentence, in tokens with the begin and end that an encoder of kind "transformer" reads around it; longer
    ones are left out of training"""

    def reader(self, part: str) -> ExampleReader[TaggedSentence]:
        """Build the reader of the data `part`: train, validation or test."""
        config: TaggedTextConfig = getattr(self, part)
        return config.reader()


class TaggingTrainingConfig(FineTuningTrainingConfig, PredictionTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    label_smoothing: Annotated[FloatBelowOne, FieldRole.FIXED] = 0.0
    """probability taken from the right tag and spread over all"""
    monitor: Annotated[Literal["loss", "accuracy", "f1"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation text: the likelihood, the share of right tags, or F1 of
    whole entities where tags are such as B-person, I-person and O"""


class TaggingRecipe(FineTuningRecipe):
    """Each word of a sentence gets a tag."""

    made_by: ClassVar = "heedful.tasks.tagging.task:TASK"
    forms: ClassVar = "heedful.tasks.data_formats:TAGGED_SENTENCES"
    auto_keys: ClassVar = (
        "tokenizer",
        *(f"model.{key}" for key in ("kind", "d_model", "dropout")),
        *FITTED_KEYS,
        "training.layer_decay",
    )

    task: Literal["tagging"] = "tagging"
    """the task to learn"""
    data: TaggingDataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how words are cut into tokens; the first token of a word has its tag; with `init` in the same way as that
    model"""
    model: TaggerConfig = EncoderConfig()
    """the architecture; with `init` that of the given model, where only dropout can be changed"""
    training: Annotated[TaggingTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
