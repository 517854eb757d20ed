"""Siamese encoder of text pairs: tokens are aligned, and summaries are compared."""

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
from heedful.attention.hooks import HYPOTHESIS_AXIS, PREMISE_AXIS, AttentionRole, assign_roles
from heedful.attention.scores import DotScore
from heedful.blocks.convolution import PackedTokens
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.feedforward import build_xavier_linear
from heedful.models.interface import Encoder
from heedful.tensors import Memory, Tokens

LONGEST_NGRAM: Final = 4
"""Length of the longest n-grams that are compared."""
ALIGNMENT_SCALE: Final = 10.0
"""Factor of token cosines before the softmax."""
DIFFERENCE_SCALE: Final = 0.1
"""Factor of the learned difference vectors, so that small data sets rely on the untrained features at first."""
_HASH_FACTOR, _HASH_PRIME = 1_000_003, 2_147_483_647
_EPSILON: Final = 1e-6


@dataclass(frozen=True)
class PairSide:
    """One text of each pair, moved to the first columns.

    Attributes:
        ids: token ids.
        values: token embeddings, zeros at padding.
        positions: positions in the pair; -1 at padding.
        rarity: weight of each token, 0 at padding.
    """

    ids: Int[Tensor, "B T"]
    values: Float[Tensor, "B T d"]
    positions: Int[Tensor, "B T"]
    rarity: Float[Tensor, "B T"]

    @property
    def token_mask(self) -> Float[Tensor, "B T"]:
        """1 where there is a token of nonzero weight."""
        return (self.rarity > 0).to(self.rarity.dtype)

    @property
    def normalized_rarity(self) -> Float[Tensor, "B T"]:
        """Rarity as weights that sum to 1, or to 0 where all tokens have weight 0."""
        return _normalize_weights(self.rarity)

    def iter_ngrams(self) -> Iterator[tuple[Int[Tensor, "B N"], Float[Tensor, "B N"], Float[Tensor, "B N"]]]:
        """Yield, for each length up to `LONGEST_NGRAM`, the hashes of the n-grams, their mean rarity, and 1 where
        an n-gram exists.
        """
        hashes, rarity_sum, ngram_mask = self.ids, self.rarity, self.token_mask
        for length in range(1, LONGEST_NGRAM + 1):
            if length > 1:
                next_token = slice(length - 1, None)
                hashes = (hashes[:, :-1] * _HASH_FACTOR + self.ids[:, next_token]) % _HASH_PRIME
                ngram_mask = ngram_mask[:, :-1] * self.token_mask[:, next_token]
                rarity_sum = rarity_sum[:, :-1] + self.rarity[:, next_token]
            if not hashes.size(1):
                empty = rarity_sum.new_zeros(len(rarity_sum), 1)
                yield empty.long(), empty, empty
                return
            yield hashes, rarity_sum / length * ngram_mask, ngram_mask


class PairFeatures(NamedTuple):
    """Features of a text pair.

    Attributes:
        evidence: numbers that measure how much the texts have in common, of any scale.
        difference: vectors that represent how they differ.
    """

    evidence: Float[Tensor, "B n"]
    difference: Float[Tensor, "B m"]


