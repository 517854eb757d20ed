"""Scores: how well a key answers a query, before anything is normalised.

Every score has `project`, done once per memory, and `forward`, done once per step. What is hidden from a query gets a
score like anything else; a `MultipleChoiceExample` then passes it over.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

_MAX_KEYS = 2**16
"""Keys whose largest exponentials must still have a finite sum."""


class AttentionScore(nn.Module, ABC):
    """A measure of similarity between queries and keys."""

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K d_projected"]:
        """What of the keys can be computed before any query is known; the keys themselves where that is nothing.

        Args:
            keys: of a memory.
            positions: where each key is, -1 where there is none; without them keys count from 0. Only scores that
                look at places (`LocationScore`) read them.
        """
        return keys

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_projected"]
    ) -> Float[Tensor, "*B Q K"]:
        """Scores of projected keys for each query."""


class DotScore(AttentionScore):
    """q . k (Luong et al. 2015, eq. 8, dot)."""

    def forward(self, query: Float[Tensor, "*B Q d"], key: Float[Tensor, "*B K d"]) -> Float[Tensor, "*B Q K"]:
        """Inner products."""
        return query @ key.transpose(-2, -1)


class ScaledDotScore(DotScore):
    """q . k / sqrt(d) (Vaswani et al. 2017, eq. 1): of variance 1 when the entries of q and k are."""

    def forward(self, query: Float[Tensor, "*B Q d"], key: Float[Tensor, "*B K d"]) -> Float[Tensor, "*B Q K"]:
        """Inner products over the root of their width."""
        return super().forward(query, key) / math.sqrt(query.size(-1))


class GeneralScore(DotScore):
    """q W k (Luong et al. 2015, eq. 8, general); the widths of query and key may differ."""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.weight = nn.Linear(d_key, d_query, bias=False)

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K d_query"]:
        """W k."""
        projected: Tensor = self.weight(keys)
        return projected


class AdditiveScore(AttentionScore):
    """v . tanh(W q + U k) (Bahdanau et al. 2015, A.1.2); the widths of query and key may differ.

    Args:
        d_query: width of a query.
        d_key: width of a key.
        d_hidden: width of the hidden layer.
        bias: whether one is added inside the tanh, which the paper does not do.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int, *, bias: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_hidden, bias=bias)
        self.key = nn.Linear(d_key, d_hidden, bias=False)
        self.energy = nn.Linear(d_hidden, 1, bias=False)

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K d_hidden"]:
        """U k."""
        projected: Tensor = self.key(keys)
        return projected

    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_hidden"]
    ) -> Float[Tensor, "*B Q K"]:
        """One hidden layer over each pair of query and key."""
        return _score_pairs(self.query(query), key, energy=self.energy)


class ConcatScore(AttentionScore):
    """v . tanh(W [q; k]) (Luong et al. 2015, eq. 8, concat): `AdditiveScore` whose two maps are one matrix."""

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        self.d_query = d_query
        self.weight = nn.Linear(d_query + d_key, d_hidden, bias=False)
        self.energy = nn.Linear(d_hidden, 1, bias=False)

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K d_hidden"]:
        """The columns of W that belong to keys, times k."""
        return functional.linear(keys, self.weight.weight[:, self.d_query :])

    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_hidden"]
    ) -> Float[Tensor, "*B Q K"]:
        """One hidden layer over each pair of query and key."""
        return _score_pairs(functional.linear(query, self.weight.weight[:, : self.d_query]), key, energy=self.energy)


class LocationScore(AttentionScore):
    """W q, one score for each position whatever stands there (Luong et al. 2015, eq. 7).

    The paper takes the softmax over all `longest` positions and then as many of its weights as the sentence has words;
    here, as with every score, the choice is among the words that are there.

    Args:
        d_query: width of a query.
        longest: positions that have a score; a memory with a later one is an error of the caller.
    """

    def __init__(self, d_query: int, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.weight = nn.Linear(d_query, longest, bias=False)

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"longest={self.longest}"

    def project(
        self, keys: Float[Tensor, "*B K d_key"], positions: Int[Tensor, "*B K"] | None = None
    ) -> Float[Tensor, "*B K longest"]:
        """1 at the position of each key, 0 elsewhere: of a key, its place is all that counts."""
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
        """Of all scores of a query, those of the positions in this memory."""
        scores: Tensor = self.weight(query) @ key.transpose(-2, -1)
        return scores


class ExpDotScore(DotScore):
    """exp(q . k), the lecture's score that cannot be negative; `proportional` makes it the softmax of `DotScore`.

    exp overflows (in fp32 and bf16 from 88.7), so q . k is cut to +-77.6 there (+-698.7 in fp64), where sums over
    65,536 keys and their reciprocals are finite. Keys beyond the same cut are alike to a query, and no gradient moves
    them; `softmax` over `DotScore` is the same function without these edges.
    """

    def forward(self, query: Float[Tensor, "*B Q d"], key: Float[Tensor, "*B K d"]) -> Float[Tensor, "*B Q K"]:
        """Exponentials of inner products."""
        limit = math.log(torch.finfo(query.dtype).max) - math.log(_MAX_KEYS)
        return super().forward(query, key).clamp(-limit, limit).exp()


def _score_pairs(
    query: Float[Tensor, "*B Q d_hidden"], key: Float[Tensor, "*B K d_hidden"], *, energy: nn.Linear
) -> Float[Tensor, "*B Q K"]:
    """v . tanh(query + key) for each pair."""
    energies: Tensor = energy(torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)))
    return energies.squeeze(-1)
