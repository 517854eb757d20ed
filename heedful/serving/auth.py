"""API-key authentication and rate limiting."""

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
"""Field of the ASGI scope with the name of the request's API key; empty if no key is required."""
_BEARER_PREFIX: Final = "bearer "
_KEY_PARAMETERS: Final = ("api_key", "apiKey")


@final
class Authenticator:
    """Checks API keys and rate limits before a request is routed.

    Args:
        settings: with the file of keys and the rate limit.

    Raises:
        RecipeError: the file of keys cannot be read.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._key_file = None if settings.access.keys is None else KeyFile(settings.access.keys)
        self._rate_limiter = RateLimiter(settings.limits.rate)

    @property
    def requires_key(self) -> bool:
        """Whether requests need an API key."""
        return self._key_file is not None

    def authenticate(self, scope: Any, key: str | None) -> None:
        """Check the key and the rate limit of a request, and store the key's name in its ASGI scope.

        Args:
            scope: ASGI scope of the request.
            key: API key of the request, if it has one.

        Raises:
            HTTPError: the key is missing or unknown, or the rate limit is exceeded.
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
    """Return the API key in the headers or the query of a request, or None."""
    authorization = headers.get("authorization", "")
    if authorization[: len(_BEARER_PREFIX)].lower() == _BEARER_PREFIX:
        return authorization[len(_BEARER_PREFIX) :].strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    return find_key(dict(parse_qsl(query.decode("latin-1"))))


def find_key(parameters: Mapping[str, Any]) -> str | None:
    """Return the API key among the fields of a query or body, or None."""
    key = next((parameters[name] for name in _KEY_PARAMETERS if parameters.get(name)), None)
    return key if isinstance(key, str) else None
