"""The keys and values that queries meet: a cache is those that one passes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.attention import kernels
from heedful.attention.space import Space, more_than


@dataclass(frozen=True)
class Grown:
    """A tuple of tensors that grow along axis 2: appending costs what is appended, and every older value stays valid.

    A state that is the longest on its room writes behind itself; any other (two continuations of one state, in one
    thread or in several) first takes a copy. So sharing is never visible.
    """

    tensors: tuple[Tensor, ...]
    space: Space
    length: int

    @classmethod
    def of(cls, *tensors: Tensor) -> Grown:
        """Storage that starts with these tensors, [B, H, length, width]."""
        length = tensors[0].size(2)
        return cls(tensors, Space(length, length), length)

    def read(self) -> tuple[Tensor, ...]:
        """The tensors, up to this state's length."""
        return tuple(tensor.narrow(2, 0, self.length) for tensor in self.tensors)

    def append(self, *newer: Tensor) -> Grown:
        """A state longer by `newer`."""
        size = newer[0].size(2)
        end = self.length + size
        tensors, space = self.tensors, self.space
        if not space.claim(self.length, end):
            space = Space(end, more_than(end, size))
            tensors = tuple(_with_space(tensor, space.size) for tensor in self.read())
        for tensor, new in zip(tensors, newer, strict=True):
            tensor.narrow(2, self.length, size).copy_(new)
        return Grown(tensors, space, end)


def _with_space(tensor: Tensor, length: int) -> Tensor:
    shape = list(tensor.shape)
    shape[2] = length
    room = tensor.new_empty(shape)
    room.narrow(2, 0, tensor.size(2)).copy_(tensor)
    return room


@dataclass(frozen=True)
class Picks:
    """Which keys of which groups are wanted: a note that is followed when they are next read, so that copies are one.

    Attributes:
        groups: the stored group of each group; None where they are as they were.
        columns: of each group the columns of its keys; None where they are as they were.
    """

    groups: Int[Tensor, " G_picked"] | None = None
    columns: Int[Tensor, "G_picked K_picked"] | None = None

    @property
    def everything(self) -> bool:
        """Whether there is nothing to copy."""
        return self.groups is None and self.columns is None

    def then(self, groups: Int[Tensor, " G_then"] | None, columns: Int[Tensor, "G_then K_then"] | None) -> Picks:
        """Of what is picked these groups, and of these these columns; None is all."""
        own, kept = self.groups, self.columns
        if groups is not None:
            own = groups if own is None else own.index_select(0, groups)
            kept = None if kept is None else kept.index_select(0, groups)
        if columns is not None:
            kept = columns if kept is None else kept.gather(1, columns)
        return Picks(own, kept)


EVERYTHING = Picks()
"""All keys of all groups."""


@dataclass(frozen=True)
class KeyValues:
    """What can be attended to, already projected; a cache is the KeyValues that one passes."""

    key: Float[Tensor, "G H K d_k"]
    value: Float[Tensor, "G H K d_v"]
    grown: Grown | None = None

    def extend(self, newer: KeyValues) -> KeyValues:
        """With newer keys and values behind; in place where no gradient is asked for and nothing is written down."""
        if torch.is_grad_enabled() or kernels.traced():
            return KeyValues(torch.cat((self.key, newer.key), 2), torch.cat((self.value, newer.value), 2))
        grown = (self.grown or Grown.of(self.key, self.value)).append(newer.key, newer.value)
        key, value = grown.read()
        return KeyValues(key, value, grown)

    def settled(self) -> KeyValues:
        """Stored head by head, so that what is attended to again and again needs no copies."""
        return KeyValues(self.key.contiguous(), self.value.contiguous())

    def has_room(self, keys: int) -> bool:
        """Whether so many may be put behind without a copy, as far as it is known."""
        return self.grown is not None and self.grown.length + keys <= self.grown.space.size

    def before_any(self, groups: int) -> KeyValues:
        """No keys and values, for so many groups."""
        key, value = (part.new_empty(groups, part.size(1), 0, part.size(3)) for part in (self.key, self.value))
        return KeyValues(key, value)

    def picked(self, picks: Picks, *, room: int = 0) -> KeyValues:
        """What is wanted, and where columns are picked room for so many keys behind them."""
        if picks.columns is not None:
            return self.together([(self, picks)], left=True, room=room)
        if picks.groups is None:
            return self
        return KeyValues(self.key.index_select(0, picks.groups), self.value.index_select(0, picks.groups))

    @classmethod
    def together(cls, parts: Sequence[tuple[KeyValues, Picks]], *, left: bool, room: int = 0) -> KeyValues:
        """What is wanted of all, group after group, and room for so many keys behind that.

        Where one has fewer keys there is something behind them or to their left that nobody may look at.
        """
        room = 0 if torch.is_grad_enabled() else room
        wanted = [part._columns(picks) for part, picks in parts]
        longest, heads = max(columns.size(1) for columns in wanted), parts[0][0].key.size(1)
        places = []
        for (part, picks), columns in zip(parts, wanted, strict=True):
            missing = longest - columns.size(1)
            around = (missing, room) if left else (0, missing + room)
            places.append(part._places(picks.groups, functional.pad(columns, around)))
        stored = zip(*(part._stored() for part, _ in parts), strict=True)
        key, value = (_side_by_side(each, places).view(-1, heads, longest + room, each[0].size(3)) for each in stored)
        grown = Grown((key, value), Space(longest, longest + room), longest)
        key, value = grown.read()
        return cls(key, value, grown)

    def _stored(self) -> tuple[Tensor, Tensor]:
        """All there is, or what is no key where there is none, since something has to be there."""
        key, value = (self.key, self.value) if self.grown is None else self.grown.tensors
        if key.size(2):
            return key, value
        return key.new_zeros(1, 1, 1, key.size(3)), value.new_zeros(1, 1, 1, value.size(3))

    def _columns(self, picks: Picks) -> Int[Tensor, "G_picked K_picked"]:
        if picks.columns is not None:
            return picks.columns
        groups = self.key.size(0) if picks.groups is None else len(picks.groups)
        return torch.arange(self.key.size(2), device=self.key.device).expand(groups, -1)

    def _places(
        self, groups: Int[Tensor, " G_picked"] | None, columns: Int[Tensor, "G_picked K_all"]
    ) -> Int[Tensor, " places"]:
        """Where in storage, head by head, the keys of groups are at columns of each."""
        keys, heads = self._stored()[0].size(2), self.key.size(1)
        if not self.key.size(2):
            return columns.new_zeros(columns.numel() * heads)
        if groups is None:
            groups = torch.arange(len(columns), device=columns.device)
        each = groups.unsqueeze(1) * heads + torch.arange(heads, device=columns.device)
        return (each.unsqueeze(2) * keys + columns.unsqueeze(1)).flatten()


def _side_by_side(stored: Sequence[Tensor], places: Sequence[Int[Tensor, " _"]]) -> Float[Tensor, "places d"]:
    """What is at some places of each, one behind the other; copied once, where no gradient is asked for."""
    flat = [each.reshape(-1, each.size(3)) for each in stored]
    if torch.is_grad_enabled() or kernels.traced():
        return torch.cat([each.index_select(0, at) for each, at in zip(flat, places, strict=True)])
    whole = flat[0].new_empty(sum(map(len, places)), flat[0].size(1))
    begin = 0
    for each, at in zip(flat, places, strict=True):
        torch.index_select(each, 0, at, out=whole[begin : begin + len(at)])
        begin += len(at)
    return whole