@final
class PairEncoder(Encoder[Tokens]):
    """Siamese encoder: reads both texts with one embedding, aligns and compares them.

    The summary is relu(W [s; v / 10]). s are numbers that need no training, standardised: for n-grams of one to four
    tokens the share of each text that the other one has (minimum, maximum and difference), plain and weighted by
    rarity, and the cosine of both texts' TF-IDF; the difference, the sum and the ratio of their lengths. v are learned:
    u, v, |u - v|, u * v and the cosine of the mean embeddings u and v, weighted by rarity (Conneau et al. 2017, 3.2);
    sum and difference over both texts of the mean |a - b'|, where b' is the context of a token a in the other text by
    attention (Parikh et al. 2016, eq. 2; there a feed-forward network takes the place of the distance); and the mean
    cosines of a and b'.

    A token is weighted by its rarity, ln((1 + N) / (1 + N_t)) + 1 where N_t of N texts have it (TF-IDF). `fit` counts
    it, and measures the mean and deviation of s; before that all tokens have the same weight.

    Premise and hypothesis are segments 0 and 1 of the tokens.

    Args:
        embedding: token embedding without positions, because words are compared regardless of their position.
        vocabulary: number of tokens.
        features: width of the summary.
        dropout: dropout of v only: s has few entries, each of which counts.
    """

    def __init__(self, embedding: TokenEmbedding, *, vocabulary: int, features: int, dropout: float = 0.0) -> None:
        super().__init__()
        d_model = embedding.table.embedding_dim
        count = 7 * LONGEST_NGRAM + 3
        self.embedding = embedding
        self.first_looks = Attention(DotScore())
        assign_roles(self.first_looks, AttentionRole("summary", PREMISE_AXIS, HYPOTHESIS_AXIS))
        self.second_looks = Attention(DotScore())
        assign_roles(self.second_looks, AttentionRole("summary", HYPOTHESIS_AXIS, PREMISE_AXIS))
        self.rarity = nn.Parameter(torch.ones(vocabulary), requires_grad=False)
        self.mean = nn.Parameter(torch.zeros(count), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(count), requires_grad=False)
        self.hidden = build_xavier_linear(count + 6 * d_model + 4, features)
        self.dropout = Dropout(dropout)

    def forward(self, source: Tokens) -> Memory:
        """Return a slot for each token of the first text, then of the second; the summary compares both texts."""
        first, second = self._split_sides(source)
        evidence, difference = self._compare_sides(first, second)
        standardized = (evidence - self.mean) / self.deviation
        summary = torch.relu(self.hidden(torch.cat((standardized, self.dropout(difference)), -1)))
        values = torch.cat((first.values, second.values), 1)
        return Memory(values, values, torch.cat((first.positions, second.positions), 1), summary)

    @torch.no_grad()
    def fit(self, batches: Sequence[Tokens], *, ignored_ids: Sequence[int]) -> None:
        """Count how rare each token is and measure mean and deviation of the untrained features on batches of training
        pairs; `ignored_ids` are tokens that represent no text.

        Args:
            batches: the pairs, on the device of the model; the model is in evaluation mode.
            ignored_ids: token ids that represent no text, such as special tokens; their weight is 0.
        """
        texts, document_counts = 0, torch.zeros(len(self.rarity), dtype=torch.long)
        for tokens in batches:
            assert tokens.segments is not None, "segments separate the texts of a pair"
            for segment in (0, 1):
                token_mask = (tokens.positions >= 0) & (tokens.segments == segment)
                row = (
                    torch.arange(len(token_mask), device=token_mask.device)
                    .unsqueeze(1)
                    .expand_as(token_mask)[token_mask]
                )
                # each token once a text, however often it occurs there
                token_ids = torch.unique(row * len(document_counts) + tokens.ids[token_mask]) % len(document_counts)
                document_counts += torch.bincount(token_ids.cpu(), minlength=len(document_counts))
                texts += len(token_mask)
        rarity = ((1 + texts) / (1 + document_counts)).log() + 1
        rarity[list(ignored_ids)] = 0.0
        self.rarity.copy_(rarity)
        evidence = torch.cat([self._compare_sides(*self._split_sides(tokens)).evidence.float() for tokens in batches])
        self.mean.copy_(evidence.mean(0))
        deviation = evidence.std(0, correction=0)
        self.deviation.copy_(torch.where(deviation > _EPSILON, deviation, 1.0))

    def freeze_statistics(self) -> None:
        """Exclude the statistics of `fit` from gradient updates."""
        for parameter in (self.rarity, self.mean, self.deviation):
            parameter.requires_grad_(False)

    def _split_sides(self, source: Tokens) -> tuple[PairSide, PairSide]:
        """Return the first and the second text of each pair, each moved to the first columns."""
        assert source.segments is not None, "segments separate the texts of a pair"
        embedded = self.embedding(source)
        token_mask = source.positions >= 0
        is_second = source.segments > 0
        return (
            self._build_side(source, embedded, torch.where(token_mask & ~is_second, source.positions, -1)),
            self._build_side(source, embedded, torch.where(token_mask & is_second, source.positions, -1)),
        )

    def _build_side(self, source: Tokens, embedded: Tensor, positions: Tensor) -> PairSide:
        """Return the tokens of the source that have a position here, moved to the first columns; `embedded` are the
        embeddings of all tokens.
        """
        packed = PackedTokens.from_positions(positions)
        width = max(1, int(packed.lengths.max()))
        columns = torch.arange(positions.size(1), device=positions.device).expand_as(positions)
        order = (columns if packed.order is None else packed.order)[:, :width]
        packed_positions = positions.gather(1, order)
        ids = source.ids.gather(1, order)
        values = embedded.gather(1, order.unsqueeze(2).expand(-1, -1, embedded.size(2)))
        token_mask = packed_positions >= 0
        return PairSide(
            ids,
            torch.where(token_mask.unsqueeze(2), values, 0.0),
            packed_positions,
            torch.where(token_mask, self.rarity[ids], 0.0),
        )

    def _compare_sides(self, first: PairSide, second: PairSide) -> PairFeatures:
        """Return the features of each pair of a first and a second text."""
        u, v = ((side.normalized_rarity.unsqueeze(1) @ side.values).squeeze(1) for side in (first, second))
        similarities, distances = zip(
            self._align_sides(self.first_looks, first, second),
            self._align_sides(self.second_looks, second, first),
            strict=True,
        )
        evidence = [
            *_ngram_overlaps(first, second),
            *_length_features(first, second),
        ]
        cosine = functional.cosine_similarity(u, v, dim=-1, eps=_EPSILON)
        similarity_features = torch.stack([cosine, *_symmetric_features(*similarities)], -1)
        a, b = distances
        difference = torch.cat((u, v, (u - v).abs(), u * v, a + b, a - b, similarity_features), -1)
        return PairFeatures(torch.stack(evidence, -1), DIFFERENCE_SCALE * difference)

    def _align_sides(self, attention: Attention, side: PairSide, other: PairSide) -> tuple[Tensor, Tensor]:
        """Align the tokens of `side` with those of the other text by attention; return the mean similarity of a token
        and its context, and their mean distance in each dimension.
        """
        query, key = (
            ALIGNMENT_SCALE**0.5 * functional.normalize(text.values, dim=-1, eps=_EPSILON) for text in (side, other)
        )
        visible = (other.rarity > 0).unsqueeze(1).expand(-1, query.size(1), -1)
        contexts = attention(query, key, value=other.values, visible=visible)
        similarity = functional.cosine_similarity(side.values, contexts, dim=-1, eps=_EPSILON)
        distance = (side.normalized_rarity.unsqueeze(1) @ (side.values - contexts).abs()).squeeze(1)
        return (side.normalized_rarity * similarity).sum(1), distance


