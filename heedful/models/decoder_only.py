"""A decoder that reads a source and then goes on with its answer, as one text."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.models.conditional import Conditional
from heedful.models.interface import Decoder, State
from heedful.values import Bounds, Tokens, Written


@dataclass(frozen=True)
class Behind:
    """A decoder's state, and where it has read: the position that follows the source of each row."""

    inner: State
    first: Int[Tensor, " B"]


class DecoderOnly(Conditional[Tokens]):
    """p(y | x) by a model of the text x y (Liu et al. 2018; Radford et al. 2019): what is asked is a prompt.

    Positions of the answer count from 0, as those of every target; inside they follow those of the source, wherever
    that is padded.

    Args:
        decoder: reads the text so far, and looks at nothing else.
        output: from hidden vectors to logits over the vocabulary; its weight may be the embedding's.
    """

    def __init__(self, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = output

    def begin(self, source: Tokens) -> Behind:
        """The decoder's state behind the source, which has a token in each row."""
        _, inner = self.decoder(source, self.decoder.begin(None))
        return Behind(inner, _behind(source))

    def step(self, tokens: Tokens, state: Behind) -> tuple[Float[Tensor, "B T V"], Behind]:
        """Logits of what follows each token, and the state after them."""
        hidden, inner = self.decoder(_moved(tokens, state.first), state.inner)
        return self.output(hidden), replace(state, inner=inner)

    def stride(self, tokens: Tokens, state: Behind, *, bounds: Bounds) -> tuple[Written, Behind] | None:
        """Several steps of greedy search, if the decoder knows how."""
        found = self.decoder.stride(self.output, _moved(tokens, state.first), state.inner, bounds=bounds)
        return None if found is None else (found[0], replace(state, inner=found[1]))

    def whole(self, source: Tokens, target: Tokens) -> tuple[Float[Tensor, "B R d_model"], Tokens]:
        """Of source and target as one chunk."""
        read = _joined(source, _moved(target, _behind(source)))
        hidden, _ = self.decoder(read, self.decoder.begin(None))
        return hidden, read

    def forward(self, source: Tokens, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Hidden vectors of the whole target."""
        hidden, _ = self.whole(source, target)
        return hidden[:, source.ids.size(1) :]


def _behind(source: Tokens) -> Int[Tensor, " B"]:
    return source.positions.amax(1) + 1


def _moved(tokens: Tokens, first: Int[Tensor, " B"]) -> Tokens:
    """The same tokens, as far behind as their source is long."""
    positions = torch.where(tokens.positions < 0, -1, tokens.positions + first.unsqueeze(1))
    return replace(tokens, positions=positions)


def _joined(source: Tokens, target: Tokens) -> Tokens:
    sides = (source, target)
    ids, positions = (torch.cat([getattr(each, name) for each in sides], 1) for name in ("ids", "positions"))
    segments = [each.segments for each in sides if each.segments is not None]
    return Tokens(ids, positions, torch.cat(segments, 1) if len(segments) == len(sides) else None)
