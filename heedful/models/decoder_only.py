"""Decoder-only conditional model: source and target are read as one text."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.models.conditional import ConditionalModel
from heedful.models.interface import Decoder, State
from heedful.tensors import MultiStepLimits, MultiStepOutput, Tokens


@dataclass(frozen=True)
class DecoderOnlyState:
    """State of the decoder, and the position that follows the source of each row."""

    decoder_state: State
    target_start: Int[Tensor, " B"]


class DecoderOnly(ConditionalModel[Tokens]):
    """Models p(y | x) by a language model of the text x y, with x as a prompt (Liu et al. 2018; Radford et al. 2019).

    Positions of the target count from 0, as with every target; internally they follow those of the source, wherever
    that is padded.

    Args:
        decoder: reads the text so far, without any memory.
        output: linear map from hidden vectors to logits; its weight may be the embedding's.
    """

    def __init__(self, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = output

    def init_state(self, source: Tokens) -> DecoderOnlyState:
        """Read the source, which has a token in each row, and return the state after it."""
        _, inner = self.decoder(source, self.decoder.init_state(None))
        return DecoderOnlyState(inner, _next_positions(source))

    def step(self, tokens: Tokens, state: DecoderOnlyState) -> tuple[Float[Tensor, "B T V"], DecoderOnlyState]:
        """Return the logits of the next token for each token, and the new state."""
        hidden, inner = self.decoder(_shift_positions(tokens, state.target_start), state.decoder_state)
        return self.output(hidden), replace(state, decoder_state=inner)

    def decode_greedy(
        self, tokens: Tokens, state: DecoderOnlyState, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, DecoderOnlyState] | None:
        """Run several steps of greedy search in one call, or return None if the decoder cannot."""
        result = self.decoder.decode_greedy(
            self.output, _shift_positions(tokens, state.target_start), state.decoder_state, limits=limits
        )
        return None if result is None else (result[0], replace(state, decoder_state=result[1]))

    def forward_all_tokens(self, source: Tokens, target: Tokens) -> tuple[Float[Tensor, "B R d_model"], Tokens]:
        """Return the hidden vectors of source and target, read as one chunk, and their tokens."""
        tokens = _concat_tokens(source, _shift_positions(target, _next_positions(source)))
        hidden, _ = self.decoder(tokens, self.decoder.init_state(None))
        return hidden, tokens

    def forward(self, source: Tokens, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Return the hidden vectors of the target."""
        hidden, _ = self.forward_all_tokens(source, target)
        return hidden[:, source.ids.size(1) :]


def _next_positions(source: Tokens) -> Int[Tensor, " B"]:
    """Return the position after the last source token of each row."""
    return source.positions.amax(1) + 1


def _shift_positions(tokens: Tokens, offsets: Int[Tensor, " B"]) -> Tokens:
    positions = torch.where(tokens.positions < 0, -1, tokens.positions + offsets.unsqueeze(1))
    return replace(tokens, positions=positions)


def _concat_tokens(source: Tokens, target: Tokens) -> Tokens:
    """Concatenate source and target along time."""
    sides = (source, target)
    ids, positions = (torch.cat([getattr(tokens, name) for tokens in sides], 1) for name in ("ids", "positions"))
    segments = [tokens.segments for tokens in sides if tokens.segments is not None]
    return Tokens(ids, positions, torch.cat(segments, 1) if len(segments) == len(sides) else None)
