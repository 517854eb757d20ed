"""Adapters, small trainable modules on the layers of a frozen Transformer: low-rank updates (LoRA; Hu et al. 2021)
and bottlenecks.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.attention.multihead import MultiHeadAttention, ProjectionAggregation
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


LoraTarget: TypeAlias = Literal["query", "key", "value", "output", "feed_forward"]
"""Kind of a linear map in a layer; `output` is the map after the heads, `feed_forward` stands for both maps of that
network."""

_DOWN_WEIGHT_NAME: Final = re.compile(r"(?P<map>.+)\.lora\.(?P<part>[a-z_]+)\.down\.weight")
_LAST_PART: Final = "value"
"""The part of a map whose rows are the last ones; the rows of all other parts begin with the first row."""


class LowRankUpdate(nn.Module):
    """Low-rank update (alpha / r) B A x, with r rows in A; B is initialised with zeros (eq. 3).

    A is initialised with normal numbers of deviation 1/sqrt(d_input), so that A x is as large as the entries of x.

    Args:
        d_input: width of x.
        d_output: width of the update.
        lora: rank, alpha and dropout of x.
    """

    def __init__(self, d_input: int, d_output: int, *, lora: LoraAdapter) -> None:
        super().__init__()
        self.scale = lora.scale
        self.dropout = Dropout(lora.dropout)
        self.down = nn.Linear(d_input, lora.rank, bias=False)
        self.up = nn.Linear(lora.rank, d_output, bias=False)
        nn.init.normal_(self.down.weight, std=d_input**-0.5)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Float[Tensor, "*B d_input"]) -> Float[Tensor, "*B d_output"]:
        """Return the update of the map's result."""
        update: Tensor = self.up(self.down(self.dropout(x)))
        return update * self.scale


class LoraLinear(nn.Linear):
    """Linear map W x + b with (alpha / r) B A x added to some of its rows; weight and bias are those of the wrapped
    map.

    Args:
        linear: the map to wrap.
        rows_by_part: number of rows of each part of the result, in order.
        target_parts: parts that get an update.
        lora: rank, alpha and dropout.
    """

    def __init__(
        self, linear: nn.Linear, *, rows_by_part: Mapping[str, int], target_parts: frozenset[str], lora: LoraAdapter
    ) -> None:
        nn.Module.__init__(self)  # nn.Linear would create a weight
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.rows_by_part = dict(rows_by_part)
        self.lora = nn.ModuleDict(
            {
                part: LowRankUpdate(self.in_features, count, lora=lora)
                for part, count in rows_by_part.items()
                if part in target_parts
            }
        )

    def forward(self, x: Float[Tensor, "*B d_in"]) -> Float[Tensor, "*B d_out"]:
        """Return one vector for each input vector."""
        outputs = zip(
            self.rows_by_part, torch.split(super().forward(x), [*self.rows_by_part.values()], -1), strict=True
        )
        updated = [y + self.lora[part](x) if part in self.lora else y for part, y in outputs]
        return updated[0] if len(updated) == 1 else torch.cat(updated, -1)


