"""Score given outputs by forced decoding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.models.interface import State, Step
from heedful.tensors import Tokens


@dataclass(frozen=True)
class TargetScores:
    """Log-probabilities of given outputs, in nats.

    Attributes:
        token_log_probabilities: of each label; 0 where there is none.
        log_probability: their sum.
        count: number of labels in each row.
    """

    token_log_probabilities: Float[Tensor, "B T"]
    log_probability: Float[Tensor, " B"]
    count: Int[Tensor, " B"]


@torch.no_grad()
def score_target(step: Step, state: State, target: Tokens, *, labels: Int[Tensor, "B T"]) -> TargetScores:
    """Compute the log-probabilities of given labels, reading the target as one chunk.

    `labels[:, t]` is the token that should follow `target` up to column t, -1 to skip it. If `target` is an output
    after its begin of sentence, and `labels` the same output before its end of sentence, the sum is the
    `log_probability` that a search gives to that output. Labels are skipped where `target` has no token.
    """
    active_labels = torch.where(target.positions >= 0, labels, -1)
    log_probabilities = gather_log_probabilities(active_labels, step(target, state)[0])
    return TargetScores(log_probabilities, log_probabilities.sum(1), (active_labels >= 0).sum(1))


def gather_log_probabilities(labels: Int[Tensor, "B T"], logits: Float[Tensor, "B T V"]) -> Float[Tensor, "B T"]:
    """Return the log-probability of each label; 0 where it is -1."""
    logits = upcast_logits(logits)
    label_logits = logits.gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)
    return torch.where(labels >= 0, label_logits - logits.logsumexp(2), 0.0)


def upcast_logits(logits: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Convert logits to single precision if they are less precise; half is too coarse to rank or add."""
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
