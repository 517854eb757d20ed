"""The recipe of the task: `task = "multi_label"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from heedful.architectures.model import TaggerConfig
from heedful.architectures.stack import EncoderConfig
from heedful.recipes.config import Config, FieldRole, InputPath
from heedful.recipes.recipe import DataConfig, Recipe
from heedful.recipes.text import TokenizerConfig
from heedful.recipes.training import TrainingConfig

if TYPE_CHECKING:
    from own_task.texts import LabelledTexts


class TextsConfig(Config):
    """A JSON object on each line: a text, and a list of its labels."""

    path: InputPath
    """the file"""


class MultiLabelDataConfig(DataConfig):
    """Texts with any number of labels."""

    train: TextsConfig
    """the texts to learn from"""
    validation: TextsConfig
    """the texts that checkpoints are compared on"""
    test: Annotated[TextsConfig | None, FieldRole.FREE] = None
    """the texts that `heedful evaluate` takes, instead of those of validation"""
    max_length: Annotated[int, Field(ge=3), FieldRole.ENCODING] = 128
    """longest text, in tokens with its begin and end; longer ones lose their ends"""

    def reader(self, part: str) -> LabelledTexts:
        """Texts and their labels."""
        from own_task.texts import LabelledTexts

        config: TextsConfig = getattr(self, part)
        return LabelledTexts(config.path)


class MultiLabelTrainingConfig(TrainingConfig):
    """The training loop."""

    monitor: Annotated[Literal["loss", "f1"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint: the likelihood, or F1 of all labels of all texts together"""


class MultiLabelRecipe(Recipe):
    """Each text has any number of labels."""

    made_by: ClassVar = "own_task.run:KIND"

    task: Literal["multi_label"] = "multi_label"
    """the task to learn"""
    data: MultiLabelDataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """how text is cut into tokens"""
    model: TaggerConfig = EncoderConfig()
    """the architecture: any encoder"""
    training: Annotated[MultiLabelTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
