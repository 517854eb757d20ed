"""What is put on the layers of a trained Transformer, and learns in the place of its weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from torch import Tensor, nn

from heedful.blocks.transformer import TransformerLayer
from heedful.errors import RecipeError


class Adapter(ABC):
    """One way to adapt a model. The names of what the model has already stay as they are; what is new has its own.

    Attributes:
        keeps_modules: whether a trained model computes with it; else its weights become those of a plain model.
    """

    keeps_modules: ClassVar[bool]

    @abstractmethod
    def attach(self, model: nn.Module) -> None:
        """Gives all layers what is to learn, in place; the model computes what it did, or nearly so.

        Raises:
            RecipeError: the model has nothing that it could be put on.
        """

    @abstractmethod
    def merge_weights(
        self, base: Mapping[str, Tensor], adapter_weights: Mapping[str, Tensor], *, origin: str
    ) -> dict[str, Tensor]:
        """The weights of a trained model.

        Args:
            base: of the model that was adapted, by name.
            adapter_weights: what was learned: the adapter, and parts that stand beside or instead of those of `base`.
            origin: where `adapter_weights` comes from, for messages.

        Raises:
            RunError: both do not fit each other.
        """

    @abstractmethod
    def is_adapter_parameter(self, name: str) -> bool:
        """Whether a parameter of this name belongs to the adapter itself."""


def iter_layers(model: nn.Module) -> Iterator[TransformerLayer]:
    """All layers of Transformers in a model, those that several parts share once.

    Raises:
        RecipeError: there are none.
    """
    layers = [module for module in model.modules() if isinstance(module, TransformerLayer)]
    if not layers:
        raise RecipeError("training.adapter: this model has no layers of a Transformer; leave training.adapter away")
    yield from layers
