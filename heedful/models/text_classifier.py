"""An encoder with a head on what it says of a whole text."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.models.encoders import Pooler
from heedful.models.interface import Encoder
from heedful.models.ngram_classifier import NgramClassifier
from heedful.tensors import Tokens


class TextClassifier(nn.Module):
    """f(Z(S, W_T), W_f): a summary Z of the text S, and one linear map of it (Devlin et al. 2019, 4.1).

    Args:
        encoder: reads one text, or two behind each other.
        output: to logits over classes, to a number, or to the score of a candidate.
        summary: what is classified, made of the encoder's memory; what the encoder itself says of the whole unless
            given.
        hidden: a further layer with ReLU between summary and output (Lin et al. 2017, section 4); none unless given.
        dropout: on the summary, and behind that layer.
        bag: which votes for classes behind the rest of what the output reads, but never in training, so that the rest
            learns what it would know alone; none unless given.
    """

    def __init__(
        self,
        encoder: Encoder[Tokens],
        *,
        output: nn.Linear,
        summary: Pooler | None = None,
        hidden: nn.Linear | None = None,
        dropout: float = 0.0,
        bag: NgramClassifier | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.summary = summary
        self.hidden = hidden
        self.output = output
        self.dropout = Dropout(dropout)
        self.bag = bag

    def forward(self, tokens: Tokens) -> Float[Tensor, "B d_hidden"]:
        """What the output reads of each text; `output` makes logits of it."""
        x: Tensor = self.dropout(self.embed_text(tokens))
        if self.hidden is not None:
            x = self.dropout(torch.relu(self.hidden(x)))
        if self.bag is None:
            return x
        votes = x.new_zeros(len(x), self.bag.outputs) if self.training else self.bag(tokens)
        return torch.cat((x, votes), -1)

    def embed_text(self, tokens: Tokens) -> Float[Tensor, "B d_summary"]:
        """The summary of each text: its embedding."""
        memory = self.encoder(tokens)
        vectors: Tensor = memory.summary if self.summary is None else self.summary(memory.values, memory.positions)
        return vectors
