"""Convolutional encoders and decoders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.attention import Attention
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import CROSS, assign_roles
from heedful.blocks.convolution import (
    CausalConvolution,
    CentredConvolution,
    PackedTokens,
    scaled_residual_add,
    variance_scaled_linear,
)
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.feedforward import build_xavier_linear
from heedful.blocks.layer_info import LayerInfo
from heedful.models.interface import Decoder, Encoder
from heedful.models.transformer import mean_pool
from heedful.tensors import (
    SOURCE,
    Memories,
    Memory,
    RowSelection,
    Tokens,
    concat_rows,
    count_used_columns,
    pad_and_concat,
    require_same_width,
    select_memories,
)


class ConvolutionalEncoder(Encoder[Tokens]):
    """Gated convolutions over the source, each inside a residual connection (Gehring et al. 2017, 3.1 and 3.2).

    Keys are the outputs z of the convolutions; values are z + e, because the embedding e identifies the token (eq. 2).
    The summary is the mean of z.

    Args:
        gradient_scale: factor of the gradient that reaches the convolutions from the decoder, 1 / (2 * attentions)
            (3.4): each attention sends one through the keys and one through the values. The gradient of e is not
            scaled.
    """

    def __init__(
        self, embedding: TokenEmbedding, layers: Sequence[CentredConvolution], *, gradient_scale: float = 1.0
    ) -> None:
        super().__init__()
        d_model, d_hidden = embedding.table.embedding_dim, layers[0].d_hidden
        self.embedding = embedding
        self.inward = variance_scaled_linear(d_model, d_hidden, variance=1 - embedding.dropout.p)
        self.layers = nn.ModuleList(layers)
        self.outward = variance_scaled_linear(d_hidden, d_model)
        self.gradient_scale = gradient_scale

    def forward(self, source: Tokens) -> Memory:
        """Return a memory slot for each token; the summary is the mean over the tokens."""
        packed = PackedTokens.from_positions(source.positions)
        embedded = self.embedding(source)
        x = self.inward(embedded)
        for layer in self.layers:
            x = scaled_residual_add(x, layer(x, packed))
        z: Tensor = self.outward(x)
        if self.training:  # attribution of a trained model needs the model's own gradients
            z = _ScaledGradient.apply(z, self.gradient_scale)  # type: ignore[no-untyped-call]  # torch's
        token_mask = (source.positions >= 0).unsqueeze(-1)
        # torch.where, because padding must not enter the sum, not even multiplied by zero
        summary = torch.where(token_mask, z, 0.0).sum(1) / token_mask.sum(1).clamp(min=1)
        return Memory(z, z + embedded, source.positions, summary)


class _ScaledGradient(torch.autograd.Function):
    """Autograd function: the identity, with a gradient multiplied by a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return gradient * ctx.scale, None


@dataclass(frozen=True)
class ConvolutionalMemory:
    """The source as the decoder layers attend to it, stored once for each group of rows.

    Attributes:
        keys: as each layer's score projects them; one tensor for all layers if the score needs no projection.
        values: multiplied by m sqrt(1/m), m the number of source tokens, so that contexts do not shrink as they average
            over more (Gehring et al. 2017, 3.4).
        visible: slots that hold a token.
    """

    keys: tuple[Float[Tensor, "G S _"], ...]
    values: Float[Tensor, "G S d_model"]
    visible: Bool[Tensor, "G 1 S"]

    def select_groups(self, groups: Int[Tensor, " G"] | None) -> ConvolutionalMemory:
        """Return the memory of the groups with these indices; None keeps all groups."""
        if groups is None:
            return self
        return ConvolutionalMemory(
            tuple(keys.index_select(0, groups) for keys in self.keys),
            self.values.index_select(0, groups),
            self.visible.index_select(0, groups),
        )

    def concat(self, others: Sequence[ConvolutionalMemory]) -> ConvolutionalMemory:
        """Concatenate the groups of this memory and of `others`, padding shorter sources."""
        parts = [part.trim_padding() for part in (self, *others)]
        return ConvolutionalMemory(
            tuple(pad_and_concat(keys, axis=1, fill=0.0) for keys in zip(*(part.keys for part in parts), strict=True)),
            pad_and_concat([part.values for part in parts], axis=1, fill=0.0),
            pad_and_concat([part.visible for part in parts], axis=2, fill=False),
        )

    def trim_padding(self) -> ConvolutionalMemory:
        """Drop the trailing slots that are empty in all groups."""
        slots = count_used_columns(self.visible.squeeze(1).long() - 1)
        keys = tuple(layer_keys[:, :slots] for layer_keys in self.keys)
        return ConvolutionalMemory(keys, self.values[:, :slots], self.visible[:, :, :slots])


