"""Interface of adapters: small trainable modules on the layers of a frozen Transformer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from torch import Tensor, nn

from heedful.blocks.transformer import TransformerLayer
from heedful.errors import RecipeError


class Adapter(ABC):
    """Base class: one method of adapting a model. Existing parameters keep their names; new ones get their own.

    Attributes:
        keeps_modules: whether the trained model keeps the adapter modules; otherwise they are merged into the weights
            of a plain model.
    """

    keeps_modules: ClassVar[bool]

    @abstractmethod
    def attach(self, model: nn.Module) -> None:
        """Add the trainable modules to all layers, in place; the model's function stays the same, or nearly so.

        Raises:
            RecipeError: the model has no layer that can be adapted.
        """

    @abstractmethod
    def merge_weights(
        self, base: Mapping[str, Tensor], adapter_weights: Mapping[str, Tensor], *, origin: str
    ) -> dict[str, Tensor]:
        """Return the weights of the adapted model.

        Args:
            base: weights of the original model, by name.
            adapter_weights: trained weights: the adapter, and parameters that are added to or replace those of `base`.
            origin: origin of `adapter_weights`, for messages.

        Raises:
            RunError: the two do not fit each other.
        """

    @abstractmethod
    def is_adapter_parameter(self, name: str) -> bool:
        """Return whether a parameter of this name belongs to the adapter itself."""


def iter_layers(model: nn.Module) -> Iterator[TransformerLayer]:
    """Yield all Transformer layers of a model; shared layers once.

    Raises:
        RecipeError: there are none.
    """
    layers = [module for module in model.modules() if isinstance(module, TransformerLayer)]
    if not layers:
        raise RecipeError("training.adapter: this model has no Transformer layers; leave training.adapter out")
    yield from layers
