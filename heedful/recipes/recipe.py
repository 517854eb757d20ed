"""What every recipe has, whatever is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, ValidationInfo

from heedful.architectures.model import AnyModelConfig
from heedful.recipes.data import AnyDataConfig, GivenTokenizerConfig, TokenizerConfig
from heedful.recipes.section import AnyPath, Section
from heedful.recipes.training import TrainingConfig

FORMAT: Final = 1


class Recipe(Section):
    """Everything that decides a run: the same recipe, data and software give the same model.

    Abstract: what is learned from, the architecture and what is minimised belong to the task.
    """

    format: Literal[1] = FORMAT
    """version of the recipe format"""
    task: str
    """what is learned"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """where all randomness starts"""
    output: AnyPath
    """the run folder, counted from the current folder; runs/<name of the recipe file> if not given"""

    @property
    def datasets(self) -> Mapping[str, AnyDataConfig]:
        """What is learned from, by the name of the task where there are several; without a name where there is one."""
        return {"": self.data}

    if TYPE_CHECKING:  # every recipe has them, each of its task, in an order in which they can be checked
        data: AnyDataConfig
        tokenizer: TokenizerConfig | GivenTokenizerConfig
        model: AnyModelConfig
        training: TrainingConfig


def data_table(name: str) -> str:
    """The table that one of a recipe's `datasets` stands in."""
    return f"tasks.{name}.data" if name else "data"


def known(info: ValidationInfo) -> bool:
    """Whether the table [model] is complete, or waits for the model that `init` names."""
    return info.data.get("init") is None or isinstance(info.data.get("tokenizer"), GivenTokenizerConfig)
