"""How well two models of opposite directions agree on pairs: what tells translations from other text."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from heedful.tasks.translation.face import Translator


def agreement(
    forward: Translator, backward: Translator, pairs: Sequence[tuple[str, str]], *, batch_tokens: int = 4096
) -> list[float | None]:
    """From 0 to 1 for each pair, 1 where both models find the other side certain.

    exp(-(|H_f - H_b| + (H_f + H_b) / 2)), the adequacy of dual conditional cross-entropy (Junczys-Dowmunt 2018,
    section 2.1), where H is the cross-entropy in nats for each token, the end included. A pair that one model finds
    likely and the other does not is as suspicious as one that both find unlikely.

    Args:
        forward: translates sources to targets.
        backward: translates targets to sources.
        pairs: sources and targets.
        batch_tokens: of what is scored at one time.

    Returns:
        None for pairs that are too long for one of the models.
    """
    turned = [(target, source) for source, target in pairs]
    unread = {*forward.unread(pairs), *backward.unread(turned)}
    read = [place for place in range(len(pairs)) if place not in unread]
    found: list[float | None] = [None] * len(pairs)
    there = forward.score([pairs[place] for place in read], batch_tokens=batch_tokens)
    back = backward.score([turned[place] for place in read], batch_tokens=batch_tokens)
    for place, one, other in zip(read, there, back, strict=True):
        entropies = -one.log_probability / one.count, -other.log_probability / other.count
        found[place] = exp(-(abs(entropies[0] - entropies[1]) + sum(entropies) / 2))
    return found
