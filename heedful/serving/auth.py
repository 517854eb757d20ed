"""API keys: the file with their hashes, and the check of each request."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import parse_qsl

from heedful.errors import RecipeError
from heedful.files import read_text
from heedful.serving.clients import RateLimiter, client_network
from heedful.serving.http_errors import too_many_requests, unauthorized_error
from heedful.serving.settings import ServerSettings

_KEY_PREFIX: Final = "heedful-"
"""Prefix by which secret scanners recognise a key."""
_LINE_PATTERN: Final = re.compile(r"sha256:([0-9a-f]{64})[ \t]+([^\s#]+)")
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_logger: Final = logging.getLogger("heedful.serving")
KEY_NAME_FIELD: Final = "heedful.key"
"""Field of the ASGI scope with the name of the request's API key; empty if no key is required."""
_BEARER_PREFIX: Final = "bearer "
_KEY_PARAMETERS: Final = ("api_key", "apiKey")


def generate_key() -> str:
    """Generate a random API key of 256 bits, so that its plain hash reveals nothing."""
    return _KEY_PREFIX + secrets.token_urlsafe(32)


def format_key_line(name: str, key: str) -> str:
    """Format the line of a key file that holds the hash of a key and its name.

    Raises:
        RecipeError: the name is not valid.
    """
    if not _NAME_PATTERN.fullmatch(name):
        raise RecipeError(
            f"--new-key: {name!r} is not a valid name for a key; use up to 64 letters, digits, '.', '_', '@', '-'"
        )
    return f"sha256:{_hash_key(key).hex()} {name}\n"


def add_key(path: Path, name: str | None) -> tuple[str, str]:
    """Generate a key and append it to a key file, which is readable by its owner alone if this creates it; return the
    key's name and the key.

    Args:
        path: of the file.
        name: of the key; by default `key-` and a number.

    Raises:
        RecipeError: the file cannot be written, or has a key of this name.
    """
    old_text = _read_key_text(path) if path.exists() else ""
    old_names = set(_parse_keys(old_text, path).values())
    name = name or next(
        candidate for number in range(1, len(old_names) + 2) if (candidate := f"key-{number}") not in old_names
    )
    if name in old_names:
        raise RecipeError(f"{path}: already has a key {name!r}; choose another name, or remove its line first")
    key = generate_key()
    line = format_key_line(name, key)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(("" if old_text.endswith("\n") or not old_text else "\n") + line)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be written ({error.strerror}); choose another --access.keys") from None
    return name, key


@final
class KeyFile:
    """The keys of a file, which is read again when it changes.

    Args:
        path: of the file.

    Raises:
        RecipeError: it cannot be read, or contains no key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _file_stamp(path)
        self._names = _read_keys(path)
        if not self._names:
            raise RecipeError(f"{path}: holds no key; add one with: heedful serve --access.keys {path} --new-key NAME")

    def find_name(self, key: str) -> str | None:
        """Return the name of a key, or None if it is unknown; the comparison takes constant time."""
        self._reload_if_changed()
        digest = _hash_key(key)
        match = None
        for known_digest, name in self._names.items():
            if hmac.compare_digest(known_digest, digest):
                match = name
        return match

    def _reload_if_changed(self) -> None:
        """Read the file again if it has changed; keep the old keys if it cannot be read, as while it is being
        written.
        """
        stamp = _file_stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._names = _read_keys(self._path)
        except RecipeError as error:
            _logger.error("%s; until then, the keys that were read last stay valid", error)


def _read_keys(path: Path) -> Mapping[bytes, str]:
    return _parse_keys(_read_key_text(path), path)


def _read_key_text(path: Path) -> str:
    """Read the text of a key file, or raise a `RecipeError`."""
    try:
        return read_text(path)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror}); give the path of a file of keys") from None
    except UnicodeDecodeError:
        raise RecipeError(f"{path}: is not a text; give the path of a file of keys") from None


def _parse_keys(text: str, path: Path) -> Mapping[bytes, str]:
    """Parse the text of a key file into the names of the keys by their hashes. A wrong line raises a `RecipeError` that
    names the path.
    """
    names: dict[bytes, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        match = _LINE_PATTERN.fullmatch(content)
        if match is None:  # the line may be a key in plain text, so it is not shown
            raise RecipeError(f"{path}:{number}: is not `sha256:HASH NAME`; write it with heedful serve --new-key")
        names[bytes.fromhex(match[1])] = match[2]
    return names


def _hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _file_stamp(path: Path) -> tuple[int, ...] | None:
    """Return modification times, size and inode of a file, which show whether it has changed; None if it cannot be
    read.
    """
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


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