@dataclass(frozen=True)
class ConvolutionalState:
    """Decoding state: the inputs that each layer's windows still need, and the source.

    Its size does not depend on how many tokens were read; layers with larger dilation keep more inputs.
    """

    past: tuple[Float[Tensor, "B _ d_hidden"], ...]
    memory: ConvolutionalMemory
    width: int = 1

    def reorder(self, rows: RowSelection) -> ConvolutionalState:
        """Return the state whose rows are the selected rows of this one."""
        return ConvolutionalState(
            tuple(past.index_select(0, rows.origin) for past in self.past),
            self.memory.select_groups(rows.source_groups(self.width)),
            rows.width,
        )

    def concat(self, others: Sequence[ConvolutionalState]) -> ConvolutionalState:
        """Concatenate the rows of this state and of `others`."""
        parts = (self, *others)
        return ConvolutionalState(
            concat_rows([part.past for part in parts]),
            concat_rows([part.memory for part in parts]),
            require_same_width(part.width for part in parts),
        )


class ConvolutionalDecoderLayer(nn.Module):
    """A causal convolution followed by cross-attention, inside one residual connection (Gehring et al. 2017, 3.3).

    Args:
        convolution: over the tokens read so far.
        across: attention to the source; its queries and values are `d_model` wide.
        d_model: width of the embeddings and of the memory.
    """

    def __init__(self, convolution: CausalConvolution, across: Attention, *, d_model: int) -> None:
        super().__init__()
        self.convolution = convolution
        self.query = variance_scaled_linear(convolution.d_hidden, d_model)
        self.across = across
        assign_roles(across, CROSS)
        self.context = variance_scaled_linear(d_model, convolution.d_hidden)

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe the convolution, with cross-attention to the source."""
        return tuple(replace(level, across=(SOURCE,)) for level in self.convolution.describe_layers())

    def forward(
        self,
        x: Float[Tensor, "B T d_hidden"],
        past: Float[Tensor, "B span d_hidden"],
        *,
        embedded: Float[Tensor, "B T d_model"],
        key: Float[Tensor, "G S d_projected"],
        memory: ConvolutionalMemory,
        packed: PackedTokens,
    ) -> tuple[Float[Tensor, "B T d_hidden"], Float[Tensor, "B span d_hidden"]]:
        """Apply the layer to a chunk of tokens, whose embeddings are `embedded`; `past` holds the inputs before it,
        `key` the keys of `memory` projected for this layer. Also return the inputs that the next chunk still needs.

        The query is d = W h + b + g, where g is the embedding of the token that was read last (eq. 1).
        """
        h, past = self.convolution(x, past, packed=packed)
        query = self.query(h) + embedded
        # rows of a group are next to each other, so that they share the group's memory in one product
        query = query.reshape(memory.values.size(0), -1, query.size(2))
        visible = memory.visible.expand(-1, query.size(1), -1)
        context = self.across(query, key, value=memory.values, visible=visible).view_as(embedded)
        return scaled_residual_add(x, scaled_residual_add(h, self.context(context))), past


class ConvolutionalDecoder(Decoder):
    """Causal gated convolutions with cross-attention in every layer (Gehring et al. 2017, 3.1 to 3.3).

    Dropout is applied to the output.
    """

    def __init__(
        self, embedding: TokenEmbedding, layers: Sequence[ConvolutionalDecoderLayer], *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        d_model, d_hidden = embedding.table.embedding_dim, layers[0].convolution.d_hidden
        self.embedding = embedding
        self.inward = variance_scaled_linear(d_model, d_hidden, variance=1 - embedding.dropout.p)
        self.layers = nn.ModuleList(layers)
        self.outward = variance_scaled_linear(d_hidden, d_model)
        self.dropout = Dropout(dropout)

    def init_state(self, memory: Memories | None) -> ConvolutionalState:
        """Return the state before the first token, with the keys of the memory projected by each layer's score."""
        memory = select_memories(memory, [SOURCE])[SOURCE]
        rows, visible = memory.keys.size(0), memory.positions >= 0
        count = visible.sum(1).to(memory.values.dtype).view(-1, 1, 1)
        past = tuple(layer.convolution.init_state(rows, reference=memory.keys) for layer in self._iter_layers())
        keys = tuple(layer.across.score.project(memory.keys, memory.positions) for layer in self._iter_layers())
        scaled = memory.values * count.sqrt()  # m sqrt(1/m)
        return ConvolutionalState(past, ConvolutionalMemory(keys, scaled, visible.unsqueeze(1)))

    def forward(
        self, tokens: Tokens, state: ConvolutionalState
    ) -> tuple[Float[Tensor, "B T d_model"], ConvolutionalState]:
        """Return the hidden vectors of the tokens and the state after them."""
        packed = PackedTokens.from_positions(tokens.positions)
        embedded = self.embedding(tokens)
        x = self.inward(embedded)
        pasts = []
        for layer, old_past, key in zip(self._iter_layers(), state.past, state.memory.keys, strict=True):
            x, new_past = layer(x, old_past, embedded=embedded, key=key, memory=state.memory, packed=packed)
            pasts.append(new_past)
        hidden: Tensor = self.dropout(self.outward(x))
        return hidden, ConvolutionalState(tuple(pasts), state.memory, state.width)

    def _iter_layers(self) -> Iterator[ConvolutionalDecoderLayer]:
        for layer in self.layers:
            assert isinstance(layer, ConvolutionalDecoderLayer)
            yield layer


