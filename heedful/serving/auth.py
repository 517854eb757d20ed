"""Who comes in: by a key where keys are asked for, and not too often."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final, final
from urllib.parse import parse_qsl

from heedful.serving.api_keys import KeyFile
from heedful.serving.http_errors import too_many_requests, unauthorized_error
from heedful.serving.rate_limit import RateLimiter, client_network
from heedful.serving.settings import ServerSettings

KEY_NAME_FIELD: Final = "heedful.key"
"""Where a request that came in says by which key; empty where none is asked for."""
_BEARER_PREFIX: Final = "bearer "
_KEY_PARAMETERS: Final = ("api_key", "apiKey")


@final
class Authenticator:
    """Lets requests in.

    Args:
        settings: with the file of keys, and how often one may ask.

    Raises:
        RecipeError: the file cannot be read.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._key_file = None if settings.access.keys is None else KeyFile(settings.access.keys)
        self._rate_limiter = RateLimiter(settings.limits.rate)

    @property
    def requires_key(self) -> bool:
        """Whether a key is asked for."""
        return self._key_file is not None

    def authenticate(self, scope: Any, key: str | None) -> None:
        """Lets a request in, which then says by which key.

        Args:
            scope: of ASGI.
            key: that it has.

        Raises:
            Refusal: the key is missing or none, or it came too often.
        """
        name = ""
        if self._key_file is not None:
            key_name = None if key is None else self._key_file.find_name(key)
            if key_name is None:
                raise unauthorized_error(missing=key is None)
            name = key_name
        address = (scope.get("client") or ("",))[0]
        seconds = self._rate_limiter.take_token(f"key {name}" if name else client_network(address))
        if seconds:
            raise too_many_requests(ceil(seconds))
        scope[KEY_NAME_FIELD] = name


def read_key(headers: Mapping[str, str], query: bytes) -> str | None:
    """The key in the headers or the query of a request; None where there is none."""
    authorization = headers.get("authorization", "")
    if authorization[: len(_BEARER_PREFIX)].lower() == _BEARER_PREFIX:
        return authorization[len(_BEARER_PREFIX) :].strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    return find_key(dict(parse_qsl(query.decode("latin-1"))))


def find_key(parameters: Mapping[str, Any]) -> str | None:
    """The key among what somebody sent."""
    key = next((parameters[name] for name in _KEY_PARAMETERS if parameters.get(name)), None)
    return key if isinstance(key, str) else None
