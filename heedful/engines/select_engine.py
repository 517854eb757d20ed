"""Selection of the engine that computes a trained model, by name or by measured speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from heedful.atomic_io import load_parameters
from heedful.engines.int8 import Int8Linear, Int8Matrix, Int8Product, find_quantizable, quantize_to_int8, time_calls
from heedful.errors import RecipeError
from heedful.native import load_library
from heedful.recipes.recipe import EngineName


def store_column_major(model: nn.Module) -> None:
    """Store the weights of all linear maps on a CPU in column-major order, in place.

    A step of generation multiplies few rows with every weight. In column-major order, such a product was measured to
    take two thirds of the time at 16 rows and as long as before at 320. Only the order of the numbers in memory
    changes, so the model works as before. A weight that is parametrized, such as by weight norm, becomes a plain one,
    and an output that is tied to an embedding, whose rows are looked up, gets a copy.
    """
    for module in list(model.modules()):
        if is_parametrized(module, "weight"):  # a weight that is computed again in each call
            remove_parametrizations(module, "weight")
    tables = {id(module.weight) for module in model.modules() if type(module) is nn.Embedding}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is not nn.Linear or child.weight.device.type != "cpu":
                continue
            if id(child.weight) in tables:
                setattr(module, name, ColumnMajorOutput(child))
            else:
                child.weight.data = _to_column_major(child.weight)


class ColumnMajorOutput(nn.Linear):
    """A linear map that stores its weight twice: as the shared parameter and as a column-major copy.

    The copy is used while gradients are disabled and the parameter has not changed.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        self.weight = linear.weight
        self.bias = linear.bias
        self.register_buffer("columns", _to_column_major(linear.weight), persistent=False)
        self.columns: Tensor
        self.weight_version = linear.weight._version

    def forward(self, x: Float[Tensor, "*B d_in"]) -> Float[Tensor, "*B d_out"]:
        """Return x W' + b for each input vector, by the copy unless gradients are needed or the weight has changed."""
        if torch.is_grad_enabled() or self.weight._version != self.weight_version:
            return super().forward(x)
        return nn.functional.linear(x, self.columns, self.bias)


def _to_column_major(weight: Tensor) -> Tensor:
    """Return a copy of a matrix in column-major order."""
    return weight.detach().t().contiguous().t()


ENGINES: Final[tuple[EngineName, ...]] = get_args(EngineName)
_NATIVE_PACKAGE: Final = "heedful.engines.native."
"""Package of the native modules and products, which need an optional library."""
_TRIAL_ROWS: Final = 16
"""Number of vectors for timing products."""
_MAX_TIME_RATIO: Final[Mapping[EngineName, float]] = {"int8": 0.8, "native": 1.0}
"""Maximum time of int8 products relative to exact ones for `auto` to choose them. Native code gains mostly outside its
products, so its products need not be faster."""


def prepare_for_inference(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    int8_weights: Mapping[str, Int8Matrix] | None = None,
    *,
    engine: EngineName | None,
    device: torch.device,
    origin: str,
    log: Callable[[str], None] | None = None,
) -> nn.Module:
    """Load weights, some of which may be int8, into a model and convert it for an engine on a device; return the model.
    `origin` names the weights in errors.

    Args:
        model: with any parameter values.
        weights: floating-point weights by parameter name.
        int8_weights: weights that are stored as int8.
        engine: name of the engine; if not given, int8 for int8 weights on a CPU, else torch.
        device: device for the computation.
        origin: origin of the weights, for messages.
        log: called with the choice of `auto` and its reason.

    Raises:
        RecipeError: the engine does not exist, or not for this device.
        RunError: the weights do not belong to this model.
    """
    int8_weights = int8_weights or {}
    engine = engine or ("int8" if int8_weights and device.type == "cpu" else "torch")
    require_engine(engine, device=device)
    name = _choose_engine(model, device=device, log=log) if engine == "auto" else engine
    quantizable = find_quantizable(model) if name != "torch" else {}
    kept_int8 = {
        weight_name: matrix
        for weight_name, matrix in int8_weights.items()
        if weight_name.removesuffix(".weight") in quantizable
    }
    dequantized = {
        weight_name: matrix.dequantize() for weight_name, matrix in int8_weights.items() if weight_name not in kept_int8
    }
    load_parameters(
        model,
        {**weights, **dequantized},
        location=origin,
        provided={weight_name: matrix.rows for weight_name, matrix in kept_int8.items()},
    )
    model.to(device).eval()
    if name != "torch":
        quantize_to_int8(model, kept_int8, product_class=_product_class(name))
    store_column_major(model)
    if name == "native":
        from heedful.engines.native.stack import replace_with_native  # few installations have it

        replace_with_native(model)
    return model