@final
@dataclass(frozen=True)
class LoraAdapter(Adapter):
    """LoRA, W x + (alpha / r) B A x, on some linear maps of all layers (Hu et al. 2021, eq. 3).

    Attributes:
        rank: r, rank of an update.
        alpha: factor of an update, divided by the rank.
        dropout: dropout of the input of A, in training.
        targets: kinds of maps to adapt.
    """

    keeps_modules: ClassVar = False

    rank: int
    alpha: float
    dropout: float = 0.0
    targets: tuple[LoraTarget, ...] = ("query", "value")

    @property
    def scale(self) -> float:
        """Factor of an update, alpha / r."""
        return self.alpha / self.rank

    def attach(self, model: nn.Module) -> None:
        """Replace the target maps by `LoraLinear`; see `Adapter.attach`."""
        adapted_roles: set[str] = set()
        adapted_maps: dict[nn.Linear, LoraLinear] = {}  # layers may share their maps
        for layer in list(iter_layers(model)):
            for linear_map in _iter_layer_maps(layer):
                if parts := frozenset(
                    part for part, roles in linear_map.targets_by_part.items() if roles & {*self.targets}
                ):
                    linear = linear_map.linear
                    if linear not in adapted_maps:
                        self._require_small_rank(linear)
                        adapted_maps[linear] = LoraLinear(
                            linear, rows_by_part=linear_map.rows_by_part, target_parts=parts, lora=self
                        )
                    adapted_roles |= frozenset[str]().union(*(linear_map.targets_by_part[part] for part in parts))
                    setattr(linear_map.owner, linear_map.name, adapted_maps[linear])
        if missing := [role for role in self.targets if role not in adapted_roles]:
            raise RecipeError(
                f'training.adapter.on: "{missing[0]}": the layers of this model do not have this map; leave it out'
            )

    def merge_weights(
        self, base: Mapping[str, Tensor], adapter_weights: Mapping[str, Tensor], *, origin: str
    ) -> dict[str, Tensor]:
        """Return the base weights, with W + (alpha / r) B A for each adapted map W; see `Adapter.merge_weights`. Other
        trained weights replace or extend those of the base. `origin` is named in the error.
        """
        merged = dict(base)
        merged_names: set[str] = set()
        for name, down in adapter_weights.items():
            if (match := _DOWN_WEIGHT_NAME.fullmatch(name)) is None:
                if not self.is_adapter_parameter(name):
                    merged[name] = down
                continue
            weight, up = f"{match['map']}.weight", adapter_weights.get(name.replace(".down.", ".up."))
            if weight not in base or up is None or not _has_matching_shape(base[weight], down, up, part=match["part"]):
                raise RunError(
                    f"{origin}: {name} does not fit any map of this model; name a model of the same shape as the "
                    "adapted one"
                )
            if weight not in merged_names:
                merged_names.add(weight)
                merged[weight] = base[weight].detach().clone()
            rows = slice(-len(up), None) if match["part"] == _LAST_PART else slice(len(up))
            merged[weight][rows] += self.scale * (up.float() @ down.float())
        return merged

    def is_adapter_parameter(self, name: str) -> bool:
        """Return whether the parameter belongs to A or B."""
        return ".lora." in name

    def _require_small_rank(self, linear: nn.Linear) -> None:
        """Raise `RecipeError` if the rank exceeds the input or output width of `linear`, a map to adapt."""
        max_rank = min(linear.in_features, linear.out_features)
        if self.rank > max_rank:
            raise RecipeError(
                f"training.adapter.rank = {self.rank}: a map of this model has only {max_rank} dimensions; set at most "
                "that, or far less"
            )


@dataclass(frozen=True, eq=False)
class _TargetMap:
    """A linear map of a layer: its module, the rows of its parts, and the target kinds of each part."""

    owner: nn.Module
    name: str
    rows_by_part: Mapping[str, int]
    targets_by_part: Mapping[str, frozenset[str]]

    @property
    def linear(self) -> nn.Linear:
        """The linear map."""
        module = getattr(self.owner, self.name)
        assert isinstance(module, nn.Linear), f"{self.name} is {type(module).__name__}"
        return module


def _iter_layer_maps(layer: TransformerLayer) -> Iterator[_TargetMap]:
    """Yield the linear maps of a layer that can be adapted: those of self-attention, of all cross-attentions, and of
    the feed-forward network.
    """
    for attention in (layer.attention, *(layer.get_cross_attention(name)[0] for name in layer.memory_names)):
        yield from _iter_attention_maps(attention)
    for name, linear in layer.feed_forward.named_children():
        if not isinstance(linear, nn.Linear):
            continue
        yield _TargetMap(layer.feed_forward, name, {name: linear.out_features}, {name: frozenset({"feed_forward"})})


def _iter_attention_maps(attention: MultiHeadAttention) -> Iterator[_TargetMap]:
    """Yield the linear maps of an attention: of queries, of keys and values (one map for both), and the one after the
    heads, if it has one.
    """
    keys, values = attention.key_value_heads * attention.d_k, attention.key_value_heads * attention.d_v
    queries = attention.heads * attention.d_k
    yield _TargetMap(attention, "query", {"query": queries}, {"query": frozenset({"query"})})
    if attention.shared_key_value:
        yield _TargetMap(attention, "key_value", {"key": keys}, {"key": frozenset({"key", "value"})})
    else:
        roles = {part: frozenset({part}) for part in ("key", "value")}
        yield _TargetMap(attention, "key_value", {"key": keys, "value": values}, roles)
    aggregation = attention.aggregation
    if isinstance(aggregation, ProjectionAggregation):
        yield _TargetMap(
            aggregation, "output", {"output": aggregation.output.out_features}, {"output": frozenset({"output"})}
        )


def _has_matching_shape(weight: Tensor, down: Tensor, up: Tensor, *, part: str) -> bool:
    """Return whether B A (`up` times `down`) has the shape of a weight. For the parts "key" and "value" it may have
    fewer rows, because their weight holds both.
    """
    has_parts = part in ("key", "value")
    return (
        down.dim() == up.dim() == weight.dim() == 2
        and (down.size(1), up.size(1)) == (weight.size(1), down.size(0))
        and (up.size(0) <= weight.size(0) if has_parts else up.size(0) == weight.size(0))
    )
