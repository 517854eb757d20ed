"""How many connections come from one address."""

from __future__ import annotations

from collections import Counter
from typing import final

from heedful.serving.proxies import Proxies
from heedful.serving.rates import network
from heedful.serving.settings import Settings


@final
class Crowds:
    """Connections that are open, by whom their addresses stand for; those of proxies are of many, and not counted.

    Args:
        settings: which addresses are proxies.
    """

    def __init__(self, settings: Settings) -> None:
        self._proxies = Proxies(settings.access)
        self._open: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, address: str) -> int:
        """One more; how many there are from there now."""
        if address in self._proxies:
            return 0
        who = network(address)
        self._open[who] += 1
        return self._open[who]

    def leave(self, address: str) -> None:
        """One less."""
        if address in self._proxies:
            return
        who = network(address)
        self._open[who] -= 1
        if not self._open[who]:
            del self._open[who]
