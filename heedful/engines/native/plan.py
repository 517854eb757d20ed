"""A stack of modules as native code reads it: addresses of what is packed, and why some stacks have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.attention.multihead import Concatenation, MultiHeadAttention, Projection
from heedful.attention.positions import Integer, Learned, Rotary, Sinusoidal, Unaware
from heedful.attention.visibility import Window, causal, everything
from heedful.attention.weigher import ScaledSoftmax
from heedful.blocks.embedding import TokenEmbedding, VectorEmbedding
from heedful.blocks.residual import PostNorm, PreNorm, Residual
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.engines.int8 import Int8Embedding, Int8Linear
from heedful.engines.native.product import NativeProduct
from heedful.native import address

_PLACES: Final = 256
"""Positions that are computed at first."""


def plannable(stack: TransformerStack) -> bool:
    """Whether native code knows all that a stack is made of."""
    layers = list(_layers(stack))
    return bool(
        layers
        and len(layers) == len(stack.layers)
        and type(stack.embedding) in (TokenEmbedding, VectorEmbedding)
        and not len(getattr(stack.embedding, "factors", ()))
        and type(stack.embedding.position) in (type(None), Sinusoidal, Learned, Integer)
        and (stack.visibility in (causal, everything) or isinstance(stack.visibility, Window))
        and all(_is_known(layer) and layer.names == layers[0].names for layer in layers)
        and len({type(residual) for layer in layers for residual in layer.residuals()}) == 1
        and all(_is_norm(norm) for norm in (stack.final_norm, stack.embedding.norm))
    )


def _layers(stack: TransformerStack) -> Iterator[TransformerLayer]:
    return (layer for layer in stack.layers if isinstance(layer, TransformerLayer))


def _is_known(layer: TransformerLayer) -> bool:
    return (
        _is_usual(layer.attention, (Unaware, Rotary))
        and all(_is_usual(layer.across_to(name)[0], (Unaware,)) for name in layer.names)
        and type(layer.feed_forward.activation) in _ACTIVATIONS
        and all(_is_plain(around) for around in layer.residuals())
    )


def _is_usual(attention: MultiHeadAttention, relative: tuple[type, ...]) -> bool:
    return (
        type(attention) is MultiHeadAttention
        and type(attention.aggregation) in (Projection, Concatenation)
        and type(attention.relative) in relative
        and type(attention.weigher) is ScaledSoftmax
        and not attention.shared_key_value
    )


def _is_norm(norm: object) -> bool:
    return norm is None or (isinstance(norm, nn.LayerNorm) and norm.weight is not None)


def _is_plain(around: Residual) -> bool:
    return isinstance(around, PostNorm | PreNorm) and around.behind is None and _is_norm(around.norm)


_ACTIVATIONS: Final = {nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "silu"}


class Plan:
    """Where native code finds what a stack is made of; the stack has to live as long, and its weights stay.

    Args:
        library: of native code.
        stack: one that is `plannable`, in single precision.
    """

    def __init__(self, library: Any, stack: TransformerStack) -> None:
        self.library, self._stack = library, stack
        self._kept: list[Any] = []
        self._outputs: dict[int, Any] = {}
        attention = next(_layers(stack)).attention
        self.width: int = attention.query.in_features
        self.heads, self.depth = attention.heads, len(stack.layers)
        self._rotary = attention.relative if isinstance(attention.relative, Rotary) else None
        self.stack = self._described()
        self.whole = bool(self.stack.after)
        self.reach(_PLACES)

    def reach(self, positions: int) -> None:
        """Computes what belongs to positions, so many at least.

        Raises:
            IndexError: there are fewer.
        """
        position, size = self._stack.embedding.position, max(positions, 2 * int(self.stack.positions))
        if isinstance(position, Learned):
            size = position.table.num_embeddings - position.offset
            if self.stack.positions and positions > size:
                raise IndexError(f"position {positions - 1}: this model knows {size}")
        counted = torch.arange(size)
        places = None if position is None else position(counted.unsqueeze(0))[0].float().contiguous()
        angle = None if self._rotary is None else counted.unsqueeze(1) * self._rotary.rate
        turns = (None, None) if angle is None else (angle.cos().contiguous(), angle.sin().contiguous())
        self._kept.append((places, *turns))  # beside the shorter ones, which another thread may be reading
        self.stack.places, self.stack.cosines, self.stack.sines = map(address, (places, *turns))
        self.stack.positions = size

    @property
    def is_bounded(self) -> bool:
        """Whether there is a last position."""
        return isinstance(self._stack.embedding.position, Learned)

    def output(self, linear: nn.Linear) -> Any:
        """The map behind the stack, described once."""
        if id(linear) not in self._outputs:
            self._kept.append(linear)
            self._outputs[id(linear)] = self._linear(linear)
        return self._outputs[id(linear)]

    def project(self, layer: int, name: str, x: Tensor, out: Tensor) -> None:
        """The keys and values that a layer makes of a memory, [..., 2 width]."""
        owner = self._stack.layers[layer]
        assert isinstance(owner, TransformerLayer)
        linear = self._across[layer][owner.names.index(name)].key_value
        x = x.contiguous()
        vectors = x.numel() // x.size(-1)
        self.library.linear(linear.weight, linear.bias, x.data_ptr(), vectors, out.data_ptr(), torch.get_num_threads())

    def _described(self) -> Any:
        native, stack, embedding = self.library, self._stack, self._stack.embedding
        layers = list(_layers(stack))
        self._across = [self._many(native.Attention, map(self._attention, *_pairs(layer))) for layer in layers]
        table = segments = native.Table()
        if isinstance(embedding, TokenEmbedding):
            table, segments = self._table(embedding.table), self._table(embedding.segments)
        before, after = _window(stack)
        activation = layers[0].feed_forward.activation
        name = "gelu_tanh" if getattr(activation, "approximate", "none") == "tanh" else _ACTIVATIONS[type(activation)]
        return native.Stack(
            words=table,
            segments=segments,
            embedding_norm=self._norm(embedding.norm),
            final_norm=self._norm(stack.final_norm),
            layers=self._many(native.Layer, map(self._layer, layers, self._across)),
            depth=len(layers),
            memories=len(layers[0].names),
            width=self.width,
            heads=self.heads,
            before=before,
            after=after,
            scale=embedding.scale,
            pre_norm=isinstance(layers[0].around_attention, PreNorm),
            activation=native.ACTIVATIONS.index(name),
        )

    def _layer(self, layer: TransformerLayer, across: Any) -> Any:
        return self.library.Layer(
            own=self._attention(layer.attention, layer.around_attention),
            across=across,
            inner=self._linear(layer.feed_forward.inner),
            outer=self._linear(layer.feed_forward.outer),
            norm=self._norm(_norm_of(layer.around_feed_forward)),
        )

    def _attention(self, attention: MultiHeadAttention, around: Residual) -> Any:
        joined = attention.aggregation
        return self.library.Attention(
            query=self._linear(attention.query),
            key_value=self._linear(attention.key_value),
            output=self._linear(joined.output) if isinstance(joined, Projection) else self.library.Linear(),
            norm=self._norm(_norm_of(around)),
        )

    def _linear(self, linear: nn.Linear) -> Any:
        if isinstance(linear, Int8Linear) and isinstance(linear.product, NativeProduct):
            packed = linear.product.packed
        else:
            rows = linear.weight.detach().float().contiguous()
            packed = self.library.Matrix.of_floats(rows.data_ptr(), *rows.shape)
        self._kept.append(packed)
        return self.library.Linear(packed.address, self._numbers(linear.bias))

    def _norm(self, norm: nn.Module | None) -> Any:
        if norm is None:
            return self.library.Norm()
        assert isinstance(norm, nn.LayerNorm)
        return self.library.Norm(self._numbers(norm.weight), self._numbers(norm.bias), norm.eps)

    def _table(self, table: nn.Embedding | None) -> Any:
        if table is None:
            return self.library.Table()
        if isinstance(table, Int8Embedding):
            matrix, scale = table.matrix, self._numbers(table.matrix.scale)
            return self.library.Table(matrix.rows.data_ptr(), scale, None, table.num_embeddings)
        return self.library.Table(None, None, self._numbers(table.weight), table.num_embeddings)

    def _numbers(self, x: Tensor | None) -> int | None:
        if x is None:
            return None
        assert x.dtype == torch.float32, f"native code computes in single precision, and not in {x.dtype}"
        self._kept.append(x.detach().contiguous())
        return address(self._kept[-1])

    def _many(self, kind: Any, items: Iterable[Any]) -> Any:
        found = list(items)
        self._kept.append((kind * len(found))(*found))
        return self._kept[-1]


def _pairs(layer: TransformerLayer) -> tuple[Sequence[MultiHeadAttention], Sequence[Residual]]:
    """The attentions to memories, and what is around them."""
    found = [layer.across_to(name) for name in layer.names]
    return [attention for attention, _ in found], [around for _, around in found]


def _norm_of(around: Residual) -> nn.Module:
    assert isinstance(around, PostNorm | PreNorm)
    return around.norm


def _window(stack: TransformerStack) -> tuple[int, int]:
    if isinstance(stack.visibility, Window):
        return stack.visibility.before, stack.visibility.after
    return -1, 0 if stack.visibility is causal else -1
