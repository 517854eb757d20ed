"""What runs of labels share: they can be learned alone, or with others of their kind by one encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from heedful.artifacts.initial import given_tokenizer
from heedful.artifacts.run import Model, Run
from heedful.configs.build_data import learn_text
from heedful.configs.data import TokenizerConfig
from heedful.configs.run import FineTuningRecipe, MultitaskRecipe
from heedful.data.tokenizers import Tokenizer
from heedful.models.interface import Encoder
from heedful.values import Tokens


class FineTuningRun(Run[Model]):
    """A run whose model is an encoder with a head.

    Attributes:
        tokenizer: of all its text.
    """

    tokenizer: Tokenizer

    @classmethod
    @abstractmethod
    def begin(cls, folder: Path, recipe: Any, *, tokenizer: Tokenizer | None = None) -> FineTuningRun[Model]:
        """A new one; its vocabulary is the one given, else that of `init`, else learned from its text."""

    @classmethod
    @abstractmethod
    def open(cls, folder: Path, recipe: Any, *, tokenizer: Tokenizer | None = None) -> FineTuningRun[Model]:
        """The one in a folder; its vocabulary is the one given, else that in the folder."""

    @classmethod
    @abstractmethod
    def texts(cls, recipe: Any) -> Iterable[str]:
        """What a vocabulary is learned from."""

    @property
    @abstractmethod
    def primary(self) -> str:
        """The metric that tells most, of which more is better."""

    @abstractmethod
    def build(self, *, encoder: Encoder[Tokens] | None = None) -> Model:
        """The recipe's model with fresh random weights; its head alone where an encoder is given."""

    @abstractmethod
    def face(self, model: Model, *, step: int | None = None) -> Any:
        """A trained model as its users see it.

        Args:
            model: this run's, in evaluation mode.
            step: the kept checkpoint that it is of; None where it is the finished or the best one.
        """

    def user(self, *, device: torch.device, step: int | None = None) -> Any:
        """The trained model as its users see it."""
        return self.face(self.trained(device=device, step=step), step=step)


def learned_vocabulary(recipe: FineTuningRecipe | MultitaskRecipe, texts: Iterable[str]) -> Tokenizer:
    """The vocabulary of the model that `init` names, else one that is learned from the texts."""
    given = given_tokenizer(recipe)
    if given is not None:
        return given
    assert isinstance(recipe.tokenizer, TokenizerConfig)
    return learn_text(recipe.tokenizer, texts)
