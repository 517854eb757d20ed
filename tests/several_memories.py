"""Decoders that look at two memories of one source: all of its tokens, and those at even positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heedful.attention import MultiHeadAttention, Rotary, Sinusoidal, causal, everything
from heedful.attention.attention import Attention
from heedful.attention.scores import Additive, ScaledDot
from heedful.blocks.embedding import TokenEmbedding, embedding_table
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.readout import DeepOutput
from heedful.blocks.recurrent import GRU, Column, Forward, RecurrentStack
from heedful.blocks.residual import PostNorm, PreNorm
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.models.encoders import Encoders, TransformerEncoder
from heedful.models.interface import Decoder, State
from heedful.models.recurrent_decoder import BahdanauDecoder, Bridge, FeedingDecoder, LuongDecoder, Reading
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.transformer_decoder import TransformerDecoder
from heedful.values import SOURCE, Tokens

REGIONS, MOTION = "regions", "motion"


class TwoMemories(nn.Module):
    """A model of two sources as one of a single source; `first` is what the first memory is called."""

    def __init__(self, model: SequenceToSequence[Any], *, first: str = REGIONS) -> None:
        super().__init__()
        self.model = model
        self.first = first
        self.encoder = model.encoder
        self.decoder = model.decoder

    def begin(self, source: Tokens) -> State:
        return self.model.begin(sources(source, first=self.first))

    def step(self, tokens: Tokens, state: State) -> tuple[Tensor, State]:
        return self.model.step(tokens, state)


def sources(source: Tokens, *, first: str = REGIONS) -> dict[str, Tokens]:
    """All tokens, and other words at even positions, of which rows have different numbers."""
    few = torch.where(source.positions % 2 == 0, source.positions, -1)
    return {first: source, MOTION: Tokens((source.ids * 2) % 5 + 2, few)}


def transformer(width: int, vocabulary: int, *, post_norm: bool = False, parted: bool = False) -> TwoMemories:
    """Two layers that look at both memories; parted ones at one each, of which one is called `source`."""
    first = SOURCE if parted else REGIONS
    names = [(first,), (MOTION,)] if parted else [(first, MOTION), (MOTION, first)]

    def layer(across: tuple[str, ...] = ()) -> TransformerLayer:
        return TransformerLayer(
            MultiHeadAttention(width, 2, relative=Rotary(width // 2)),
            FeedForward(width, 2 * width, activation=nn.ReLU()),
            residual=lambda: PostNorm(width) if post_norm else PreNorm(width),
            across={name: MultiHeadAttention(width, 2) for name in across},
        )

    def stack(layers: list[TransformerLayer], visibility: Any) -> TransformerStack:
        embedding = TokenEmbedding(embedding_table(vocabulary, width), position=Sinusoidal(width))
        norm = None if post_norm else nn.LayerNorm(width)
        return TransformerStack(embedding, layers, visibility=visibility, final_norm=norm)

    decoder = TransformerDecoder(stack([layer(each) for each in names], causal))
    encoders = _encoders(width, vocabulary, first=first)
    return TwoMemories(SequenceToSequence(encoders, decoder, output=nn.Linear(width, vocabulary)), first=first)


def recurrent(width: int, vocabulary: int, *, reading: str) -> TwoMemories:
    """GRUs that begin where both summaries say, and that take a context from each memory."""
    embedding = TokenEmbedding(embedding_table(vocabulary, width), scaled=False)
    cells = [GRU(width, width), GRU(width, width)]
    across = {REGIONS: Attention(Additive(width, width, width)), MOTION: Attention(ScaledDot())}
    look = Reading(across, start=Bridge(2 * width, cells))
    last = DeepOutput((width, 2 * width), width, activation=nn.Tanh())
    decoder: Decoder
    match reading:
        case "bahdanau":
            readout = DeepOutput((width, width, 2 * width), width, activation=nn.Tanh())
            decoder = BahdanauDecoder(embedding, Column(cells, d_more=2 * width), reading=look, readout=readout)
        case "feeding":
            decoder = FeedingDecoder(embedding, Column(cells, d_more=width), reading=look, readout=last)
        case _:
            decoder = LuongDecoder(
                embedding, RecurrentStack([Forward(cell) for cell in cells]), reading=look, readout=last
            )
    return TwoMemories(SequenceToSequence(_encoders(width, vocabulary), decoder, output=nn.Linear(width, vocabulary)))


def _encoders(width: int, vocabulary: int, *, first: str = REGIONS) -> Encoders:
    def encoder() -> TransformerEncoder:
        layer = TransformerLayer(
            MultiHeadAttention(width, 2),
            FeedForward(width, 2 * width, activation=nn.ReLU()),
            residual=lambda: PreNorm(width),
        )
        embedding = TokenEmbedding(embedding_table(vocabulary, width), position=Sinusoidal(width))
        return TransformerEncoder(TransformerStack(embedding, [layer], visibility=everything))

    return Encoders({first: encoder(), MOTION: encoder()})
