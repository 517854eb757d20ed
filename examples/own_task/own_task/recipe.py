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
    from own_task.data import LabelledTexts


class TextsConfig(Config):
    """A JSON object on each line: a text, and a list of its labels."""

    path: InputPath
    """the file"""


class MultiLabelDataConfig(DataConfig):
    """Texts with any number of labels."""

    train: TextsConfig
    """training texts"""
    validation: TextsConfig
    """validation texts, which compare the checkpoints"""
    test: Annotated[TextsConfig | None, FieldRole.FREE] = None
    """test texts for `heedful evaluate`, instead of the validation texts"""
    max_length: Annotated[int, Field(ge=3), FieldRole.ENCODING] = 128
    """maximal length of a text in tokens, including begin and end; longer texts are truncated"""

    def reader(self, part: str) -> LabelledTexts:
        """Return a reader of the texts and their labels."""
        from own_task.data import LabelledTexts

        config: TextsConfig = getattr(self, part)
        return LabelledTexts(config.path)


class MultiLabelTrainingConfig(TrainingConfig):
    """Options of the training loop."""

    monitor: Annotated[Literal["loss", "f1"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint: the loss, or F1 over all labels of all texts"""


class MultiLabelRecipe(Recipe):
    """Recipe of texts with any number of labels."""

    made_by: ClassVar = "own_task.task:TASK"

    task: Literal["multi_label"] = "multi_label"
    """the task to learn"""
    data: MultiLabelDataConfig
    """texts for training and validation"""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """tokenizer"""
    model: TaggerConfig = EncoderConfig()
    """architecture: any encoder"""
    training: Annotated[MultiLabelTrainingConfig, FieldRole.FREE]
    """training; at least one limit is required, such as steps = 10000"""
