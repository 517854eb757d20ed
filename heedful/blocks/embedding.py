"""From tokens to vectors, and from vectors to what the first layer reads."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.dropout import Dropout
from heedful.attention.positions import AbsolutePosition
from heedful.tensors import FeatureBatch, Tokens


@dataclass(frozen=True)
class EmbeddingSum:
    """What is added up before the first layer: of each token, of its position, of the part of the text it is in, and of
    its factors together.
    """

    tokens: Float[Tensor, "B T d_model"]
    positions: Float[Tensor, "B T d_model"] | None
    segments: Float[Tensor, "B T d_model"] | None
    factors: Float[Tensor, "B T d_model"] | None = None

    def compute_sum(self) -> Float[Tensor, "B T d_model"]:
        """The sum of those that there are."""
        total = self.tokens
        for term in (self.positions, self.segments, self.factors):
            if term is not None:
                total = total + term
        return total


class InputEmbedding(nn.Module, ABC):
    """What enters the first layer: the sum of what is known of each token, perhaps normalised, with dropout.

    Abstract: what is added up belongs to what is read.

    Args:
        position: added to the vectors; nothing unless given.
        norm: of the sum.
        dropout: on the sum.
    """

    def __init__(
        self, *, position: AbsolutePosition | None = None, norm: nn.Module | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.position = position
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Any) -> Float[Tensor, "B T d_model"]:
        """A vector for each token."""
        return self.combine(self.embed_parts(tokens))

    def combine(self, terms: EmbeddingSum) -> Float[Tensor, "B T d_model"]:
        """What is made of the summands: their sum, normed and dropped."""
        x = terms.compute_sum()
        if self.norm is not None:
            x = self.norm(x)
        result: Tensor = self.dropout(x)
        return result

    @abstractmethod
    def embed_parts(self, tokens: Any) -> EmbeddingSum:
        """What is added up, before norm and dropout."""

    def embed_positions(
        self, positions: Int[Tensor, "B T"], *, reference: Tensor
    ) -> Float[Tensor, "*B T d_model"] | None:
        """What positions add, in the number format of the vectors."""
        return None if self.position is None else self.position(positions).to(reference.dtype)


class VectorEmbedding(InputEmbedding):
    """x_t = scale v_t + p_t, with dropout: vectors that were made as wide as the model before.

    Args:
        position: added to the vectors; nothing unless given.
        scale: of the vectors.
        dropout: on the sum.
    """

    def __init__(self, *, position: AbsolutePosition | None = None, scale: float = 1.0, dropout: float = 0.0) -> None:
        super().__init__(position=position, dropout=dropout)
        self.scale = scale

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"scale={self.scale:g}"

    def embed_parts(self, tokens: FeatureBatch) -> EmbeddingSum:
        """What is added up, before norm and dropout."""
        vectors = tokens.vectors * self.scale
        return EmbeddingSum(vectors, self.embed_positions(tokens.positions, reference=vectors), None)


class TokenEmbedding(InputEmbedding):
    """x_t = E[w_t] sqrt(d_model) + p_t, with dropout (Vaswani et al. 2017, 3.4 and 5.4).

    BERT's is LN(E[w_t] + p_t + S[s_t]) with dropout (Devlin et al. 2019, figure 2). Where tokens have factors, as in
    Sennrich and Haddow 2016, E[w_t] becomes E[w_t] + F_1[f_t1] + F_2[f_t2] + ... (they concatenate).

    Args:
        table: a vector for each token; sharing it with another embedding or the output ties them.
        position: added to the vectors; nothing unless given.
        segments: a vector for each part of a text, added as well; tokens that do not say are in part 0.
        norm: of the sum.
        scaled: multiply the vectors by the root of their width, so that tied tables, which are initialised small for
            the sake of the output, do not drown in the positions.
        dropout: on the sum.
        factors: a table for each factor that tokens have; vectors of both are scaled alike.
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
    ) -> None:
        super().__init__(position=position, norm=norm, dropout=dropout)
        self.table = table
        self.segments = segments
        self.factors = nn.ModuleList(factors)
        self.scale = math.sqrt(table.embedding_dim) if scaled else 1.0

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"scale={self.scale:g}"

    def embed_parts(self, tokens: Tokens) -> EmbeddingSum:
        """What is added up, before norm and dropout."""
        token_vectors: Tensor = self.table(tokens.ids)
        if self.scale != 1.0:
            token_vectors = token_vectors * self.scale
        position_vectors = self.embed_positions(tokens.positions, reference=token_vectors)
        return EmbeddingSum(token_vectors, position_vectors, self._embed_segments(tokens), self._embed_factors(tokens))

    def _embed_segments(self, tokens: Tokens) -> Float[Tensor, "B T d_model"] | None:
        if self.segments is None:
            return None
        if tokens.segments is None:
            return self.segments.weight[0].expand(*tokens.ids.shape, -1)
        vectors: Tensor = self.segments(tokens.segments)
        return vectors

    def _embed_factors(self, tokens: Tokens) -> Float[Tensor, "B T d_model"] | None:
        factor_ids = () if tokens.factors is None else tokens.factors.unbind(2)
        assert len(factor_ids) == len(self.factors), (
            f"tokens with {len(factor_ids)} factors, but tables of {len(self.factors)}"
        )
        vectors = [table(ids) for table, ids in zip(self.factors, factor_ids, strict=True)]
        return torch.stack(vectors).sum(0) * self.scale if vectors else None


def build_embedding(size: int, d_model: int, *, deviation: float | None = None) -> nn.Embedding:
    """A table of normal vectors of expected length 1, unless told otherwise: fit to be tied with an output."""
    table = nn.Embedding(size, d_model)
    nn.init.normal_(table.weight, std=deviation or d_model**-0.5)
    return table


def build_output_layer(
    table: nn.Embedding, d_input: int | None = None, *, tied: bool, bias: bool = True, deviation: float | None = None
) -> nn.Linear:
    """From hidden vectors to logits over the entries of a table.

    Args:
        table: its weight, if they are tied.
        d_input: width of the hidden vectors; that of the table unless given.
        tied: whether they are.
        bias: whether there is one; it begins with zeros.
        deviation: of the weight, if they are not; the root of 1 / d_input unless given.
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
