"""Fused operators of training in native code, with written gradients. Elsewhere PyTorch computes the same.

They need the package `heedful-native` and tensors that `find_library` supports. Statistics and sums are fp32 in both
precisions. Gradients of gradients raise an error. Dropout makes NaN that it drops 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import byref
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from heedful.native import data_pointer, load_library, require_library

_DTYPES: Final = (torch.float32, torch.bfloat16)
_MAX_ATTENTION_KEYS: Final = {torch.float32: 128, torch.bfloat16: 32}
"""Number of keys and queries up to which native attention is faster than separate products."""
_MIN_NUMBERS: Final = 2**18
"""Number of results from which on a norm or a linear map in native code saves more time than its call costs."""
_DROPOUT_LEVELS: Final = 256
"""Number of values of the byte that decides whether a number is dropped."""
_ACTIVATIONS: Final = {nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "silu"}


def find_library(x: Tensor) -> Any | None:
    """Return the native library if it is installed and supports `x`: not empty, fp32 or bf16, on a CPU, of a plain
    class, and neither traced, compiled nor under autocast.
    """
    is_supported = x.device.type == "cpu" and x.dtype in _DTYPES and type(x) in (Tensor, nn.Parameter)
    if not is_supported or _is_transformed() or x.numel() == 0:
        return None
    return load_library()


def _is_transformed() -> bool:
    """Return whether PyTorch does more than compute the operations that are called."""
    is_traced: bool = torch.jit.is_tracing()  # type: ignore[no-untyped-call,attr-defined]  # torch's
    return torch.compiler.is_compiling() or is_traced or torch.is_autocast_enabled("cpu")


def find_training_library(x: Tensor) -> Any | None:
    """Return the native library if it supports `x`, and a gradient of `x` will be needed."""
    return find_library(x) if torch.is_grad_enabled() and x.requires_grad else None


def prefer_native_attention(query: Float[Tensor, "B H Q d_k"], key: Float[Tensor, "B H K d_k"]) -> bool:
    """Return whether native attention is available and faster for queries and keys of these shapes."""
    if find_training_library(query) is None or key.numel() == 0:
        return False
    return max(query.size(2), key.size(2)) <= _MAX_ATTENTION_KEYS[query.dtype]


def native_attention(
    query: Float[Tensor, "B H Q d_k"],
    key: Float[Tensor, "B H K d_k"],
    *,
    value: Float[Tensor, "B H K d_v"],
    scale: float,
    hidden: Bool[Tensor, "B 1 Q K"] | None,
    factors: Float[Tensor, "B H Q K"] | None,
) -> Float[Tensor, "B H Q d_v"]:
    """Compute softmax(scale q k) v with the weights multiplied by `factors`, one head after the other.

    `hidden` says which keys a query does not see; queries that see none get zeros. The context is a view of a tensor
    [B, Q, H, d_v], so heads are concatenated without a copy.
    """
    assert key.dtype == value.dtype == query.dtype and key.size(1) == value.size(1) == query.size(1)
    assert factors is None or factors.shape == (*query.shape[:3], key.size(2))
    context: Tensor = _apply(_NativeAttention, query, key, value, scale, hidden, factors)
    return context.transpose(1, 2)


class _NativeAttention(torch.autograd.Function):
    """Autograd function of attention; with g the gradient of a context, dw = g v and ds = w (dw - sum(dw w))."""

    @staticmethod
    def forward(  # noqa: PLR0917 -- autograd passes by position
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        hidden: Tensor | None,
        factors: Tensor | None,
    ) -> Tensor:
        """Return the contexts [B, Q, H, d_v], and store in `ctx` what the gradient needs."""
        query, key, value = (_make_vectors_dense(heads) for heads in (query, key, value))
        factors = None if factors is None else factors.contiguous()
        rows, heads, queries, _ = query.shape
        weights = query.new_empty(rows, heads, queries, key.size(2))
        context = query.new_empty(rows, queries, heads, value.size(3))
        batch = _build_attention_batch(query, key, value=value, weights=weights, factors=factors, scale=scale)
        batch.context = _describe_heads(context.transpose(1, 2))
        if hidden is not None:
            hidden = hidden.expand(rows, 1, queries, key.size(2))
            batch.hidden = hidden.data_ptr()
            batch.hidden_row, _, batch.hidden_query, batch.hidden_key = hidden.stride()
        require_library().attention(byref(batch), torch.get_num_threads())
        ctx.save_for_backward(query, key, value, weights, factors)
        ctx.scale = scale
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query, key and value from that of the contexts; the other arguments have none."""
        query, key, value, weights, factors = ctx.saved_tensors
        gradient = _make_vectors_dense(gradient.transpose(1, 2))
        batch = _build_attention_batch(query, key, value=value, weights=weights, factors=factors, scale=ctx.scale)
        batch.context = _describe_heads(gradient)
        d_query, d_key, d_value = (
            torch.empty_like(heads.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
            for heads in (query, key, value)
        )
        library = require_library()
        described = (library.HeadVectors * 3)(*map(_describe_heads, (d_query, d_key, d_value)))
        library.attention_backward(byref(batch), described, torch.get_num_threads())
        return d_query, d_key, d_value, None, None, None


def add_dropped(x: Float[Tensor, "*S"], branch: Float[Tensor, "*S"], p: float) -> Float[Tensor, "*S"]:
    """Return x + dropout(branch), with a probability of zeros rounded to 1/256."""
    assert x.shape == branch.shape and x.dtype == branch.dtype
    result: Tensor = _apply(_NativeDropout, branch, x, p)
    return result


def drop(x: Float[Tensor, "*S"], p: float) -> Float[Tensor, "*S"]:
    """Return dropout(x), with a probability of zeros rounded to 1/256."""
    result: Tensor = _apply(_NativeDropout, x, None, p)
    return result


def draw_dropout_factors(shape: Sequence[int], p: float, *, reference: Tensor) -> Float[Tensor, "*S"]:
    """Draw the factors of dropout for a tensor of this shape, 0 or 1 / (1 - p), with the dtype of `reference` and p
    rounded to 1/256.
    """
    ones = reference.new_ones(tuple(shape))
    return _drop(ones, x=None, random_bytes=draw_random_bytes(ones.numel()), p=p)


class _NativeDropout(torch.autograd.Function):
    """Autograd function x + dropout(branch), which keeps a random byte for each number."""

    @staticmethod
    def forward(ctx: Any, branch: Tensor, x: Tensor | None, p: float) -> Tensor:
        """Return the sum, or the dropped branch alone if `x` is None."""
        random_bytes = draw_random_bytes(branch.numel())
        ctx.save_for_backward(random_bytes)
        ctx.p = p
        return _drop(branch, x=x, random_bytes=random_bytes, p=p)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the dropped gradient of the branch, and that of x unchanged."""
        (random_bytes,) = ctx.saved_tensors
        needs_branch = ctx.needs_input_grad[0]
        d_branch = _drop(gradient, x=None, random_bytes=random_bytes, p=ctx.p) if needs_branch else None
        return d_branch, gradient if ctx.needs_input_grad[1] else None, None


def draw_random_bytes(count: int) -> UInt8[Tensor, " N"]:
    """Draw random bytes from torch's default generator, eight at a time."""
    words = torch.empty(-(-count // 8), dtype=torch.int64, device="cpu").random_(-(2**63), None)
    drawn = words.view(torch.uint8)[:count]
    return drawn.clone() if torch.compiler.is_compiling() else drawn  # torch 2.13 fails at compiled views as bytes


def round_probability(p: float) -> tuple[int, float]:
    """Return the number of values of a byte that drop a number, at most 255, and the scale of numbers that are kept."""
    threshold = min(round(p * _DROPOUT_LEVELS), _DROPOUT_LEVELS - 1)
    return threshold, _DROPOUT_LEVELS / (_DROPOUT_LEVELS - threshold)


def _drop(branch: Tensor, *, x: Tensor | None, random_bytes: UInt8[Tensor, " N"], p: float) -> Tensor:
    """Compute x + dropout(branch), where random bytes decide what is dropped."""
    library = require_library()
    settings = library.Dropout(random_bytes.data_ptr(), *round_probability(p))
    branch, x = branch.contiguous(), None if x is None else x.contiguous()
    out = torch.empty_like(branch)
    library.dropout(
        byref(settings),
        *(data_pointer(x), branch.data_ptr(), branch.numel(), out.data_ptr(), branch.dtype == torch.bfloat16),
        torch.get_num_threads(),
    )
    return out


class LayerNorm(nn.LayerNorm):
    """LayerNorm (Ba et al. 2016) over the last axis; a fused operator computes it in training, where there is one."""

    def forward(self, x: Float[Tensor, "*B width"]) -> Float[Tensor, "*B width"]:
        """Normalise each vector."""
        is_plain = self.weight is not None and self.weight.dtype == x.dtype and self.normalized_shape == x.shape[-1:]
        if not is_plain or find_training_library(x) is None or x.numel() < _MIN_NUMBERS:
            return super().forward(x)
        result: Tensor = _apply(_NativeLayerNorm, x, self.weight, self.bias, self.eps)
        return result


class _NativeLayerNorm(torch.autograd.Function):
    """Autograd function of LayerNorm, which keeps two moments of each vector."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> Tensor:
        """Return the normalised vectors."""
        x, out = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
        gain, shift = weight.float().contiguous(), None if bias is None else bias.float().contiguous()
        moments = torch.empty(x.numel() // x.size(-1), 2, dtype=torch.float32, device="cpu")
        batch = _build_norm_batch(x, gain, moments=moments)
        batch.bias, batch.epsilon = data_pointer(shift), epsilon
        require_library().norm(byref(batch), out.data_ptr(), torch.get_num_threads())
        ctx.save_for_backward(x, gain, moments)
        ctx.has_bias, ctx.dtype = bias is not None, weight.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of vectors, gain and bias."""
        x, gain, moments = ctx.saved_tensors
        gradient, d_x = gradient.contiguous(), torch.empty_like(x)
        d_gain, d_bias = torch.empty_like(gain), torch.empty_like(gain) if ctx.has_bias else None
        batch = _build_norm_batch(x, gain, moments=moments)
        require_library().norm_backward(
            byref(batch),
            *(gradient.data_ptr(), d_x.data_ptr(), d_gain.data_ptr(), data_pointer(d_bias), torch.get_num_threads()),
        )
        return d_x, d_gain.to(ctx.dtype), None if d_bias is None else d_bias.to(ctx.dtype), None


def apply_linear(
    x: Float[Tensor, "*B k"], linear: nn.Linear, activation: nn.Module | None = None
) -> Float[Tensor, "*B n"]:
    """Return activation(x W' + b); without an activation x W' + b. Modules with hooks and other classes of linear maps
    are called as they are.
    """
    number = _find_native_activation(x, linear, activation)
    if number is None:
        result: Tensor = linear(x)
        return result if activation is None else activation(result)
    flat: Tensor = _apply(_NativeLinear, x.reshape(-1, x.size(-1)), linear.weight, linear.bias, number)
    return flat.view(*x.shape[:-1], linear.out_features)


def _find_native_activation(x: Tensor, linear: nn.Linear, activation: nn.Module | None) -> int | None:
    """Return the number of the activation in the native library; None if native code cannot compute the linear map with
    this activation, or not faster.
    """
    if type(linear) is not nn.Linear or linear.weight.dtype != x.dtype or _has_hooks(linear):
        return None
    library = find_training_library(x)
    if library is None or x.numel() // linear.in_features * linear.out_features < _MIN_NUMBERS:
        return None
    names: tuple[str, ...] = library.ACTIVATIONS
    if activation is None:
        return len(names) if "bias" in dict(linear.named_parameters()) else None
    if type(activation) not in _ACTIVATIONS or _has_hooks(activation):
        return None
    is_tanh = getattr(activation, "approximate", "none") == "tanh"
    return names.index("gelu_tanh" if is_tanh else _ACTIVATIONS[type(activation)])


def _has_hooks(module: nn.Module) -> bool:
    """Return whether something else happens when a module is called."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module)


class _NativeLinear(torch.autograd.Function):
    """Autograd function f(x W' + b). Products are those of PyTorch; bias and activation need one pass each way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, activation: int) -> Tensor:
        """Return the activations. GELU and SiLU keep their input for the gradient; ReLU overwrites it."""
        library, inner = require_library(), x @ weight.T
        has_activation = activation < len(library.ACTIVATIONS)
        keeps_input = has_activation and library.ACTIVATIONS[activation] != "relu"
        out = torch.empty_like(inner) if keeps_input else inner
        shift = None if bias is None else bias.float().contiguous()
        library.bias_activation(
            *(inner.data_ptr(), *inner.shape, data_pointer(shift), activation, out.data_ptr()),
            *(inner.dtype == torch.bfloat16, torch.get_num_threads()),
        )
        ctx.save_for_backward(x, weight, inner if has_activation else None)
        ctx.activation = activation
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of input, weight and bias."""
        x, weight, inner = ctx.saved_tensors
        gradient = gradient.contiguous()
        d_inner = gradient if inner is None else torch.empty_like(inner)
        d_bias = torch.empty(len(weight), dtype=torch.float32, device="cpu") if ctx.needs_input_grad[2] else None
        if inner is not None or d_bias is not None:
            require_library().bias_activation_backward(
                *(gradient.data_ptr(), data_pointer(inner), *gradient.shape, ctx.activation, d_inner.data_ptr()),
                *(data_pointer(d_bias), gradient.dtype == torch.bfloat16, torch.get_num_threads()),
            )
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        return (
            d_inner @ weight if needs_x else None,
            d_inner.T @ x if needs_weight else None,
            None if d_bias is None else d_bias.to(weight.dtype),
            None,
        )


def compute_cross_entropy_(
    logits: Float[Tensor, "N V"],
    labels: Int[Tensor, " N"],
    *,
    confidence: float,
    weights: Float[Tensor, " N"] | None,
    overwrite: bool,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Return the log-probability of each label and its logit, in fp32. If `overwrite`, replace the logits by their
    gradient weights (softmax(logits) - confidence onehot(label)).

    Raises:
        IndexError: a label is not a column of the logits.
    """
    log_probabilities, chosen = (torch.empty(len(logits), dtype=torch.float32, device="cpu") for _ in range(2))
    assert logits.is_contiguous()
    labels = labels.to(torch.int64).contiguous()
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < logits.size(1):
        raise IndexError(
            f"labels from {int(labels.min())} to {int(labels.max())}: logits have {logits.size(1)} columns"
        )
    weights = None if weights is None else weights.float().contiguous()
    require_library().cross_entropy(
        *(logits.data_ptr(), *logits.shape, labels.data_ptr(), confidence, data_pointer(weights)),
        *(overwrite, log_probabilities.data_ptr(), chosen.data_ptr(), logits.dtype == torch.bfloat16),
        torch.get_num_threads(),
    )
    return log_probabilities, chosen


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Apply an autograd function, whose `apply` has no types."""
    apply_function: Callable[..., Any] = function.apply
    return apply_function(*arguments)


def _make_vectors_dense(heads: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
    """Return heads whose vectors are dense; a copy only if they are not."""
    return heads if heads.stride(3) == 1 else heads.contiguous()


def _describe_heads(heads: Float[Tensor, "B H T d"]) -> Any:
    """Return heads as native code reads them."""
    row, head, token, _ = heads.stride()
    return require_library().HeadVectors(heads.data_ptr(), row, token, head)


def _build_attention_batch(
    query: Tensor, key: Tensor, *, value: Tensor, weights: Tensor, factors: Tensor | None, scale: float
) -> Any:
    """Return the arguments that both passes of attention share."""
    rows, heads, queries, width = query.shape
    return require_library().AttentionBatch(
        query=_describe_heads(query),
        key=_describe_heads(key),
        value=_describe_heads(value),
        rows=rows,
        heads=heads,
        queries=queries,
        keys=key.size(2),
        width=width,
        value_width=value.size(3),
        factors=data_pointer(factors),
        weights=weights.data_ptr(),
        scale=scale,
        bfloat16=query.dtype == torch.bfloat16,
    )


def _build_norm_batch(x: Tensor, gain: Tensor, *, moments: Tensor) -> Any:
    """Return the arguments that both passes of LayerNorm share."""
    return require_library().NormBatch(
        x=x.data_ptr(),
        gain=gain.data_ptr(),
        moments=moments.data_ptr(),
        rows=len(moments),
        width=x.size(-1),
        bfloat16=x.dtype == torch.bfloat16,
    )
