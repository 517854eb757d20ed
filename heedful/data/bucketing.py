"""Which sentences make a batch: planned from lengths alone, before a single sentence is read."""

from __future__ import annotations

import numpy as np
from jaxtyping import Integer

from heedful.errors import RecipeError

_POOL = 100


def plan_batches(
    lengths: Integer[np.ndarray, "N 2"], *, tokens: int, seed: int, epoch: int, pad_to: int = 1
) -> list[Integer[np.ndarray, " B"]]:
    """The batches of one epoch, a function of these arguments alone.

    Sentences are shuffled, sorted by length within pools of about a hundred batches (those of equal lengths
    stay shuffled), cut where the budget is full, and the batches shuffled. Every sentence occurs once.

    Args:
        lengths: source and target ids of each pair.
        tokens: budget for rows times target length *with padding*; rows times source length may be twice
            that. A sentence that exceeds it alone is a batch alone.
        seed: of the run, not negative.
        epoch: which epoch, not negative.
        pad_to: lengths count as rounded up to a multiple of this.

    Returns:
        The rows of each batch, sorted by target length.
    """
    _require_positive(tokens=tokens, pad_to=pad_to)
    if not len(lengths):
        return []
    padded = -(-lengths.astype(np.int64) // pad_to) * pad_to
    random = _chance(seed, epoch)
    shuffled = _shuffled(len(lengths), random)
    per_pool = max(1, int(_POOL * tokens / max(1.0, float(padded[:, 1].mean()))))
    source, target = padded[shuffled].T
    # Sources rise and fall in turn, so that a batch across two target lengths finds like sources at the seam.
    rising = np.where(target // pad_to % 2, source, -source)
    order = shuffled[np.lexsort((rising, target, np.arange(len(shuffled)) // per_pool))]
    batches = _cut(order, padded, tokens=tokens, per_pool=per_pool)
    return [batches[i] for i in _shuffled(len(batches), random)]


def plan_at_random(count: int, *, rows: int, seed: int, epoch: int) -> list[Integer[np.ndarray, " B"]]:
    """The batches of one epoch whatever the lengths: all examples shuffled, in as many equal parts as `rows` asks.

    A function of these arguments alone. Every example occurs once; no batch has more than `rows`, and their sizes
    differ by one at most.
    """
    _require_positive(rows=rows)
    return np.array_split(_shuffled(count, _chance(seed, epoch)), -(-count // rows)) if count else []


def plan_by_length(lengths: Integer[np.ndarray, " N"], *, tokens: int, rows: int) -> list[Integer[np.ndarray, " B"]]:
    """Batches for inference, longest sentences first, so that the most memory is needed at the start.

    A batch has at most `rows` sentences and, unless it is one sentence, at most `tokens` ids with padding.
    Every sentence occurs once: `np.argsort(np.concatenate(plan))` brings results back into their order.
    """
    _require_positive(tokens=tokens, rows=rows)
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        stop = start + min(rows, max(1, tokens // longest))
        batches.append(order[start:stop])
        start = stop
    return batches


def _cut(
    order: Integer[np.ndarray, " N"], padded: Integer[np.ndarray, "N 2"], *, tokens: int, per_pool: int
) -> list[Integer[np.ndarray, " B"]]:
    source, target = np.maximum(padded[order], 1).T
    batches, start = [], 0
    while start < len(order):
        # More rows cannot fit, since targets only grow inside a pool, and batches end where pools do.
        most = min(max(1, tokens // int(target[start])), per_pool - start % per_pool)
        rows = np.arange(1, len(target[start : start + most]) + 1)
        longest = np.maximum.accumulate(source[start : start + most])
        fits = (rows * target[start : start + most] <= tokens) & (rows * longest <= 2 * tokens)
        count = max(1, len(rows) if fits.all() else int(fits.argmin()))
        batches.append(order[start : start + count])
        start += count
    return batches


def _chance(seed: int, epoch: int) -> np.random.Philox:
    """Of an epoch of a run."""
    return np.random.Philox(np.random.SeedSequence([seed, epoch]))


def _shuffled(count: int, random: np.random.Philox) -> Integer[np.ndarray, " N"]:
    """Whole numbers below `count`; by raw bits, which numpy promises for good, but not what `shuffle` makes of them."""
    return np.argsort(random.random_raw(count), kind="stable")


def _require_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise RecipeError(f"{name} is {number}; it must be at least 1")
