"""Decoders that attend to two memories of one source: all of its tokens, and those at even positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heedful.attention import MultiHeadAttention, RotaryPosition, SinusoidalPosition, bidirectional, causal
from heedful.attention.attention import Attention
from heedful.attention.scores import AdditiveScore, ScaledDotScore
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.blocks.feedforward import DeepOutput, FeedForward
from heedful.blocks.recurrent import GRU, RecurrentCellStack, RecurrentStack, UnidirectionalLayer
from heedful.blocks.residual import PostNorm, PreNorm
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.models.generative import SequenceToSequence
from heedful.models.interface import Decoder, State
from heedful.models.recurrent_decoder import (
    BahdanauDecoder,
    InputFeedingDecoder,
    LinearStateInit,
    LuongDecoder,
    SourceAttention,
)
from heedful.models.transformer import NamedEncoders, TransformerDecoder, TransformerEncoder
from heedful.tensors import SOURCE, Tokens

REGIONS, MOTION = "regions", "motion"


class TwoMemoryModel(nn.Module):
    """A model of two sources with the interface of a model of one source; `first` is the name of the first memory."""

    def __init__(self, model: SequenceToSequence[Any], *, first: str = REGIONS) -> None:
        super().__init__()
        self.model = model
        self.first = first
        self.encoder = model.encoder
        self.decoder = model.decoder

    def init_state(self, source: Tokens) -> State:
        return self.model.init_state(build_sources(source, first=self.first))

    def step(self, tokens: Tokens, state: State) -> tuple[Tensor, State]:
        return self.model.step(tokens, state)


def build_sources(source: Tokens, *, first: str = REGIONS) -> dict[str, Tokens]:
    """Build the two sources: all tokens, and other words at even positions, so rows have different lengths."""
    few = torch.where(source.positions % 2 == 0, source.positions, -1)
    return {first: source, MOTION: Tokens((source.ids * 2) % 5 + 2, few)}


def build_transformer(width: int, vocabulary: int, *, post_norm: bool = False, parted: bool = False) -> TwoMemoryModel:
    """Build two layers that attend to both memories; with `parted`, to one memory each, of which one is `source`."""
    first = SOURCE if parted else REGIONS
    names = [(first,), (MOTION,)] if parted else [(first, MOTION), (MOTION, first)]

    def build_layer(across: tuple[str, ...] = ()) -> TransformerLayer:
        return TransformerLayer(
            MultiHeadAttention(width, 2, relative=RotaryPosition(width // 2)),
            FeedForward(width, 2 * width, activation=nn.ReLU()),
            residual=lambda: PostNorm(width) if post_norm else PreNorm(width),
            across={name: MultiHeadAttention(width, 2) for name in across},
        )

    def build_stack(layers: list[TransformerLayer], visibility: Any) -> TransformerStack:
        embedding = TokenEmbedding(build_embedding(vocabulary, width), position=SinusoidalPosition(width))
        norm = None if post_norm else nn.LayerNorm(width)
        return TransformerStack(embedding, layers, visibility=visibility, final_norm=norm)

    decoder = TransformerDecoder(build_stack([build_layer(each) for each in names], causal))
    encoders = _build_encoders(width, vocabulary, first=first)
    return TwoMemoryModel(SequenceToSequence(encoders, decoder, output=nn.Linear(width, vocabulary)), first=first)


def build_recurrent(width: int, vocabulary: int, *, reading: str) -> TwoMemoryModel:
    """Build GRUs that start from both summaries and read a context from each memory."""
    embedding = TokenEmbedding(build_embedding(vocabulary, width), scaled=False)
    cells = [GRU(width, width), GRU(width, width)]
    across = {REGIONS: Attention(AdditiveScore(width, width, width)), MOTION: Attention(ScaledDotScore())}
    look = SourceAttention(across, start=LinearStateInit(2 * width, cells))
    last = DeepOutput((width, 2 * width), width, activation=nn.Tanh())
    decoder: Decoder
    match reading:
        case "bahdanau":
            readout = DeepOutput((width, width, 2 * width), width, activation=nn.Tanh())
            decoder = BahdanauDecoder(
                embedding, RecurrentCellStack(cells, d_extra=2 * width), reading=look, readout=readout
            )
        case "feeding":
            decoder = InputFeedingDecoder(
                embedding, RecurrentCellStack(cells, d_extra=width), reading=look, readout=last
            )
        case _:
            decoder = LuongDecoder(
                embedding, RecurrentStack([UnidirectionalLayer(cell) for cell in cells]), reading=look, readout=last
            )
    return TwoMemoryModel(
        SequenceToSequence(_build_encoders(width, vocabulary), decoder, output=nn.Linear(width, vocabulary))
    )


def _build_encoders(width: int, vocabulary: int, *, first: str = REGIONS) -> NamedEncoders:
    def build_encoder() -> TransformerEncoder:
        layer = TransformerLayer(
            MultiHeadAttention(width, 2),
            FeedForward(width, 2 * width, activation=nn.ReLU()),
            residual=lambda: PreNorm(width),
        )
        embedding = TokenEmbedding(build_embedding(vocabulary, width), position=SinusoidalPosition(width))
        return TransformerEncoder(TransformerStack(embedding, [layer], visibility=bidirectional))

    return NamedEncoders({first: build_encoder(), MOTION: build_encoder()})
