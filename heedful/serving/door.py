"""Who comes in: by a key where keys are asked for, and not too often."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final, final
from urllib.parse import parse_qsl

from heedful.serving.keys import Keys
from heedful.serving.rates import Rates, network
from heedful.serving.refusal import barred, hurried
from heedful.serving.settings import Settings

KEY: Final = "heedful.key"
"""Where a request that came in says by which key; empty where none is asked for."""
_BEARER: Final = "bearer "
_PARAMETERS: Final = ("api_key", "apiKey")


@final
class Door:
    """Lets requests in.

    Args:
        settings: with the file of keys, and how often one may ask.

    Raises:
        RecipeError: the file cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self._keys = None if settings.access.keys is None else Keys(settings.access.keys)
        self._rates = Rates(settings.limits.rate)

    @property
    def locked(self) -> bool:
        """Whether a key is asked for."""
        return self._keys is not None

    def admit(self, scope: Any, key: str | None) -> None:
        """Lets a request in, which then says by which key.

        Args:
            scope: of ASGI.
            key: that it has.

        Raises:
            Refusal: the key is missing or none, or it came too often.
        """
        name = ""
        if self._keys is not None:
            found = None if key is None else self._keys.name_of(key)
            if found is None:
                raise barred(missing=key is None)
            name = found
        address = (scope.get("client") or ("",))[0]
        seconds = self._rates.take(f"key {name}" if name else network(address))
        if seconds:
            raise hurried(ceil(seconds))
        scope[KEY] = name


def key_of(headers: Mapping[str, str], query: bytes) -> str | None:
    """The key in the headers or the query of a request; None where there is none."""
    authorization = headers.get("authorization", "")
    if authorization[: len(_BEARER)].lower() == _BEARER:
        return authorization[len(_BEARER) :].strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    return key_in(dict(parse_qsl(query.decode("latin-1"))))


def key_in(table: Mapping[str, Any]) -> str | None:
    """The key among what somebody sent."""
    found = next((table[name] for name in _PARAMETERS if table.get(name)), None)
    return found if isinstance(found, str) else None
