"""Attention scores, and the weight functions of multi-head attention that are made of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import kernels
from heedful.attention.mask import AttentionMask
from heedful.attention.normalizers import Normalizer, format_callable, softmax

_MAX_KEYS = 2**16
"""Maximum number of keys whose largest exponentials must have a finite sum."""


class AttentionScore(nn.Module, ABC):
    """Base class: a similarity measure between queries and keys."""

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K d_projected"]:
        """Precompute the part of the score that depends only on the keys and, for some scores, their positions; return
        the keys if there is none.

        Args:
            keys: keys of a memory.
            positions: position of each key, -1 where there is none; without them keys count from 0. Only scores that
                depend on positions (`LocationScore`) read them.
        """
        return keys

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_projected"]
    ) -> Float[Tensor, "*B Q K"]:
        """Return the score of each projected key for each query."""


class DotScore(AttentionScore):
    """Dot-product score q . k (Luong et al. 2015, eq. 8, dot)."""

    def forward(self, query: Float[Tensor, "*B Q d"], key: Float[Tensor, "*B K d"]) -> Float[Tensor, "*B Q K"]:
        """Compute inner products."""
        return query @ key.transpose(-2, -1)


class ScaledDotScore(DotScore):
    """Scaled dot-product score q . k / sqrt(d) (Vaswani et al. 2017, eq. 1); variance 1 if the entries of q and k
    have it.
    """

    def forward(self, query: Float[Tensor, "*B Q d"], key: Float[Tensor, "*B K d"]) -> Float[Tensor, "*B Q K"]:
        """Compute inner products divided by the root of the width."""
        return super().forward(query, key) / math.sqrt(query.size(-1))


class GeneralScore(DotScore):
    """Bilinear score q W k (Luong et al. 2015, eq. 8, general); the widths of query and key may differ."""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.weight = nn.Linear(d_key, d_query, bias=False)

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K d_query"]:
        """Compute W k for each key; positions are not read."""
        projected: Tensor = self.weight(keys)
        return projected


class AdditiveScore(AttentionScore):
    """Additive score v . tanh(W q + U k) (Bahdanau et al. 2015, A.1.2); the widths of query and key may differ.

    Args:
        d_query: width of a query.
        d_key: width of a key.
        d_hidden: width of the hidden layer.
        bias: whether to add a bias inside the tanh, which the paper does not do.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int, *, bias: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_hidden, bias=bias)
        self.key = nn.Linear(d_key, d_hidden, bias=False)
        self.energy = nn.Linear(d_hidden, 1, bias=False)

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K d_hidden"]:
        """Compute U k for each key; positions are not read."""
        projected: Tensor = self.key(keys)
        return projected

    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_hidden"]
    ) -> Float[Tensor, "*B Q K"]:
        """Return the score of each pair of a query and a projected key, by the hidden layer."""
        return _score_pairs(self.query(query), key, energy=self.energy)


class ConcatScore(AttentionScore):
    """Concat score v . tanh(W [q; k]) (Luong et al. 2015, eq. 8, concat): `AdditiveScore` with both maps in one
    matrix.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        self.d_query = d_query
        self.weight = nn.Linear(d_query + d_key, d_hidden, bias=False)
        self.energy = nn.Linear(d_hidden, 1, bias=False)

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K d_hidden"]:
        """Multiply keys by the columns of W that belong to them; positions are not read."""
        return functional.linear(keys, self.weight.weight[:, self.d_query :])

    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_hidden"]
    ) -> Float[Tensor, "*B Q K"]:
        """Return the score of each pair of a query and a projected key, by the hidden layer."""
        return _score_pairs(functional.linear(query, self.weight.weight[:, : self.d_query]), key, energy=self.energy)


class LocationScore(AttentionScore):
    """Location score W q, one score per position regardless of the key (Luong et al. 2015, eq. 7).

    The paper takes the softmax over all `longest` positions and then as many of its weights as the sentence has words;
    here, as with every score, only the existing positions are normalized.

    Args:
        d_query: width of a query.
        longest: number of positions with a score; the caller must not pass later ones.
    """

    def __init__(self, d_query: int, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.weight = nn.Linear(d_query, longest, bias=False)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"longest={self.longest}"

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K longest"]:
        """Return one-hot vectors of the key positions: the score depends only on them."""
        if positions is None:
            positions = torch.arange(keys.size(-2), device=keys.device).expand(keys.shape[:-1])
        indices = torch.arange(self.longest, device=keys.device)
        beyond = positions >= self.longest
        assert not beyond.any(), (
            f"a memory has a slot at position {int(positions.max())}, but Location was built for positions "
            f"below {self.longest}; make `longest` larger or the memory shorter"
        )
        return (positions.unsqueeze(-1) == indices).to(keys.dtype)

    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K longest"]
    ) -> Float[Tensor, "*B Q K"]:
        """Return the score of each query at the positions of the keys, which are one-hot vectors."""
        scores: Tensor = self.weight(query) @ key.transpose(-2, -1)
        return scores


class ExpDotScore(DotScore):
    """Nonnegative score exp(q . k) of the lecture; `normalize_by_sum` turns it into the softmax of `DotScore`.

    exp overflows (in fp32 and bf16 from 88.7), so q . k is clipped to +-77.6 there (+-698.7 in fp64), where sums over
    65,536 keys and their reciprocals are finite. Keys beyond the same limit get the same score and no gradient;
    `softmax` over `DotScore` is the same function without these limits.
    """

    def forward(self, query: Float[Tensor, "*B Q d"], key: Float[Tensor, "*B K d"]) -> Float[Tensor, "*B Q K"]:
        """Compute exponentials of inner products."""
        limit = math.log(torch.finfo(query.dtype).max) - math.log(_MAX_KEYS)
        return super().forward(query, key).clamp(-limit, limit).exp()


def _score_pairs(
    query: Float[Tensor, "*B Q d_hidden"], key: Float[Tensor, "*B K d_hidden"], *, energy: nn.Linear
) -> Float[Tensor, "*B Q K"]:
    """Return energy(tanh(q + k)) for each pair of a query and a key."""
    energies: Tensor = energy(torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)))
    return energies.squeeze(-1)


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
    """Softmax of scaled dot products, softmax(q . k / sqrt(d_k)) (Vaswani et al. 2017, eq. 1).

    Args:
        factor: factor of the products; 1 / sqrt(d_k) if not given.
    """

    fusable = True

    def __init__(self, factor: float | None = None) -> None:
        super().__init__()
        self.factor = factor

    def score(self, query: Float[Tensor, "G H Q d_k"], key: Float[Tensor, "G H_kv K d_k"]) -> Float[Tensor, "G H Q K"]:
        """Compute inner products times the factor; heads of queries may share heads of keys."""
        return kernels.scaled_dot_products(query, key, scale=self.scale(query.size(-1)))

    def scale(self, d_k: int) -> float:
        """Return the factor of products of vectors `d_k` wide."""
        return 1 / math.sqrt(d_k) if self.factor is None else self.factor

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
        """Turn scores into weights of the keys that the mask shows, by the normalizer."""
        visible = mask.visible
        if visible is None:
            visible = torch.ones_like(scores[:, :1], dtype=torch.bool)
        return self.choice(scores, visible)
