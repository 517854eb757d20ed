"""Who may write into room that several continuations share."""

from __future__ import annotations

_SPARE_STEPS, _MAX_SPARE_SLOTS = 31, 256
"""Further appends that new room has space for, as long as they are this small: most sentences then grow but once."""


def grow_capacity(used: int, newest: int) -> int:
    """How much room to make where so much is used, the newest of it in one step."""
    return max(2 * used, used + min(_SPARE_STEPS * newest, _MAX_SPARE_SLOTS))


class SharedCapacity:
    """Room that is taken from its beginning on: of many who ask for what comes next, one gets it.

    Args:
        used: what is taken already.
        size: all there is.
    """

    def __init__(self, used: int, size: int) -> None:
        self.size = size
        self._free_from = [used]  # the place where free space begins; empty while somebody asks

    def claim(self, begin: int, end: int) -> bool:
        """Takes the space between these places, unless it is taken or not there.

        Taking the only element of a list is one step, whatever other threads do. Whoever finds it empty goes without.
        """
        try:
            first_free = self._free_from.pop()
        except IndexError:
            return False
        is_granted = begin == first_free and end <= self.size
        self._free_from.append(end if is_granted else first_free)
        return is_granted
