"""Evaluator of encoders of text pairs: find the partner of each text among all texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from heedful.data.readers import SentencePair
from heedful.errors import DataError
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.metrics.ranking import rank_paired_targets
from heedful.tasks.embedder import TextEmbedder
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.matching.objective import number_texts

Ranks = Int[np.ndarray, "2 N"]


def build_matching_evaluator(pairs: Sequence[SentencePair], *, num_train_pairs: int) -> LabelEvaluator:
    """Build the evaluator that searches each text's partner among all texts of the other side, by cosine similarity,
    in both directions.

    Answers are the ranks of the partners, those of targets first. Recall@k is the share of texts whose partner is among
    the first k, MRR the mean of 1 / rank. Texts that occur twice, or whose partners do, are not distinguished.

    Args:
        pairs: the test pairs; those with an empty side are left out.
        num_train_pairs: number of training pairs.

    Raises:
        DataError: there is no pair.
    """
    complete_pairs = [pair for pair in pairs if pair.source and pair.target]
    if not complete_pairs:
        raise DataError("there are no pairs of texts; check the file")
    sources, targets = [pair.source for pair in complete_pairs], [pair.target for pair in complete_pairs]
    text_numbers = number_texts(sources, targets)

    file_ranks = np.arange(1, len(complete_pairs) + 1)
    return LabelEvaluator(
        sources,
        targets,
        predict_labels=lambda user: rank_paired_targets(
            embed_normalized(user, sources), embed_normalized(user, targets), text_numbers
        ),
        measure=_compute_metrics,
        size=len(complete_pairs),
        num_train_examples=num_train_pairs,
        constant_answer="the order of the file",
        baseline_answers=np.stack([file_ranks, file_ranks]),
        main_metric="targets recall@1",
        data_warnings=(f"{num_left_out:,} pairs with an empty side are left out",)
        if (num_left_out := len(pairs) - len(complete_pairs))
        else (),
    )


def embed_normalized(predictor: TextEmbedder, texts: Sequence[str]) -> Float[np.ndarray, "N d"]:
    """Embed texts as vectors of length 1; a text that is too long is truncated."""
    vectors = predictor.embed(texts, cut=lambda _: None)
    unit_vectors: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    return unit_vectors


def _compute_metrics(ranks: Ranks) -> Mapping[str, Metric]:
    """Compute recall and MRR of ranks."""
    metrics: dict[str, Metric] = {}
    for side, side_ranks in zip(("targets", "sources"), ranks, strict=True):
        metrics |= {f"{side} recall@{k}": build_mean_metric(side_ranks <= k) for k in (1, 5)}
        metrics[f"{side} MRR"] = build_mean_metric(1 / side_ranks)
    return metrics
