"""Routes: what may be asked, in which words, and how an answer comes about."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from heedful.errors import HeedfulError, MissingExtraError, RunError
from heedful.generation.hypotheses import NoTokenError
from heedful.serving.door import KEY, key_in
from heedful.serving.house import Gone, House, Term
from heedful.serving.jsons import parse_json
from heedful.serving.logs import note, tell_failure
from heedful.serving.refusal import Refusal, failed, late, unanswerable, wrong

DEADLINE: Final = "heedful-deadline"
"""The header with the seconds that whoever asks is ready to wait."""
MOST: Final = 2**31 - 1
"""Of whole numbers that are asked for, wherever no smaller bound is known: what any tensor holds."""
LARGEST: Final = 1_000.0
"""Of factors and weights that are asked for; larger ones overflow where they are multiplied."""
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Ids of requests that are taken over from clients."""
_GRACE: Final = 1.0
"""Seconds behind its deadline after which a request is answered whether or not its work has noticed that."""
_IDS: Final = random.Random()
ID: Final = "heedful.id"
"""Where a request says by which id the log knows it."""


class Message(BaseModel):
    """What is asked or answered, as JSON; keys that are not known are refused.

    Abstract.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Open(Message):
    """A message of a protocol that is older than we are: keys that are not known are left aside.

    Abstract.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


@final
@dataclass(frozen=True)
class Asked:
    """One request.

    Attributes:
        house: that is asked.
        request: as it came.
        id: by which the log knows it.
        term: how long whoever asked waits.
    """

    house: House
    request: Request
    id: str
    term: Term


Answer: TypeAlias = Response | BaseModel | Sequence[BaseModel] | Mapping[str, Any] | Sequence[Mapping[str, Any]]
Dialect: TypeAlias = Callable[[Refusal], Mapping[str, Any]]
"""How a refusal reads in the words of a protocol."""


