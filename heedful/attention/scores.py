"""Scores: how well a key answers a query, before anything is normalised.

Every score has `project`, done once per memory, and `forward`, done once per step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Score(nn.Module, ABC):
    """A measure of similarity between queries and keys."""

    @abstractmethod
    def project(self, keys: Float[Tensor, "*B K d_key"]) -> Float[Tensor, "*B K d_projected"]:
        """What of the keys can be computed before any query is known."""

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_projected"]
    ) -> Float[Tensor, "*B Q K"]:
        """Scores of projected keys for each query."""


class Dot(Score):
    """q . k (Luong et al. 2015, eq. 8, dot)."""

    def project(self, keys: Float[Tensor, "*B K d_key"]) -> Float[Tensor, "*B K d_key"]:
        """The keys themselves."""
        return keys

    def forward(self, query: Float[Tensor, "*B Q d"], key: Float[Tensor, "*B K d"]) -> Float[Tensor, "*B Q K"]:
        """Inner products."""
        return query @ key.transpose(-2, -1)


class ScaledDot(Score):
    """q . k / sqrt(d) (Vaswani et al. 2017, eq. 1): of variance 1 when the entries of q and k are."""

    def project(self, keys: Float[Tensor, "*B K d_key"]) -> Float[Tensor, "*B K d_key"]:
        """The keys themselves."""
        return keys

    def forward(self, query: Float[Tensor, "*B Q d"], key: Float[Tensor, "*B K d"]) -> Float[Tensor, "*B Q K"]:
        """Inner products over the root of their width."""
        return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))


class General(Score):
    """q W k (Luong et al. 2015, eq. 8, general); the widths of query and key may differ."""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.weight = nn.Linear(d_key, d_query, bias=False)

    def project(self, keys: Float[Tensor, "*B K d_key"]) -> Float[Tensor, "*B K d_query"]:
        """W k."""
        projected: Tensor = self.weight(keys)
        return projected

    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_query"]
    ) -> Float[Tensor, "*B Q K"]:
        """Inner products of queries with projected keys."""
        return query @ key.transpose(-2, -1)


class Additive(Score):
    """v . tanh(W q + U k) (Bahdanau et al. 2015, A.1.2); the widths of query and key may differ."""

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_hidden)
        self.key = nn.Linear(d_key, d_hidden, bias=False)
        self.energy = nn.Linear(d_hidden, 1, bias=False)

    def project(self, keys: Float[Tensor, "*B K d_key"]) -> Float[Tensor, "*B K d_hidden"]:
        """U k."""
        projected: Tensor = self.key(keys)
        return projected

    def forward(
        self, query: Float[Tensor, "*B Q d_query"], key: Float[Tensor, "*B K d_hidden"]
    ) -> Float[Tensor, "*B Q K"]:
        """One hidden layer over each pair of query and key."""
        hidden = torch.tanh(self.query(query).unsqueeze(-2) + key.unsqueeze(-3))
        energy: Tensor = self.energy(hidden).squeeze(-1)
        return energy
