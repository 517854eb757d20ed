"""What computes a trained model: which arrangement of its weights, chosen by name or by what is faster here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, get_args

import torch
from torch import Tensor, nn

from heedful.engines.columns import arrange_for_inference
from heedful.engines.int8 import Bytes, Int8Linear, matrices, to_bytes
from heedful.engines.products import Product
from heedful.errors import RecipeError
from heedful.native import library
from heedful.recipes.recipe import EngineName
from heedful.store import fill

ENGINES: Final[tuple[EngineName, ...]] = get_args(EngineName)
_NATIVE: Final = "heedful.engines.native."
"""Where native modules and products are, which few installations can import."""
_ROWS: Final = 16
"""Vectors that products are tried with."""
_CLEARLY: Final[Mapping[EngineName, float]] = {"int8": 0.8, "native": 1.0}
"""Share of the time of exact products that those of bytes must stay below, or the exact ones are kept. Native code
gains most beside its products, so that these need not be faster by themselves."""


def arranged(
    model: nn.Module,
    exact: Mapping[str, Tensor],
    rounded: Mapping[str, Bytes] | None = None,
    *,
    engine: EngineName | None,
    device: torch.device,
    place: str,
    say: Callable[[str], None] | None = None,
) -> nn.Module:
    """The model with its weights, where it will compute, as an engine wants them.

    Args:
        model: of any values.
        exact: weights by the names of parameters.
        rounded: those that are stored as bytes.
        engine: which one; that of the weights unless given, so bytes stay bytes.
        device: where to compute.
        place: where the weights come from, for messages.
        say: is told what `auto` took and why.

    Raises:
        RecipeError: there is no such engine, or not for this device.
        RunError: these are not the weights of this model.
    """
    rounded = rounded or {}
    engine = engine or ("int8" if rounded and device.type == "cpu" else "torch")
    require_engine(engine, device=device)
    name = _chosen(model, device=device, say=say) if engine == "auto" else engine
    own = matrices(model) if name != "torch" else {}
    kept = {each: matrix for each, matrix in rounded.items() if each.removesuffix(".weight") in own}
    floats = {each: matrix.floats() for each, matrix in rounded.items() if each not in kept}
    fill(model, {**exact, **floats}, place=place, otherwise={each: matrix.rows for each, matrix in kept.items()})
    model.to(device).eval()
    if name != "torch":
        to_bytes(model, kept, kind=_product(name))
    arrange_for_inference(model)
    if name == "native":
        from heedful.engines.native.stack import to_native  # what few installations have

        to_native(model)
    return model


def engine_in(modules: Iterable[nn.Module]) -> EngineName:
    """Which engine computes modules that were `arranged`, so that others may be arranged in the same way; `torch` where
    `int8` would find no matrix.
    """
    every = list(modules)
    matrices_ = [each for each in every if isinstance(each, Int8Linear)]
    kinds = [*map(type, every), *(type(each.product) for each in matrices_)]
    if any(kind.__module__.startswith(_NATIVE) for kind in kinds):
        return "native"
    return "int8" if matrices_ else "torch"


def _product(name: EngineName) -> type[Product]:
    if name != "native":
        return Product
    from heedful.engines.native.product import NativeProduct  # likewise

    return NativeProduct


def require_engine(engine: EngineName, *, device: torch.device) -> None:
    """`RecipeError` where there is no such engine, or not for this device, or not here."""
    if engine not in ENGINES:
        raise RecipeError(f"engine {engine!r}: is none; choose one of {', '.join(ENGINES)}")
    if engine in ("int8", "native") and device.type != "cpu":
        raise RecipeError(
            f"engine {engine!r}: computes on a CPU and not on {device}; leave it out, or choose device cpu"
        )
    if engine == "native" and library() is None:
        raise RecipeError(
            "engine 'native': needs heedful-native, which is not installed; install it with pip install ./native "
            "(which needs a C++ compiler), or choose int8"
        )


def _chosen(model: nn.Module, *, device: torch.device, say: Callable[[str], None] | None) -> EngineName:
    """What `auto` takes, and says."""
    taken: EngineName
    if device.type != "cpu":
        taken, why = "torch", f"the model computes on {device}"
    else:
        bytes_: EngineName = "int8" if library() is None else "native"
        share = _share(model, _product(bytes_))
        taken = bytes_ if share < _CLEARLY[bytes_] else "torch"
        why = f"its products take {share:.2f} of the time of fp32 here"
        if taken == "torch":
            why = f"{bytes_}: {why}"
    if say is not None:
        say(f"engine: {taken} ({why})")
    return taken


def _share(model: nn.Module, kind: type[Product]) -> float:
    """Of the time of exact products, what those with bytes take: of all linear maps, with a few vectors."""
    linear_maps = (each for each in matrices(model).values() if isinstance(each, nn.Linear))
    shapes = Counter((each.out_features, each.in_features) for each in linear_maps)
    exact = rounded = 0.0
    for (n, k), times in shapes.items():
        linear = nn.Linear(k, n)
        bytes_ = Int8Linear(Bytes.of(linear.weight), linear.bias, kind=kind)
        linear.weight.data = linear.weight.data.t().contiguous().t()
        exact, rounded = exact + times * _seconds(linear), rounded + times * _seconds(bytes_)
    return rounded / exact if exact else 1.0


@torch.no_grad()
def _seconds(linear: nn.Linear) -> float:
    x = torch.ones(_ROWS, linear.in_features)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        linear(x)
        seconds.append(time.perf_counter() - began)
    return min(seconds)
