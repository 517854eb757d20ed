"""Encoder, decoder and the step from hidden vectors to words."""

from __future__ import annotations

from typing import TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.conditional import ConditionalModel
from heedful.models.encoders import NamedEncoders
from heedful.models.interface import Decoder, Encoder, State
from heedful.tensors import MultiStepLimits, MultiStepOutput, Tokens

Source = TypeVar("Source")


class SequenceToSequence(ConditionalModel[Source]):
    """p(y | x) as a product over tokens: the encoder reads x, the decoder writes y (Sutskever et al. 2014, eq. 1).

    Args:
        encoder: makes a memory of the source, or several by name.
        decoder: reads the memory and its own past.
        output: from hidden vectors to logits over the vocabulary; its weight may be an embedding's.
    """

    def __init__(self, encoder: Encoder[Source] | NamedEncoders, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def init_state(self, source: Source) -> State:
        """The decoder's state before its first token."""
        return self.decoder.init_state(self.encoder(source))

    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Logits of what follows each token, and the state after them."""
        hidden, state = self.decoder(tokens, state)
        return self.output(hidden), state

    def decode_greedy(
        self, tokens: Tokens, state: State, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, State] | None:
        """Several steps of greedy search, if the decoder knows how."""
        return self.decoder.decode_greedy(self.output, tokens, state, limits=limits)

    def forward_all_tokens(self, source: Source, target: Tokens) -> tuple[Float[Tensor, "B T d_model"], Tokens]:
        """Of the target: the source is the encoder's."""
        return self(source, target), target

    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Hidden vectors of the whole target; `output` makes logits of them, or a loss that needs no logits does."""
        hidden: Tensor
        hidden, _ = self.decoder(target, self.init_state(source))
        return hidden
