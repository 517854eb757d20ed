"""What writes given a source, whichever way it reads it."""

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
    """p(y | x) as a product over tokens; an `Engine`.

    Abstract: how x is read belongs to the family.

    Attributes:
        decoder: reads its own past.
        output: from hidden vectors to logits over the vocabulary; its weight may be an embedding's.
    """

    decoder: Decoder
    output: nn.Linear

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @abstractmethod
    def init_state(self, source: Source) -> State:
        """The state before the first token, when the source is read."""

    @abstractmethod
    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Logits of what follows each token, and the state after them."""

    @abstractmethod
    def forward_all_tokens(self, source: Source, target: Tokens) -> tuple[Float[Tensor, "B R d_model"], Tokens]:
        """Hidden vectors of all that the decoder reads, of which the target is the end; and what that is."""

    @abstractmethod
    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Hidden vectors of the whole target; `output` makes logits of them, or a loss that needs no logits does."""
