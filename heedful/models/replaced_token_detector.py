"""ELECTRA's pre-training model: a small generator and a discriminator of replaced tokens."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.interface import Encoder
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.tensors import Tokens


class ReplacedTokenDetector(nn.Module):
    """Models p(token was replaced) for every token (ELECTRA; Clark et al. 2020, section 2).

    Args:
        generator: fills masked tokens; needed for training only, None for inference.
        encoder: the discriminator, which reads the generator's text; the result of pre-training.
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
        """Return the logit of having been replaced for each token: w' f(W h + b) + c."""
        hidden = self.encoder(tokens).values
        logits: Tensor = self.verdict(self.activation(self.dense(hidden))).squeeze(-1)
        return logits
