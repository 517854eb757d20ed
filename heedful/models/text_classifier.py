"""An encoder with a head on what it says of a whole text."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.models.encoders import Summary
from heedful.models.interface import Encoder
from heedful.values import Tokens


class TextClassifier(nn.Module):
    """f(Z(S, W_T), W_f): a summary Z of the text S, and one linear map of it (Devlin et al. 2019, 4.1).

    Args:
        encoder: reads one text, or two behind each other.
        output: to logits over classes, to a number, or to the score of a candidate.
        summary: what is classified, made of the encoder's memory; what the encoder itself says of the whole unless
            given.
        hidden: a further layer with ReLU between summary and output (Lin et al. 2017, section 4); none unless given.
        dropout: on the summary, and behind that layer.
    """

    def __init__(
        self,
        encoder: Encoder[Tokens],
        *,
        output: nn.Linear,
        summary: Summary | None = None,
        hidden: nn.Linear | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.summary = summary
        self.hidden = hidden
        self.output = output
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B d_hidden"]:
        """What the output reads of each text; `output` makes logits of it."""
        x: Tensor = self.dropout(self.vector(tokens))
        return x if self.hidden is None else self.dropout(torch.relu(self.hidden(x)))

    def vector(self, tokens: Tokens) -> Float[Tensor, "B d_summary"]:
        """The summary of each text: its embedding."""
        memory = self.encoder(tokens)
        found: Tensor = memory.summary if self.summary is None else self.summary(memory.values, memory.positions)
        return found
