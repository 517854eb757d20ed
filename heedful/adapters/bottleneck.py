"""Bottlenecks behind the sublayers of a Transformer (Houlsby et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, final

from jaxtyping import Float
from torch import Tensor, nn

from heedful.adapters.adapter import Adapter, layers_of
from heedful.errors import RunError

_DEVIATION: Final = 1e-2
"""Of both maps, cut at two deviations (Houlsby et al. 2019, 3.1)."""
_OWN: Final = ".behind."


class Bottleneck(nn.Module):
    """h + W_up f(W_down h + b_down) + b_up, which is nearly h at first (Houlsby et al. 2019, figure 2).

    The paper leaves f open; it is GELU here.

    Args:
        d_model: width of h.
        width: between both maps.
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
        """Each token by itself."""
        changed: Tensor = h + self.up(self.activation(self.down(h)))
        return changed


@final
@dataclass(frozen=True)
class Bottlenecks(Adapter):
    """A `Bottleneck` behind every sublayer, before the shortcut is added.

    Attributes:
        width: of each.
    """

    stays: ClassVar = True

    width: int

    def put_on(self, model: nn.Module) -> None:
        """Each residual gets one; see `Adapter.put_on`."""
        for layer in list(layers_of(model)):
            d_model = layer.attention.query.in_features
            for around in layer.residuals():
                around.behind = Bottleneck(d_model, self.width)

    def complete(self, base: Mapping[str, Tensor], own: Mapping[str, Tensor], *, place: str) -> dict[str, Tensor]:
        """What was learned beside the rest; see `Adapter.complete`."""
        for name in own:
            around = name.partition(_OWN)[0]
            if self.is_own(name) and not any(each.startswith(f"{around}.") for each in base):
                raise RunError(
                    f"{place}: {name} fits no layer of this model; name a model of the shape that was adapted"
                )
        return {**base, **own}

    def is_own(self, name: str) -> bool:
        """Whether it belongs to a bottleneck."""
        return _OWN in name
