"""Selection of the engine that computes a trained model, by name or by measured speed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final, Literal, final, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from heedful.atomic_io import load_parameters
from heedful.engines.bfloat16 import convert_to_bfloat16
from heedful.engines.graphs.stack import replace_with_graphs
from heedful.engines.int8 import Int8Linear, Int8Matrix, Int8Product, find_quantizable, quantize_to_int8, time_calls
from heedful.errors import RecipeError
from heedful.models.placeholders import loads_placeholders, replace_weights
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
_MAX_COPIED_BYTES: Final = 2**31
"""Size of a model up to which the default engine copies its matrices."""
_TRIAL_ROWS: Final = 16
"""Number of vectors for timing products."""
_MAX_TIME_RATIO: Final[Mapping[EngineName, float]] = {"int8": 0.8, "native": 1.0}
"""Maximum time of int8 products relative to exact ones for `auto` to choose them. Native code gains mostly outside its
products, so its products need not be faster."""


class InferenceEngine(ABC):
    """Base class: converts a trained model into one that is faster, in place.

    Attributes:
        keeps_int8: whether matrices that are stored as int8 stay so.
        is_cpu_only: whether it computes on CPUs only.
        is_native: whether it needs the native library.
    """

    keeps_int8: ClassVar[bool] = False
    is_cpu_only: ClassVar[bool] = True
    is_native: ClassVar[bool] = False

    @abstractmethod
    def convert(self, model: nn.Module, int8_weights: Mapping[str, Int8Matrix]) -> None:
        """Convert a model with its weights loaded; `int8_weights` are those that are int8 already, by name."""


@final
class TorchEngine(InferenceEngine):
    """Floating point in PyTorch, as in training."""

    is_cpu_only = False

    def convert(self, model: nn.Module, int8_weights: Mapping[str, Int8Matrix]) -> None:
        """Store weights in the order that is the fastest for few vectors."""
        store_column_major(model)


@final
class BFloat16Engine(InferenceEngine):
    """Large matrices and attention in bf16, in PyTorch."""

    is_cpu_only = False

    def convert(self, model: nn.Module, int8_weights: Mapping[str, Int8Matrix]) -> None:
        """Round matrices."""
        convert_to_bfloat16(model)
        store_column_major(model)


@final
class GraphEngine(InferenceEngine):
    """PyTorch, with steps of Transformer decoders recorded as CUDA graphs.

    Args:
        precision: of large matrices and attention.
    """

    is_cpu_only = False

    def __init__(self, precision: Literal["float32", "bfloat16"]) -> None:
        self.precision: Final = precision

    def convert(self, model: nn.Module, int8_weights: Mapping[str, Int8Matrix]) -> None:
        """Round matrices if that was asked for, and replace decoders."""
        name: EngineName = "torch-graphs-bfloat16" if self.precision == "bfloat16" else "torch-graphs"
        if self.precision == "bfloat16":
            convert_to_bfloat16(model, engine_name=name)
        store_column_major(model)
        replace_with_graphs(model, engine_name=name)


@final
class Int8Engine(InferenceEngine):
    """Large matrices in int8, multiplied by PyTorch's kernels."""

    keeps_int8 = True

    def convert(self, model: nn.Module, int8_weights: Mapping[str, Int8Matrix]) -> None:
        """Quantize matrices."""
        quantize_to_int8(model, int8_weights)
        store_column_major(model)


@final
class NativeInt8Engine(InferenceEngine):
    """Large matrices in int8, and whole Transformers, in native code."""

    keeps_int8, is_native = True, True

    def convert(self, model: nn.Module, int8_weights: Mapping[str, Int8Matrix]) -> None:
        """Quantize matrices and replace Transformers by native ones."""
        from heedful.engines.native.linear import NativeProduct, replace_linear_maps  # few installations have it
        from heedful.engines.native.stack import replace_with_native

        quantize_to_int8(model, int8_weights, product_class=NativeProduct)
        replace_linear_maps(model, "float32", engine_name="native")
        replace_with_native(model, engine_name="native")


@final
class NativeFloatEngine(InferenceEngine):
    """Linear maps with floating-point weights, and whole Transformers, in native code.

    Args:
        precision: of large matrices in products.
    """

    is_native = True

    def __init__(self, precision: Literal["float32", "bfloat16"]) -> None:
        self.precision: Final = precision

    def convert(self, model: nn.Module, int8_weights: Mapping[str, Int8Matrix]) -> None:
        """Replace linear maps and Transformers by native ones."""
        from heedful.engines.native.linear import replace_linear_maps  # few installations have it
        from heedful.engines.native.stack import replace_with_native

        name: EngineName = "native-bfloat16" if self.precision == "bfloat16" else "native-float32"
        replace_linear_maps(model, self.precision, engine_name=name)
        store_column_major(model)  # weights that are parametrized become plain ones
        replace_with_native(model, engine_name=name)


