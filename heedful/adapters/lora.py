"""Low-rank adaptation (Hu et al. 2021): linear maps whose change has few dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.adapters.adapter import Adapter, layers_of
from heedful.attention.dropout import Dropout
from heedful.attention.multihead import MultiHeadAttention, Projection
from heedful.blocks.transformer import TransformerLayer
from heedful.errors import RecipeError, RunError

Role: TypeAlias = Literal["query", "key", "value", "output", "feed_forward"]
"""What a linear map of a layer is for; `output` is that behind the heads, `feed_forward` are both of that network."""

_DOWN: Final = re.compile(r"(?P<map>.+)\.lora\.(?P<part>[a-z_]+)\.down\.weight")
_BELOW: Final = "value"
"""The part of a map whose rows stand below those of another part; all others begin with the first row."""


class LowRank(nn.Module):
    """(alpha / r) B A x, with r rows in A; B begins with zeros, so that nothing is added at first (eq. 3).

    A begins with normal numbers, of the deviation 1/sqrt(d_input), so that A x is as large as the entries of x.

    Args:
        d_input: width of x.
        d_output: width of what is added.
        lora: rank, alpha and dropout of x.
    """

    def __init__(self, d_input: int, d_output: int, *, lora: Lora) -> None:
        super().__init__()
        self.scale = lora.scale
        self.dropout = Dropout(lora.dropout)
        self.down = nn.Linear(d_input, lora.rank, bias=False)
        self.up = nn.Linear(lora.rank, d_output, bias=False)
        nn.init.normal_(self.down.weight, std=d_input**-0.5)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Float[Tensor, "*B d_input"]) -> Float[Tensor, "*B d_output"]:
        """What is added to the map's result."""
        added: Tensor = self.up(self.down(self.dropout(x)))
        return added * self.scale


class LoraLinear(nn.Linear):
    """W x + b, with (alpha / r) B A x added to some of its rows; weight and bias are those of the map it stands for.

    Args:
        linear: that map.
        rows: of each part of the result, in order.
        on: parts to which something is added.
        lora: what.
    """

    def __init__(self, linear: nn.Linear, *, rows: Mapping[str, int], on: frozenset[str], lora: Lora) -> None:
        nn.Module.__init__(self)  # nn.Linear would make a weight
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.rows = dict(rows)
        self.lora = nn.ModuleDict(
            {part: LowRank(self.in_features, count, lora=lora) for part, count in rows.items() if part in on}
        )

    def forward(self, x: Float[Tensor, "*B d_in"]) -> Float[Tensor, "*B d_out"]:
        """One vector for each."""
        parts = zip(self.rows, torch.split(super().forward(x), [*self.rows.values()], -1), strict=True)
        adapted = [y + self.lora[part](x) if part in self.lora else y for part, y in parts]
        return adapted[0] if len(adapted) == 1 else torch.cat(adapted, -1)


@final
@dataclass(frozen=True)
class Lora(Adapter):
    """W x + (alpha / r) B A x for some of the linear maps of all layers (Hu et al. 2021, eq. 3).

    Attributes:
        rank: r, the dimensions of a change.
        alpha: what a change is multiplied by, over the rank.
        dropout: of what A reads, while it learns.
        on: roles of the maps.
    """

    stays: ClassVar = False

    rank: int
    alpha: float
    dropout: float = 0.0
    on: tuple[Role, ...] = ("query", "value")

    @property
    def scale(self) -> float:
        """Alpha / r."""
        return self.alpha / self.rank

    def put_on(self, model: nn.Module) -> None:
        """Maps of these roles become `LoraLinear`; see `Adapter.put_on`."""
        found: set[str] = set()
        for layer in list(layers_of(model)):
            for each in _maps(layer):
                if on := frozenset(part for part, roles in each.roles.items() if roles & {*self.on}):
                    self._require_lower(each.linear)
                    found |= frozenset[str]().union(*(each.roles[part] for part in on))
                    adapted = LoraLinear(each.linear, rows=each.rows, on=on, lora=self)
                    setattr(each.owner, each.name, adapted)
        if lost := [role for role in self.on if role not in found]:
            raise RecipeError(
                f'training.adapter.on: "{lost[0]}": the layers of this model have no such map; leave it out'
            )

    def complete(self, base: Mapping[str, Tensor], own: Mapping[str, Tensor], *, place: str) -> dict[str, Tensor]:
        """W + (alpha / r) B A; see `Adapter.complete`."""
        found = dict(base)
        changed: set[str] = set()
        for name, down in own.items():
            if (meant := _DOWN.fullmatch(name)) is None:
                if not self.is_own(name):
                    found[name] = down
                continue
            weight, up = f"{meant['map']}.weight", own.get(name.replace(".down.", ".up."))
            if weight not in base or up is None or not _fits(base[weight], down, up, part=meant["part"]):
                raise RunError(f"{place}: {name} fits no map of this model; name a model of the shape that was adapted")
            if weight not in changed:
                changed.add(weight)
                found[weight] = base[weight].detach().clone()
            rows = slice(-len(up), None) if meant["part"] == _BELOW else slice(len(up))
            found[weight][rows] += self.scale * (up.float() @ down.float())
        return found

    def is_own(self, name: str) -> bool:
        """Whether it belongs to A or B."""
        return ".lora." in name

    def _require_lower(self, linear: nn.Linear) -> None:
        narrow = min(linear.in_features, linear.out_features)
        if self.rank > narrow:
            raise RecipeError(
                f"training.adapter.rank = {self.rank}: a map of this model has only {narrow} dimensions; set at most "
                "that, or far less"
            )


@dataclass(frozen=True, eq=False)
class _Map:
    """A linear map of a layer: where it is, the rows of its parts, and the roles of each."""

    owner: nn.Module
    name: str
    rows: Mapping[str, int]
    roles: Mapping[str, frozenset[str]]

    @property
    def linear(self) -> nn.Linear:
        found = getattr(self.owner, self.name)
        assert isinstance(found, nn.Linear), f"{self.name} is {type(found).__name__}"
        return found


def _maps(layer: TransformerLayer) -> Iterator[_Map]:
    for attention in (layer.attention, *(layer.across_to(name)[0] for name in layer.names)):
        yield from _of_attention(attention)
    for name in ("inner", "outer"):
        linear: nn.Linear = getattr(layer.feed_forward, name)
        yield _Map(layer.feed_forward, name, {name: linear.out_features}, {name: frozenset({"feed_forward"})})


def _of_attention(attention: MultiHeadAttention) -> Iterator[_Map]:
    keys, values = attention.heads * attention.d_k, attention.heads * attention.d_v
    yield _Map(attention, "query", {"query": keys}, {"query": frozenset({"query"})})
    if attention.shared_key_value:
        yield _Map(attention, "key_value", {"key": keys}, {"key": frozenset({"key", "value"})})
    else:
        roles = {part: frozenset({part}) for part in ("key", "value")}
        yield _Map(attention, "key_value", {"key": keys, "value": values}, roles)
    joined = attention.aggregation
    if isinstance(joined, Projection):
        yield _Map(joined, "output", {"output": joined.output.out_features}, {"output": frozenset({"output"})})


def _fits(weight: Tensor, down: Tensor, up: Tensor, *, part: str) -> bool:
    """Whether B A is of the shape of a weight, or of some of its rows where the weight has parts."""
    has_parts = part in ("key", "value")
    return (
        down.dim() == up.dim() == weight.dim() == 2
        and (down.size(1), up.size(1)) == (weight.size(1), down.size(0))
        and (up.size(0) <= weight.size(0) if has_parts else up.size(0) == weight.size(0))
    )