def _normalize_weights(weights: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Scale the weights of each row to sum to 1."""
    return weights / weights.sum(1, keepdim=True).clamp(min=_EPSILON)


def _symmetric_features(first: Tensor, second: Tensor) -> list[Tensor]:
    """Return minimum, maximum and difference of two values."""
    return [torch.minimum(first, second), torch.maximum(first, second), first - second]


def _ngram_overlaps(first: PairSide, second: PairSide) -> Iterator[Tensor]:
    """Yield seven features of the overlap between the first and the second text for each length of n-grams, with a
    number for each pair; zeros for lengths that the batch does not have.
    """
    num_missing = 7 * LONGEST_NGRAM
    for (first_ngrams, first_rarity, first_mask), (second_ngrams, second_rarity, second_mask) in zip(
        first.iter_ngrams(), second.iter_ngrams(), strict=False
    ):
        matches = _match_ngrams(first_ngrams, first_mask, second_ngrams, second_mask)
        for weights, weights_too in ((first_rarity, second_rarity), (first_mask, second_mask)):
            yield from _symmetric_features(
                (_normalize_weights(weights) * matches.amax(2)).sum(1),
                (_normalize_weights(weights_too) * matches.amax(1)).sum(1),
            )
        dot_product = _bilinear_product(first_rarity, matches, second_rarity)
        squares = _bilinear_product(
            first_rarity, _match_ngrams(first_ngrams, first_mask, first_ngrams, first_mask), first_rarity
        ) * _bilinear_product(
            second_rarity, _match_ngrams(second_ngrams, second_mask, second_ngrams, second_mask), second_rarity
        )
        yield dot_product * squares.clamp(min=_EPSILON).rsqrt()
        num_missing -= 7
    yield from [first.rarity.new_zeros(len(first.rarity))] * num_missing


def _match_ngrams(
    first: Int[Tensor, "B N"],
    first_mask: Float[Tensor, "B N"],
    second: Int[Tensor, "B M"],
    second_mask: Float[Tensor, "B M"],
) -> Float[Tensor, "B N M"]:
    """Return 1 where an n-gram of the first text equals one of the second, else 0; the n-grams are hashes, and the
    masks are 1 where an n-gram exists.
    """
    return (first.unsqueeze(2) == second.unsqueeze(1)) * first_mask.unsqueeze(2) * second_mask.unsqueeze(1)


def _bilinear_product(
    left: Float[Tensor, "B N"], middle: Float[Tensor, "B N M"], right: Float[Tensor, "B M"]
) -> Float[Tensor, " B"]:
    """Return left^T middle right for each row."""
    return (left.unsqueeze(1) @ middle @ right.unsqueeze(2)).flatten()


def _length_features(first: PairSide, second: PairSide) -> list[Tensor]:
    """Return the difference, the sum and the log ratio of the lengths of the first and the second text; difference and
    log ratio without sign.
    """
    first_length, second_length = first.token_mask.sum(1), second.token_mask.sum(1)
    return [
        (first_length - second_length).abs(),
        first_length + second_length,
        ((1 + first_length) / (1 + second_length)).log().abs(),
    ]
