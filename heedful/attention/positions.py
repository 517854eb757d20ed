"""Position encodings: absolute ones are added to embeddings, relative ones act inside attention."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class AbsolutePosition(nn.Module, ABC):
    """Absolute position encoding: a vector per position, added to the embedding of the token."""

    @abstractmethod
    def forward(self, positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T d_model"]:
        """Return the vectors of the positions; those at -1 are never used."""


class SinusoidalPosition(AbsolutePosition):
    """Sinusoidal positions p[2i] = sin(t / 10000^(2i/d)), p[2i+1] = cos(t / 10000^(2i/d)), of any length (Vaswani et
    al. 2017, 3.5).

    Sine and cosine of a pair stand side by side, as in the paper's formula (many programs put all sines first, which is
    a permutation of the same numbers).
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        assert d_model % 2 == 0, f"sinusoids come in pairs; d_model={d_model} is odd"
        self.register_buffer("rate", _compute_rates(d_model), persistent=False)
        self.rate: Tensor

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"d_model={2 * len(self.rate)}"

    def forward(self, positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T d_model"]:
        """Return the sines and cosines of each position."""
        angle = positions.unsqueeze(-1) * self.rate
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)


class LearnedPosition(AbsolutePosition):
    """Learned position embeddings for the first `length` positions (Gehring et al. 2017; Devlin et al. 2019).

    Args:
        length: number of positions.
        d_model: width of the vectors.
        offset: unused rows at the start of the table; BART has 2.
    """

    def __init__(self, length: int, d_model: int, *, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.table = nn.Embedding(offset + length, d_model)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"length={self.table.num_embeddings - self.offset}, offset={self.offset}"

    def forward(self, positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T d_model"]:
        """Look the positions up; the caller must not pass positions beyond the table."""
        vectors: Tensor = self.table(positions.clamp(min=0) + self.offset)
        return vectors


class UnitIntervalPosition(AbsolutePosition):
    """Positions as the number t / (length - 1) in [0, 1], the same in every dimension; the lecture's first rejected
    idea.

    The lecture's length is that of the sentence: its first token has 0 and its last one 1, so the size of a step
    differs between sentences. A decoder does not know the length of its sentence in advance, and a token's number must
    not depend on what follows; so it uses the longest sentence that a model reads, whose step is constant but small.
    Behind a pre-norm, which removes what all entries share, neither carries information; both are here for comparison.

    Args:
        d_model: width of the vectors.
        length: number of tokens that maps to 1; None takes each sentence's own length, which requires whole sentences.
    """

    def __init__(self, d_model: int, length: int | None = None) -> None:
        super().__init__()
        self.d_model, self.length = d_model, length

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"d_model={self.d_model}, length={self.length}"

    def forward(self, positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T d_model"]:
        """Return each position divided by the last one; 0 for a sentence of one token."""
        values = positions.unsqueeze(-1).to(torch.get_default_dtype())
        last = values.amax(1, keepdim=True).clamp(min=1) if self.length is None else self.length - 1
        return (values / last).expand(-1, -1, self.d_model)


class IntegerPosition(AbsolutePosition):
    """Positions as the integers 1, 2, 3 ... in every dimension, without bound; the lecture's second rejected idea.

    As with `UnitIntervalPosition`, a pre-norm hides it.

    Args:
        d_model: width of the vectors.
        first: the number of the token at position 0.
    """

    def __init__(self, d_model: int, *, first: int = 1) -> None:
        super().__init__()
        self.d_model, self.first = d_model, first

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"d_model={self.d_model}, first={self.first}"

    def forward(self, positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T d_model"]:
        """Return each position as a number in every dimension."""
        return (positions + self.first).unsqueeze(-1).to(torch.get_default_dtype()).expand(-1, -1, self.d_model)


class RelativePosition(nn.Module):
    """Relative position encoding inside attention; this base class does nothing."""

    touches_scores = False
    """Whether scores or values are changed, which no fused kernel supports; rotating queries and keys does not
    matter."""

    def rotate(self, heads: Float[Tensor, "B H T d_k"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B H T d_k"]:
        """Rotate queries or keys by their positions."""
        return heads

    def score_bias(
        self,
        query: Float[Tensor, "B H Q d_k"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "B H Q K"] | None:
        """Return the term added to the scaled scores of queries at `positions` and keys at `key_positions`; None if
        there is none.
        """
        return None

    def value_bias(
        self,
        weights: Float[Tensor, "B H Q K"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "B H Q d_v"] | None:
        """Return the term added to the contexts of queries at `positions`, from the weights of keys at `key_positions`;
        None if there is none.
        """
        return None


class NoPosition(RelativePosition):
    """Attention without position encoding."""


class RotaryPosition(RelativePosition):
    """Rotary positions: each pair of entries is rotated by an angle proportional to the position (Su et al. 2021, eq.
    34).

    Scores then depend on the distance alone: (R_t q) . (R_s k) = q . (R_(s-t) k).
    """

    def __init__(self, d_k: int) -> None:
        super().__init__()
        assert d_k % 2 == 0, f"rotations turn pairs; d_k={d_k} is odd"
        self.register_buffer("rate", _compute_rates(d_k), persistent=False)
        self.rate: Tensor

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"d_k={2 * len(self.rate)}"

    def rotate(self, heads: Float[Tensor, "B H T d_k"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B H T d_k"]:
        """Rotate the queries or keys of all heads by their positions."""
        angle = positions[:, None, :, None] * self.rate
        sin, cos = angle.sin().to(heads.dtype), angle.cos().to(heads.dtype)
        even, odd = heads[..., 0::2], heads[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class RelativeEmbedding(RelativePosition):
    """Learned vectors per distance of key and query, added to keys and values; all heads of a layer share them.

    Scores need one product with the vectors and a lookup by distance, never a tensor of B Q K d_k.

    Args:
        count: number of vectors.
        d_k: width of a key.
        d_v: width of a value; None adds nothing to values.
    """

    touches_scores = True

    def __init__(self, count: int, d_k: int, d_v: int | None) -> None:
        super().__init__()
        self.key = nn.Parameter(torch.empty(count, d_k))
        self.value = nn.Parameter(torch.empty(count, d_v)) if d_v is not None else None
        nn.init.xavier_uniform_(self.key)
        if self.value is not None:
            nn.init.xavier_uniform_(self.value)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"count={self.key.size(0)}, d_k={self.key.size(1)}, values={self.value is not None}"

    def score_bias(
        self,
        query: Float[Tensor, "B H Q d_k"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "B H Q K"]:
        """Return q . w_key[distance] for queries at `positions` and keys at `key_positions`, scaled like q . k."""
        indices = self._vector_index(positions, key_positions).unsqueeze(1).expand(-1, query.size(1), -1, -1)
        return self._scale_products(query @ self.key.T).gather(-1, indices)

    def value_bias(
        self,
        weights: Float[Tensor, "B H Q K"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "B H Q d_v"] | None:
        """Return the sum over keys of weight times w_value[distance] for queries at `positions`; None if values have no
        vectors.
        """
        if self.value is None:
            return None
        indices = self._vector_index(positions, key_positions).unsqueeze(1).expand(-1, weights.size(1), -1, -1)
        by_distance = weights.new_zeros(*weights.shape[:-1], self.value.size(0)).scatter_add(-1, indices, weights)
        return by_distance @ self.value

    @abstractmethod
    def _vector_index(self, positions: Int[Tensor, "B Q"], key_positions: Int[Tensor, "B K"]) -> Int[Tensor, "B Q K"]:
        """Return the index of the vector for each query and key; arbitrary where there is no token."""

    @abstractmethod
    def _scale_products(self, products: Float[Tensor, "B H Q count"]) -> Float[Tensor, "B H Q count"]:
        """Scale the products as the scores are scaled."""


class ShawPosition(RelativeEmbedding):
    """Learned vectors for the clipped distance of key and query (Shaw et al. 2018, eq. 3-5).

    Args:
        d_k: width of a key.
        d_v: width of a value; None adds nothing to values (the paper's keys-only ablation).
        clip: larger distances are clipped to this one.
    """

    def __init__(self, d_k: int, d_v: int | None, *, clip: int) -> None:
        super().__init__(2 * clip + 1, d_k, d_v)
        self.clip = clip

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"clip={self.clip}, {super().extra_repr()}"

    def _vector_index(self, positions: Int[Tensor, "B Q"], key_positions: Int[Tensor, "B K"]) -> Int[Tensor, "B Q K"]:
        return (key_positions[:, None, :] - positions[:, :, None]).clamp(-self.clip, self.clip) + self.clip

    def _scale_products(self, products: Float[Tensor, "B H Q count"]) -> Float[Tensor, "B H Q count"]:
        return products / math.sqrt(self.key.size(1))


class TemporalEncoding(RelativeEmbedding):
    """Learned vectors for the number of tokens since a key was read (Sukhbaatar et al. 2015, 4.1).

    Args:
        width: width of keys and values, whose inner products are not scaled.
        count: number of distinct ages; older tokens share the last vector.
    """

    def __init__(self, width: int, count: int) -> None:
        super().__init__(count, width, width)

    def _vector_index(self, positions: Int[Tensor, "B Q"], key_positions: Int[Tensor, "B K"]) -> Int[Tensor, "B Q K"]:
        return (positions[:, :, None] - key_positions[:, None, :]).clamp(0, self.key.size(0) - 1)

    def _scale_products(self, products: Float[Tensor, "B H Q count"]) -> Float[Tensor, "B H Q count"]:
        return products


class QuadraticPosition(RelativePosition):
    """Score bias -alpha (|delta|^2 - 2 <delta, centre>) for pixels at offset delta, per head (Cordonnier et al. 2020).

    Up to a constant this is -alpha |delta - centre|^2, so the weights are a bell around `centre` pixels from the query,
    narrower for larger alpha (section 3.2, eq. 9 and 10). With alpha towards infinity, K^2 heads at the offsets of a
    kernel and no query at all, multi-head attention is a K x K convolution (theorem 1).

    Pixels are counted row by row. Both parameters are trained: `centre`, the row and column offset of each head,
    initialised from N(0, 2), and `alpha`.

    Args:
        heads: number of heads.
        columns: pixels in a row of the image.
        alpha: initial value for all heads.
    """

    touches_scores = True

    def __init__(self, heads: int, columns: int, *, alpha: float = 1.0) -> None:
        super().__init__()
        self.columns = columns
        self.centre = nn.Parameter(torch.empty(heads, 2))
        self.alpha = nn.Parameter(torch.full((heads,), alpha))
        nn.init.normal_(self.centre, std=math.sqrt(2))

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"heads={self.centre.size(0)}, columns={self.columns}"

    def score_bias(
        self,
        query: Float[Tensor, "B H Q d_k"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "#B H Q K"]:
        """Return the bias from row and column offsets between pixels; the content of queries is not read. It is
        computed once if all images have the same positions.
        """
        if _rows_are_identical(positions) and _rows_are_identical(key_positions):
            positions, key_positions = positions[:1], key_positions[:1]
        delta = self._to_pixel(key_positions).unsqueeze(1) - self._to_pixel(positions).unsqueeze(2)
        delta = delta.to(self.centre.dtype)
        products = (delta @ self.centre.T).permute(0, 3, 1, 2)
        return -self.alpha[:, None, None] * (delta.square().sum(-1).unsqueeze(1) - 2 * products)

    def _to_pixel(self, positions: Int[Tensor, "B T"]) -> Int[Tensor, "B T 2"]:
        """Convert positions to row and column numbers."""
        return torch.stack((positions // self.columns, positions % self.columns), -1)


def _rows_are_identical(positions: Int[Tensor, "B T"]) -> bool:
    """Return whether all rows share one row in memory."""
    return positions.stride(0) == 0


def _compute_rates(width: int) -> Float[Tensor, " half"]:
    """Return the angular frequency of each pair of entries."""
    return torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
