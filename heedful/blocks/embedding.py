"""Embeddings: from token ids or feature vectors to the input of the first layer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.attention.positions import AbsolutePosition
from heedful.tensors import FeatureBatch, Tokens


@dataclass(frozen=True)
class EmbeddingSum:
    """The terms of an input embedding: token, position, segment and factor vectors."""

    tokens: Float[Tensor, "B T d_model"]
    positions: Float[Tensor, "B T d_model"] | None
    segments: Float[Tensor, "B T d_model"] | None
    factors: Float[Tensor, "B T d_model"] | None = None

    def compute_sum(self) -> Float[Tensor, "B T d_model"]:
        """Add the terms that exist."""
        total = self.tokens
        for term in (self.positions, self.segments, self.factors):
            if term is not None:
                total = total + term
        return total


class InputEmbedding(nn.Module, ABC):
    """Input of the first layer: the sum of all embeddings of a token, optionally normalised, with dropout.

    Abstract: subclasses define the terms of the sum.

    Args:
        position: position encoding to add; none if not given.
        norm: norm of the sum.
        dropout: dropout of the sum.

    Attributes:
        token_dropout: dropout of whole tokens in training: their vectors become zero, their positions stay (Gal and
            Ghahramani 2016, 4.2; Sennrich et al. 2016, WMT, 2.3); None in newly built models.
    """

    token_dropout: Dropout | None

    def __init__(
        self, *, position: AbsolutePosition | None = None, norm: nn.Module | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.position = position
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.token_dropout = None

    def forward(self, tokens: Any) -> Float[Tensor, "B T d_model"]:
        """Return a vector for each token."""
        return self.combine(self._drop_tokens(self.embed_parts(tokens)))

    def _drop_tokens(self, terms: EmbeddingSum) -> EmbeddingSum:
        """Set the vectors of random tokens, with their factors, to zero in training, and scale those of the others."""
        kept = (
            None
            if self.token_dropout is None
            else self.token_dropout.draw_factors((*terms.tokens.shape[:-1], 1), reference=terms.tokens)
        )
        if kept is None:
            return terms
        vectors = terms.tokens if terms.factors is None else terms.tokens + terms.factors
        return replace(terms, tokens=vectors * kept, factors=None)

    def combine(self, terms: EmbeddingSum) -> Float[Tensor, "B T d_model"]:
        """Add the terms, then apply norm and dropout."""
        x = terms.compute_sum()
        if self.norm is not None:
            x = self.norm(x)
        result: Tensor = self.dropout(x)
        return result

    @abstractmethod
    def embed_parts(self, tokens: Any) -> EmbeddingSum:
        """Return the terms of the sum, before norm and dropout."""

    def embed_positions(
        self, positions: Int[Tensor, "B T"], *, reference: Tensor
    ) -> Float[Tensor, "*B T d_model"] | None:
        """Return the position vectors in the dtype of `reference`, or None without a position encoding."""
        return None if self.position is None else self.position(positions).to(reference.dtype)


class VectorEmbedding(InputEmbedding):
    """Input embedding of feature vectors as wide as the model: x_t = scale v_t + p_t, with dropout.

    Args:
        position: position encoding to add; none if not given.
        scale: factor of the vectors.
        dropout: dropout of the sum.
    """

    def __init__(self, *, position: AbsolutePosition | None = None, scale: float = 1.0, dropout: float = 0.0) -> None:
        super().__init__(position=position, dropout=dropout)
        self.scale = scale

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"scale={self.scale:g}"

    def embed_parts(self, tokens: FeatureBatch) -> EmbeddingSum:
        """Return the scaled vectors and the position vectors."""
        vectors = tokens.vectors * self.scale
        return EmbeddingSum(vectors, self.embed_positions(tokens.positions, reference=vectors), None)


class TokenEmbedding(InputEmbedding):
    """Token embedding x_t = E[w_t] sqrt(d_model) + p_t, with dropout (Vaswani et al. 2017, 3.4 and 5.4).

    BERT's is LN(E[w_t] + p_t + S[s_t]) with dropout (Devlin et al. 2019, figure 2). Where tokens have factors, as in
    Sennrich and Haddow 2016, E[w_t] becomes E[w_t] + F_1[f_t1] + F_2[f_t2] + ... (they concatenate).

    Args:
        table: a vector for each token; sharing it with another embedding or the output ties them.
        position: position encoding to add; none if not given.
        segments: a vector for each segment of a text, added as well; tokens without a segment number are in segment 0.
        norm: norm of the sum.
        scaled: multiply the vectors by the root of their width, so that tied tables, which are initialised small for
            the sake of the output, are not negligible beside the positions.
        dropout: dropout of the sum.
        factors: a table for each factor of the tokens; vectors of both are scaled alike.
        projection: map from the width of the embeddings to that of the model, after norm and dropout (Lan et al. 2020,
            3.1); none if not given.
    """

    def __init__(
        self,
        table: nn.Embedding,
        *,
        position: AbsolutePosition | None = None,
        segments: nn.Embedding | None = None,
        norm: nn.Module | None = None,
        scaled: bool = True,
        dropout: float = 0.0,
        factors: Iterable[nn.Embedding] = (),
        projection: nn.Linear | None = None,
    ) -> None:
        super().__init__(position=position, norm=norm, dropout=dropout)
        self.table = table
        self.segments = segments
        self.factors = nn.ModuleList(factors)
        self.projection = projection
        self.scale = math.sqrt(table.embedding_dim) if scaled else 1.0

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"scale={self.scale:g}"

    def combine(self, terms: EmbeddingSum) -> Float[Tensor, "B T d_model"]:
        """Add the terms, then apply norm, dropout and projection."""
        x = super().combine(terms)
        return x if self.projection is None else self.projection(x)

    def embed_parts(self, tokens: Tokens) -> EmbeddingSum:
        """Return the token, position, segment and factor vectors."""
        token_vectors: Tensor = self.table(tokens.ids)
        if self.scale != 1.0:
            token_vectors = token_vectors * self.scale
        position_vectors = self.embed_positions(tokens.positions, reference=token_vectors)
        return EmbeddingSum(token_vectors, position_vectors, self._embed_segments(tokens), self._embed_factors(tokens))

    def _embed_segments(self, tokens: Tokens) -> Float[Tensor, "B T d_model"] | None:
        """Return the vector of the segment of each token, the first segment if none is given; None without a table."""
        if self.segments is None:
            return None
        if tokens.segments is None:
            return self.segments.weight[0].expand(*tokens.ids.shape, -1)
        vectors: Tensor = self.segments(tokens.segments)
        return vectors

    def _embed_factors(self, tokens: Tokens) -> Float[Tensor, "B T d_model"] | None:
        """Return the scaled sum of the vectors of all factors of each token; None if there are no factors."""
        factor_ids = () if tokens.factors is None else tokens.factors.unbind(2)
        assert len(factor_ids) == len(self.factors), (
            f"tokens with {len(factor_ids)} factors, but tables of {len(self.factors)}"
        )
        vectors = [table(ids) for table, ids in zip(self.factors, factor_ids, strict=True)]
        return torch.stack(vectors).sum(0) * self.scale if vectors else None


def build_embedding(size: int, d_model: int, *, deviation: float | None = None) -> nn.Embedding:
    """Create an embedding table of `size` entries from N(0, 1 / sqrt(d_model)), or with the given deviation; suitable
    for tying with an output.
    """
    table = nn.Embedding(size, d_model)
    nn.init.normal_(table.weight, std=deviation or d_model**-0.5)
    return table


def build_output_layer(
    table: nn.Embedding, d_input: int | None = None, *, tied: bool, bias: bool = True, deviation: float | None = None
) -> nn.Linear:
    """Create the linear map from hidden vectors, `d_input` wide, to logits over the entries of a table, whose weight it
    shares if `tied`.

    Args:
        table: the embedding whose weight is shared if `tied`.
        d_input: width of the hidden vectors; that of the table if not given.
        tied: whether to share the weight of the table.
        bias: whether to add a bias, initialised with zeros.
        deviation: standard deviation of an untied weight; the root of 1 / d_input if not given.
    """
    d_input = d_input or table.embedding_dim
    output = nn.Linear(d_input, table.num_embeddings, bias=bias)
    if tied:
        output.weight = table.weight
    else:
        nn.init.normal_(output.weight, std=deviation or d_input**-0.5)
    if bias:
        nn.init.zeros_(output.bias)
    return output
