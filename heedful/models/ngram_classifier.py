"""N-gram classifier: logistic regression of TF-IDF n-gram features."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.blocks.convolution import PackedTokens
from heedful.tensors import Tokens

_HASH_FACTOR, _HASH_MULTIPLIER, _HASH_PRIME = 1_000_003, 48_271, 2_147_483_647
_EPSILON: Final = 1e-12
_MAX_ITERATIONS: Final = 100


@final
class NgramClassifier(nn.Module):
    """Log-probabilities log softmax(b + W x), where x is the unit-length TF-IDF vector of a text's n-grams.

    Each token has its own row of W; longer n-grams share rows by a hash of their tokens (Weinberger et al. 2009; Joulin
    et al. 2017). All parameters are computed by `fit`, none by gradient steps.

    Args:
        vocabulary: number of tokens.
        outputs: number of classes.
        longest: maximum number of tokens in an n-gram.
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
        """Return the log-probabilities of the classes for each text.

        Skipped tokens do not separate neighbours; n-grams that no training text has are ignored.
        """
        packed = PackedTokens.from_positions(torch.where(self.rarity[tokens.ids] > 0, tokens.positions, -1))
        ordered_ids = tokens.ids if packed.order is None else tokens.ids.gather(1, packed.order)
        weighted_sum = self.bias.new_zeros(len(ordered_ids), self.outputs)
        squares = self.bias.new_zeros(len(ordered_ids), 1)
        for length in range(1, min(self.longest, ordered_ids.size(1)) + 1):
            row_indices = self.hash_ngrams(ordered_ids, length)
            ngram_rarity = self.rarity[row_indices]
            if packed.token_mask is not None:
                ends = torch.arange(length - 1, ordered_ids.size(1), device=ordered_ids.device)
                ngram_rarity = torch.where(ends < packed.lengths.unsqueeze(1), ngram_rarity, 0.0)
            weighted_sum = weighted_sum + (ngram_rarity.unsqueeze(1) @ self.rows[row_indices]).squeeze(1)
            squares = squares + ngram_rarity.square().sum(1, keepdim=True)
        return (self.bias + weighted_sum * squares.clamp(min=_EPSILON).rsqrt()).log_softmax(-1)

    def hash_ngrams(self, ids: Int[Tensor, "B T"], length: int) -> Int[Tensor, "B T_1"]:
        """Return the row of W for the n-gram of `length` tokens that begins at each token; `ids` are the tokens of
        texts.
        """
        if length == 1:
            return ids
        windows = ids.size(1) - length + 1
        hashes = ids.narrow(1, 0, windows)
        for offset in range(1, length):
            hashes = (hashes * _HASH_FACTOR + ids.narrow(1, offset, windows)) % _HASH_PRIME
        # hashed once more, or neighbouring ids would share rows in a regular pattern
        return hashes * _HASH_MULTIPLIER % _HASH_PRIME % self.buckets + (self.vocabulary + (length - 2) * self.buckets)

    def fit(
        self,
        texts: Sequence[Int[Tensor, " _"]],
        labels: Int[Tensor, " N"],
        *,
        inverse_penalty: float = 10.0,
        ignored_ids: Collection[int] = (),
    ) -> None:
        """Fit the classifier to texts with labels: minimise C sum_texts -log p(label) + |W|^2 / 2 by L-BFGS.

        The rarity of an n-gram, 1 + ln((1 + N) / (1 + N_g)) where N_g of N texts have it, is counted first; it is 0 for
        an n-gram that no text has.

        Args:
            texts: token ids of each text.
            labels: the class of each text.
            inverse_penalty: C.
            ignored_ids: token ids to skip, also inside n-grams.
        """
        is_ignored = torch.zeros(self.vocabulary, dtype=torch.bool)
        is_ignored[list(ignored_ids)] = True
        rows, columns = [], []
        for row, ids in enumerate(texts):
            text = ids[~is_ignored[ids]]
            for length in range(1, min(self.longest, len(text)) + 1):
                columns.append(self.hash_ngrams(text.unsqueeze(0), length).squeeze(0))
                rows.append(torch.full_like(columns[-1], row))
        size = len(self.rarity)
        cells, counts = torch.unique(torch.cat(rows) * size + torch.cat(columns), return_counts=True)
        row, column = cells // size, cells % size
        document_counts = torch.bincount(column, minlength=size)
        rarity = torch.where(document_counts > 0, 1 + ((1 + len(texts)) / (1 + document_counts)).log(), 0.0)
        # as in `forward`, where an n-gram that occurs twice is two
        squares = torch.zeros(len(texts)).index_add_(0, row, counts * rarity[column].square())
        values = counts * rarity[column] * squares.clamp(min=_EPSILON).rsqrt()[row]
        used_columns, column_index = torch.unique(column, return_inverse=True)
        weight, bias = _solve_logistic_regression(
            _SparseMatrix(row, column_index, values, (len(texts), len(used_columns))),
            labels,
            outputs=self.outputs,
            inverse_penalty=inverse_penalty,
        )
        with torch.no_grad():
            self.rarity.copy_(rarity)
            self.rows.zero_()
            self.rows[used_columns] = weight.to(self.rows)
            self.bias.copy_(bias)


