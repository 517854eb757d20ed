"""Description of a Transformer stack that native code reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.attention.mask_functions import SlidingWindow, bidirectional, causal
from heedful.attention.multihead import ConcatAggregation, MultiHeadAttention, ProjectionAggregation
from heedful.attention.positions import IntegerPosition, LearnedPosition, NoPosition, RotaryPosition, SinusoidalPosition
from heedful.attention.scores import ScaledSoftmax
from heedful.blocks.embedding import TokenEmbedding, VectorEmbedding
from heedful.blocks.feedforward import FeedForward, GatedFeedForward
from heedful.blocks.residual import PostNorm, PreNorm, ResidualConnection
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.engines.int8 import Int8Embedding
from heedful.engines.native.linear import get_packed_matrix
from heedful.fused_operators import LayerNorm
from heedful.native import data_pointer

_INITIAL_POSITIONS: Final = 256
"""Number of positions that are computed at first."""


def is_supported(stack: TransformerStack) -> bool:
    """Return whether native code supports all parts of a stack."""
    layers = list(_iter_layers(stack))
    return bool(
        layers
        and len(layers) == len(stack.layers)
        and type(stack.embedding) in (TokenEmbedding, VectorEmbedding)
        and not len(getattr(stack.embedding, "factors", ()))
        and getattr(stack.embedding, "projection", None) is None
        and type(stack.embedding.position) in (type(None), SinusoidalPosition, LearnedPosition, IntegerPosition)
        and (stack.visibility in (causal, bidirectional) or isinstance(stack.visibility, SlidingWindow))
        and all(_is_supported_layer(layer) and layer.memory_names == layers[0].memory_names for layer in layers)
        and len({type(residual) for layer in layers for residual in layer.iter_residuals()}) == 1
        and len({_get_shape(layer.attention) for layer in layers}) == 1
        and all(type(layer) is TransformerLayer for layer in layers)
        and all(_is_supported_norm(norm) for norm in (stack.final_norm, stack.embedding.norm))
    )


def _iter_layers(stack: TransformerStack) -> Iterator[TransformerLayer]:
    return (layer for layer in stack.layers if isinstance(layer, TransformerLayer))


def _is_supported_layer(layer: TransformerLayer) -> bool:
    """Return whether native code supports the attentions, the activation and the residual connections of a layer."""
    return (
        _is_supported_attention(layer.attention, (NoPosition, RotaryPosition))
        and all(
            _is_supported_attention(layer.get_cross_attention(name)[0], (NoPosition,)) for name in layer.memory_names
        )
        and all(_get_shape(attention) == _get_shape(layer.attention) for attention in _list_cross_attentions(layer)[0])
        and type(layer.feed_forward) in (FeedForward, GatedFeedForward)
        and type(layer.feed_forward.activation) in _ACTIVATIONS
        and all(_is_supported_residual(residual) for residual in layer.iter_residuals())
    )


def _is_supported_attention(attention: MultiHeadAttention, position_types: tuple[type, ...]) -> bool:
    """Return whether native code supports an attention with one of these position encodings."""
    return (
        type(attention) is MultiHeadAttention
        and (
            type(attention.aggregation) is ProjectionAggregation
            or (
                type(attention.aggregation) is ConcatAggregation
                and attention.heads * attention.d_v == attention.query.in_features
            )
        )
        and type(attention.relative) in position_types
        and type(attention.weigher) is ScaledSoftmax
        and attention.weigher.factor is None
        and attention.d_v == attention.d_k
        and all(_is_supported_norm(norm) for norm in (attention.query_norm, attention.key_norm))
        and not attention.shared_key_value
    )


def _get_shape(attention: MultiHeadAttention) -> tuple[int, int, int]:
    """Return the heads of queries, the heads of keys and values, and the width of a head."""
    return attention.heads, attention.key_value_heads, attention.d_k


def _is_supported_norm(norm: object) -> bool:
    is_known = type(norm) in (LayerNorm, nn.LayerNorm, nn.RMSNorm)
    return norm is None or (is_known and getattr(norm, "weight", None) is not None)


def _is_supported_residual(residual: ResidualConnection) -> bool:
    return isinstance(residual, PostNorm | PreNorm) and residual.behind is None and _is_supported_norm(residual.norm)


_ACTIVATIONS: Final = {nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "silu"}


class NativePlan:
    """The structures of a stack that native code reads; the stack must stay alive, with unchanged weights.

    Args:
        library: the native library.
        stack: a stack that `is_supported`, in single precision.
    """

    def __init__(self, library: Any, stack: TransformerStack) -> None:
        self.library, self._stack = library, stack
        self._references: list[Any] = []
        self._outputs: dict[int, Any] = {}
        attention = next(_iter_layers(stack)).attention
        self.width: int = attention.query.in_features
        self.depth = len(stack.layers)
        self.heads, self.key_value_heads, self._head_width = _get_shape(attention)
        self.key_value_width = self.key_value_heads * self._head_width
        self._rotary = attention.relative if isinstance(attention.relative, RotaryPosition) else None
        self.stack = self._build_stack()
        self.is_bidirectional = bool(self.stack.after)
        self.extend_positions(_INITIAL_POSITIONS)

    def extend_positions(self, num_positions: int) -> None:
        """Compute the tables of position vectors and rotations for at least this many positions.

        Raises:
            IndexError: the model has fewer positions.
        """
        position, size = self._stack.embedding.position, max(num_positions, 2 * int(self.stack.positions))
        if isinstance(position, LearnedPosition):
            size = position.table.num_embeddings - position.offset
            if self.stack.positions and num_positions > size:
                raise IndexError(f"position {num_positions - 1}: this model has only {size} positions")
        indices = torch.arange(size)
        vectors = None if position is None else position(indices.unsqueeze(0))[0].float().contiguous()
        angle = None if self._rotary is None else indices.unsqueeze(1) * self._rotary.rate
        amplitude = 1.0 if self._rotary is None else self._rotary.amplitude
        rotations = (None, None) if angle is None else (amplitude * angle.cos(), amplitude * angle.sin())
        self._references.append(
            (vectors, *rotations)
        )  # the shorter ones stay, because another thread may be reading them
        self.stack.places, self.stack.cosines, self.stack.sines = map(data_pointer, (vectors, *rotations))
        self.stack.positions = size

    @property
    def is_bounded(self) -> bool:
        """Whether the number of positions is limited."""
        return isinstance(self._stack.embedding.position, LearnedPosition)

    def describe_output(self, linear: nn.Linear) -> Any:
        """Return the native description of the output layer `linear`, a structure of the library; it is built once."""
        if id(linear) not in self._outputs:
            self._references.append(linear)
            self._outputs[id(linear)] = self._build_linear(linear)
        return self._outputs[id(linear)]

    def project_memory(self, layer: int, name: str, x: Tensor, out: Tensor) -> None:
        """Write the keys and values of the vectors `x` of the memory `name`, projected for a layer, to `out`, [..., 2
        key_value_width].
        """
        owner = self._stack.layers[layer]
        assert isinstance(owner, TransformerLayer)
        linear = self._cross_attentions[layer][owner.memory_names.index(name)].key_value
        x = x.contiguous()
        vectors = x.numel() // x.size(-1)
        self.library.linear(linear.weight, linear.bias, x.data_ptr(), vectors, out.data_ptr(), torch.get_num_threads())
        if (norm := owner.get_cross_attention(name)[0].key_norm) is not None:
            keys = out[..., 0, :].view(*out.shape[:-2], self.key_value_heads, self._head_width)
            keys.copy_(norm(keys))

    def _build_stack(self) -> Any:
        """Build the native description of the whole stack: embedding, layers, context and norms."""
        native, stack, embedding = self.library, self._stack, self._stack.embedding
        layers = list(_iter_layers(stack))
        self._cross_attentions = [
            self._build_array(native.Attention, map(self._build_attention, *_list_cross_attentions(layer)))
            for layer in layers
        ]
        table = segments = native.Table()
        if isinstance(embedding, TokenEmbedding):
            table, segments = self._build_table(embedding.table), self._build_table(embedding.segments)
        left_context, right_context = _get_context(stack)
        activation = layers[0].feed_forward.activation
        name = "gelu_tanh" if getattr(activation, "approximate", "none") == "tanh" else _ACTIVATIONS[type(activation)]
        return native.Stack(
            words=table,
            segments=segments,
            embedding_norm=self._build_norm(embedding.norm),
            final_norm=self._build_norm(stack.final_norm),
            layers=self._build_array(native.Layer, map(self._build_layer, layers, self._cross_attentions)),
            depth=len(layers),
            memories=len(layers[0].memory_names),
            width=self.width,
            heads=self.heads,
            key_value_heads=self.key_value_heads,
            head_width=self._head_width,
            turned=0 if self._rotary is None else self._rotary.width // 2,
            before=left_context,
            after=right_context,
            scale=embedding.scale,
            pre_norm=isinstance(layers[0].around_attention, PreNorm),
            activation=native.ACTIVATIONS.index(name),
        )

    def _build_layer(self, layer: TransformerLayer, cross_attentions: Any) -> Any:
        """Build the native description of a layer, from that of its cross-attentions."""
        return self.library.Layer(
            own=self._build_attention(layer.attention, layer.around_attention),
            across=cross_attentions,
            inner=self._build_linear(layer.feed_forward.inner),
            outer=self._build_linear(layer.feed_forward.outer),
            gate=self._build_linear(layer.feed_forward.gate)
            if isinstance(layer.feed_forward, GatedFeedForward)
            else self.library.Linear(),
            norm=self._build_norm(_get_norm(layer.around_feed_forward)),
        )

    def _build_attention(self, attention: MultiHeadAttention, residual: ResidualConnection) -> Any:
        """Build the native description of an attention with the norm of its residual connection; without an output map
        that is empty.
        """
        aggregation = attention.aggregation
        return self.library.Attention(
            query=self._build_linear(attention.query),
            key_value=self._build_linear(attention.key_value),
            output=self._build_linear(aggregation.output)
            if isinstance(aggregation, ProjectionAggregation)
            else self.library.Linear(),
            norm=self._build_norm(_get_norm(residual)),
            query_norm=self._build_norm(attention.query_norm),
            key_norm=self._build_norm(attention.key_norm),
        )

    def _build_linear(self, linear: nn.Linear) -> Any:
        """Build the native description of a linear map."""
        packed = get_packed_matrix(linear)
        self._references.append(packed)
        return self.library.Linear(packed.address, self._address_of(linear.bias))

    def _build_norm(self, norm: nn.Module | None) -> Any:
        """Build the native description of a LayerNorm or RMSNorm; an empty one for None."""
        if norm is None:
            return self.library.Norm()
        assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
        epsilon = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps  # which RMSNorm may leave open
        gain, bias = self._address_of(norm.weight), self._address_of(getattr(norm, "bias", None))
        return self.library.Norm(gain, bias, epsilon, isinstance(norm, nn.LayerNorm))

    def _build_table(self, table: nn.Embedding | None) -> Any:
        """Build the native description of an embedding table, of floating-point or int8 rows; an empty one for None."""
        if table is None:
            return self.library.Table()
        if isinstance(table, Int8Embedding):
            matrix, scale = table.matrix, self._address_of(table.matrix.scale)
            return self.library.Table(matrix.rows.data_ptr(), scale, None, table.num_embeddings)
        return self.library.Table(None, None, self._address_of(table.weight), table.num_embeddings)

    def _address_of(self, x: Tensor | None) -> int | None:
        """Return the address of a tensor, which is kept alive; None for None."""
        if x is None:
            return None
        assert x.dtype == torch.float32, f"native code computes in single precision, not in {x.dtype}"
        self._references.append(x.detach().contiguous())
        return data_pointer(self._references[-1])

    def _build_array(self, item_type: Any, items: Iterable[Any]) -> Any:
        item_list = list(items)
        self._references.append((item_type * len(item_list))(*item_list))
        return self._references[-1]


def _list_cross_attentions(
    layer: TransformerLayer,
) -> tuple[Sequence[MultiHeadAttention], Sequence[ResidualConnection]]:
    """Return the cross-attentions of a layer and their residual connections, in the order of its memories."""
    pairs = [layer.get_cross_attention(name) for name in layer.memory_names]
    return [attention for attention, _ in pairs], [residual for _, residual in pairs]


def _get_norm(residual: ResidualConnection) -> nn.Module:
    assert isinstance(residual, PostNorm | PreNorm)
    return residual.norm


def _get_context(stack: TransformerStack) -> tuple[int, int]:
    """Return how many tokens to the left and to the right a token sees; -1 for all."""
    if isinstance(stack.visibility, SlidingWindow):
        return stack.visibility.before, stack.visibility.after
    return -1, 0 if stack.visibility is causal else -1
