"""The matrix products that an update of training needs, and nothing else: what it would cost at the least.

Each weight is a matrix of its own, as in a model, and meets three products: forward, gradient of its input, gradient of
itself; attention meets six in each head: scores, contexts, and the gradients of both by both of their factors. Masks
are not made use of: what a causal attention hides is computed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Affine:
    """Vectors that meet one matrix."""

    rows: int
    d_in: int
    d_out: int


@dataclass(frozen=True)
class Heads:
    """Queries that meet keys, and weights that meet values, in so many heads at once."""

    heads: int
    queries: int
    keys: int
    width: int


Product = Affine | Heads


def layer(model: dict[str, int], rows: int, length: int, *, source: int = 0) -> Iterator[Product]:
    """Self-attention, attention to a source of that length unless it is 0, feed-forward."""
    width, heads = model["d_model"], model["heads"]
    for keys in (length, source) if source else (length,):
        yield Affine(rows * length, width, width)
        yield Affine(rows * keys, width, 2 * width)
        yield Heads(rows * heads, length, keys, width // heads)
        yield Affine(rows * length, width, width)
    yield Affine(rows * length, width, model["d_ff"])
    yield Affine(rows * length, model["d_ff"], width)


def translation(
    model: dict[str, int], source: Sequence[int], target: Sequence[int], *, labels: int, vocabulary: int
) -> list[Product]:
    """Those of an encoder-decoder and its output; `source` and `target` are the shapes of a batch's ids."""
    encoder = [each for _ in range(model["layers"]) for each in layer(model, *source)]
    decoder = [each for _ in range(model["layers"]) for each in layer(model, *target, source=source[1])]
    return [*encoder, *decoder, Affine(labels, model["d_model"], vocabulary)]


def language_model(model: dict[str, int], rows: int, length: int, *, vocabulary: int) -> list[Product]:
    """Those of a GPT whose feed-forward is four times as wide as itself, and its output."""
    sizes = {**model, "d_ff": 4 * model["d_model"]}
    stack = [each for _ in range(model["layers"]) for each in layer(sizes, rows, length)]
    return [*stack, Affine(rows * length, model["d_model"], vocabulary)]


class ProductsAlone:
    """Makes products with random numbers; operands lie in memory that is made once.

    Args:
        dtype: of all numbers; sums are the library's business.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._rooms: dict[object, Tensor] = {}

    def run(self, products: Sequence[Product]) -> None:
        """The products of one update, forward and backward."""
        work = [self._backward(number, each) for number, each in enumerate(products)]
        for backward in reversed(work):
            backward()

    def _backward(self, number: int, product: Product) -> Callable[[], None]:
        """Makes those of the forward pass, and returns what makes the others."""
        if isinstance(product, Affine):
            return self._affine(number, product)
        return self._heads(product)

    def _affine(self, number: int, product: Affine) -> Callable[[], None]:
        rows, d_in, d_out = product.rows, product.d_in, product.d_out
        weight = self._room(("weight", number), d_out, d_in)
        d_weight = self._room(("gradient", number), d_out, d_in)
        x, d_x = self._room(("x", d_in), rows, d_in), self._room(("dx", d_in), rows, d_in)
        y, d_y = self._room(("y", d_out), rows, d_out), self._room(("dy", d_out), rows, d_out)
        torch.mm(x, weight.T, out=y)

        def backward() -> None:
            torch.mm(d_y, weight, out=d_x)
            torch.mm(d_y.T, x, out=d_weight)

        return backward

    def _heads(self, product: Heads) -> Callable[[], None]:
        heads, queries, keys, width = product.heads, product.queries, product.keys, product.width
        query, d_context = (self._room(name, heads, queries, width) for name in ("query", "d_context"))
        key, value = (self._room(name, heads, keys, width) for name in ("key", "value"))
        context, d_query = (self._room(name, heads, queries, width) for name in ("context", "d_query"))
        d_key, d_value = (self._room(name, heads, keys, width) for name in ("d_key", "d_value"))
        weights, d_scores = (self._room(name, heads, queries, keys) for name in ("weights", "d_scores"))
        scores, d_weights = (self._room(name, heads, queries, keys) for name in ("scores", "d_weights"))
        torch.bmm(query, key.mT, out=scores)
        torch.bmm(weights, value, out=context)

        def backward() -> None:
            torch.bmm(weights.mT, d_context, out=d_value)
            torch.bmm(d_context, value.mT, out=d_weights)
            torch.bmm(d_scores, key, out=d_query)
            torch.bmm(d_scores.mT, query, out=d_key)

        return backward

    def _room(self, name: object, *shape: int) -> Tensor:
        """A tensor of this shape in the memory of that name, which grows as it must."""
        size = torch.Size(shape).numel()
        if name not in self._rooms or self._rooms[name].numel() < size:
            self._rooms[name] = torch.randn(size, dtype=self._dtype)
        return self._rooms[name][:size].view(shape)