class _SparseMatrix:
    """A sparse matrix whose products are computed as embedding bags; several times faster than torch's sparse
    products.
    """

    def __init__(
        self, row: Int[Tensor, " n"], column: Int[Tensor, " n"], values: Float[Tensor, " n"], shape: tuple[int, int]
    ) -> None:
        self.shape = shape
        self._row_bags = _group_entries(row, column, values, size=shape[0])
        self._column_bags = _group_entries(column, row, values, size=shape[1])

    def matmul(self, x: Float[Tensor, "D k"]) -> Float[Tensor, "N k"]:
        """Multiply by a dense matrix."""
        return _sum_bags(x, *self._row_bags)

    def transposed_matmul(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "D k"]:
        """Multiply the transpose by a dense matrix."""
        return _sum_bags(x, *self._column_bags)


def _group_entries(
    targets: Int[Tensor, " n"], sources: Int[Tensor, " n"], values: Float[Tensor, " n"], *, size: int
) -> tuple[Int[Tensor, " n"], Int[Tensor, " size"], Float[Tensor, " n"]]:
    """Group the entries of a sparse matrix by `targets`, their row or column, of which there are `size`. Return the
    sorted sources, the start of each group, and the values in this order.
    """
    order = targets.argsort(stable=True)
    starts = functional.pad(torch.bincount(targets, minlength=size).cumsum(0)[:-1], (1, 0))
    return sources[order], starts, values[order]


def _sum_bags(
    x: Float[Tensor, "_ k"], sources: Int[Tensor, " n"], starts: Int[Tensor, " size"], values: Float[Tensor, " n"]
) -> Float[Tensor, "size k"]:
    """Return, for each group that `_group_entries` made, the sum of the rows of `x` at its sources, multiplied by its
    values.
    """
    return functional.embedding_bag(sources, x, starts, mode="sum", per_sample_weights=values)


def _solve_logistic_regression(
    x: _SparseMatrix, labels: Int[Tensor, " N"], *, outputs: int, inverse_penalty: float
) -> tuple[Float[Tensor, "D outputs"], Float[Tensor, " outputs"]]:
    """Return the weights and biases of logistic regression from sparse features to labels, the numbers of `outputs`
    classes; `inverse_penalty` is C in `NgramClassifier.fit`.
    """
    one_hot_labels = functional.one_hot(labels, outputs).float()
    weight, bias = torch.zeros(x.shape[1], outputs), torch.zeros(outputs)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=_MAX_ITERATIONS, history_size=10, line_search_fn="strong_wolfe"
    )

    def compute_loss() -> float:
        """Return the loss and set its gradient by hand: sparse products have no fast autograd."""
        logits = x.matmul(weight) + bias
        logit_gradient = (logits.softmax(-1) - one_hot_labels) * inverse_penalty
        weight.grad, bias.grad = x.transposed_matmul(logit_gradient) + weight, logit_gradient.sum(0)
        loss = inverse_penalty * functional.cross_entropy(logits, labels, reduction="sum")
        return float(loss + weight.square().sum() / 2)

    with torch.no_grad():
        optimizer.step(compute_loss)  # type: ignore[no-untyped-call]  # torch has no annotation here
    return weight, bias
