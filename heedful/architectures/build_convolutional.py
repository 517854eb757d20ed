"""Build a convolutional model from its config."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from heedful.architectures.build_attention import build_normalizer, build_score
from heedful.architectures.convolutional import ConvolutionalConfig
from heedful.architectures.interface import DataSizes
from heedful.attention import Attention, LearnedPosition
from heedful.blocks.convolution import CausalConvolution, CentredConvolution
from heedful.blocks.embedding import TokenEmbedding, build_embedding, build_output_layer
from heedful.models.convolutional import ConvolutionalDecoder, ConvolutionalDecoderLayer, ConvolutionalEncoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tensors import Tokens

_EMBEDDING_STD = 0.1
"""Initial standard deviation of all embeddings (Gehring et al. 2017, 3.5)."""


def build_convolutional_model(config: ConvolutionalConfig, sizes: DataSizes) -> SequenceToSequence[Tokens]:
    """Build a newly initialised convolutional model; works on the meta device."""
    table = partial(build_embedding, d_model=config.d_model, deviation=_EMBEDDING_STD)
    target = table(sizes.target)
    source = target if config.tie == "three_way" else table(sizes.source)
    encoder = ConvolutionalEncoder(
        _build_embedding(config, source, [table(size) for size in sizes.factors]),
        [
            CentredConvolution(config.d_hidden, config.kernel_width, dilation=dilation, dropout=config.dropout)
            for dilation in _iter_dilations(config, config.encoder_layers)
        ],
        gradient_scale=1 / (2 * config.decoder_layers),
    )
    decoder = ConvolutionalDecoder(
        _build_embedding(config, target),
        [
            ConvolutionalDecoderLayer(
                CausalConvolution(config.d_hidden, config.kernel_width, dilation=dilation, dropout=config.dropout),
                _build_attention(config, sizes),
                d_model=config.d_model,
            )
            for dilation in _iter_dilations(config, config.decoder_layers)
        ],
        dropout=config.dropout,
    )
    if config.weight_norm:
        for linear in [m for part in (encoder, decoder) for m in part.modules() if isinstance(m, nn.Linear)]:
            weight_norm(linear)
    # never with weight norm: it may be a table, and tables have none in the paper
    deviation = math.sqrt((1 - config.dropout) / config.d_model)
    output = build_output_layer(target, tied=config.tie != "none", bias=config.output_bias, deviation=deviation)
    return SequenceToSequence(encoder, decoder, output=output)


def _build_attention(config: ConvolutionalConfig, sizes: DataSizes) -> Attention:
    """Build the cross-attention of a decoder layer."""
    d = config.d_model
    score = build_score(config, d_query=d, d_key=d, d_hidden=d, longest=sizes.max_length + 1)
    return Attention(score, build_normalizer(config.weights))


def _build_embedding(
    config: ConvolutionalConfig, table: nn.Embedding, factors: Sequence[nn.Embedding] = ()
) -> TokenEmbedding:
    position = LearnedPosition(config.positions_length, config.d_model)
    nn.init.normal_(position.table.weight, std=_EMBEDDING_STD)
    return TokenEmbedding(table, position=position, scaled=False, dropout=config.embedding_dropout, factors=factors)


def _iter_dilations(config: ConvolutionalConfig, layers: int) -> Iterator[int]:
    return (config.dilation ** (layer % config.dilation_cycle) for layer in range(layers))
