"""Adapters, small trainable modules on the layers of a frozen Transformer; and bottlenecks behind its sublayers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, final

from jaxtyping import Float
from torch import Tensor, nn

from heedful.blocks.transformer import TransformerLayer
from heedful.errors import RecipeError, RunError


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
        """Return the weights of the adapted model, computed from those of the original model (`base`) and the trained
        ones.

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


_DEVIATION: Final = 1e-2
"""Standard deviation of both maps, truncated at two deviations (Houlsby et al. 2019, 3.1)."""
_NAME_PART: Final = ".behind."


class BottleneckLayer(nn.Module):
    """Bottleneck adapter h + W_up f(W_down h + b_down) + b_up, initially close to the identity (Houlsby et al. 2019,
    figure 2).

    The paper leaves f open; it is GELU here.

    Args:
        d_model: width of h.
        width: width between both maps.
    """

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(d_model, width)
        self.activation = nn.GELU()
        self.up = nn.Linear(width, d_model)
        for linear in (self.down, self.up):
            nn.init.trunc_normal_(linear.weight, std=_DEVIATION, a=-2 * _DEVIATION, b=2 * _DEVIATION)
            nn.init.zeros_(linear.bias)

    def forward(self, h: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Apply the adapter to each token separately."""
        result: Tensor = h + self.up(self.activation(self.down(h)))
        return result


@final
@dataclass(frozen=True)
class BottleneckAdapter(Adapter):
    """A `BottleneckLayer` after every sublayer, before the residual sum.

    Attributes:
        width: hidden width of each.
    """

    keeps_modules: ClassVar = True

    width: int

    def attach(self, model: nn.Module) -> None:
        """Add a bottleneck to each residual connection; see `Adapter.attach`."""
        for layer in list(iter_layers(model)):
            d_model = layer.attention.query.in_features
            for residual in layer.iter_residuals():
                residual.behind = BottleneckLayer(d_model, self.width)

    def merge_weights(
        self, base: Mapping[str, Tensor], adapter_weights: Mapping[str, Tensor], *, origin: str
    ) -> dict[str, Tensor]:
        """Return the base weights together with the trained ones; see `Adapter.merge_weights`. A trained weight
        replaces a base weight of the same name. `origin` is named in the error.
        """
        for name in adapter_weights:
            prefix = name.partition(_NAME_PART)[0]
            if self.is_adapter_parameter(name) and not any(base_name.startswith(f"{prefix}.") for base_name in base):
                raise RunError(
                    f"{origin}: {name} does not fit any layer of this model; name a model of the same shape as the "
                    "adapted one"
                )
        return {**base, **adapter_weights}

    def is_adapter_parameter(self, name: str) -> bool:
        """Return whether the parameter belongs to a bottleneck."""
        return _NAME_PART in name
