"""Requests that are not answered, and what whoever asked is told."""

from __future__ import annotations

import re
from typing import Final

from heedful.errors import HeedfulError
from heedful.serving.settings import ServerLimits

_FOLDER_PATTERN: Final = re.compile(r"(?<![\w.:/\\])(?:[A-Za-z]:)?[/\\](?:[\w.+@~-]+[/\\])+")
"""Of complete paths, all but the last name."""
_KEY_HINT: Final = "Authorization: Bearer KEY, X-Api-Key: KEY or ?api_key=KEY"


class HTTPError(HeedfulError):
    """A request that gets no answer; the message says what would.

    Args:
        status: of HTTP.
        message: for whoever asked: place, value, remedy, and nothing of this machine.
        code: the same as a word, for programs.
        param: the part of the request that is wrong.
        retry_after: seconds after which to ask again.
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
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after


def bad_request(message: str, *, param: str | None = None) -> HTTPError:
    """A request that cannot be answered as it is."""
    return HTTPError(400, message, param=param)


def model_error(error: HeedfulError) -> HTTPError:
    """What a model says is wrong with what it was asked, without where on this machine anything is."""
    return bad_request(_FOLDER_PATTERN.sub("", str(error)))


def not_found(message: str, *, param: str | None = None, code: str = "not_found") -> HTTPError:
    """Something is asked for that is not here."""
    return HTTPError(404, message, code=code, param=param)


def queue_full() -> HTTPError:
    """Too much is waiting."""
    return HTTPError(429, "too many requests are waiting; ask again in a second", code="overloaded", retry_after=1)


def deadline_exceeded(seconds: float) -> HTTPError:
    """The deadline has passed."""
    return HTTPError(504, f"no answer within {seconds:g} seconds; ask for less, or give it more time", code="timeout")


def unavailable(reason: str) -> HTTPError:
    """The server does not work yet, or no longer."""
    return HTTPError(503, f"the server is {reason}; ask again in a few seconds", code="unavailable", retry_after=5)


def internal_error(request_id: str) -> HTTPError:
    """Something here went wrong, which the log tells by the number of the request."""
    return HTTPError(500, f"the server failed; its log tells more of request {request_id}", code="internal_error")


def unauthorized_error(*, missing: bool) -> HTTPError:
    """A key is asked for; 401 is what routes of other protocols turn into what their clients expect."""
    problem = "this server asks for an API key" if missing else "this API key is not known here"
    return HTTPError(401, f"{problem}; send one as {_KEY_HINT}", code="invalid_api_key")


def too_many_requests(seconds: int) -> HTTPError:
    """Somebody asks too often."""
    message = f"too many requests a minute; ask again in {seconds} second{'s' * (seconds > 1)}"
    return HTTPError(429, message, code="rate_limit_exceeded", retry_after=seconds)


def payload_too_large(max_bytes: int) -> HTTPError:
    """A request has more bytes than are read."""
    return HTTPError(413, f"the request has more than {max_bytes:,} bytes; send less at a time", code="too_large")


def decoding_too_large(size: int, capacity: int, *, name: str) -> HTTPError:
    """Something needs more memory to be decoded than all requests together may take."""
    return HTTPError(
        413,
        f"{name}: needs {size:,} bytes of memory to be decoded, and this server has {capacity:,} for it "
        "(limits.decoding); send something smaller",
        code="too_large",
        param=name,
    )


def bodies_too_large() -> HTTPError:
    """Too many bytes of requests are held at one time."""
    message = "too many large requests arrive or are answered at this time; ask again in a few seconds, and send faster"
    return HTTPError(503, message, code="overloaded", retry_after=5)


def headers_too_large(limits: ServerLimits) -> HTTPError:
    """A request has more headers than are read."""
    message = f"the request has more than {limits.headers} headers, or {limits.header_bytes:,} bytes of them"
    return HTTPError(431, message, code="too_large")


def keyless_upload_too_large(max_bytes: int) -> HTTPError:
    """A request with a file has more bytes than are read of who has not shown a key."""
    return HTTPError(
        413,
        f"no key stands before the request, of which {max_bytes:,} bytes are read then; send one as {_KEY_HINT}",
        code="too_large",
    )


def host_not_served(host: str) -> HTTPError:
    """A server is asked for that this one is not, as pages do that let a name of theirs stand for our address."""
    return HTTPError(
        421, f"Host: {host[:100]!r} is no name of this server; its owner may add it to access.hosts", code="misdirected"
    )


def origin_forbidden(origin: str) -> HTTPError:
    """A page of another site asks from within a browser."""
    message = f"Origin: {origin[:100]!r} may not ask here; the server's owner may add it to access.origins"
    return HTTPError(403, message, code="foreign_origin")
