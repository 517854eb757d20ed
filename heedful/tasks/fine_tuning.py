"""Base classes of recipes that fine-tune a pre-trained encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import ValidationInfo, field_validator

from heedful.architectures.model import ClassifierConfig, TaggerConfig
from heedful.architectures.stack import EncoderConfig
from heedful.recipes.config import Config, FieldRole, InputPath, config_error
from heedful.recipes.recipe import ArchitectureConfig, DataConfig, FineTunableRecipe, is_model_known
from heedful.recipes.text import TokenizerConfig, WordsTokenizerConfig
from heedful.recipes.training import FineTuningTrainingConfig


class FineTuningDataConfig(DataConfig):
    """Data that an encoder learns to label.

    Abstract: each task defines its files, and the maximum length of an example.
    """

    if TYPE_CHECKING:
        examples: int | None
        max_length: int


def require_positions(model: ArchitectureConfig, data: FineTuningDataConfig, *, table: str) -> None:
    """Raise a config error if the model has fewer positions than an example has tokens (`max_length`); `table` is the
    name of the recipe table of the data.
    """
    longest = model.length_limit
    if longest is not None and longest.tokens < data.max_length:
        raise config_error(
            longest.key,
            f"= {longest.tokens} must be at least {table}.max_length = {data.max_length}, or a text has more tokens "
            "than there are positions",
        )


class FineTuningRecipe(FineTunableRecipe):
    """Recipe of a task in which an encoder, which may be pre-trained, labels texts, words or questions.

    Abstract: the task defines what is labelled.
    """

    body: ClassVar = "encoder"
    required_init: ClassVar = "an encoder"

    data: FineTuningDataConfig
    """the table [data] names the texts to train and validate on"""
    init: InputPath | None = None
    """folder of a pre-trained model whose vocabulary, architecture and weights training begins with"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how text is cut into tokens; with `init` in the same way as that model"""
    model: TaggerConfig | ClassifierConfig = EncoderConfig()
    """the architecture; with `init` that of the given model, where only dropout can be changed"""
    training: Annotated[FineTuningTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""

    @field_validator("model")
    @classmethod
    def _check_positions(
        cls, model: TaggerConfig | ClassifierConfig, info: ValidationInfo
    ) -> TaggerConfig | ClassifierConfig:
        """Reject models that have fewer positions than `data.max_length`."""
        if (data := info.data.get("data")) is not None and is_model_known(info):
            require_positions(model, data, table="data")
        return model

    @property
    def needs_fitting(self) -> bool:
        """Whether the recipe leaves open the learning rate or the model."""
        return not self.training.has_schedule or (self.init is None and "model" not in self.model_fields_set)

    @classmethod
    def accepts_init(cls, model: Config) -> bool:
        """Return whether the model is an encoder."""
        return isinstance(model, EncoderConfig)

    def get_sample_size(self, part: str) -> int | None:
        """Return the number of examples to draw from the training part, as `data.examples` says; None for all, and for
        other parts.
        """
        return self.data.examples if part == "train" else None
