"""Requests that are not answered, and what whoever asked is told."""

from __future__ import annotations

from heedful.errors import HeedfulError


class Refusal(HeedfulError):
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