_INFERENCE_ENGINES: Final[Mapping[EngineName, InferenceEngine]] = {
    "torch": TorchEngine(),
    "torch-bfloat16": BFloat16Engine(),
    "torch-graphs": GraphEngine("float32"),
    "torch-graphs-bfloat16": GraphEngine("bfloat16"),
    "int8": Int8Engine(),
    "native": NativeInt8Engine(),
    "native-float32": NativeFloatEngine("float32"),
    "native-bfloat16": NativeFloatEngine("bfloat16"),
}
"""Engines by name; `auto` is one of them."""


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
    `origin` names the weights in errors. Inside `load_placeholders` the model gets no weights and is not converted.

    Args:
        model: with any parameter values.
        weights: floating-point weights by parameter name.
        int8_weights: weights that are stored as int8.
        engine: name of the engine; if not given, see `get_default_engine`.
        device: device for the computation.
        origin: origin of the weights, for messages.
        log: called with the choice of `auto` and its reason.

    Raises:
        RecipeError: the engine does not exist, or not for this device.
        RunError: the weights do not belong to this model.
    """
    int8_weights = int8_weights or {}
    engine = engine or get_default_engine(model, stores_int8=bool(int8_weights), device=device)
    require_engine(engine, device=device)
    name = _choose_engine(model, device=device, log=log) if engine == "auto" else engine
    chosen = _INFERENCE_ENGINES[name]
    quantizable = find_quantizable(model) if chosen.keeps_int8 else {}
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
    model.eval()
    if loads_placeholders():
        for module in model.modules() if name != "torch" else ():
            vars(module)["engine_name"] = name  # for `detect_engine`, which may see a part of the model only
        return replace_weights(model, device)
    model.to(device)
    chosen.convert(model, kept_int8)
    return model


def get_default_engine(model: nn.Module, *, stores_int8: bool, device: torch.device) -> EngineName:
    """Return the engine to use where none is named: on a CPU with heedful-native, native code that rounds nothing
    further; otherwise PyTorch, with int8 products if the weights are int8.

    Native code keeps a second copy of the large matrices, so models above 2 GiB are left to PyTorch.
    """
    if device.type != "cpu":
        return "torch"
    has_library = load_library() is not None
    if stores_int8:
        return "native" if has_library else "int8"
    parameters = list(model.parameters())
    size = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    is_single = all(parameter.dtype == torch.float32 for parameter in parameters)
    return "native-float32" if has_library and is_single and size <= _MAX_COPIED_BYTES else "torch"


def detect_engine(modules: Iterable[nn.Module]) -> EngineName:
    """Return the engine that modules were converted for, so that others can be converted alike; `torch` if int8 would
    find no matrix.
    """
    names = {name for module in modules if (name := _get_engine_name(module)) is not None}
    return max(names, key=lambda name: _INFERENCE_ENGINES[name].is_native, default="torch")


def _get_engine_name(module: nn.Module) -> EngineName | None:
    """Return the name of the engine that a module was made for; None for a module of PyTorch."""
    owner = module.product if isinstance(module, Int8Linear) and module.product is not None else module
    name: EngineName | None = getattr(owner, "engine_name", None)
    return name or ("int8" if isinstance(module, Int8Linear) else None)


def require_engine(engine: EngineName, *, device: torch.device) -> None:
    """Raise `RecipeError` if the engine does not exist, not for this device, or is not installed."""
    if engine not in ENGINES:
        raise RecipeError(f"engine {engine!r}: is not an engine; choose one of {', '.join(ENGINES)}")
    named = _INFERENCE_ENGINES.get(engine)  # auto is none of them
    if named is None:
        return
    if named.is_cpu_only and device.type != "cpu":
        raise RecipeError(f"engine {engine!r}: computes on a CPU, not on {device}; leave it out, or choose device cpu")
    if named.is_native and load_library() is None:
        raise RecipeError(
            f"engine {engine!r}: needs heedful-native, which is not installed; install it with pip install ./native "
            "(which needs a C++ compiler), or choose int8"
        )


def _choose_engine(model: nn.Module, *, device: torch.device, log: Callable[[str], None] | None) -> EngineName:
    """Choose the fastest engine for `auto` on a device, and log the choice and its reason."""
    chosen: EngineName
    if device.type != "cpu":
        chosen, reason = "torch", f"the model computes on {device}"
    else:
        int8_engine, product_class = _select_int8_engine()
        time_ratio = _measure_time_ratio(model, product_class)
        exact_engine = get_default_engine(model, stores_int8=False, device=device)
        chosen = int8_engine if time_ratio < _MAX_TIME_RATIO[int8_engine] else exact_engine
        reason = f"its products take {time_ratio:.2f} of the time of fp32 here"
        if chosen != int8_engine:
            reason = f"{int8_engine}: {reason}"
    if log is not None:
        log(f"engine: {chosen} ({reason})")
    return chosen


def _select_int8_engine() -> tuple[EngineName, type[Int8Product]]:
    """Return the better of the engines with int8 matrices, and the class of its products."""
    if load_library() is None:
        return "int8", Int8Product
    from heedful.engines.native.linear import NativeProduct  # few installations have it

    return "native", NativeProduct


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
