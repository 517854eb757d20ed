"""Language model: a decoder without a memory, and the output layer."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.conditional import GenerativeModel
from heedful.models.interface import Decoder, State
from heedful.tensors import Tokens


class LanguageModel(GenerativeModel):
    """A model of p(y) as a product over tokens, each given those before it (Bengio et al. 2003).

    Args:
        decoder: reads the text so far.
        output: linear map from hidden vectors to logits; its weight may be the embedding's.
    """

    def __init__(self, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = output

    def init_state(self, source: None = None) -> State:
        """Return the state before the first token."""
        return self.decoder.init_state(None)

    def forward(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T d_model"], State]:
        """Return the hidden vectors of a chunk of text and the new state; `output` turns them into logits."""
        result: tuple[Tensor, State] = self.decoder(tokens, state)
        return result
