"""The largest logits of many columns: exact, ties broken by place, faster on a CPU than `torch.topk`.

Where the library of native code is installed it does the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.generation import native

BLOCK = 64
_FEW = 1 << 15  # columns of all rows that are searched for one sooner than they are cut into blocks
_CACHED = 1 << 17  # logits that stay in the cache of a core


@dataclass(frozen=True)
class Top:
    """The largest sums of each group of rows, falling; equal ones in the order of rows, then columns.

    Attributes:
        members: in which row of its group each was found.
        ids: in which column.
    """

    values: Float[Tensor, "G k"]
    members: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]


def normalisers(logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """log(sum(exp(logits))) of each row, a few rows at a time, so that what is in between stays in the cache."""
    if (library := native.library_for(logits)) is not None:
        return native.normalisers(library, logits)
    rows = max(1, _CACHED // logits.size(1))
    if len(logits) <= rows or logits.device.type != "cpu":
        return logits.logsumexp(1)
    return torch.cat([part.logsumexp(1) for part in torch.split(logits, rows)])


def top_k(logits: Float[Tensor, "N V"], k: int, *, offsets: Float[Tensor, "G width"] | None = None) -> Top:
    """The `k` largest of `logits + offsets` in each group of `width` rows; without offsets, in each row.

    Exact: the k largest values of a group lie in those k blocks of 64 columns that have the largest maxima,
    so all other columns are only read once, by a vectorised maximum. Gives fewer than `k` only where a group
    has fewer columns. Not a number counts as larger than infinity, as in `torch.topk`.
    """
    rows, columns = logits.shape
    if k <= native.MOST and (library := native.library_for(logits)) is not None:
        return Top(*native.top(library, logits, k, offsets))
    if k == 1 and offsets is None:
        return _best(logits)
    shifts = logits.new_zeros(rows, 1) if offsets is None else offsets
    groups, width = shifts.shape
    assert rows == groups * width, f"{rows} rows are not {groups} groups of {width}"
    blocks = -(-columns // BLOCK)
    if width * blocks <= 4 * k:
        sums = (logits.view(groups, width, columns) + shifts.unsqueeze(2)).flatten(1)
        values, place = _largest(sums, min(k, width * columns))
        return Top(values, place // columns, place % columns)
    maxima = _block_maxima(logits).view(groups, width, blocks) + shifts.unsqueeze(2)
    best = _largest(maxima.flatten(1), k)[1].sort(1).values
    members = (best // blocks).unsqueeze(2).expand(-1, -1, BLOCK).flatten(1)
    inside = torch.arange(BLOCK, device=logits.device)
    ids = ((best % blocks * BLOCK).unsqueeze(2) + inside).flatten(1)
    real = ids < columns if columns % BLOCK else None
    first = torch.arange(0, rows, width, device=logits.device).unsqueeze(1)
    sums = logits[first + members, ids.clamp(max=columns - 1)] + shifts.gather(1, members)
    values, place = _largest(sums, k, real)
    return Top(values, members.gather(1, place), ids.gather(1, place))


def _best(logits: Float[Tensor, "N V"]) -> Top:
    """The largest of each row in as few operations as there can be: greedy search does little else."""
    rows, columns = logits.shape
    if rows * columns <= _FEW or columns < BLOCK:
        values, ids = logits.max(1, keepdim=True)
    else:
        whole = columns // BLOCK * BLOCK
        blocks = logits[:, :whole].view(rows, -1, BLOCK)
        block = blocks.amax(2).argmax(1, keepdim=True)
        values, place = blocks.gather(1, block.unsqueeze(2).expand(-1, -1, BLOCK)).squeeze(1).max(1, keepdim=True)
        ids = block * BLOCK + place
        if whole < columns:
            others, place = logits[:, whole:].max(1, keepdim=True)
            better = (others > values) | (others.isnan() & ~values.isnan())
            values, ids = torch.where(better, others, values), torch.where(better, place + whole, ids)
    return Top(values, torch.zeros_like(ids), ids)


def _block_maxima(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N blocks"]:
    whole = logits.size(1) // BLOCK * BLOCK
    maxima = logits[:, :whole].view(len(logits), whole // BLOCK, BLOCK).amax(2)
    if whole == logits.size(1):
        return maxima
    return torch.cat((maxima, logits[:, whole:].amax(1, keepdim=True)), 1)


def _largest(
    values: Float[Tensor, "G n"], k: int, real: Bool[Tensor, "G n"] | None = None
) -> tuple[Float[Tensor, "G k"], Int[Tensor, "G k"]]:
    """The k largest of a few `real` columns and their places; the first of equal ones first.

    `torch.topk` promises no order of ties and a stable sort is slow, so columns are compared as integers: the
    bits of a float in an order that integers share, and for single precision the place in the lower half.
    """
    if k == 1:
        order = (values if real is None else values.masked_fill(~real, -math.inf)).argmax(1, keepdim=True)
        return values.gather(1, order), order
    single = values.dtype == torch.float32
    whole, largest = (torch.int32, 2**31 - 1) if single else (torch.int64, 2**63 - 1)
    bits = (values + 0.0).view(whole)  # minus zero becomes zero
    keys = (bits ^ ((bits >> (bits.itemsize * 8 - 1)) & largest)).masked_fill_(values.isnan(), largest).long()
    if single:
        keys = (keys << 32) + torch.arange(values.size(1), 0, -1, device=values.device)
    if real is not None:
        keys = keys.masked_fill_(~real, -(2**63))
    order = keys.topk(k, 1).indices if single else keys.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return values.gather(1, order), order
