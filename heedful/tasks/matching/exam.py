"""What an encoder of pairs is asked: which text belongs to which, among all that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from heedful.data.readers import Pair
from heedful.errors import DataError
from heedful.metrics.metric import Metric, mean
from heedful.metrics.ranking import own_ranks
from heedful.tasks.embedder import Embeds
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.matching.problem import kinds

Ranks = Int[np.ndarray, "2 N"]


def matching_exam(pairs: Sequence[Pair], *, total: int) -> LabelledExam:
    """Each text of one side is sought among all of the other by the cosine of their vectors, and the other way round.

    Answers are the ranks of what belongs to a text, those of targets first. Recall@k is the share of texts whose own is
    among the first k, MRR the mean of 1 / rank. Texts that occur twice, or whose partners do, are not told apart.

    Args:
        pairs: what is asked; those with an empty side are left out.
        total: pairs that were learned from.

    Raises:
        DataError: there is no pair.
    """
    real = [pair for pair in pairs if pair.source and pair.target]
    if not real:
        raise DataError("there is not a single pair of texts; check the file")
    sources, targets = [pair.source for pair in real], [pair.target for pair in real]
    same = kinds(sources, targets)

    number = np.arange(1, len(real) + 1)
    return LabelledExam(
        sources,
        targets,
        ask=lambda user: own_ranks(units(user, sources), units(user, targets), same),
        measure=_measured,
        size=len(real),
        total=total,
        constant="the order of the file",
        baseline=np.stack([number, number]),
        main="targets recall@1",
        remarks=(f"{left:,} pairs with an empty side are left out",) if (left := len(pairs) - len(real)) else (),
    )


def units(user: Embeds, texts: Sequence[str]) -> Float[np.ndarray, "N d"]:
    """Vectors of length 1; a text that is longer than a model reads is known by its beginning."""
    vectors = user.embed(texts, cut=lambda _: None)
    found: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    return found


def _measured(ranks: Ranks) -> Mapping[str, Metric]:
    found: dict[str, Metric] = {}
    for side, own in zip(("targets", "sources"), ranks, strict=True):
        found |= {f"{side} recall@{first}": mean(own <= first) for first in (1, 5)}
        found[f"{side} MRR"] = mean(1 / own)
    return found