def detect_engine(modules: Iterable[nn.Module]) -> EngineName:
    """Return the engine that modules were converted for, so that others can be converted alike; `torch` if int8 would
    find no matrix.
    """
    all_modules = list(modules)
    int8_modules = [module for module in all_modules if isinstance(module, Int8Linear)]
    classes = [*map(type, all_modules), *(type(module.product) for module in int8_modules)]
    if any(cls.__module__.startswith(_NATIVE_PACKAGE) for cls in classes):
        return "native"
    return "int8" if int8_modules else "torch"


def _product_class(name: EngineName) -> type[Int8Product]:
    """Return the class of the products with int8 matrices for an engine; it is imported only if needed."""
    if name != "native":
        return Int8Product
    from heedful.engines.native.plan import NativeProduct  # likewise

    return NativeProduct


def require_engine(engine: EngineName, *, device: torch.device) -> None:
    """Raise `RecipeError` if the engine does not exist, not for this device, or is not installed."""
    if engine not in ENGINES:
        raise RecipeError(f"engine {engine!r}: is not an engine; choose one of {', '.join(ENGINES)}")
    if engine in ("int8", "native") and device.type != "cpu":
        raise RecipeError(f"engine {engine!r}: computes on a CPU, not on {device}; leave it out, or choose device cpu")
    if engine == "native" and load_library() is None:
        raise RecipeError(
            "engine 'native': needs heedful-native, which is not installed; install it with pip install ./native "
            "(which needs a C++ compiler), or choose int8"
        )


def _choose_engine(model: nn.Module, *, device: torch.device, log: Callable[[str], None] | None) -> EngineName:
    """Choose the fastest engine for `auto` on a device, and log the choice and its reason."""
    chosen: EngineName
    if device.type != "cpu":
        chosen, reason = "torch", f"the model computes on {device}"
    else:
        int8_engine: EngineName = "int8" if load_library() is None else "native"
        time_ratio = _measure_time_ratio(model, _product_class(int8_engine))
        chosen = int8_engine if time_ratio < _MAX_TIME_RATIO[int8_engine] else "torch"
        reason = f"its products take {time_ratio:.2f} of the time of fp32 here"
        if chosen == "torch":
            reason = f"{int8_engine}: {reason}"
    if log is not None:
        log(f"engine: {chosen} ({reason})")
    return chosen


def _measure_time_ratio(model: nn.Module, product_class: type[Int8Product]) -> float:
    """Return the time of int8 products relative to exact ones, measured over all linear maps of a model with a few
    vectors.
    """
    linear_maps = (module for module in find_quantizable(model).values() if isinstance(module, nn.Linear))
    shapes = Counter((module.out_features, module.in_features) for module in linear_maps)
    exact_seconds = int8_seconds = 0.0
    for (n, k), count in shapes.items():
        linear = nn.Linear(k, n)
        int8_linear = Int8Linear(Int8Matrix.from_weight(linear.weight), linear.bias, product_class=product_class)
        linear.weight.data = linear.weight.data.t().contiguous().t()
        exact_seconds, int8_seconds = (
            exact_seconds + count * _time_linear(linear),
            int8_seconds + count * _time_linear(int8_linear),
        )
    return int8_seconds / exact_seconds if exact_seconds else 1.0


@torch.no_grad()
def _time_linear(linear: nn.Linear) -> float:
    """Return the best of five run times of a linear map."""
    x = torch.ones(_TRIAL_ROWS, linear.in_features)
    return time_calls(lambda: linear(x), count=5)
