"""Dual conditional cross-entropy: agreement of two models of opposite directions on pairs, to filter corpora."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from heedful.tasks.translation.translator import Translator


def dual_agreement(
    forward: Translator, backward: Translator, pairs: Sequence[tuple[str, str]], *, batch_tokens: int = 4096
) -> list[float | None]:
    """Score each pair from 0 to 1, where 1 means that both models find the other side certain.

    exp(-(|H_f - H_b| + (H_f + H_b) / 2)), the adequacy of dual conditional cross-entropy (Junczys-Dowmunt 2018, section
    2.1), where H is the cross-entropy in nats for each token, the end included. A pair that one model finds likely and
    the other does not is as suspicious as one that both find unlikely.

    Args:
        forward: translates sources to targets.
        backward: translates targets to sources.
        pairs: sources and targets.
        batch_tokens: number of tokens of a batch.

    Returns:
        The scores; None for pairs that are too long for one of the models.
    """
    reversed_pairs = [(target, source) for source, target in pairs]
    unreadable = {*forward.unread(pairs), *backward.unread(reversed_pairs)}
    indices = [index for index in range(len(pairs)) if index not in unreadable]
    scores: list[float | None] = [None] * len(pairs)
    forward_scores = forward.score([pairs[index] for index in indices], batch_tokens=batch_tokens)
    backward_scores = backward.score([reversed_pairs[index] for index in indices], batch_tokens=batch_tokens)
    for index, forward_score, backward_score in zip(indices, forward_scores, backward_scores, strict=True):
        entropies = (
            -forward_score.log_probability / forward_score.count,
            -backward_score.log_probability / backward_score.count,
        )
        scores[index] = exp(-(abs(entropies[0] - entropies[1]) + sum(entropies) / 2))
    return scores
