"""A small model that makes plausible tokens, and a larger one that finds them out: ELECTRA's pre-training."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.interface import Encoder
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.tensors import Tokens


class ReplacedTokenDetector(nn.Module):
    """p(this token is not what was written) for every token (Clark et al. 2020, section 2).

    Args:
        generator: fills what is hidden; needed for training alone, None where a model is only used.
        encoder: reads what the generator made of the text, and is what pre-training is for.
        d_model: width of its hidden vectors.
        activation: between the two maps of the head.
    """

    def __init__(
        self, generator: MaskedLanguageModel | None, *, encoder: Encoder[Tokens], d_model: int, activation: nn.Module
    ) -> None:
        super().__init__()
        self.generator = generator
        self.encoder = encoder
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activation
        self.verdict = nn.Linear(d_model, 1)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T"]:
        """The logit of having been replaced: w' f(W h + b) + c."""
        hidden = self.encoder(tokens).values
        logits: Tensor = self.verdict(self.activation(self.dense(hidden))).squeeze(-1)
        return logits
