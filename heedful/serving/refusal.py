"""Requests that are not answered, and what whoever asked is told."""

from __future__ import annotations

import re
from typing import Final

from heedful.errors import HeedfulError
from heedful.serving.settings import Limits

_FOLDERS: Final = re.compile(r"(?<![\w.:/\\])(?:[A-Za-z]:)?[/\\](?:[\w.+@~-]+[/\\])+")
"""Of complete paths, all but the last name."""
_KEYS: Final = "Authorization: Bearer KEY, X-Api-Key: KEY or ?api_key=KEY"


class Refusal(HeedfulError):  # noqa: N818 - a decision, no failure
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


def wrong(message: str, *, param: str | None = None) -> Refusal:
    """A request that cannot be answered as it is."""
    return Refusal(400, message, param=param)


def unanswerable(error: HeedfulError) -> Refusal:
    """What a model says is wrong with what it was asked, without where on this machine anything is."""
    return wrong(_FOLDERS.sub("", str(error)))


def missing(message: str, *, param: str | None = None, code: str = "not_found") -> Refusal:
    """Something is asked for that is not here."""
    return Refusal(404, message, code=code, param=param)


def full() -> Refusal:
    """Too much is waiting."""
    return Refusal(429, "too many requests are waiting; ask again in a second", code="overloaded", retry_after=1)


def late(seconds: float) -> Refusal:
    """The deadline has passed."""
    return Refusal(504, f"no answer within {seconds:g} seconds; ask for less, or give it more time", code="timeout")


def closed(why: str) -> Refusal:
    """The server does not work yet, or no longer."""
    return Refusal(503, f"the server is {why}; ask again in a few seconds", code="unavailable", retry_after=5)


def failed(request_id: str) -> Refusal:
    """Something here went wrong, which the log tells by the number of the request."""
    return Refusal(500, f"the server failed; its log tells more of request {request_id}", code="internal_error")


def barred(*, missing: bool) -> Refusal:
    """A key is asked for; 401 is what routes of other protocols turn into what their clients expect."""
    what = "this server asks for an API key" if missing else "this API key is not known here"
    return Refusal(401, f"{what}; send one as {_KEYS}", code="invalid_api_key")


def hurried(seconds: int) -> Refusal:
    """Somebody asks too often."""
    message = f"too many requests a minute; ask again in {seconds} second{'s' * (seconds > 1)}"
    return Refusal(429, message, code="rate_limit_exceeded", retry_after=seconds)


def large(most: int) -> Refusal:
    """A request has more bytes than are read."""
    return Refusal(413, f"the request has more than {most:,} bytes; send less at a time", code="too_large")


def oversized(size: int, most: int, *, name: str) -> Refusal:
    """Something needs more memory to be decoded than all requests together may take."""
    return Refusal(
        413,
        f"{name}: needs {size:,} bytes of memory to be decoded, and this server has {most:,} for it "
        "(limits.decoding); send something smaller",
        code="too_large",
        param=name,
    )


def crowded() -> Refusal:
    """Too many bytes of requests are held at one time."""
    message = "too many large requests arrive or are answered at this time; ask again in a few seconds, and send faster"
    return Refusal(503, message, code="overloaded", retry_after=5)


def overladen(limits: Limits) -> Refusal:
    """A request has more headers than are read."""
    message = f"the request has more than {limits.headers} headers, or {limits.header_bytes:,} bytes of them"
    return Refusal(431, message, code="too_large")


def unopened(most: int) -> Refusal:
    """A request with a file has more bytes than are read of who has not shown a key."""
    return Refusal(
        413,
        f"no key stands before the request, of which {most:,} bytes are read then; send one as {_KEYS}",
        code="too_large",
    )


def misdirected(host: str) -> Refusal:
    """A server is asked for that this one is not, as pages do that let a name of theirs stand for our address."""
    return Refusal(
        421, f"Host: {host[:100]!r} is no name of this server; its owner may add it to access.hosts", code="misdirected"
    )


def foreign(origin: str) -> Refusal:
    """A page of another site asks from within a browser."""
    message = f"Origin: {origin[:100]!r} may not ask here; the server's owner may add it to access.origins"
    return Refusal(403, message, code="foreign_origin")