def ours(refusal: Refusal) -> Mapping[str, Any]:
    """As OpenAI's clients read it."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}}


@final
@dataclass(frozen=True, kw_only=True)
class Route:
    """One thing that may be asked.

    Attributes:
        method: of HTTP.
        path: with names of its parts in braces.
        answer: what is done; `message` is what was asked, where something is.
        about: one line for who reads the list of routes.
        takes: what a request must hold, if anything.
        gives: what an answer holds; None where that is no JSON.
        many: the answer is a list of these.
        reads: a request's table, before it is checked.
        holds_key: who has no key elsewhere may have it in that table, which is `request.state.table` then, too.
        dialect: how refusals read.
        barred: the status of who has no key.
        free: who has no key may ask as well.
        files: a request may hold a file, and be as large as one.
        group: under which it is listed.
        examples: of requests.
        media: of the answer, where that is no JSON.
        also: other media that an answer may have, each with when it has.
    """

    path: str
    answer: Callable[..., Awaitable[Answer]]
    about: str
    method: Literal["GET", "POST"] = "POST"
    takes: type[BaseModel] | None = None
    gives: type[BaseModel] | None = None
    many: bool = False
    reads: Callable[[Request], Awaitable[Mapping[str, Any]]] | None = None
    holds_key: bool = False
    dialect: Dialect = ours
    barred: Literal[401, 403] = 401
    free: bool = False
    files: bool = False
    group: str = "heedful"
    examples: Sequence[Mapping[str, Any]] = ()
    media: str = "application/json"
    also: Sequence[tuple[str, str]] = ()

    async def respond(self, house: House, request: Request) -> Response:
        """The answer to a request, or why there is none; whoever leaves stops the work."""
        number = request.scope.get(ID) or new_id()
        try:
            house.require_open()
            asked = Asked(house, request, number, Term.of(_seconds(house, request)))
            return await self._attended(asked)
        except (ClientDisconnect, Gone):
            return Response(status_code=499)
        except Exception as error:
            return self.refused(refusal_of(error, number))

    def refused(self, refusal: Refusal) -> Response:
        """A refusal as this protocol has it."""
        return refused(refusal, dialect=self.dialect, barred=self.barred)

    async def _attended(self, asked: Asked) -> Response:
        message = await self._read(asked)
        given = (asked,) if self.takes is None else (asked, message)
        answering = asyncio.ensure_future(self.answer(*given))
        leaving = asyncio.ensure_future(_left(asked.request))
        try:
            seconds = max(0.0, asked.term.at - time.monotonic()) + _GRACE
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
            if not (answering.done() or leaving.done()):
                raise late(asked.term.seconds)
            if not answering.done():
                leaving.result()  # which may say that the request is too large
                raise Gone
            return rendered(answering.result())
        finally:
            leaving.cancel()
            if not answering.done():
                asked.term.leave()
                answering.cancel()

    async def _read(self, asked: Asked) -> BaseModel | None:
        is_in = self.free or KEY in asked.request.scope
        if self.takes is None and is_in:
            return None
        table = await self._table(asked) if is_in else await self._admitted(asked)
        if self.takes is None:
            return None
        try:
            message = self.takes.model_validate(dict(table))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise wrong(f"{place or 'request'}: {first['msg'][0].lower()}{first['msg'][1:]}", param=place) from None
        note(asked=message)
        return message

    async def _table(self, asked: Asked) -> Mapping[str, Any]:
        return await (self.reads or read_json)(asked.request)

    async def _admitted(self, asked: Asked) -> Mapping[str, Any]:
        """The table of a request that may have its key there; nothing else is told of it unless it has."""
        request = asked.request
        unread: Refusal | None = None
        table: Mapping[str, Any] = {}
        try:
            table = await self._table(asked)
        except Refusal as refusal:
            if refusal.status == 413:
                raise
            unread = refusal
        asked.house.door.admit(request.scope, key_in(getattr(request.state, "table", {})))
        if unread is not None:
            raise unread
        return table


def request_id(given: str) -> str:
    """The id by which a request is known: the one that it has, where that may stand in a log, or a new one."""
    return given if _ID.fullmatch(given) else new_id()


def new_id() -> str:
    """By which the log knows a request; not a secret."""
    return f"{_IDS.getrandbits(128):032x}"


def refused(refusal: Refusal, *, dialect: Dialect = ours, barred: int = 401) -> Response:
    """A refusal in the words of a protocol, which has a status for who has no key."""
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    status = barred if refusal.status == 401 else refusal.status
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(dict(dialect(refusal)), status_code=status, headers=headers)


def refusal_of(error: Exception, number: str) -> Refusal:
    """Why there is no answer to a request of this number: what a face says of it, or that something here is wrong."""
    if isinstance(error, Refusal):
        return error
    lacking = isinstance(error, RunError | MissingExtraError) and not isinstance(error, NoTokenError)
    if isinstance(error, HeedfulError) and not lacking:
        return unanswerable(error)
    tell_failure(number)  # we lack something, or have a mistake
    return failed(number)


def rendered(answer: Answer) -> Response:
    """As it is sent."""
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, BaseModel):
        return JSONResponse(answer.model_dump(mode="json", exclude_none=True))
    if isinstance(answer, Mapping):
        return JSONResponse(dict(answer))
    return JSONResponse(
        [each.model_dump(mode="json", exclude_none=True) if isinstance(each, BaseModel) else each for each in answer]
    )


async def read_json(request: Request) -> Mapping[str, Any]:
    """The object in the body of a request; `Refusal` where it is none."""
    return json_object(await read_body(request))


def json_object(body: bytes) -> Mapping[str, Any]:
    """The object in a body; `Refusal` where it is none."""
    table = parse_json(body, name="the body of the request")
    if not isinstance(table, dict):
        raise wrong("the body of the request is no JSON object")
    return table


async def read_body(request: Request) -> bytes:
    """All of a body, which is not kept beside what it holds (as `Request.body` would); it can be read once."""
    return b"".join([part async for part in request.stream()])


def _seconds(house: House, request: Request) -> float:
    most = house.settings.limits.deadline
    given = request.headers.get(DEADLINE)
    if given is None:
        return most
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise wrong(f"{DEADLINE}: {given[:40]!r} is no number of seconds above 0", param=DEADLINE)
    return min(seconds, most)


async def _left(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
