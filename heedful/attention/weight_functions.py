"""How the heads of multi-head attention weigh keys: the usual way, which has fast kernels, or any score and choice."""

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
    """From the queries and keys of all heads to weights."""

    fusable = False
    """Whether torch's fused kernel computes the same, unless scores get a bias."""

    def project(self, key: Float[Tensor, "G H K d_k"], positions: Int[Tensor, "G K"]) -> Float[Tensor, "G H K d_p"]:
        """What of the keys can be computed before any query is known; the keys themselves where that is nothing."""
        return key

    @abstractmethod
    def score(self, query: Float[Tensor, "G H Q d_k"], key: Float[Tensor, "G H K d_p"]) -> Float[Tensor, "G H Q K"]:
        """Fresh scores of projected keys."""

    def scale(self, d_k: int) -> float:
        """By what the plain score is multiplied; 1 where the score applies what it has itself."""
        return 1.0

    @abstractmethod
    def normalize(self, scores: Float[Tensor, "G H Q K"], *, mask: AttentionMask) -> Float[Tensor, "G H Q K"]:
        """Weights of what is seen; the scores may be overwritten."""


class ScaledSoftmax(WeightFunction):
    """softmax(q . k / sqrt(d_k)) (Vaswani et al. 2017, eq. 1)."""

    fusable = True

    def score(self, query: Float[Tensor, "G H Q d_k"], key: Float[Tensor, "G H K d_k"]) -> Float[Tensor, "G H Q K"]:
        """Inner products over the root of their width."""
        return kernels.scaled_dot_products(query, key, scale=self.scale(query.size(-1)))

    def scale(self, d_k: int) -> float:
        """1 / sqrt(d_k)."""
        return 1 / math.sqrt(d_k)

    def normalize(self, scores: Float[Tensor, "G H Q K"], *, mask: AttentionMask) -> Float[Tensor, "G H Q K"]:
        """The softmax over what is seen."""
        return kernels.masked_softmax(scores, hidden=mask.hidden, fully_masked=mask.fully_masked)


class ScoredWeights(WeightFunction):
    """Any score and any choice; a score with parameters is shared by all heads, whose projections differ."""

    def __init__(self, score: AttentionScore, choice: Normalizer = softmax) -> None:
        super().__init__()
        self.measure = score
        self.choice = choice

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"choice={format_callable(self.choice)}"

    def project(self, key: Float[Tensor, "G H K d_k"], positions: Int[Tensor, "G K"]) -> Float[Tensor, "G H K d_p"]:
        """As the score wants it."""
        return self.measure.project(key, positions.unsqueeze(1).expand(-1, key.size(1), -1))

    def score(self, query: Float[Tensor, "G H Q d_k"], key: Float[Tensor, "G H K d_p"]) -> Float[Tensor, "G H Q K"]:
        """By the score."""
        scores: Tensor = self.measure(query, key)
        return scores

    def normalize(self, scores: Float[Tensor, "G H Q K"], *, mask: AttentionMask) -> Float[Tensor, "G H Q K"]:
        """By the choice."""
        visible = mask.visible
        if visible is None:
            visible = torch.ones_like(scores[:, :1], dtype=torch.bool)
        return self.choice(scores, visible)
