"""Parameters of a model: initialisation schemes of papers, depths, and names of shared ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heedful.attention.multihead import ProjectionAggregation
from heedful.attention.scores import AdditiveScore, AttentionScore, ConcatScore
from heedful.blocks.recurrent import RecurrentCell
from heedful.blocks.transformer import TransformerLayer

Initializer: TypeAlias = Callable[[nn.Module], None]
"""Initialises every parameter of a newly built model, in place."""

_RANDOM_SUFFIXES: Final = ("normal_", "uniform_", "orthogonal_")
"""Endings of the names of functions that draw random numbers."""
_DEVIATION: Final = 0.02
"""Standard deviation of the matrices of GPT-2 and BERT."""


def init_modern(_model: nn.Module) -> None:
    """Keep the initialisation of the modules: Xavier, orthogonal recurrent matrices, forget gates that remember."""


def init_uniform(bound: float) -> Initializer:
    """Create an initializer with U(-bound, bound) for all parameters: 0.08 in Sutskever et al. 2014, 3.4, 0.1 in
    Luong et al. 2015, 4.1.
    """

    def initialise(model: nn.Module) -> None:
        """Draw all parameters from U(-bound, bound)."""
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    return initialise


def init_bahdanau(model: nn.Module) -> None:
    """Initialise as Bahdanau et al. 2015, B.1: small Gaussian matrices, orthogonal recurrent ones, uniform attention.

    V_a begins with zeros, so that attention begins uniform, W_a and U_a with deviations of 0.001, biases with zeros,
    every other matrix with deviations of 0.01. Other scores than the paper's have matrices like W_a. The gates of a
    recurrent matrix are orthogonal one by one.
    """
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.01) if parameter.dim() > 1 else nn.init.zeros_(parameter)
    for module in model.modules():
        if isinstance(module, RecurrentCell):
            for gate in torch.split(module.recurrent.weight, module.d_state):
                nn.init.orthogonal_(gate)
        elif isinstance(module, AttentionScore):
            for matrix in (parameter for parameter in module.parameters() if parameter.dim() > 1):
                nn.init.normal_(matrix, std=0.001)
            if isinstance(module, AdditiveScore | ConcatScore):
                nn.init.zeros_(module.energy.weight)


def init_gpt2(model: nn.Module) -> None:
    """Initialise as GPT-2: N(0, 0.02), with smaller maps into the residual stream (Radford et al. 2019, 2.3).

    With L layers the residual stream is a sum of 2 L sublayers; their last maps begin with N(0, 0.02 / sqrt(2 L)), so
    that the sum has the size that one alone would have. Tables and positions begin like matrices, biases with 0, gains
    with 1.
    """
    _init_matrices(model, lambda matrix: nn.init.normal_(matrix, std=_DEVIATION))
    layers = [module for module in model.modules() if isinstance(module, TransformerLayer)]
    for layer in layers:
        for last in (layer.attention.aggregation, layer.feed_forward.outer):
            linear = last.output if isinstance(last, ProjectionAggregation) else last
            if isinstance(linear, nn.Linear):
                nn.init.normal_(linear.weight, std=_DEVIATION / math.sqrt(2 * len(layers)))


def init_bert(model: nn.Module) -> None:
    """Initialise as BERT: truncated normal numbers of deviation 0.02, none beyond two deviations (Devlin et al. 2019).

    Tables, positions and segments among them, begin like matrices, biases with 0, gains with 1.
    """
    bound = 2 * _DEVIATION
    _init_matrices(model, lambda matrix: nn.init.trunc_normal_(matrix, std=_DEVIATION, a=-bound, b=bound))


def _init_matrices(model: nn.Module, draw: Callable[[Tensor], Tensor]) -> None:
    """Initialise every matrix in place by `draw`; set the biases of linear maps and norms to 0 and the gains of norms
    to 1.
    """
    for parameter in model.parameters():
        if parameter.dim() > 1:
            draw(parameter)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            nn.init.ones_(module.weight)


class _SkipRandomInit(TorchFunctionMode):
    """Torch function mode that skips random and orthogonal initialisation."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, but leave a tensor unchanged or set it to zeros instead of initialising it at random, and skip
        the decomposition of an orthogonal initialisation.
        """
        name = getattr(func, "__name__", "")
        if name == "uniform_" or (name.endswith(_RANDOM_SUFFIXES) and func is getattr(nn.init, name, None)):
            return args[0] if args else (kwargs or {})["tensor"]
        if func is Tensor.normal_:  # of a tensor: it may be drawn again until all numbers are small, so use zeros
            with torch.no_grad():
                return args[0].zero_()
        if func is torch.linalg.qr:
            return args[0], args[0][: args[0].size(1)]
        return func(*args, **(kwargs or {}))


@contextmanager
def skip_initialization() -> Iterator[None]:
    """Context manager: build models without initialising them, because their weights are loaded at once."""
    with _SkipRandomInit():
        yield


_LAYER = re.compile(r"(?:^|\.)(?:layers|cells)\.(\d+)\.")
_EMBEDDING = re.compile(r"(?:^|\.)embedding\.")


@dataclass(frozen=True)
class LayerDepths:
    """Depth of each parameter of a model.

    Attributes:
        num_layers: number of layers between embedding and head.
        by_parameter: depth of each parameter: 0 in the head, 1 in the highest layer and in parts shared by all layers,
            such as a final norm, `num_layers` in the lowest one, and one more in the embeddings; embeddings have 2
            where there is no layer.
    """

    num_layers: int
    by_parameter: Mapping[str, int]


def measure_depths(model: nn.Module, *, body: str) -> LayerDepths:
    """Return the depth of each parameter by its name: how far it is from the output, in layers of the stack at the
    attribute `body`.

    Args:
        model: a stack of layers with a head.
        body: attribute that holds the stack; the encoder's pooler counts as head.
    """
    names = [name for name, _ in model.named_parameters()]
    numbers = [int(match[1]) for name in names if name.startswith(f"{body}.") and (match := _LAYER.search(name))]
    layers = 1 + max(numbers, default=-1)
    return LayerDepths(layers, {name: _find_depth(name, layers=layers, body=body) for name in names})


def _find_depth(name: str, *, layers: int, body: str) -> int:
    """Return the depth of the parameter `name` in a model with a stack of `layers` layers at the attribute `body`; see
    `LayerDepths`.
    """
    if not name.startswith(f"{body}.") or name.startswith(f"{body}.summary."):
        return 0
    if match := _LAYER.search(name):
        return layers - int(match[1])
    return max(layers, 1) + 1 if _EMBEDDING.search(name) else 1


def find_shared_names(model: nn.Module) -> dict[str, str]:
    """Map each further name of a shared parameter to its first name, under which `named_parameters` lists it.

    Works on the meta device.
    """
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    named_parameters = model.named_parameters(remove_duplicate=False)
    return {name: first[id(parameter)] for name, parameter in named_parameters if first[id(parameter)] != name}
