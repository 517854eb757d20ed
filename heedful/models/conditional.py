"""Base classes of models that generate text, token by token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.interface import Decoder, State
from heedful.tensors import MultiStepLimits, MultiStepOutput, Tokens

Source = TypeVar("Source")


class GenerativeModel(nn.Module):
    """A decoder and an output layer, which implement all of `Engine` but `init_state`.

    Abstract: subclasses define the initial state.

    Attributes:
        decoder: reads its own past.
        output: linear map from hidden vectors to logits; its weight may be an embedding's.
    """

    decoder: Decoder
    output: nn.Linear

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next(self.parameters()).device

    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Return the logits of the next token for each token, and the new state."""
        hidden, state = self.decoder(tokens, state)
        return self.output(hidden), state

    def decode_greedy(
        self, tokens: Tokens, state: State, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, State] | None:
        """Run several steps of greedy search in one call, or return None if the decoder cannot."""
        return self.decoder.decode_greedy(self.output, tokens, state, limits=limits)


class ConditionalModel(GenerativeModel, ABC, Generic[Source]):
    """A model of p(y | x) as a product over tokens; implements `Engine`.

    Abstract: subclasses define how x is read.
    """

    @abstractmethod
    def init_state(self, source: Source) -> State:
        """Read the source and return the state before the first target token."""

    @abstractmethod
    def forward_all_tokens(self, source: Source, target: Tokens) -> tuple[Float[Tensor, "B R d_model"], Tokens]:
        """Return the hidden vectors of all tokens that the decoder reads, which end with the target, and these
        tokens.
        """

    @abstractmethod
    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Return the hidden vectors of the target; `output` turns them into logits, or a loss without logits uses
        them.
        """
