"""Routes: what may be asked, in which words, and how an answer comes about."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from heedful.errors import HeedfulError
from heedful.serving.house import Gone, House, Term
from heedful.serving.refusal import Refusal, failed, wrong

DEADLINE: Final = "heedful-deadline"
"""The header with the seconds that whoever asks is ready to wait."""
log: Final = logging.getLogger("heedful.serving")


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
        dialect: how refusals read.
        free: who has no key may ask as well.
        files: a request may hold a file, and be as large as one.
        group: under which it is listed.
        examples: of requests.
        media: of the answer, where that is no JSON.
    """

    path: str
    answer: Callable[..., Awaitable[Answer]]
    about: str
    method: Literal["GET", "POST"] = "POST"
    takes: type[BaseModel] | None = None
    gives: type[BaseModel] | None = None
    many: bool = False
    reads: Callable[[Request], Awaitable[Mapping[str, Any]]] | None = None
    dialect: Dialect = ours
    free: bool = False
    files: bool = False
    group: str = "heedful"
    examples: Sequence[Mapping[str, Any]] = ()
    media: str = "application/json"

    async def respond(self, house: House, request: Request) -> Response:
        """The answer to a request, or why there is none; whoever leaves stops the work."""
        number = request.scope.get("heedful.id") or uuid.uuid4().hex
        try:
            house.require_open()
            asked = Asked(house, request, number, Term.of(_seconds(house, request)))
            return await self._attended(asked)
        except Refusal as refusal:
            return self.refused(refusal)
        except ClientDisconnect:
            return Response(status_code=499)
        except Gone:
            return Response(status_code=499)
        except HeedfulError as error:  # a face says what is wrong with a text
            return self.refused(wrong(str(error)))
        except Exception:
            log.exception("request %s failed", number)
            return self.refused(failed(number))

    def refused(self, refusal: Refusal) -> Response:
        """A refusal as this protocol has it."""
        headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
        return JSONResponse(dict(self.dialect(refusal)), status_code=refusal.status, headers=headers)

    async def _attended(self, asked: Asked) -> Response:
        message = await self._read(asked.request)
        given = (asked,) if self.takes is None else (asked, message)
        answering = asyncio.ensure_future(self.answer(*given))
        leaving = asyncio.ensure_future(_left(asked.request))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise Gone
            return rendered(answering.result())
        finally:
            leaving.cancel()
            if not answering.done():
                asked.term.left.set()
                answering.cancel()

    async def _read(self, request: Request) -> BaseModel | None:
        if self.takes is None:
            return None
        table = await (self.reads or read_json)(request)
        try:
            return self.takes.model_validate(dict(table))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise wrong(f"{place or 'request'}: {first['msg'][0].lower()}{first['msg'][1:]}", param=place) from None


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
    try:
        table = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise wrong("the body of the request is no JSON; send an object") from None
    if not isinstance(table, dict):
        raise wrong("the body of the request is no JSON object")
    return table


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
