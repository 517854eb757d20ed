"""Large matrices and attention in bf16, in PyTorch: on GPUs, and with the same rounding on CPUs."""

from __future__ import annotations

from typing import Final, final

import torch
from jaxtyping import BFloat16, Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from heedful.attention import kernels
from heedful.attention.hooks import AttentionTrace
from heedful.attention.kv_cache import KVCache
from heedful.attention.mask import AttentionMask
from heedful.attention.multihead import MultiHeadAttention
from heedful.attention.scores import ScaledSoftmax
from heedful.blocks.recurrent import RecurrentCell
from heedful.engines.int8 import find_quantizable
from heedful.recipes.recipe import EngineName


@final
class BFloat16Linear(nn.Linear):
    """Linear map x W' + b whose W and x are rounded to bf16; its sums and results keep the precision of x.

    Where a gradient is needed, it is that of the rounded W, and x is not rounded.

    Args:
        linear: the map whose weight is rounded and whose bias is shared.
        engine_name: name of the engine that it belongs to.
    """

    def __init__(self, linear: nn.Linear, *, engine_name: EngineName) -> None:
        nn.Module.__init__(self)  # nn.Linear would create a weight
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.engine_name: Final = engine_name
        self.register_parameter("bias", linear.bias)
        self.register_buffer("rounded_weight", linear.weight.detach().to(torch.bfloat16), persistent=False)
        self.rounded_weight: Tensor
        self._dtype = linear.weight.dtype

    @property
    def weight(self) -> Tensor:  # type: ignore[override]  # which other code may set
        """The rounded weight in the precision of the model."""
        return self.rounded_weight.to(self._dtype)

    def forward(self, x: Float[Tensor, "*B k"]) -> Float[Tensor, "*B n"]:
        """Return one vector for each input vector."""
        if x.requires_grad and torch.is_grad_enabled():
            return functional.linear(x, self.weight, self.bias)
        rounded = x.reshape(-1, self.in_features).to(torch.bfloat16)
        product = _multiply_bfloat16(rounded, self.rounded_weight, dtype=self._dtype)
        if self.bias is not None:
            product += self.bias
        return product.view(*x.shape[:-1], self.out_features)


def _multiply_bfloat16(
    x: BFloat16[Tensor, "N k"], weight: BFloat16[Tensor, "n k"], *, dtype: torch.dtype
) -> Float[Tensor, "N n"]:
    """Return x W' as numbers of this dtype, in which the products are summed; none of them is rounded to bf16."""
    if x.device.type == "cuda":
        return torch.mm(x, weight.t(), out_dtype=dtype)
    return x.to(dtype) @ weight.to(dtype).t()


@final
class BFloat16Attention(MultiHeadAttention):
    """Multi-head attention of scaled dot products whose queries, keys and values are rounded to bf16.

    A fused kernel gets them in bf16, and sums in fp32. Elsewhere, and while a hook reads the attention weights, they
    are converted to the precision of the model first. Contexts have that precision. Keys and values are cached in bf16.

    Args:
        attention: the attention whose modules are used; its scores must have no bias.
        engine_name: name of the engine that it belongs to.
    """

    def __init__(self, attention: MultiHeadAttention, *, engine_name: EngineName) -> None:
        nn.Module.__init__(self)
        vars(self).update(vars(attention))  # the same modules and settings
        self.engine_name: Final = engine_name
        self._dtype = attention.query.weight.dtype

    def project_memory(self, keys: Tensor, values: Tensor, positions: Tensor) -> KVCache:
        """Project keys and values as `MultiHeadAttention` does, and round them."""
        memory = super().project_memory(keys, values, positions)
        return _convert_cache(memory, torch.bfloat16)

    def _project_queries(self, x: Tensor, *, mask: AttentionMask) -> Float[Tensor, "G H Q d_k"]:
        """Project queries as `MultiHeadAttention` does, and round them."""
        return super()._project_queries(x, mask=mask).to(torch.bfloat16)

    def _attend(self, query: Tensor, memory: KVCache, *, mask: AttentionMask) -> Tensor:
        """Return the contexts in the precision of the model, whatever kernel computes them."""
        if self.probe.is_watched or not kernels.prefer_fused(query, memory.key, 0.0):
            query, memory = query.to(self._dtype), _convert_cache(memory, self._dtype)
        return super()._attend(query, memory, mask=mask).to(self._dtype)

    def _build_trace(self, query: Tensor, memory: KVCache, *, mask: AttentionMask) -> AttentionTrace:
        """Return the intermediate values of the rounded queries, keys and values."""
        return super()._build_trace(query.to(self._dtype), _convert_cache(memory, self._dtype), mask=mask)


def _convert_cache(memory: KVCache, dtype: torch.dtype) -> KVCache:
    """Return the keys and values as numbers of this dtype."""
    if memory.key.dtype == dtype:
        return memory
    return KVCache(memory.key.to(dtype), memory.value.to(dtype))


def convert_to_bfloat16(model: nn.Module, *, engine_name: EngineName = "torch-bfloat16") -> None:
    """Replace the linear maps of 4,096 numbers and more, and attentions by scaled dot products, by modules that compute
    in bf16, in place, for an engine.

    Embeddings, norms and convolutions stay as they are because they take little time; recurrent cells do because their
    kernels read whole sequences.
    """
    for module in list(model.modules()):
        if is_parametrized(module, "weight"):  # a weight that is computed again in each call
            remove_parametrizations(module, "weight")
    cells = [module for module in model.modules() if isinstance(module, RecurrentCell)]
    kept = {id(child) for cell in cells for child in cell.modules()}
    replacements: dict[int, nn.Module] = {}
    large = [(name, module) for name, module in find_quantizable(model).items() if isinstance(module, nn.Linear)]
    attentions = [(name, module) for name, module in model.named_modules() if _has_plain_scores(module)]
    for name, module in (*large, *attentions):
        if id(module) in kept:
            continue
        if id(module) not in replacements:
            replacements[id(module)] = (
                BFloat16Linear(module, engine_name=engine_name)
                if isinstance(module, nn.Linear)
                else BFloat16Attention(module, engine_name=engine_name)
            )
        parent_name, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent_name), attribute, replacements[id(module)])


def _has_plain_scores(module: nn.Module) -> bool:
    """Return whether a module is a multi-head attention by scaled dot products alone."""
    return (
        type(module) is MultiHeadAttention
        and type(module.weigher) is ScaledSoftmax
        and not module.relative.changes_scores
    )
