"""A decoder that looks at nothing but its own past, and the step from hidden vectors to words."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.interface import Decoder, State
from heedful.tensors import MultiStepLimits, MultiStepOutput, Tokens


class LanguageModel(nn.Module):
    """p(y) as a product over tokens, each given those before it (Bengio et al. 2003).

    Args:
        decoder: reads the text so far.
        output: from hidden vectors to logits over the vocabulary; its weight may be the embedding's.
    """

    def __init__(self, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = output

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def init_state(self, source: None = None) -> State:
        """The decoder's state before its first token."""
        return self.decoder.init_state(None)

    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Logits of what follows each token, and the state after them."""
        hidden, state = self.decoder(tokens, state)
        return self.output(hidden), state

    def decode_greedy(
        self, tokens: Tokens, state: State, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, State] | None:
        """Several steps of greedy search, if the decoder knows how."""
        return self.decoder.decode_greedy(self.output, tokens, state, limits=limits)

    def forward(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T d_model"], State]:
        """Hidden vectors of a chunk of text, and the state after it; `output` makes logits of them."""
        result: tuple[Tensor, State] = self.decoder(tokens, state)
        return result