@final
class ConvWindow(nn.Module):
    """Convolution over windows, relu(W [x_t ... x_{t+k-1}] + b) (Kim 2014, eq. 2).

    Args:
        d_model: width of a token.
        width: k, tokens in a window; zeros follow the end of a text.
        features: number of filters.
    """

    def __init__(self, d_model: int, width: int, *, features: int) -> None:
        super().__init__()
        self.width = width
        self.linear = build_xavier_linear(width * d_model, features)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T features"]:
        """Return the features of the window that begins at each token; tokens are in order, with zeros behind the
        end.
        """
        padded = functional.pad(x, (0, 0, 0, self.width - 1))
        taps = [padded.narrow(1, tap, x.size(1)) for tap in range(self.width)]
        return torch.relu(self.linear(torch.cat(taps, -1)))


@final
class WindowEncoder(Encoder[Tokens]):
    """Convolutional encoder with windows of several widths and max-pooling (Kim 2014).

    A slot holds the features of the windows that begin at its token. The summary is the maximum of each feature over
    the text, concatenated with the mean of the embeddings: the mean ignores word order and needs few texts to learn;
    windows know the order.

    Args:
        embedding: of the tokens.
        windows: convolutions whose features are concatenated.
    """

    def __init__(self, embedding: TokenEmbedding, windows: Sequence[ConvWindow]) -> None:
        super().__init__()
        self.embedding = embedding
        self.windows = nn.ModuleList(windows)
        self.max_width = max(each.width for each in windows)
        self.d_slot = sum(each.linear.out_features for each in windows)
        self.d_summary = self.d_slot + embedding.table.embedding_dim

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe all windows as one layer, as wide as the widest of them."""
        return (LayerInfo("windows", 0, self.max_width - 1),)

    def forward(self, source: Tokens) -> Memory:
        """Return a memory slot for each token, with the features of the windows that begin there. The summary is their
        maximum over the text, and the mean embedding.
        """
        packed = PackedTokens.from_positions(source.positions)
        embedded = self.embedding(source)
        ordered = packed.zero_padding(packed.pack(embedded))
        features = torch.cat([windows(ordered) for windows in self.windows], -1)
        # no value is below zero, so zeros where there is no token are never the maximum
        max_features = packed.zero_padding(features).amax(1)
        values = packed.unpack(features)
        mean = mean_pool(embedded, source.positions)
        return Memory(values, values, source.positions, torch.cat((max_features, mean), -1))
