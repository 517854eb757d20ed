"""How probable given answers are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.generation.start import at_least_single
from heedful.models.interface import State, Step
from heedful.values import Tokens


@dataclass(frozen=True)
class Scores:
    """Log-probabilities of given answers, in nats.

    Attributes:
        token_log_probabilities: of each label; 0 where there is none.
        log_probability: their sum.
        count: labels in each row.
    """

    token_log_probabilities: Float[Tensor, "B T"]
    log_probability: Float[Tensor, " B"]
    count: Int[Tensor, " B"]


@torch.no_grad()
def score(step: Step, state: State, target: Tokens, *, labels: Int[Tensor, "B T"]) -> Scores:
    """Read answers as one chunk: `labels[:, t]` is what should follow `target` up to column t, -1 where
    nothing is asked.

    With `target` an answer behind its begin of sentence and `labels` the same answer before its end of
    sentence, the sum is the `log_probability` that a search gives that answer. Nothing is asked where
    `target` has no token.
    """
    logits = at_least_single(step(target, state)[0])
    asked = (labels >= 0) & (target.positions >= 0)
    chosen = logits.gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)
    each = torch.where(asked, chosen - logits.logsumexp(2), 0.0)
    return Scores(each, each.sum(1), asked.sum(1))
