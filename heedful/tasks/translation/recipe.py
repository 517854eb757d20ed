"""What a translation run is, as data."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.model import ModelConfig, TransformerConfig
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.recipes.parallel import ParallelTextConfig
from heedful.recipes.recipe import DataConfig, Recipe
from heedful.recipes.section import Mark, misfit
from heedful.recipes.text import TokenizerConfig
from heedful.recipes.training import Weight, WritingTrainingConfig


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

    target: TokenizerConfig | None = None
    """how the language that is written is cut, where it is otherwise: letters that become phonemes between spaces"""
    joint: bool = Field(default_factory=lambda given: given.get("target") is None)
    """one vocabulary for both languages, or one for each; true if not given, unless there is a `target`"""

    @field_validator("joint")
    @classmethod
    def _one_way(cls, joint: bool, info: ValidationInfo) -> bool:
        if joint and info.data.get("target") is not None:
            raise ValueError("must be false where tokenizer.target cuts one of the languages in another way")
        return joint

    @property
    def written(self) -> TokenizerConfig:
        """How the target is cut."""
        return self.target or self


class TranslationTrainingConfig(WritingTrainingConfig):
    """The training loop; whichever of `steps`, `epochs` and `minutes` is over first ends it; give at least one."""

    decorrelation: Annotated[Weight, Mark.FIXED] = 0.0
    """weight of the penalty |A A^T - I|^2 on attention weights that look alike"""
    monitor: Annotated[Literal["loss", "accuracy", "bleu"], Mark.FIXED] = "loss"
    """what finds the best checkpoint on the validation text: the likelihood, how often the right token is the most
    probable one, or BLEU of greedy translations"""


class TranslationRecipe(Recipe):
    """Sentences become other sentences."""

    made_by: ClassVar = "heedful.tasks.translation.run:KIND"
    shown_by: ClassVar = "heedful.tasks.translation.demonstration:TranslationDemonstration"
    forms: ClassVar = "heedful.tasks.translation.forms:FORMS"
    fitted: ClassVar = (
        "tokenizer.size",
        *(f"model.{key}" for key in ("d_model", "heads", "d_ff", "encoder_layers", "decoder_layers")),
        *(f"model.{key}" for key in ("dropout", "residual", "positions")),
        *(f"training.{key}" for key in ("batch_tokens", "schedule", "monitor", "evaluate_every")),
    )

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

    @property
    def is_open(self) -> bool:
        """Where a Transformer is to be trained, and nobody says how large it is, or how fast it learns."""
        return isinstance(self.model, TransformerConfig) and not (self.model.sized and self.training.paced)

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
        if data is not None and longest is not None:
            longest.require(data.max_length, "a sentence")
        return model
