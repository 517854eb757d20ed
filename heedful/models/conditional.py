"""Base class of models that generate text given a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.interface import Decoder, State
from heedful.tensors import Tokens

Source = TypeVar("Source")


class ConditionalModel(nn.Module, ABC, Generic[Source]):
    """A model of p(y | x) as a product over tokens; implements `Engine`.

    Abstract: subclasses define how x is read.

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

    @abstractmethod
    def init_state(self, source: Source) -> State:
        """Read the source and return the state before the first target token."""

    @abstractmethod
    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Return the logits of the next token for each token, and the new state."""

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
