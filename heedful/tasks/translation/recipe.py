"""What a translation run is, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from heedful.architectures.model import ModelConfig, TransformerConfig
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.recipes.recipe import DataConfig, Recipe
from heedful.recipes.section import InputPath, Mark, Section, kind_from, misfit
from heedful.recipes.text import Column, Name, TokenizerConfig
from heedful.recipes.training import Weight, WritingTrainingConfig

if TYPE_CHECKING:
    from heedful.data.readers import Pair, Reader


def _other_than(key: str, what: str) -> AfterValidator:
    """Both languages do not stand in one place."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if value == info.data.get(key):
            raise ValueError(f"must be another {what} than {key}")
        return value

    return AfterValidator(check)


class LinesConfig(Section):
    """Two files whose lines translate each other, plain or gzipped."""

    kind: Literal["lines"] = "lines"
    source: InputPath
    """the file of source sentences, one a line"""
    target: Annotated[InputPath, _other_than("source", "file")]
    """the file of their translations, one a line"""

    def reader(self) -> Reader[Pair]:
        """Line by line."""
        from heedful.data.readers import LineAligned

        return LineAligned(self.source, self.target)


class TsvConfig(Section):
    """One file of tab-separated columns, plain or gzipped."""

    kind: Literal["tsv"] = "tsv"
    path: InputPath
    """the file"""
    source_column: Column = 0
    """column of the source sentences, counted from 0"""
    target_column: Annotated[Column, _other_than("source_column", "column")] = 1
    """column of their translations, counted from 0"""

    def reader(self) -> Reader[Pair]:
        """A pair for each line."""
        from heedful.data.readers import TabSeparated

        return TabSeparated(self.path, source_column=self.source_column, target_column=self.target_column)


class JsonlConfig(Section):
    """One file with a JSON object on each line, plain or gzipped."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """the file"""
    source_field: Name
    """name of the field that holds the source sentence"""
    target_field: Annotated[Name, _other_than("source_field", "field")]
    """name of the field that holds its translation"""

    def reader(self) -> Reader[Pair]:
        """A pair for each line."""
        from heedful.data.readers import JsonLines

        return JsonLines(self.path, source_field=self.source_field, target_field=self.target_field)


def _kind_of_text(table: Mapping[str, Any]) -> str | None:
    """The kind that the keys belong to; a file's name tells JSONL from TSV where only `path` is given."""
    if "source" in table or "target" in table:
        return "lines"
    if "source_field" in table or "target_field" in table:
        return "jsonl"
    if "path" not in table:
        return None
    name = str(table["path"]).removesuffix(".gz")
    return "jsonl" if name.endswith((".jsonl", ".ndjson")) and "source_column" not in table else "tsv"


ParallelTextConfig = Annotated[
    LinesConfig | TsvConfig | JsonlConfig, Field(discriminator="kind"), kind_from(_kind_of_text)
]


class TranslationDataConfig(DataConfig):
    """Parallel text to train on, to choose the best checkpoint by, and to report a score of."""

    train: ParallelTextConfig
    """the parallel text to learn from"""
    validation: ParallelTextConfig
    """the parallel text that checkpoints are compared on"""
    test: Annotated[ParallelTextConfig | None, Mark.FREE] = None
    """the parallel text that `heedful evaluate` takes unless it is given another"""
    max_length: Annotated[int, Field(ge=1), Mark.ENCODES] = 256
    """longest sentence, in tokens with the one that ends it; pairs with a longer side are left out of training"""


class PairTokenizerConfig(TokenizerConfig):
    """How both languages are cut into tokens; learned from the training text, always the same way."""

    joint: bool = True
    """one vocabulary for both languages, or one for each"""


class TranslationTrainingConfig(WritingTrainingConfig):
    """The training loop; whichever of `steps`, `epochs` and `minutes` is over first ends it; give at least one."""

    decorrelation: Annotated[Weight, Mark.FIXED] = 0.0
    """weight of the penalty |A A^T - I|^2 on attention weights that look alike"""
    monitor: Annotated[Literal["loss", "bleu"], Mark.FIXED] = "loss"
    """what finds the best checkpoint on the validation text: the likelihood, or BLEU of greedy translations"""


class TranslationRecipe(Recipe):
    """Sentences become other sentences."""

    made_by: ClassVar = "heedful.tasks.translation.run:KIND"
    shown_by: ClassVar = "heedful.tasks.translation.demonstration:TranslationDemonstration"

    task: Literal["translation"] = "translation"
    """what is learned"""
    data: TranslationDataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: PairTokenizerConfig = PairTokenizerConfig()
    """how text is cut into tokens"""
    model: ModelConfig = TransformerConfig()
    """the architecture"""
    training: Annotated[TranslationTrainingConfig, Mark.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[GenerationConfig, Mark.FREE] = BeamConfig()
    """how the finished model translates unless a command is told otherwise"""

    @field_validator("training")
    @classmethod
    def _suits(cls, training: TranslationTrainingConfig, info: ValidationInfo) -> TranslationTrainingConfig:
        model = info.data.get("model")
        if model is None:
            return training
        if training.decorrelation and not model.has_heads:
            raise misfit(
                "training.decorrelation",
                f"= {training.decorrelation} pushes attention heads apart, and a model of kind "
                f'"{model.kind}" has no heads: set training.decorrelation = 0',
            )
        return training.suited(draws=model.draws, key="model.reading.weights")

    @field_validator("model")
    @classmethod
    def _fits(cls, model: ModelConfig, info: ValidationInfo) -> ModelConfig:
        tokenizer, data = info.data.get("tokenizer"), info.data.get("data")
        if tokenizer is not None and not tokenizer.joint and model.one_table:
            raise misfit(
                "model.tie",
                '= "three_way" needs one vocabulary for both languages: set model.tie = "two_way" or '
                "tokenizer.joint = true",
            )
        longest = model.longest
        if data is not None and longest is not None and longest.tokens <= data.max_length:
            raise misfit(
                longest.key,
                f"= {longest.tokens} must be above data.max_length = {data.max_length}, "
                "the token that begins or ends a sentence takes a place too",
            )
        return model
