"""Logistic regression of n-grams: what a text's words say of its class, whatever order they stand in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.blocks.convolution import Lineup
from heedful.values import Tokens

_FACTOR, _MIXED, _PRIME = 1_000_003, 48_271, 2_147_483_647
_LEAST: Final = 1e-12
_STEPS: Final = 100


@final
class Bag(nn.Module):
    """log softmax(b + W x), x the TF-IDF of a text's n-grams, of length 1.

    Tokens have a row of W of their own; longer n-grams share theirs by a hash of their tokens (Weinberger et al. 2009;
    Joulin et al. 2017). All of it is solved for by `learn`, and none of it learned by steps.

    Args:
        vocabulary: how many tokens there are.
        outputs: how many classes.
        longest: tokens in an n-gram at most.
        buckets: rows for the n-grams of each length above 1.
    """

    def __init__(self, vocabulary: int, outputs: int, *, longest: int = 2, buckets: int = 2**16) -> None:
        super().__init__()
        self.outputs, self.longest, self.vocabulary, self.buckets = outputs, longest, vocabulary, buckets
        size = vocabulary + (longest - 1) * buckets
        self.rarity = nn.Parameter(torch.zeros(size), requires_grad=False)
        self.rows = nn.Parameter(torch.zeros(size, outputs), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(outputs), requires_grad=False)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B outputs"]:
        """Log-probabilities. Neighbours are so in position, but for what is skipped; n-grams that no text had count for
        nothing."""
        lineup = Lineup.of(torch.where(self.rarity[tokens.ids] > 0, tokens.positions, -1))
        line = tokens.ids if lineup.order is None else tokens.ids.gather(1, lineup.order)
        total = self.bias.new_zeros(len(line), self.outputs)
        squares = self.bias.new_zeros(len(line), 1)
        for length in range(1, min(self.longest, line.size(1)) + 1):
            numbers = self.numbers(line, length)
            rare = self.rarity[numbers]
            if lineup.real is not None:
                ends = torch.arange(length - 1, line.size(1), device=line.device)
                rare = torch.where(ends < lineup.counts.unsqueeze(1), rare, 0.0)
            total = total + (rare.unsqueeze(1) @ self.rows[numbers]).squeeze(1)
            squares = squares + rare.square().sum(1, keepdim=True)
        return (self.bias + total * squares.clamp(min=_LEAST).rsqrt()).log_softmax(-1)

    def numbers(self, ids: Int[Tensor, "B T"], length: int) -> Int[Tensor, "B T_1"]:
        """The row of the n-gram of so many tokens that begins at each token."""
        if length == 1:
            return ids
        windows = ids.size(1) - length + 1
        number = ids.narrow(1, 0, windows)
        for place in range(1, length):
            number = (number * _FACTOR + ids.narrow(1, place, windows)) % _PRIME
        # once more, or neighbouring ids would share rows as regularly as they come
        return number * _MIXED % _PRIME % self.buckets + (self.vocabulary + (length - 2) * self.buckets)

    def learn(
        self,
        texts: Sequence[Int[Tensor, " _"]],
        labels: Int[Tensor, " N"],
        *,
        inverse_penalty: float = 10.0,
        ignored: Collection[int] = (),
    ) -> None:
        """Solves for the least C sum_texts -log p(label) + |W|^2 / 2, by L-BFGS.

        How rare an n-gram is, 1 + ln((1 + N) / (1 + N_g)) where N_g of N texts have it, is counted before; 0 is how
        rare one is that none has.

        Args:
            texts: their tokens.
            labels: the class of each.
            inverse_penalty: C.
            ignored: tokens that are skipped, also inside of n-grams.
        """
        mute = torch.zeros(self.vocabulary, dtype=torch.bool)
        mute[list(ignored)] = True
        rows, columns = [], []
        for row, whole in enumerate(texts):
            text = whole[~mute[whole]]
            for length in range(1, min(self.longest, len(text)) + 1):
                columns.append(self.numbers(text.unsqueeze(0), length).squeeze(0))
                rows.append(torch.full_like(columns[-1], row))
        size = len(self.rarity)
        cells, counts = torch.unique(torch.cat(rows) * size + torch.cat(columns), return_counts=True)
        row, column = cells // size, cells % size
        having = torch.bincount(column, minlength=size)
        rarity = torch.where(having > 0, 1 + ((1 + len(texts)) / (1 + having)).log(), 0.0)
        # as in `forward`, where an n-gram that occurs twice is two
        squares = torch.zeros(len(texts)).index_add_(0, row, counts * rarity[column].square())
        values = counts * rarity[column] * squares.clamp(min=_LEAST).rsqrt()[row]
        seen, at = torch.unique(column, return_inverse=True)
        weight, bias = _solved(
            _Sparse(row, at, values, (len(texts), len(seen))),
            labels,
            outputs=self.outputs,
            inverse_penalty=inverse_penalty,
        )
        with torch.no_grad():
            self.rarity.copy_(rarity)
            self.rows.zero_()
            self.rows[seen] = weight.to(self.rows)
            self.bias.copy_(bias)


class _Sparse:
    """A matrix of few numbers, as sums over bags of rows: several times as fast as torch's sparse products."""

    def __init__(
        self, row: Int[Tensor, " n"], column: Int[Tensor, " n"], values: Float[Tensor, " n"], shape: tuple[int, int]
    ) -> None:
        self.shape = shape
        self._lines = _bags(row, column, values, size=shape[0])
        self._columns = _bags(column, row, values, size=shape[1])

    def times(self, x: Float[Tensor, "D k"]) -> Float[Tensor, "N k"]:
        """The product with a dense matrix."""
        return _summed(x, *self._lines)

    def transposed_times(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "D k"]:
        """That of the transpose."""
        return _summed(x, *self._columns)


def _bags(
    to: Int[Tensor, " n"], of: Int[Tensor, " n"], values: Float[Tensor, " n"], *, size: int
) -> tuple[Int[Tensor, " n"], Int[Tensor, " size"], Float[Tensor, " n"]]:
    """What is summed, where each sum begins, and how often each counts."""
    order = to.argsort(stable=True)
    begins = functional.pad(torch.bincount(to, minlength=size).cumsum(0)[:-1], (1, 0))
    return of[order], begins, values[order]


def _summed(
    x: Float[Tensor, "_ k"], of: Int[Tensor, " n"], begins: Int[Tensor, " size"], values: Float[Tensor, " n"]
) -> Float[Tensor, "size k"]:
    return functional.embedding_bag(of, x, begins, mode="sum", per_sample_weights=values)


def _solved(
    x: _Sparse, labels: Int[Tensor, " N"], *, outputs: int, inverse_penalty: float
) -> tuple[Float[Tensor, "D outputs"], Float[Tensor, " outputs"]]:
    """Weights and biases of logistic regression of sparse rows."""
    right = functional.one_hot(labels, outputs).float()
    weight, bias = torch.zeros(x.shape[1], outputs), torch.zeros(outputs)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=_STEPS, history_size=10, line_search_fn="strong_wolfe")

    def value() -> float:
        """With its gradient, by hand: sparse products have none that is fast."""
        logits = x.times(weight) + bias
        wrong = (logits.softmax(-1) - right) * inverse_penalty
        weight.grad, bias.grad = x.transposed_times(wrong) + weight, wrong.sum(0)
        loss = inverse_penalty * functional.cross_entropy(logits, labels, reduction="sum")
        return float(loss + weight.square().sum() / 2)

    with torch.no_grad():
        optimizer.step(value)  # type: ignore[no-untyped-call]  # torch has no annotation here
    return weight, bias
