"""Exact top-k of logits with ties broken by index, faster on a CPU than `torch.topk`.

Uses the native library where it is installed, with the same results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.generation import native_kernels

BLOCK_SIZE = 64
_DIRECT_SIZE = 1 << 15  # up to this number of columns of all rows, one search is faster than a search in blocks
_CACHE_SIZE = 1 << 17  # number of logits that fit into the cache of a core


@dataclass(frozen=True)
class TopKResult:
    """The k largest sums of each group of rows, in falling order; equal ones by row, then by column.

    Attributes:
        members: row of its group in which each was found.
        ids: column in which each was found.
    """

    values: Float[Tensor, "G k"]
    members: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]


def compute_logsumexp(logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """Return log(sum(exp(logits))) of each row, computed a few rows at a time to stay in the CPU cache."""
    if (library := native_kernels.find_library_for(logits)) is not None:
        return native_kernels.compute_logsumexp(library, logits)
    rows = max(1, _CACHE_SIZE // logits.size(1))
    if len(logits) <= rows or logits.device.type != "cpu":
        return logits.logsumexp(1)
    return torch.cat([part.logsumexp(1) for part in torch.split(logits, rows)])


def top_k(logits: Float[Tensor, "N V"], k: int, *, offsets: Float[Tensor, "G width"] | None = None) -> TopKResult:
    """Return the `k` largest of `logits + offsets` in each group of `width` rows; without offsets, in each row.

    Exact: the k largest values of a group lie in those k blocks of 64 columns that have the largest maxima,
    so all other columns are only read once, by a vectorised maximum. Gives fewer than `k` only where a group
    has fewer columns. Not a number counts as larger than infinity, as in `torch.topk`.
    """
    rows, columns = logits.shape
    if k <= native_kernels.MAX_TOP_K and (library := native_kernels.find_library_for(logits)) is not None:
        return TopKResult(*native_kernels.find_top_k(library, logits, k, offsets))
    if k == 1 and offsets is None:
        return _argmax_rows(logits)
    shifts = logits.new_zeros(rows, 1) if offsets is None else offsets
    groups, width = shifts.shape
    assert rows == groups * width, f"{rows} rows are not {groups} groups of {width}"
    blocks = -(-columns // BLOCK_SIZE)
    if width * blocks <= 4 * k:
        sums = (logits.view(groups, width, columns) + shifts.unsqueeze(2)).flatten(1)
        values, index = _exact_topk(sums, min(k, width * columns))
        return TopKResult(values, index // columns, index % columns)
    maxima = _compute_block_maxima(logits).view(groups, width, blocks) + shifts.unsqueeze(2)
    best_blocks = _exact_topk(maxima.flatten(1), k)[1].sort(1).values
    members = (best_blocks // blocks).unsqueeze(2).expand(-1, -1, BLOCK_SIZE).flatten(1)
    offsets_in_block = torch.arange(BLOCK_SIZE, device=logits.device)
    ids = ((best_blocks % blocks * BLOCK_SIZE).unsqueeze(2) + offsets_in_block).flatten(1)
    is_column = ids < columns if columns % BLOCK_SIZE else None
    first_rows = torch.arange(0, rows, width, device=logits.device).unsqueeze(1)
    sums = logits[first_rows + members, ids.clamp(max=columns - 1)] + shifts.gather(1, members)
    values, index = _exact_topk(sums, k, is_column)
    return TopKResult(values, members.gather(1, index), ids.gather(1, index))


def _argmax_rows(logits: Float[Tensor, "N V"]) -> TopKResult:
    """Return the largest logit of each row with as few operations as possible, for greedy search."""
    rows, columns = logits.shape
    if rows * columns <= _DIRECT_SIZE or columns < BLOCK_SIZE:
        values, ids = logits.max(1, keepdim=True)
    else:
        num_blocked = columns // BLOCK_SIZE * BLOCK_SIZE
        blocks = logits[:, :num_blocked].view(rows, -1, BLOCK_SIZE)
        block = blocks.amax(2).argmax(1, keepdim=True)
        values, index = blocks.gather(1, block.unsqueeze(2).expand(-1, -1, BLOCK_SIZE)).squeeze(1).max(1, keepdim=True)
        ids = block * BLOCK_SIZE + index
        if num_blocked < columns:
            rest_values, index = logits[:, num_blocked:].max(1, keepdim=True)
            is_larger = (rest_values > values) | (rest_values.isnan() & ~values.isnan())
            values, ids = torch.where(is_larger, rest_values, values), torch.where(is_larger, index + num_blocked, ids)
    return TopKResult(values, torch.zeros_like(ids), ids)


def _compute_block_maxima(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N blocks"]:
    """Return the maximum of each block of 64 columns of the logits; the last block may be smaller."""
    num_blocked = logits.size(1) // BLOCK_SIZE * BLOCK_SIZE
    maxima = logits[:, :num_blocked].view(len(logits), num_blocked // BLOCK_SIZE, BLOCK_SIZE).amax(2)
    if num_blocked == logits.size(1):
        return maxima
    return torch.cat((maxima, logits[:, num_blocked:].amax(1, keepdim=True)), 1)


def _exact_topk(
    values: Float[Tensor, "G n"], k: int, is_valid: Bool[Tensor, "G n"] | None = None
) -> tuple[Float[Tensor, "G k"], Int[Tensor, "G k"]]:
    """Return the k largest values of each row, only `is_valid` ones if given, and their columns; among equal ones the
    first comes first.

    `torch.topk` promises no order of ties and a stable sort is slow, so columns are compared as integers: the
    bits of a float in an order that integers share, and for single precision the place in the lower half.
    """
    if k == 1:
        order = (values if is_valid is None else values.masked_fill(~is_valid, -math.inf)).argmax(1, keepdim=True)
        return values.gather(1, order), order
    single = values.dtype == torch.float32
    int_dtype, max_int = (torch.int32, 2**31 - 1) if single else (torch.int64, 2**63 - 1)
    bits = (values + 0.0).view(int_dtype)  # minus zero becomes zero
    keys = (bits ^ ((bits >> (bits.itemsize * 8 - 1)) & max_int)).masked_fill_(values.isnan(), max_int).long()
    if single:
        keys = (keys << 32) + torch.arange(values.size(1), 0, -1, device=values.device)
    if is_valid is not None:
        keys = keys.masked_fill_(~is_valid, -(2**63))
    order = keys.topk(k, 1).indices if single else keys.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return values.gather(1, order), order
