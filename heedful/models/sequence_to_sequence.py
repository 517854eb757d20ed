"""Encoder, decoder and the step from hidden vectors to words."""

from __future__ import annotations

from typing import TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.conditional import Conditional
from heedful.models.encoders import Encoders
from heedful.models.interface import Decoder, Encoder, State
from heedful.values import Bounds, Tokens, Written

Source = TypeVar("Source")


class SequenceToSequence(Conditional[Source]):
    """p(y | x) as a product over tokens: the encoder reads x, the decoder writes y (Sutskever et al. 2014, eq. 1).

    Args:
        encoder: makes a memory of the source, or several by name.
        decoder: reads the memory and its own past.
        output: from hidden vectors to logits over the vocabulary; its weight may be an embedding's.
    """

    def __init__(self, encoder: Encoder[Source] | Encoders, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def begin(self, source: Source) -> State:
        """The decoder's state before its first token."""
        return self.decoder.begin(self.encoder(source))

    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Logits of what follows each token, and the state after them."""
        hidden, state = self.decoder(tokens, state)
        return self.output(hidden), state

    def stride(self, tokens: Tokens, state: State, *, bounds: Bounds) -> tuple[Written, State] | None:
        """Several steps of greedy search, if the decoder knows how."""
        return self.decoder.stride(self.output, tokens, state, bounds=bounds)

    def whole(self, source: Source, target: Tokens) -> tuple[Float[Tensor, "B T d_model"], Tokens]:
        """Of the target: the source is the encoder's."""
        return self(source, target), target

    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Hidden vectors of the whole target; `output` makes logits of them, or a loss that needs no logits does."""
        hidden: Tensor
        hidden, _ = self.decoder(target, self.begin(source))
        return hidden
