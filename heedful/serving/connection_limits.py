"""Count the open connections of each client address."""

from __future__ import annotations

from collections import Counter
from typing import final

from heedful.serving.rate_limit import client_network
from heedful.serving.settings import ServerSettings
from heedful.serving.trusted_proxies import TrustedProxies


@final
class ConnectionCounter:
    """Counts open connections by client network; those of proxies serve many clients and are not counted.

    Args:
        settings: with the addresses of proxies.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._proxies = TrustedProxies(settings.access)
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._counts)

    def add_connection(self, address: str) -> int:
        """Count a new connection, and return how many its network has now."""
        if address in self._proxies:
            return 0
        client = client_network(address)
        self._counts[client] += 1
        return self._counts[client]

    def remove_connection(self, address: str) -> None:
        """Stop counting a connection that has closed."""
        if address in self._proxies:
            return
        client = client_network(address)
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
