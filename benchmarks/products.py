"""Only the matrix products of a training update: a lower bound of its time.

Each weight has its own matrix, as in a model, and three products: the forward pass, the gradient of the input and the
gradient of the weight. Attention has six products in each head: scores, contexts, and the gradients of both with
respect to their two factors. Masked positions are computed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LinearProduct:
    """Product of vectors with a weight matrix."""

    rows: int
    d_in: int
    d_out: int


@dataclass(frozen=True)
class AttentionProduct:
    """Products of queries with keys and of weights with values, in `heads` heads at once."""

    heads: int
    queries: int
    keys: int
    width: int


Product = LinearProduct | AttentionProduct


def list_layer_products(model: dict[str, int], rows: int, length: int, *, source: int = 0) -> Iterator[Product]:
    """Yield the products of self-attention, cross-attention (unless `source` is 0) and the feed-forward network."""
    width, heads = model["d_model"], model["heads"]
    for keys in (length, source) if source else (length,):
        yield LinearProduct(rows * length, width, width)
        yield LinearProduct(rows * keys, width, 2 * width)
        yield AttentionProduct(rows * heads, length, keys, width // heads)
        yield LinearProduct(rows * length, width, width)
    yield LinearProduct(rows * length, width, model["d_ff"])
    yield LinearProduct(rows * length, model["d_ff"], width)


def list_translation_products(
    model: dict[str, int], source: Sequence[int], target: Sequence[int], *, labels: int, vocabulary: int
) -> list[Product]:
    """List the products of an encoder-decoder with its output; `source` and `target` are the shapes of the ids."""
    encoder = [each for _ in range(model["layers"]) for each in list_layer_products(model, *source)]
    decoder = [each for _ in range(model["layers"]) for each in list_layer_products(model, *target, source=source[1])]
    return [*encoder, *decoder, LinearProduct(labels, model["d_model"], vocabulary)]


def list_language_model_products(model: dict[str, int], rows: int, length: int, *, vocabulary: int) -> list[Product]:
    """List the products of a GPT with its output; its feed-forward network is four times as wide as the model."""
    sizes = {**model, "d_ff": 4 * model["d_model"]}
    stack = [each for _ in range(model["layers"]) for each in list_layer_products(sizes, rows, length)]
    return [*stack, LinearProduct(rows * length, model["d_model"], vocabulary)]


def count_operations(products: Sequence[Product]) -> int:
    """Count the operations of an update, forward and backward, two for each pair of numbers."""
    return sum(
        6 * each.rows * each.d_in * each.d_out
        if isinstance(each, LinearProduct)
        else 12 * each.heads * each.queries * each.keys * each.width
        for each in products
    )


class ProductRunner:
    """Computes products of random numbers in memory that is allocated once.

    Args:
        dtype: type of all numbers; the library decides how it accumulates.
        device: where to compute.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        self._dtype, self._device = dtype, device
        self._buffers: dict[object, Tensor] = {}

    def run(self, products: Sequence[Product]) -> None:
        """Compute the products of one update, forward and backward."""
        backward_passes = [self._run_forward(number, each) for number, each in enumerate(products)]
        for backward in reversed(backward_passes):
            backward()

    def _run_forward(self, number: int, product: Product) -> Callable[[], None]:
        """Compute the products of the forward pass; return a function that computes the others."""
        if isinstance(product, LinearProduct):
            return self._run_linear(number, product)
        return self._run_attention(product)

    def _run_linear(self, number: int, product: LinearProduct) -> Callable[[], None]:
        rows, d_in, d_out = product.rows, product.d_in, product.d_out
        weight = self._get_buffer(("weight", number), d_out, d_in)
        d_weight = self._get_buffer(("gradient", number), d_out, d_in)
        x, d_x = self._get_buffer(("x", d_in), rows, d_in), self._get_buffer(("dx", d_in), rows, d_in)
        y, d_y = self._get_buffer(("y", d_out), rows, d_out), self._get_buffer(("dy", d_out), rows, d_out)
        torch.mm(x, weight.T, out=y)

        def backward() -> None:
            torch.mm(d_y, weight, out=d_x)
            torch.mm(d_y.T, x, out=d_weight)

        return backward

    def _run_attention(self, product: AttentionProduct) -> Callable[[], None]:
        heads, queries, keys, width = product.heads, product.queries, product.keys, product.width
        query, d_context = (self._get_buffer(name, heads, queries, width) for name in ("query", "d_context"))
        key, value = (self._get_buffer(name, heads, keys, width) for name in ("key", "value"))
        context, d_query = (self._get_buffer(name, heads, queries, width) for name in ("context", "d_query"))
        d_key, d_value = (self._get_buffer(name, heads, keys, width) for name in ("d_key", "d_value"))
        weights, d_scores = (self._get_buffer(name, heads, queries, keys) for name in ("weights", "d_scores"))
        scores, d_weights = (self._get_buffer(name, heads, queries, keys) for name in ("scores", "d_weights"))
        torch.bmm(query, key.mT, out=scores)
        torch.bmm(weights, value, out=context)

        def backward() -> None:
            torch.bmm(weights.mT, d_context, out=d_value)
            torch.bmm(d_context, value.mT, out=d_weights)
            torch.bmm(d_scores, key, out=d_query)
            torch.bmm(d_scores.mT, query, out=d_key)

        return backward

    def _get_buffer(self, name: object, *shape: int) -> Tensor:
        """Return a tensor with this shape in the memory with this name, which grows if necessary."""
        size = torch.Size(shape).numel()
        if name not in self._buffers or self._buffers[name].numel() < size:
            self._buffers[name] = torch.randn(size, dtype=self._dtype, device=self._device)
        return self._buffers[name][:size].view(shape)
