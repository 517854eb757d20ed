"""Cached keys and values of attention, in buffers that several continuations of a state share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.attention import kernels

_SPARE_STEPS, _MAX_SPARE_SLOTS = 31, 256
"""Maximum spare slots that a new buffer gets for further appends; most sentences then grow only once."""


def grow_capacity(used: int, newest: int) -> int:
    """Return the new capacity of a buffer of which `used` slots are used, `newest` of them since the last step."""
    return max(2 * used, used + min(_SPARE_STEPS * newest, _MAX_SPARE_SLOTS))


class SharedCapacity:
    """Spare capacity of a shared buffer; only the first claimant of the next slots may write there.

    Args:
        used: slots that are used already.
        size: total number of slots.
    """

    def __init__(self, used: int, size: int) -> None:
        self.size = size
        self._free_from = [used]  # the place where free space begins; empty while another thread uses it

    def claim(self, begin: int, end: int) -> bool:
        """Claim the slots from `begin` to `end`; return False if they are used or do not exist.

        Popping the only element of a list is atomic, so threads cannot interfere. A thread that finds the list empty
        gets False.
        """
        try:
            first_free = self._free_from.pop()
        except IndexError:
            return False
        is_granted = begin == first_free and end <= self.size
        self._free_from.append(end if is_granted else first_free)
        return is_granted


@dataclass(frozen=True)
class AppendBuffer:
    """Tensors that grow along axis 2: appending costs only the new part, and older values stay valid.

    The longest state on a buffer writes in place; any other one (two continuations of one state, in one thread or in
    several) first takes a copy. So sharing is never visible.
    """

    tensors: tuple[Tensor, ...]
    capacity: SharedCapacity
    length: int

    @classmethod
    def from_tensors(cls, *tensors: Tensor) -> AppendBuffer:
        """Create a buffer that starts with these tensors, [B, H, length, width]."""
        length = tensors[0].size(2)
        return cls(tensors, SharedCapacity(length, length), length)

    def to_tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors up to this state's length."""
        return tuple(tensor.narrow(2, 0, self.length) for tensor in self.tensors)

    def append(self, *new_tensors: Tensor) -> AppendBuffer:
        """Return a buffer that is longer by the new tensors."""
        size = new_tensors[0].size(2)
        end = self.length + size
        tensors, capacity = self.tensors, self.capacity
        if not capacity.claim(self.length, end):
            capacity = SharedCapacity(end, grow_capacity(end, size))
            tensors = tuple(_copy_to_length(tensor, capacity.size) for tensor in self.to_tensors())
        for tensor, new_tensor in zip(tensors, new_tensors, strict=True):
            tensor.narrow(2, self.length, size).copy_(new_tensor)
        return AppendBuffer(tensors, capacity, end)


def _copy_to_length(tensor: Tensor, length: int) -> Tensor:
    """Copy a tensor into a new one of this length along axis 2."""
    shape = list(tensor.shape)
    shape[2] = length
    result = tensor.new_empty(shape)
    result.narrow(2, 0, tensor.size(2)).copy_(tensor)
    return result


@dataclass(frozen=True)
class PendingSelection:
    """A lazy selection of keys and groups, applied when they are next read, so that several selections cost one copy.

    Attributes:
        groups: index of the stored group for each selected group; None keeps all groups.
        columns: columns of the selected keys of each group; None keeps all columns.
    """

    groups: Int[Tensor, " G_picked"] | None = None
    columns: Int[Tensor, "G_picked K_picked"] | None = None

    @property
    def is_identity(self) -> bool:
        """Whether all keys of all groups are selected, so that nothing must be copied."""
        return self.groups is None and self.columns is None

    def compose(
        self, groups: Int[Tensor, " G_then"] | None, columns: Int[Tensor, "G_then K_then"] | None
    ) -> PendingSelection:
        """Return the selection of groups, and of columns of these, from what is already selected; None means all."""
        new_groups, new_columns = self.groups, self.columns
        if groups is not None:
            new_groups = groups if new_groups is None else new_groups.index_select(0, groups)
            new_columns = None if new_columns is None else new_columns.index_select(0, groups)
        if columns is not None:
            new_columns = columns if new_columns is None else new_columns.gather(1, columns)
        return PendingSelection(new_groups, new_columns)


ALL_KEYS = PendingSelection()
"""The selection of all keys of all groups."""


