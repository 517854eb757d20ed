"""Storage that grows in place while older states stay valid."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

_STEPS, _SLOTS = 31, 256
"""Further appends that a new room has space for, as long as they are this small: most sentences then grow but once."""


class _Room:
    """Tensors with space to grow; `_begin` holds the place where it begins, and is empty while somebody asks."""

    def __init__(self, tensors: tuple[Tensor, ...], used: int) -> None:
        self.tensors = tensors
        self._begin = [used]

    def claim(self, begin: int, end: int) -> bool:
        """Takes the space between these places, unless it is taken or not there; of many who ask, one gets it.

        Taking the only element of a list is one step, whatever other threads do. Whoever finds it empty goes without.
        """
        try:
            free = self._begin.pop()
        except IndexError:
            return False
        granted = begin == free and end <= self.tensors[0].size(2)
        self._begin.append(end if granted else free)
        return granted


@dataclass(frozen=True)
class Grown:
    """A tuple of tensors that grow along axis 2: appending costs what is appended, and every older value stays valid.

    A state that is the longest on its room writes behind itself; any other (two continuations of one state, in one
    thread or in several) first takes a copy. So sharing is never visible.
    """

    room: _Room
    length: int

    @classmethod
    def of(cls, *tensors: Tensor) -> Grown:
        """Storage that starts with these tensors, [B, H, length, width]."""
        length = tensors[0].size(2)
        return cls(_Room(tensors, length), length)

    def read(self) -> tuple[Tensor, ...]:
        """The tensors, up to this state's length."""
        return tuple(tensor.narrow(2, 0, self.length) for tensor in self.room.tensors)

    def append(self, *newer: Tensor) -> Grown:
        """A state longer by `newer`."""
        size = newer[0].size(2)
        end = self.length + size
        room = self.room
        if not room.claim(self.length, end):
            space = max(2 * end, end + min(_STEPS * size, _SLOTS))
            room = _Room(tuple(_with_space(tensor, space) for tensor in self.read()), end)
        for tensor, new in zip(room.tensors, newer, strict=True):
            tensor.narrow(2, self.length, size).copy_(new)
        return Grown(room, end)


def _with_space(tensor: Tensor, length: int) -> Tensor:
    shape = list(tensor.shape)
    shape[2] = length
    room = tensor.new_empty(shape)
    room.narrow(2, 0, tensor.size(2)).copy_(tensor)
    return room
