"""An encoder of pairs: one reader for both texts, whose words are aligned and whose summaries are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.attention import Attention
from heedful.attention.dropout import Dropout
from heedful.attention.explained import declare
from heedful.attention.probe import HYPOTHESIS, PREMISE, Look
from heedful.attention.scores import Dot
from heedful.blocks.convolution import Lineup
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.linear import xavier_linear
from heedful.models.interface import Encoder
from heedful.values import Memory, Tokens

LONGEST_NGRAM: Final = 4
"""Tokens of the longest n-gram that both texts may have in common."""
SHARPNESS: Final = 10.0
"""What cosines of tokens are multiplied by before a softmax is taken of them."""
BEGINNING: Final = 0.1
"""What the vectors of differences are multiplied by, so that few pairs are judged by what is known without them."""
_FACTOR, _PRIME = 1_000_003, 2_147_483_647
_LEAST: Final = 1e-6


@dataclass(frozen=True)
class Side:
    """One text of each pair, from its first column on.

    Attributes:
        ids: of its tokens.
        values: their embeddings, zeros where there is no token.
        positions: in the pair; -1 where there is no token.
        rarity: how much each token counts, 0 where there is none.
    """

    ids: Int[Tensor, "B T"]
    values: Float[Tensor, "B T d"]
    positions: Int[Tensor, "B T"]
    rarity: Float[Tensor, "B T"]

    @property
    def real(self) -> Float[Tensor, "B T"]:
        """1 where there is a token that counts."""
        return (self.rarity > 0).to(self.rarity.dtype)

    @property
    def shares(self) -> Float[Tensor, "B T"]:
        """The rarity as weights that sum to 1, or to 0 where no token counts."""
        return _shares(self.rarity)

    def ngrams(self) -> Iterator[tuple[Int[Tensor, "B N"], Float[Tensor, "B N"], Float[Tensor, "B N"]]]:
        """Of each length up to `LONGEST_NGRAM`: numbers that tell n-grams apart, their mean rarity, and 1 where
        there is one.
        """
        number, total, real = self.ids, self.rarity, self.real
        for length in range(1, LONGEST_NGRAM + 1):
            if length > 1:
                behind = slice(length - 1, None)
                number = (number[:, :-1] * _FACTOR + self.ids[:, behind]) % _PRIME
                real = real[:, :-1] * self.real[:, behind]
                total = total[:, :-1] + self.rarity[:, behind]
            if not number.size(1):
                empty = total.new_zeros(len(total), 1)
                yield empty.long(), empty, empty
                return
            yield number, total / length * real, real


class Compared(NamedTuple):
    """What a pair is judged by.

    Attributes:
        evidence: numbers that say how much the texts have in common, of any scale.
        difference: vectors that say in what they differ.
    """

    evidence: Float[Tensor, "B n"]
    difference: Float[Tensor, "B m"]


@final
class PairEncoder(Encoder[Tokens]):
    """Two texts read by one encoder, aligned and compared.

    The summary is relu(W [s; v / 10]). s are numbers that need no training, standardised: of the n-grams of one to four
    tokens the share of each text that the other one has (less, more, and the difference), plain and weighted by
    rarity, and the cosine of both texts' TF-IDF; the difference, the sum and the ratio of their lengths. v are learned:
    u, v, |u - v|, u * v and the cosine of the mean embeddings u and v, weighted by rarity (Conneau et al. 2017, 3.2);
    sum and difference over both texts of the mean |a - b'|, where b' is what a token a takes from the other text by
    attention (Parikh et al. 2016, eq. 2; there a feed-forward network takes the place of the distance); and the mean
    cosines of a and b'.

    A token weighs its rarity, ln((1 + N) / (1 + N_t)) + 1 where N_t of N texts have it (TF-IDF). `fit` counts
    it, and how s is spread; before that all tokens weigh the same.

    Premise and hypothesis are segments 0 and 1 of the tokens.

    Args:
        embedding: of the tokens, without positions: what is compared are words, wherever they stand.
        vocabulary: how many tokens there are.
        features: width of the summary.
        dropout: on v, and on nothing else: s has few entries, each of which counts.
    """

    def __init__(self, embedding: TokenEmbedding, *, vocabulary: int, features: int, dropout: float = 0.0) -> None:
        super().__init__()
        d_model = embedding.table.embedding_dim
        count = 7 * LONGEST_NGRAM + 3
        self.embedding = embedding
        self.first_looks = Attention(Dot())
        declare(self.first_looks, Look("summary", PREMISE, HYPOTHESIS))
        self.second_looks = Attention(Dot())
        declare(self.second_looks, Look("summary", HYPOTHESIS, PREMISE))
        self.rarity = nn.Parameter(torch.ones(vocabulary), requires_grad=False)
        self.mean = nn.Parameter(torch.zeros(count), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(count), requires_grad=False)
        self.hidden = xavier_linear(count + 6 * d_model + 4, features)
        self.dropout = Dropout(dropout)

    def forward(self, source: Tokens) -> Memory:
        """A slot for each token of the first text, then one for each of the second; the summary compares them."""
        first, second = self._sides(source)
        evidence, difference = self._compared(first, second)
        standard = (evidence - self.mean) / self.deviation
        summary = torch.relu(self.hidden(torch.cat((standard, self.dropout(difference)), -1)))
        values = torch.cat((first.values, second.values), 1)
        return Memory(values, values, torch.cat((first.positions, second.positions), 1), summary)

    @torch.no_grad()
    def fit(self, batches: Sequence[Tokens], *, silent: Sequence[int]) -> None:
        """Counts how rare tokens are and how the numbers that are compared are spread, in pairs to learn from.

        Args:
            batches: the pairs, on the device of the model; the model is in evaluation mode.
            silent: tokens that stand for no text, which weigh nothing.
        """
        texts, having = 0, torch.zeros(len(self.rarity), dtype=torch.long)
        for tokens in batches:
            assert tokens.segments is not None, "the texts of a pair are told apart by segments"
            for segment in (0, 1):
                there = (tokens.positions >= 0) & (tokens.segments == segment)
                row = torch.arange(len(there), device=there.device).unsqueeze(1).expand_as(there)[there]
                # each token once a text, however often it occurs there
                seen = torch.unique(row * len(having) + tokens.ids[there]) % len(having)
                having += torch.bincount(seen.cpu(), minlength=len(having))
                texts += len(there)
        rarity = ((1 + texts) / (1 + having)).log() + 1
        rarity[list(silent)] = 0.0
        self.rarity.copy_(rarity)
        found = torch.cat([self._compared(*self._sides(tokens)).evidence.float() for tokens in batches])
        self.mean.copy_(found.mean(0))
        spread = found.std(0, correction=0)
        self.deviation.copy_(torch.where(spread > _LEAST, spread, 1.0))

    def hold(self) -> None:
        """Keeps what `fit` has counted out of every update."""
        for counted in (self.rarity, self.mean, self.deviation):
            counted.requires_grad_(False)

    def _sides(self, source: Tokens) -> tuple[Side, Side]:
        assert source.segments is not None, "the texts of a pair are told apart by segments"
        embedded = self.embedding(source)
        real = source.positions >= 0
        later = source.segments > 0
        return (
            self._side(source, embedded, torch.where(real & ~later, source.positions, -1)),
            self._side(source, embedded, torch.where(real & later, source.positions, -1)),
        )

    def _side(self, source: Tokens, embedded: Tensor, positions: Tensor) -> Side:
        """The tokens at these positions, moved to the first columns."""
        lineup = Lineup.of(positions)
        width = max(1, int(lineup.counts.max()))
        columns = torch.arange(positions.size(1), device=positions.device).expand_as(positions)
        order = (columns if lineup.order is None else lineup.order)[:, :width]
        there = positions.gather(1, order)
        ids = source.ids.gather(1, order)
        values = embedded.gather(1, order.unsqueeze(2).expand(-1, -1, embedded.size(2)))
        real = there >= 0
        return Side(
            ids,
            torch.where(real.unsqueeze(2), values, 0.0),
            there,
            torch.where(real, self.rarity[ids], 0.0),
        )

    def _compared(self, first: Side, second: Side) -> Compared:
        u, v = ((side.shares.unsqueeze(1) @ side.values).squeeze(1) for side in (first, second))
        closest, distances = zip(
            self._aligned(self.first_looks, first, second),
            self._aligned(self.second_looks, second, first),
            strict=True,
        )
        evidence = [
            *_overlaps(first, second),
            *_lengths(first, second),
        ]
        cosine = functional.cosine_similarity(u, v, dim=-1, eps=_LEAST)
        near = torch.stack([cosine, *_both_ways(*closest)], -1)
        a, b = distances
        difference = torch.cat((u, v, (u - v).abs(), u * v, a + b, a - b, near), -1)
        return Compared(torch.stack(evidence, -1), BEGINNING * difference)

    def _aligned(self, looks: Attention, side: Side, other: Side) -> tuple[Tensor, Tensor]:
        """How close the tokens of a side are to what they find in the other one, and how far from it in each entry."""
        query, key = (SHARPNESS**0.5 * functional.normalize(each.values, dim=-1, eps=_LEAST) for each in (side, other))
        visible = (other.rarity > 0).unsqueeze(1).expand(-1, query.size(1), -1)
        found = looks(query, key, value=other.values, visible=visible)
        close = functional.cosine_similarity(side.values, found, dim=-1, eps=_LEAST)
        far = (side.shares.unsqueeze(1) @ (side.values - found).abs()).squeeze(1)
        return (side.shares * close).sum(1), far


def _shares(weights: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    return weights / weights.sum(1, keepdim=True).clamp(min=_LEAST)


def _both_ways(one: Tensor, other: Tensor) -> list[Tensor]:
    """What is said of both texts alike, and of their order."""
    return [torch.minimum(one, other), torch.maximum(one, other), one - other]


def _overlaps(first: Side, second: Side) -> Iterator[Tensor]:
    """What n-grams of each length say: seven numbers a length, zeros where a batch has no longer ones."""
    missing = 7 * LONGEST_NGRAM
    for (one, rare, real), (other, rare_too, real_too) in zip(first.ngrams(), second.ngrams(), strict=False):
        common = _same(one, real, other, real_too)
        for weights, weights_too in ((rare, rare_too), (real, real_too)):
            yield from _both_ways(
                (_shares(weights) * common.amax(2)).sum(1), (_shares(weights_too) * common.amax(1)).sum(1)
            )
        product = _sum(rare, common, rare_too)
        squares = _sum(rare, _same(one, real, one, real), rare) * _sum(
            rare_too, _same(other, real_too, other, real_too), rare_too
        )
        yield product * squares.clamp(min=_LEAST).rsqrt()
        missing -= 7
    yield from [first.rarity.new_zeros(len(first.rarity))] * missing


def _same(
    one: Int[Tensor, "B N"], real: Float[Tensor, "B N"], other: Int[Tensor, "B M"], real_too: Float[Tensor, "B M"]
) -> Float[Tensor, "B N M"]:
    """1 where n-grams are the same."""
    return (one.unsqueeze(2) == other.unsqueeze(1)) * real.unsqueeze(2) * real_too.unsqueeze(1)


def _sum(
    left: Float[Tensor, "B N"], middle: Float[Tensor, "B N M"], right: Float[Tensor, "B M"]
) -> Float[Tensor, " B"]:
    return (left.unsqueeze(1) @ middle @ right.unsqueeze(2)).flatten()


def _lengths(first: Side, second: Side) -> list[Tensor]:
    """How much longer one text is, how long both are, and the logarithm of their ratio."""
    one, other = first.real.sum(1), second.real.sum(1)
    return [(one - other).abs(), one + other, ((1 + one) / (1 + other)).log().abs()]
