"""Recipe of language modelling."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ValidationInfo, field_validator

from heedful.architectures.model import LanguageModelConfig
from heedful.architectures.stack import DecoderConfig
from heedful.recipes.config import Config, FieldRole, InputPath, PositiveInt, config_error
from heedful.recipes.generation import ContinuationConfig, SampledContinuationConfig
from heedful.recipes.recipe import DataConfig, FineTunableRecipe, is_model_known
from heedful.recipes.text import TextConfig, TextTokenizerConfig, TextVocabularyConfig
from heedful.recipes.training import FineTunableTrainingConfig, FloatBelowOne, PredictionTrainingConfig


class LanguageDataConfig(DataConfig):
    """Text for training, for choosing the best checkpoint, and for evaluation."""

    train: TextConfig
    """the text to learn from"""
    validation: TextConfig
    """the text that checkpoints are compared on"""
    test: Annotated[TextConfig | None, FieldRole.FREE] = None
    """the text that `heedful evaluate` takes unless it is given another"""
    length: PositiveInt = 256
    """maximum number of tokens of a training piece"""
    documents: Literal["packed", "apart"] = "packed"
    """whether pieces are cut anywhere in the stream of all documents, or never hold tokens of two"""


class LanguageTrainingConfig(FineTunableTrainingConfig, PredictionTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    label_smoothing: Annotated[FloatBelowOne, FieldRole.FIXED] = 0.0
    """probability taken from the right token and spread over all"""
    truncation: Annotated[PositiveInt | None, FieldRole.FIXED] = None
    """tokens after which gradients stop while the state goes on (truncated back-propagation through time)"""
    monitor: Annotated[Literal["loss"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation text: the likelihood"""


class LanguageRecipe(FineTunableRecipe):
    """A language model continues texts."""

    made_by: ClassVar = "heedful.tasks.language.task:TASK"
    forms: ClassVar = "heedful.tasks.data_formats:TEXTS"
    auto_keys: ClassVar = (
        *("data.length", "tokenizer"),
        *(f"model.{key}" for key in ("d_model", "layers", "heads", "dropout", "bias", "positions")),
        *(f"training.{key}" for key in ("batch_tokens", "optimizer", "schedule", "clip", "evaluate_every")),
    )
    body: ClassVar = ""
    required_init: ClassVar = "a language model"

    task: Literal["language_modelling"] = "language_modelling"
    """the task to learn"""
    data: LanguageDataConfig
    """the table [data] names the texts to train and validate on"""
    init: InputPath | None = None
    """folder of a trained model whose vocabulary, architecture and weights training begins with"""
    tokenizer: TextVocabularyConfig = TextTokenizerConfig()
    """how text is cut into tokens; with `init` in the same way as that model"""
    model: LanguageModelConfig = DecoderConfig()
    """the architecture"""
    training: Annotated[LanguageTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[ContinuationConfig, FieldRole.FREE] = SampledContinuationConfig()
    """how the finished model writes unless a command option says otherwise"""

    @property
    def needs_fitting(self) -> bool:
        """Whether the recipe leaves open the vocabulary, the model or the learning rate."""
        is_specified = not self.model_fields_set.isdisjoint(("tokenizer", "model"))
        return self.init is None and not (is_specified and self.training.has_schedule)

    @classmethod
    def accepts_init(cls, model: Config) -> bool:
        """Return whether the model is a language model."""
        return isinstance(model, DecoderConfig)

    @field_validator("model")
    @classmethod
    def _check_positions(cls, model: LanguageModelConfig, info: ValidationInfo) -> LanguageModelConfig:
        """Reject models that have fewer positions than `data.length`."""
        data, longest = info.data.get("data"), model.length_limit
        if data is not None and longest is not None and is_model_known(info) and longest.tokens < data.length:
            raise config_error(
                longest.key,
                f"= {longest.tokens} must be at least data.length = {data.length}, or a piece has more tokens than "
                "there are positions",
            )
        return model
