"""Capacity of a buffer that several continuations of a state share."""

from __future__ import annotations

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
