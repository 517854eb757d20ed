"""What a tagging run is, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.model import TaggerConfig
from heedful.architectures.stack import EncoderConfig
from heedful.recipes.section import Count, InputPath, Mark, kind_from
from heedful.recipes.text import Column, FileConfig, TokenizerConfig, WordsTokenizerConfig
from heedful.recipes.training import Below1, FineTuningConfig
from heedful.tasks.fine_tuning import FineTuningDataConfig, FineTuningRecipe
from heedful.tasks.fine_tuning_fit import KEYS

if TYPE_CHECKING:
    from heedful.data.readers import Reader
    from heedful.data.tagged import TaggedSentence


class ColumnsConfig(FileConfig):
    """One word a line with its tag in another column, an empty line between sentences; plain or gzipped."""

    read_by: ClassVar = "heedful.data.tagged:Columns"

    kind: Literal["columns"] = "columns"
    path: InputPath
    """the file; columns are separated by tabs, or by spaces where a line has no tab"""
    word_column: Column = 0
    """column of the words, counted from 0"""
    tag_column: Column = 1
    """column of their tags, counted from 0"""

    @field_validator("tag_column")
    @classmethod
    def _differs(cls, tag_column: int, info: ValidationInfo) -> int:
        if tag_column == info.data.get("word_column"):
            raise ValueError("must be another column than word_column")
        return tag_column


class ConlluConfig(FileConfig):
    """Universal Dependencies' CoNLL-U, plain or gzipped; ranges and empty nodes are left out."""

    read_by: ClassVar = "heedful.data.tagged:ConllU"

    kind: Literal["conllu"] = "conllu"
    tag: Literal["upos", "xpos", "deprel"] = "upos"
    """which annotation is the tag"""


def _kind_of_tagged(table: Mapping[str, Any]) -> str:
    """CoNLL-U by the file's name."""
    return "conllu" if str(table.get("path", "")).removesuffix(".gz").endswith(".conllu") else "columns"


TaggedTextConfig = Annotated[ColumnsConfig | ConlluConfig, Field(discriminator="kind"), kind_from(_kind_of_tagged)]


class TaggingDataConfig(FineTuningDataConfig):
    """Tagged text to train on, to choose the best checkpoint by, and to report an accuracy of."""

    train: TaggedTextConfig
    """the tagged text to learn from"""
    validation: TaggedTextConfig
    """the tagged text that checkpoints are compared on"""
    test: Annotated[TaggedTextConfig | None, Mark.FREE] = None
    """the tagged text that `heedful evaluate` takes unless it is given another"""
    examples: Count | None = None
    """how many of the sentences in train are learned from, drawn by the seed, a smaller number among a larger one's;
    all if not given"""
    max_length: Annotated[int, Field(ge=1), Mark.ENCODES] = 256
    """longest sentence, in tokens with the begin and end that an encoder of kind "transformer" reads around it; longer
    ones are left out of training"""

    def reader(self, part: str) -> Reader[TaggedSentence]:
        """Tagged sentences."""
        config: TaggedTextConfig = getattr(self, part)
        return config.reader()


class TaggingTrainingConfig(FineTuningConfig):
    """The training loop; whichever of `steps`, `epochs` and `minutes` is over first ends it; give at least one."""

    label_smoothing: Annotated[Below1, Mark.FIXED] = 0.0
    """probability taken from the right tag and spread over all"""
    monitor: Annotated[Literal["loss", "accuracy", "f1"], Mark.FIXED] = "loss"
    """what finds the best checkpoint on the validation text: the likelihood, the share of right tags, or F1 of whole
    entities where tags are such as B-person, I-person and O"""


class TaggingRecipe(FineTuningRecipe):
    """Each word of a sentence gets a tag."""

    made_by: ClassVar = "heedful.tasks.tagging.run:KIND"
    forms: ClassVar = "heedful.tasks.tagging.forms:FORMS"
    fitted: ClassVar = (
        "tokenizer",
        *(f"model.{key}" for key in ("kind", "d_model", "dropout")),
        *KEYS,
        "training.layer_decay",
    )

    task: Literal["tagging"] = "tagging"
    """what is learned"""
    data: TaggingDataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how words are cut into tokens, a word's tag stands at its first; with `init` as that model does"""
    model: TaggerConfig = EncoderConfig()
    """the architecture; with `init` that of that model, of which nothing but dropout can be changed"""
    training: Annotated[TaggingTrainingConfig, Mark.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
