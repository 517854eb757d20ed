"""Position encodings: absolute ones are added to embeddings, relative ones act inside attention."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention import kernels


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

    Args:
        d_model: width of the vectors.
        first: the number t of the token at position 0.
        longest_included: whether the last pair has the longest wavelength, 10000 * 2 pi, as in tensor2tensor and its
            descendants: the exponent is then 2i / (d - 2) instead of 2i / d.
    """

    def __init__(self, d_model: int, *, first: int = 0, longest_included: bool = False) -> None:
        super().__init__()
        assert d_model % 2 == 0, f"sinusoids come in pairs; d_model={d_model} is odd"
        self.first = first
        rate = _compute_rates(d_model, steps=d_model - 2 if longest_included else d_model)
        self.register_buffer("rate", rate, persistent=False)
        self.rate: Tensor

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"d_model={2 * len(self.rate)}, first={self.first}"

    def forward(self, positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T d_model"]:
        """Return the sines and cosines of each position."""
        angle = (positions + self.first).unsqueeze(-1) * self.rate
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
    A pre-norm removes what all entries share, so behind it this class and `IntegerPosition` carry no information. Both
    are here for comparison.

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

    changes_scores = False
    """Whether scores or values are changed, so that no fused kernel can compute them. Rotated queries and keys do not
    count."""

    def rotate(self, heads: Float[Tensor, "B H T d_k"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B H T d_k"]:
        """Rotate queries or keys by their positions."""
        return heads

    def compute_score_bias(
        self,
        query: Float[Tensor, "B H Q d_k"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "B H Q K"] | None:
        """Return the term added to the scaled scores of queries at `positions` and keys at `key_positions`; None if
        there is none.
        """
        return None

    def compute_value_bias(
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


class RotaryScaling(ABC):
    """Change of the frequencies of rotary positions, for texts longer than those that a model was trained on."""

    amplitude: float = 1.0
    """Factor of the rotated queries and keys."""

    @abstractmethod
    def scale_rates(self, rate: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        """Return the angular frequency of each pair of entries from the unscaled one."""


@dataclass(frozen=True)
class LinearScaling(RotaryScaling):
    """Linear scaling: all positions are divided by a factor (Chen et al. 2023, equation 4)."""

    factor: float

    def scale_rates(self, rate: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        """Divide all frequencies by the factor."""
        return rate / self.factor


@dataclass(frozen=True)
class BandScaling(RotaryScaling):
    """Scaling of long wavelengths only, smooth between two bands, as in Llama 3.1.

    Attributes:
        factor: divisor of the frequencies with long wavelengths.
        low: number of waves in `length` up to which a frequency is divided by the whole factor.
        high: number of waves in `length` from which on it is not divided.
        length: number of positions in the original training.
    """

    factor: float
    low: float
    high: float
    length: int

    def scale_rates(self, rate: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        """Divide each frequency according to the number of its waves in the original length."""
        waves = self.length * rate / (2 * math.pi)
        kept = ((waves - self.low) / (self.high - self.low)).clamp(0, 1)
        return rate * (kept + (1 - kept) / self.factor)


@dataclass(frozen=True)
class YarnScaling(RotaryScaling):
    """YaRN: pairs that turn often in the original length are kept, others are divided, with a ramp between them (Peng
    et al. 2024, section 3.2).

    Attributes:
        factor: divisor of the slow frequencies.
        fast: number of turns in `length` of the last kept pair.
        slow: number of turns in `length` of the first pair that is divided by the whole factor.
        length: number of positions in the original training.
        base: base of the wavelengths, which determines the pairs at the ends of the ramp.
        amplitude: factor of queries and keys; its square is the paper's 1 / t (equation 15).
        rounded: whether the ends of the ramp are rounded to whole pairs.
    """

    factor: float
    fast: float
    slow: float
    length: int
    base: float
    amplitude: float
    rounded: bool = True

    def scale_rates(self, rate: Float[Tensor, " half"]) -> Float[Tensor, " half"]:
        """Divide each frequency according to its place on the ramp."""
        first, last = self._find_pair(self.fast, len(rate)), self._find_pair(self.slow, len(rate))
        if self.rounded:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * len(rate) - 1)
        pairs = torch.arange(len(rate), dtype=rate.dtype)
        divided = ((pairs - first) / max(last - first, 0.001)).clamp(0, 1)
        return rate * (1 - divided + divided / self.factor)

    def _find_pair(self, turns: float, pairs: int) -> float:
        """Return the index of the pair that makes this number of turns in the original length."""
        return pairs * math.log(self.length / (turns * 2 * math.pi)) / math.log(self.base)


class RotaryPosition(RelativePosition):
    """Rotary positions: each pair of entries is rotated by an angle proportional to the position (Su et al. 2021, eq.
    34).

    Scores then depend on the distance alone: (R_t q) . (R_s k) = q . (R_(s-t) k).

    Args:
        d_k: width of a query and of a key.
        width: number of entries that are rotated, the first ones; all if not given.
        base: base of the wavelengths; 10000 in the paper.
        scaling: change of the frequencies for long texts; none if not given.
    """

    def __init__(
        self, d_k: int, *, width: int | None = None, base: float = 10000.0, scaling: RotaryScaling | None = None
    ) -> None:
        super().__init__()
        self.width = d_k if width is None else width
        assert self.width % 2 == 0, f"rotations turn pairs; a width of {self.width} is odd"
        assert self.width <= d_k, f"{self.width} entries cannot be rotated in vectors of {d_k}"
        self.d_k = d_k
        self.amplitude = 1.0 if scaling is None else scaling.amplitude
        rate = _compute_rates(self.width, base=base)
        self.register_buffer("rate", rate if scaling is None else scaling.scale_rates(rate), persistent=False)
        self.rate: Tensor

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"d_k={self.d_k}, width={self.width}"

    def rotate(self, heads: Float[Tensor, "B H T d_k"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B H T d_k"]:
        """Rotate the queries or keys of all heads by their positions."""
        if self.width < self.d_k:
            turned, kept = torch.split(heads, [self.width, self.d_k - self.width], -1)
            return torch.cat((self._rotate_all(turned, positions), kept), -1)
        return self._rotate_all(heads, positions)

    def _rotate_all(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Rotate all entries of these vectors. On a CPU, multiply complex numbers, which reads the memory once. On
        other devices and in exports, use the paper's formula with sines and cosines.
        """
        angle = positions[:, None, :, None] * self.rate
        sin, cos = angle.sin(), angle.cos()
        if self.amplitude != 1.0:
            sin, cos = sin * self.amplitude, cos * self.amplitude
        if heads.device.type != "cpu" or kernels.is_tracing():  # where complex numbers may not be supported
            sin, cos = sin.to(heads.dtype), cos.to(heads.dtype)
            even, odd = heads[..., 0::2], heads[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
        pairs = heads.to(torch.promote_types(heads.dtype, torch.float32)).contiguous()
        pairs = pairs.view(*heads.shape[:-1], self.width // 2, 2)
        factors = torch.complex(cos.to(pairs.dtype), sin.to(pairs.dtype))
        return torch.view_as_real(torch.view_as_complex(pairs) * factors).flatten(-2).to(heads.dtype)


class LinearBias(RelativePosition):
    """ALiBi: a penalty -m_h |t - s| on the score of the key at s for the query at t, without any parameter (Press et
    al. 2022).

    The slopes m_h are a geometric sequence from 2^(-8/H) to 2^-8 for H heads, if H is a power of 2; otherwise the
    slopes of the largest power of 2 below H come first, and every second slope of twice that number follows, as in the
    authors' code.

    Args:
        heads: number of heads.
    """

    changes_scores = True

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(_compute_slopes(heads)), persistent=False)
        self.slopes: Tensor

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"heads={len(self.slopes)}"

    def compute_score_bias(
        self,
        query: Float[Tensor, "B H Q d_k"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "#B H Q K"]:
        """Return the penalties of keys at `key_positions` for queries at `positions`; the content is not read."""
        if _rows_share_memory(positions) and _rows_share_memory(key_positions):
            positions, key_positions = positions[:1], key_positions[:1]
        distance = (key_positions[:, None, None, :] - positions[:, None, :, None]).abs()
        return -self.slopes[:, None, None].to(query.dtype) * distance


class BucketBias(RelativePosition):
    """T5's relative positions: a learned number for each head and each bucket of distances is added to the score
    (Raffel et al. 2020, section 2.1).

    Half of the buckets hold one distance each; the others grow logarithmically up to `max_distance`, beyond which all
    distances share the last bucket. In the paper, all layers of a stack share one table.

    Args:
        heads: number of heads.
        buckets: number of buckets.
        max_distance: distance from which on all keys are in the last bucket.
        causal: whether only earlier keys are distinguished; otherwise half of the buckets are for later keys.
    """

    changes_scores = True

    def __init__(self, heads: int, *, buckets: int = 32, max_distance: int = 128, causal: bool = False) -> None:
        super().__init__()
        self.max_distance, self.causal = max_distance, causal
        self.table = nn.Embedding(buckets, heads)
        nn.init.normal_(self.table.weight, std=heads**-0.5)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"max_distance={self.max_distance}, causal={self.causal}"

    def compute_score_bias(
        self,
        query: Float[Tensor, "B H Q d_k"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "#B H Q K"]:
        """Return the learned numbers of the distances between `positions` and `key_positions`; the content is not
        read.
        """
        if _rows_share_memory(positions) and _rows_share_memory(key_positions):
            positions, key_positions = positions[:1], key_positions[:1]
        bias: Tensor = self.table(self.find_buckets(key_positions[:, None, :] - positions[:, :, None]))
        return bias.permute(0, 3, 1, 2)

    def find_buckets(self, distances: Int[Tensor, "*S"]) -> Int[Tensor, "*S"]:
        """Return the bucket of each distance, key position minus query position."""
        count, first = self.table.num_embeddings, torch.zeros_like(distances)
        if self.causal:
            distances = -distances.clamp(max=0)
        else:
            count //= 2
            first = torch.where(distances > 0, count, first)
            distances = distances.abs()
        exact = count // 2
        growth = torch.log(distances.clamp(min=exact).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return first + torch.where(distances < exact, distances, far)


class RelativeEmbedding(RelativePosition):
    """Learned vectors per distance of key and query, added to keys and values; all heads of a layer share them.

    Scores need one product with the vectors and a lookup by distance, never a tensor of B Q K d_k.

    Args:
        count: number of vectors.
        d_k: width of a key.
        d_v: width of a value; None adds nothing to values.
    """

    changes_scores = True

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

    def compute_score_bias(
        self,
        query: Float[Tensor, "B H Q d_k"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "B H Q K"]:
        """Return q . w_key[distance] for queries at `positions` and keys at `key_positions`, scaled like q . k."""
        indices = self._vector_index(positions, key_positions).unsqueeze(1).expand(-1, query.size(1), -1, -1)
        return self._scale_products(query @ self.key.T).gather(-1, indices)

    def compute_value_bias(
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

    changes_scores = True

    def __init__(self, heads: int, columns: int, *, alpha: float = 1.0) -> None:
        super().__init__()
        self.columns = columns
        self.centre = nn.Parameter(torch.empty(heads, 2))
        self.alpha = nn.Parameter(torch.full((heads,), alpha))
        nn.init.normal_(self.centre, std=math.sqrt(2))

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"heads={self.centre.size(0)}, columns={self.columns}"

    def compute_score_bias(
        self,
        query: Float[Tensor, "B H Q d_k"],
        positions: Int[Tensor, "B Q"],
        key_positions: Int[Tensor, "B K"],
    ) -> Float[Tensor, "#B H Q K"]:
        """Return the bias from row and column offsets between pixels; the content of queries is not read. It is
        computed once if all rows of the positions share memory.
        """
        if _rows_share_memory(positions) and _rows_share_memory(key_positions):
            positions, key_positions = positions[:1], key_positions[:1]
        delta = self._to_pixel(key_positions).unsqueeze(1) - self._to_pixel(positions).unsqueeze(2)
        delta = delta.to(self.centre.dtype)
        products = (delta @ self.centre.T).permute(0, 3, 1, 2)
        return -self.alpha[:, None, None] * (delta.square().sum(-1).unsqueeze(1) - 2 * products)

    def _to_pixel(self, positions: Int[Tensor, "B T"]) -> Int[Tensor, "B T 2"]:
        """Convert positions to row and column numbers."""
        return torch.stack((positions // self.columns, positions % self.columns), -1)


def _rows_share_memory(positions: Int[Tensor, "B T"]) -> bool:
    """Return whether all rows share one row in memory."""
    return positions.stride(0) == 0


def _compute_rates(width: int, *, base: float = 10000.0, steps: int | None = None) -> Float[Tensor, " half"]:
    """Return the angular frequency base^(-2i / steps) of each pair i of entries; `steps` is the width if not given."""
    return torch.exp(torch.arange(0, width, 2) * (-math.log(base) / (steps or width)))


def _compute_slopes(heads: int) -> list[float]:
    """Return the slopes of the linear penalties of all heads."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
    finer = [2.0 ** (-4 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return slopes + finer[: heads - power]
