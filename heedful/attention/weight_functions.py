"""Weight functions of multi-head attention: scaled softmax, which has fast kernels, or any score and normalizer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention import kernels
from heedful.attention.mask import AttentionMask
from heedful.attention.normalizers import Normalizer, format_callable, softmax
from heedful.attention.scores import AttentionScore


class WeightFunction(nn.Module, ABC):
    """Base class: computes attention weights from the queries and keys of all heads."""

    fusable = False
    """Whether torch's fused kernel computes the same weights, unless scores get a bias."""

    def project(self, key: Float[Tensor, "G H K d_k"], positions: Int[Tensor, "G K"]) -> Float[Tensor, "G H K d_p"]:
        """Precompute the part of the score that depends only on the keys; return the keys if there is none."""
        return key

    @abstractmethod
    def score(self, query: Float[Tensor, "G H Q d_k"], key: Float[Tensor, "G H K d_p"]) -> Float[Tensor, "G H Q K"]:
        """Return new scores of projected keys."""

    def scale(self, d_k: int) -> float:
        """Return the factor of the plain score; 1 if the score scales itself."""
        return 1.0

    @abstractmethod
    def normalize(self, scores: Float[Tensor, "G H Q K"], *, mask: AttentionMask) -> Float[Tensor, "G H Q K"]:
        """Turn scores into weights of visible keys; the scores may be overwritten."""


class ScaledSoftmax(WeightFunction):
    """Softmax of scaled dot products, softmax(q . k / sqrt(d_k)) (Vaswani et al. 2017, eq. 1)."""

    fusable = True

    def score(self, query: Float[Tensor, "G H Q d_k"], key: Float[Tensor, "G H K d_k"]) -> Float[Tensor, "G H Q K"]:
        """Compute inner products divided by the root of the width."""
        return kernels.scaled_dot_products(query, key, scale=self.scale(query.size(-1)))

    def scale(self, d_k: int) -> float:
        """Return 1 / sqrt(d_k)."""
        return 1 / math.sqrt(d_k)

    def normalize(self, scores: Float[Tensor, "G H Q K"], *, mask: AttentionMask) -> Float[Tensor, "G H Q K"]:
        """Compute the softmax over visible keys."""
        return kernels.masked_softmax(scores, hidden=mask.hidden, fully_masked=mask.fully_masked)


class ScoredWeights(WeightFunction):
    """Weights by any score and any normalizer; all heads share the parameters of the score."""

    def __init__(self, score: AttentionScore, choice: Normalizer = softmax) -> None:
        super().__init__()
        self.measure = score
        self.choice = choice

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"choice={format_callable(self.choice)}"

    def project(self, key: Float[Tensor, "G H K d_k"], positions: Int[Tensor, "G K"]) -> Float[Tensor, "G H K d_p"]:
        """Project the keys for the score."""
        return self.measure.project(key, positions.unsqueeze(1).expand(-1, key.size(1), -1))

    def score(self, query: Float[Tensor, "G H Q d_k"], key: Float[Tensor, "G H K d_p"]) -> Float[Tensor, "G H Q K"]:
        """Compute the score."""
        scores: Tensor = self.measure(query, key)
        return scores

    def normalize(self, scores: Float[Tensor, "G H Q K"], *, mask: AttentionMask) -> Float[Tensor, "G H Q K"]:
        """Apply the normalizer."""
        visible = mask.visible
        if visible is None:
            visible = torch.ones_like(scores[:, :1], dtype=torch.bool)
        return self.choice(scores, visible)
