"""BERT's pre-training model: masked language modelling and next-sentence prediction."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.interface import Encoder
from heedful.tensors import Memory, Tokens


class MaskedLMHead(nn.Module):
    """Head of masked language models: log p(w) = LN(f(W h + b)) E' + c up to a constant, with E the embedding table
    (Devlin et al. 2019).

    Args:
        d_model: width of the hidden vectors.
        output: E' and c, from vectors to logits over the vocabulary.
        activation: f, GELU in BERT.
        epsilon: of the norm.
    """

    def __init__(self, d_model: int, *, output: nn.Linear, activation: nn.Module, epsilon: float) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activation
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.output = output

    def forward(self, hidden: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_model"]:
        """Transform hidden vectors into the input of `output`."""
        vectors: Tensor = self.norm(self.activation(self.dense(hidden)))
        return vectors


class MaskedLanguageModel(nn.Module):
    """Models p(token | all others) and p(the second passage follows | both) (Devlin et al. 2019, 3.1).

    Args:
        encoder: reads passages with masked tokens; its summary represents the pair of passages.
        masked: head from hidden vectors to the vocabulary.
        relation: W_y of W_y tanh(W_s z_0 + b_s) + b_y, whose inner part is the encoder's summary; logits of no and yes.
            None without next-sentence prediction.
    """

    def __init__(self, encoder: Encoder[Tokens], *, masked: MaskedLMHead, relation: nn.Linear | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.masked = masked
        self.relation = relation

    def forward(self, tokens: Tokens) -> Memory:
        """Encode the tokens; the heads turn the memory into logits."""
        memory: Memory = self.encoder(tokens)
        return memory
