"""Token classifier: an encoder with a head on every token."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.interface import Encoder
from heedful.tensors import Tokens


class TokenClassifier(nn.Module):
    """Models p(tags | tokens) as a product over tokens: one tag for each token.

    Args:
        encoder: reads the sentence.
        output: from a memory slot to logits over the tags.
    """

    def __init__(self, encoder: Encoder[Tokens], *, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = output

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T d_value"]:
        """Return the encoder's output for each token; `output` turns it into logits."""
        values: Tensor = self.encoder(tokens).values
        return values