@dataclass(frozen=True)
class KVCache:
    """Projected keys and values of one attention; several heads of queries may share one of its heads."""

    key: Float[Tensor, "G H_kv K d_k"]
    value: Float[Tensor, "G H_kv K d_v"]
    buffer: AppendBuffer | None = None

    def repeat_heads(self, heads: int) -> KVCache:
        """Return keys and values of this many heads, neighbours of which are equal."""
        if self.key.size(1) == heads:
            return self
        return KVCache(kernels.repeat_heads(self.key, heads), kernels.repeat_heads(self.value, heads))

    def extend(self, newer: KVCache) -> KVCache:
        """Append newer keys and values; in place unless gradients are enabled or the model is traced."""
        if torch.is_grad_enabled() or kernels.is_tracing():
            return KVCache(torch.cat((self.key, newer.key), 2), torch.cat((self.value, newer.value), 2))
        buffer = (self.buffer or AppendBuffer.from_tensors(self.key, self.value)).append(newer.key, newer.value)
        key, value = buffer.to_tensors()
        return KVCache(key, value, buffer)

    def to_contiguous(self) -> KVCache:
        """Store keys and values contiguously by head, so that repeated attention needs no copies."""
        return KVCache(self.key.contiguous(), self.value.contiguous())

    def has_room(self, num_keys: int) -> bool:
        """Return whether this many keys can be appended without a copy, as far as known."""
        return self.buffer is not None and self.buffer.length + num_keys <= self.buffer.capacity.size

    def new_empty(self, num_groups: int) -> KVCache:
        """Create an empty cache for this many groups."""
        key, value = (part.new_empty(num_groups, part.size(1), 0, part.size(3)) for part in (self.key, self.value))
        return KVCache(key, value)

    def apply_selection(self, selection: PendingSelection, *, spare_keys: int = 0) -> KVCache:
        """Return the cache of a selection; where columns are selected, reserve room for `spare_keys` further keys."""
        if selection.columns is not None:
            return self.concat_groups([(self, selection)], pad_left=True, spare_keys=spare_keys)
        if selection.groups is None:
            return self
        return KVCache(self.key.index_select(0, selection.groups), self.value.index_select(0, selection.groups))

    @classmethod
    def concat_groups(
        cls, caches: Sequence[tuple[KVCache, PendingSelection]], *, pad_left: bool, spare_keys: int = 0
    ) -> KVCache:
        """Concatenate the selected groups of several caches and reserve room for `spare_keys` further keys. Shorter
        caches are padded on the left if `pad_left`, otherwise on the right.

        Padding must be hidden by the mask.
        """
        spare_keys = 0 if torch.is_grad_enabled() else spare_keys
        columns_by_cache = [part._selected_columns(picks) for part, picks in caches]
        longest, heads = max(columns.size(1) for columns in columns_by_cache), caches[0][0].key.size(1)
        indices = []
        for (part, picks), columns in zip(caches, columns_by_cache, strict=True):
            missing = longest - columns.size(1)
            padding = (missing, spare_keys) if pad_left else (0, missing + spare_keys)
            indices.append(part._flat_indices(picks.groups, functional.pad(columns, padding)))
        storages = zip(*(part._get_storage() for part, _ in caches), strict=True)
        key, value = (
            _gather_rows(tensors, indices).view(-1, heads, longest + spare_keys, tensors[0].size(3))
            for tensors in storages
        )
        buffer = AppendBuffer((key, value), SharedCapacity(longest, longest + spare_keys), longest)
        key, value = buffer.to_tensors()
        return cls(key, value, buffer)

    def _get_storage(self) -> tuple[Tensor, Tensor]:
        """Return the stored tensors, or one dummy key if there are none."""
        key, value = (self.key, self.value) if self.buffer is None else self.buffer.tensors
        if key.size(2):
            return key, value
        return key.new_zeros(1, 1, 1, key.size(3)), value.new_zeros(1, 1, 1, value.size(3))

    def _selected_columns(self, selection: PendingSelection) -> Int[Tensor, "G_picked K_picked"]:
        """Return the columns of keys that a selection picks in each of its groups; all columns if it picks none."""
        if selection.columns is not None:
            return selection.columns
        groups = self.key.size(0) if selection.groups is None else len(selection.groups)
        return torch.arange(self.key.size(2), device=self.key.device).expand(groups, -1)

    def _flat_indices(
        self, groups: Int[Tensor, " G_picked"] | None, columns: Int[Tensor, "G_picked K_all"]
    ) -> Int[Tensor, " places"]:
        """Return the indices into flattened storage, head by head, of these columns of these groups."""
        keys, heads = self._get_storage()[0].size(2), self.key.size(1)
        if not self.key.size(2):
            return columns.new_zeros(columns.numel() * heads)
        if groups is None:
            groups = torch.arange(len(columns), device=columns.device)
        rows = groups.unsqueeze(1) * heads + torch.arange(heads, device=columns.device)
        return (rows.unsqueeze(2) * keys + columns.unsqueeze(1)).flatten()


def _gather_rows(tensors: Sequence[Tensor], indices: Sequence[Int[Tensor, " _"]]) -> Float[Tensor, "places d"]:
    """Concatenate the rows at these indices of several tensors; copied once where gradients are disabled."""
    flat = [tensor.reshape(-1, tensor.size(3)) for tensor in tensors]
    if torch.is_grad_enabled() or kernels.is_tracing():
        return torch.cat([tensor.index_select(0, rows) for tensor, rows in zip(flat, indices, strict=True)])
    result = flat[0].new_empty(sum(map(len, indices)), flat[0].size(1))
    offset = 0
    for tensor, rows in zip(flat, indices, strict=True):
        torch.index_select(tensor, 0, rows, out=result[offset : offset + len(rows)])
        offset += len(rows)
    return result
