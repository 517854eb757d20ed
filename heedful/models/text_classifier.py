"""Text classifier: an encoder with a head on the summary of the text."""

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
    """Classifier of texts: a pooled vector, an optional hidden layer and a linear map (Devlin et al. 2019, 4.1).

    Args:
        encoder: reads one text, or two concatenated ones.
        output: to logits over classes, to a number, or to the score of a candidate.
        summary: pooler of the encoder's memory; the encoder's own summary if not given.
        hidden: hidden layer with ReLU between summary and output (Lin et al. 2017, section 4); none if not given.
        dropout: dropout of the summary, and after the hidden layer.
        bag: n-gram classifier whose log-probabilities are appended to the input of the output, but not in training, so
            that the rest learns to work alone; none if not given.
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
        """Return the input of the output layer for each text; `output` turns it into logits."""
        x: Tensor = self.dropout(self.embed_text(tokens))
        if self.hidden is not None:
            x = self.dropout(torch.relu(self.hidden(x)))
        if self.bag is None:
            return x
        votes = x.new_zeros(len(x), self.bag.outputs) if self.training else self.bag(tokens)
        return torch.cat((x, votes), -1)

    def embed_text(self, tokens: Tokens) -> Float[Tensor, "B d_summary"]:
        """Return the summary of each text, its embedding."""
        memory = self.encoder(tokens)
        vectors: Tensor = memory.summary if self.summary is None else self.summary(memory.values, memory.positions)
        return vectors
