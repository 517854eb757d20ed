"""Plan batches from sentence lengths alone, before any sentence is read."""

from __future__ import annotations

import numpy as np
from jaxtyping import Integer

from heedful.errors import RecipeError

_BATCHES_PER_POOL = 100


def batch_by_size(
    lengths: Integer[np.ndarray, "N 2"], *, max_tokens: int, seed: int, epoch: int, pad_to: int = 1
) -> list[Integer[np.ndarray, " B"]]:
    """Return the batches of one training epoch, with similar lengths together; the result depends on the arguments
    alone.

    Sentences are shuffled, sorted by length within pools of about a hundred batches (sentences of equal lengths
    stay shuffled), cut where the token budget is full, and the batches are shuffled. Every sentence occurs once.

    Args:
        lengths: source and target ids of each pair.
        max_tokens: budget for rows times target length *with padding*; rows times source length may be twice
            that. A sentence that exceeds the budget alone is a batch of its own.
        seed: seed of the run, not negative.
        epoch: number of the epoch, not negative.
        pad_to: lengths are rounded up to a multiple of this number.

    Returns:
        The rows of each batch, sorted by target length.
    """
    _require_positive(tokens=max_tokens, pad_to=pad_to)
    if not len(lengths):
        return []
    padded = -(-lengths.astype(np.int64) // pad_to) * pad_to
    generator = _create_generator(seed, epoch)
    shuffled_rows = _shuffle_indices(len(lengths), generator)
    per_pool = max(1, int(_BATCHES_PER_POOL * max_tokens / max(1.0, float(padded[:, 1].mean()))))
    source, target = padded[shuffled_rows].T
    # Sources rise and fall in turn, so that a batch across two target lengths finds like sources at the seam.
    rising = np.where(target // pad_to % 2, source, -source)
    order = shuffled_rows[np.lexsort((rising, target, np.arange(len(shuffled_rows)) // per_pool))]
    batches = _split_at_budget(order, padded, max_tokens=max_tokens, per_pool=per_pool)
    return [batches[i] for i in _shuffle_indices(len(batches), generator)]


def batch_randomly(count: int, *, max_rows: int, seed: int, epoch: int) -> list[Integer[np.ndarray, " B"]]:
    """Return the batches of one training epoch without regard to lengths: shuffle all examples and split them into
    equal parts of at most `max_rows`.

    The result depends on the arguments alone. Every example occurs once; the sizes of the batches differ by one at
    most.
    """
    _require_positive(rows=max_rows)
    return (
        np.array_split(_shuffle_indices(count, _create_generator(seed, epoch)), -(-count // max_rows)) if count else []
    )


def batch_by_length(
    lengths: Integer[np.ndarray, " N"], *, max_tokens: int, max_rows: int
) -> list[Integer[np.ndarray, " B"]]:
    """Return batches for inference, longest sentences first, so that the most memory is needed at the start.

    A batch has at most `max_rows` sentences and, unless it is one sentence, at most `max_tokens` ids with padding.
    Every sentence occurs once: `np.argsort(np.concatenate(batches))` restores the original order of the results.
    """
    _require_positive(tokens=max_tokens, rows=max_rows)
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        stop = start + min(max_rows, max(1, max_tokens // longest))
        batches.append(order[start:stop])
        start = stop
    return batches


def _split_at_budget(
    order: Integer[np.ndarray, " N"], padded: Integer[np.ndarray, "N 2"], *, max_tokens: int, per_pool: int
) -> list[Integer[np.ndarray, " B"]]:
    """Split sorted rows into batches that fit the token budget and do not cross the border of a pool."""
    source, target = np.maximum(padded[order], 1).T
    batches, start = [], 0
    while start < len(order):
        # More rows cannot fit, since targets only grow inside a pool, and batches end where pools do.
        max_rows = min(max(1, max_tokens // int(target[start])), per_pool - start % per_pool)
        row_counts = np.arange(1, len(target[start : start + max_rows]) + 1)
        longest = np.maximum.accumulate(source[start : start + max_rows])
        fits = (row_counts * target[start : start + max_rows] <= max_tokens) & (row_counts * longest <= 2 * max_tokens)
        count = max(1, len(row_counts) if fits.all() else int(fits.argmin()))
        batches.append(order[start : start + count])
        start += count
    return batches


def _create_generator(seed: int, epoch: int) -> np.random.Philox:
    """Create the random generator of one epoch of a run."""
    return np.random.Philox(np.random.SeedSequence([seed, epoch]))


def _shuffle_indices(count: int, generator: np.random.Philox) -> Integer[np.ndarray, " N"]:
    """Return the numbers below `count` in random order.

    Sorts raw random bits, because numpy guarantees these across versions but not the result of `shuffle`.
    """
    return np.argsort(generator.random_raw(count), kind="stable")


def _require_positive(**numbers: int) -> None:
    """Raise `RecipeError` if one of the named numbers is below 1."""
    for name, number in numbers.items():
        if number < 1:
            raise RecipeError(f"{name} is {number}; it must be at least 1")
