"""HTTP errors that refuse a request, with messages for the client."""

from __future__ import annotations

import re
from typing import Final

from heedful.errors import HeedfulError
from heedful.serving.settings import ServerLimits

_FOLDER_PATTERN: Final = re.compile(r"(?<![\w.:/\\])(?:[A-Za-z]:)?[/\\](?:[\w.+@~-]+[/\\])+")
"""The folders of an absolute path, without the last name."""
_KEY_HINT: Final = "Authorization: Bearer KEY, X-Api-Key: KEY or ?api_key=KEY"


class HTTPError(HeedfulError):
    """An HTTP error that is sent instead of an answer; the message says what would be accepted.

    Args:
        status: HTTP status code.
        message: for the client: field, value and remedy, and nothing about this machine.
        code: short error code for programs.
        param: name of the field that is wrong.
        retry_after: seconds after which the client may try again.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "invalid_request",
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = str(self)
        self.code = code
        self.param = param
        self.retry_after = retry_after


def bad_request(message: str, *, param: str | None = None) -> HTTPError:
    """Build a 400 error: the request cannot be answered in its present form."""
    return HTTPError(400, message, param=param)


def model_error(error: HeedfulError) -> HTTPError:
    """Build a 400 error from a model's error, with the paths of this machine removed."""
    return bad_request(_FOLDER_PATTERN.sub("", str(error)))


def not_found(message: str, *, param: str | None = None, code: str = "not_found") -> HTTPError:
    """Build a 404 error: the requested thing does not exist on this server."""
    return HTTPError(404, message, code=code, param=param)


def queue_full() -> HTTPError:
    """Build a 429 error: too many requests are waiting."""
    return HTTPError(429, "too many requests are waiting; ask again in a second", code="overloaded", retry_after=1)


def deadline_exceeded(seconds: float) -> HTTPError:
    """Build a 504 error: the deadline of the request has passed."""
    return HTTPError(504, f"no answer within {seconds:g} seconds; ask for less, or give it more time", code="timeout")


def unavailable(reason: str) -> HTTPError:
    """Build a 503 error: the server is still loading or is shutting down."""
    return HTTPError(503, f"the server is {reason}; ask again in a few seconds", code="unavailable", retry_after=5)


def internal_error(request_id: str) -> HTTPError:
    """Build a 500 error that names the request id, under which the log has the details."""
    return HTTPError(500, f"the server failed; its log says more about request {request_id}", code="internal_error")


def unauthorized_error(*, missing: bool) -> HTTPError:
    """Build a 401 error for an API key that is missing or, unless `missing` is set, unknown; routes of other protocols
    change the status to what their clients expect.
    """
    problem = "this server needs an API key" if missing else "this API key is unknown"
    return HTTPError(401, f"{problem}; send one as {_KEY_HINT}", code="invalid_api_key")


def too_many_requests(seconds: int) -> HTTPError:
    """Build a 429 error: the client exceeds its rate limit."""
    message = f"too many requests a minute; ask again in {seconds} second{'s' * (seconds > 1)}"
    return HTTPError(429, message, code="rate_limit_exceeded", retry_after=seconds)


def payload_too_large(max_bytes: int) -> HTTPError:
    """Build a 413 error: the body has more bytes than are accepted."""
    return HTTPError(413, f"the request has more than {max_bytes:,} bytes; send less at a time", code="too_large")


def decoding_too_large(size: int, capacity: int, *, name: str) -> HTTPError:
    """Build a 413 error: decoding the request field `name` needs `size` bytes of memory, more than the `capacity` that
    all requests together may use.
    """
    return HTTPError(
        413,
        f"{name}: needs {size:,} bytes of memory to be decoded, and this server has {capacity:,} for it "
        "(limits.decoding); send something smaller",
        code="too_large",
        param=name,
    )


def bodies_too_large() -> HTTPError:
    """Build a 503 error: the bodies of all current requests take too much memory."""
    message = "too many large requests arrive or are answered at this time; ask again in a few seconds, and send faster"
    return HTTPError(503, message, code="overloaded", retry_after=5)


def headers_too_large(limits: ServerLimits) -> HTTPError:
    """Build a 431 error: the request has too many or too long headers."""
    message = f"the request has more than {limits.headers} headers, or {limits.header_bytes:,} bytes of them"
    return HTTPError(431, message, code="too_large")


def keyless_upload_too_large(max_bytes: int) -> HTTPError:
    """Build a 413 error: without a key in the headers, the body of an upload may have only `max_bytes` bytes."""
    return HTTPError(
        413,
        f"the headers have no API key, and without one only {max_bytes:,} bytes of a request are read; send one as "
        f"{_KEY_HINT}",
        code="too_large",
    )


def host_not_served(host: str) -> HTTPError:
    """Build a 421 error: the `Host` header names another server (protection against DNS rebinding)."""
    return HTTPError(
        421,
        f"Host: {host[:100]!r} is not a name of this server; its owner may add it to access.hosts",
        code="misdirected",
    )


def origin_forbidden(origin: str) -> HTTPError:
    """Build a 403 error: a web page of another origin may not send requests here."""
    message = f"Origin: {origin[:100]!r} may not send requests here; the server's owner may add it to access.origins"
    return HTTPError(403, message, code="foreign_origin")
