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
from heedful.generation.results import NoTokenError
from heedful.serving.auth import KEY_NAME_FIELD, find_key
from heedful.serving.http_errors import HTTPError, bad_request, deadline_exceeded, internal_error, model_error
from heedful.serving.json_input import parse_json
from heedful.serving.registry import ClientDisconnected, ModelRegistry, RequestDeadline
from heedful.serving.request_log import log_failure, note_request

DEADLINE_HEADER: Final = "heedful-deadline"
"""The header with the seconds that whoever asks is ready to wait."""
MAX_INTEGER: Final = 2**31 - 1
"""Of whole numbers that are asked for, wherever no smaller bound is known: what any tensor holds."""
MAX_FACTOR: Final = 1_000.0
"""Of factors and weights that are asked for; larger ones overflow where they are multiplied."""
_REQUEST_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Ids of requests that are taken over from clients."""
_GRACE_SECONDS: Final = 1.0
"""Seconds behind its deadline after which a request is answered whether or not its work has noticed that."""
_ID_RNG: Final = random.Random()
REQUEST_ID_FIELD: Final = "heedful.id"
"""Where a request says by which id the log knows it."""


class StrictMessage(BaseModel):
    """What is asked or answered, as JSON; keys that are not known are refused.

    Abstract.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LenientMessage(StrictMessage):
    """A message of a protocol that is older than we are: keys that are not known are left aside.

    Abstract.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


@final
@dataclass(frozen=True)
class RequestContext:
    """One request.

    Attributes:
        registry: that is asked.
        request: as it came.
        id: by which the log knows it.
        deadline: how long whoever asked waits.
    """

    registry: ModelRegistry
    request: Request
    id: str
    deadline: RequestDeadline


HandlerResult: TypeAlias = Response | BaseModel | Sequence[BaseModel] | Mapping[str, Any] | Sequence[Mapping[str, Any]]
ErrorFormatter: TypeAlias = Callable[[HTTPError], Mapping[str, Any]]
"""How a refusal reads in the words of a protocol."""


def openai_error(error: HTTPError) -> Mapping[str, Any]:
    """As OpenAI's clients read it."""
    error_type = "server_error" if error.status >= 500 else "invalid_request_error"
    return {"error": {"message": error.message, "type": error_type, "param": error.param, "code": error.code}}


@final
@dataclass(frozen=True, kw_only=True)
class Route:
    """One thing that may be asked.

    Attributes:
        method: of HTTP.
        path: with names of its parts in braces.
        handler: what is done; `message` is what was asked, where something is.
        summary: one line for who reads the list of routes.
        request_type: what a request must hold, if anything.
        response_type: what an answer holds; None where that is no JSON.
        is_list: the answer is a list of these.
        read_fields: a request's table, before it is checked.
        key_in_body: who has no key elsewhere may have it in that table, which is `request.state.table` then, too.
        format_error: how refusals read.
        unauthorized_status: the status of who has no key.
        public: who has no key may ask as well.
        accepts_files: a request may hold a file, and be as large as one.
        group: under which it is listed.
        examples: of requests.
        media_type: of the answer, where that is no JSON.
        other_media_types: other media that an answer may have, each with when it has.
    """

    path: str
    handler: Callable[..., Awaitable[HandlerResult]]
    summary: str
    method: Literal["GET", "POST"] = "POST"
    request_type: type[BaseModel] | None = None
    response_type: type[BaseModel] | None = None
    is_list: bool = False
    read_fields: Callable[[Request], Awaitable[Mapping[str, Any]]] | None = None
    key_in_body: bool = False
    format_error: ErrorFormatter = openai_error
    unauthorized_status: Literal[401, 403] = 401
    public: bool = False
    accepts_files: bool = False
    group: str = "heedful"
    examples: Sequence[Mapping[str, Any]] = ()
    media_type: str = "application/json"
    other_media_types: Sequence[tuple[str, str]] = ()

    async def respond(self, registry: ModelRegistry, request: Request) -> Response:
        """The answer to a request, or why there is none; whoever leaves stops the work."""
        request_id = request.scope.get(REQUEST_ID_FIELD) or new_request_id()
        try:
            registry.require_ready()
            context = RequestContext(
                registry, request, request_id, RequestDeadline.from_seconds(_read_timeout(registry, request))
            )
            return await self._run_handler(context)
        except (ClientDisconnect, ClientDisconnected):
            return Response(status_code=499)
        except Exception as error:
            return self.build_error_response(to_http_error(error, request_id))

    def build_error_response(self, error: HTTPError) -> Response:
        """A refusal as this protocol has it."""
        return error_response(error, format_error=self.format_error, unauthorized_status=self.unauthorized_status)

    async def _run_handler(self, context: RequestContext) -> Response:
        message = await self._read_message(context)
        arguments = (context,) if self.request_type is None else (context, message)
        handler_task = asyncio.ensure_future(self.handler(*arguments))
        disconnect_task = asyncio.ensure_future(_wait_for_disconnect(context.request))
        try:
            seconds = max(0.0, context.deadline.expires_at - time.monotonic()) + _GRACE_SECONDS
            await asyncio.wait({handler_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
            if not (handler_task.done() or disconnect_task.done()):
                raise deadline_exceeded(context.deadline.seconds)
            if not handler_task.done():
                disconnect_task.result()  # which may say that the request is too large
                raise ClientDisconnected
            return render_response(handler_task.result())
        finally:
            disconnect_task.cancel()
            if not handler_task.done():
                context.deadline.cancel()
                handler_task.cancel()

    async def _read_message(self, context: RequestContext) -> BaseModel | None:
        is_authorized = self.public or KEY_NAME_FIELD in context.request.scope
        if self.request_type is None and is_authorized:
            return None
        fields = await self._read_raw_fields(context) if is_authorized else await self._read_fields_with_key(context)
        if self.request_type is None:
            return None
        try:
            message = self.request_type.model_validate(dict(fields))
        except ValidationError as error:
            first = error.errors()[0]
            location = ".".join(map(str, first["loc"]))
            raise bad_request(
                f"{location or 'request'}: {first['msg'][0].lower()}{first['msg'][1:]}", param=location
            ) from None
        note_request(message=message)
        return message

    async def _read_raw_fields(self, context: RequestContext) -> Mapping[str, Any]:
        return await (self.read_fields or read_json)(context.request)

    async def _read_fields_with_key(self, context: RequestContext) -> Mapping[str, Any]:
        """The table of a request that may have its key there; nothing else is told of it unless it has."""
        request = context.request
        read_error: HTTPError | None = None
        fields: Mapping[str, Any] = {}
        try:
            fields = await self._read_raw_fields(context)
        except HTTPError as refusal:
            if refusal.status == 413:
                raise
            read_error = refusal
        context.registry.authenticator.authenticate(request.scope, find_key(getattr(request.state, "table", {})))
        if read_error is not None:
            raise read_error
        return fields


def choose_request_id(client_id: str) -> str:
    """The id by which a request is known: the one that it has, where that may stand in a log, or a new one."""
    return client_id if _REQUEST_ID_PATTERN.fullmatch(client_id) else new_request_id()


def new_request_id() -> str:
    """By which the log knows a request; not a secret."""
    return f"{_ID_RNG.getrandbits(128):032x}"


def error_response(
    error: HTTPError, *, format_error: ErrorFormatter = openai_error, unauthorized_status: int = 401
) -> Response:
    """A refusal in the words of a protocol, which has a status for who has no key."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    status = unauthorized_status if error.status == 401 else error.status
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(dict(format_error(error)), status_code=status, headers=headers)


def to_http_error(error: Exception, request_id: str) -> HTTPError:
    """Why there is no answer to a request of this number: what a face says of it, or that something here is wrong."""
    if isinstance(error, HTTPError):
        return error
    is_server_fault = isinstance(error, RunError | MissingExtraError) and not isinstance(error, NoTokenError)
    if isinstance(error, HeedfulError) and not is_server_fault:
        return model_error(error)
    log_failure(request_id)  # we lack something, or have a mistake
    return internal_error(request_id)


def render_response(result: HandlerResult) -> Response:
    """As it is sent."""
    if isinstance(result, Response):
        return result
    if isinstance(result, BaseModel):
        return JSONResponse(result.model_dump(mode="json", exclude_none=True))
    if isinstance(result, Mapping):
        return JSONResponse(dict(result))
    return JSONResponse(
        [item.model_dump(mode="json", exclude_none=True) if isinstance(item, BaseModel) else item for item in result]
    )


async def read_json(request: Request) -> Mapping[str, Any]:
    """The object in the body of a request; `HTTPError` where it is none."""
    return parse_json_object(await read_body(request))


def parse_json_object(body: bytes) -> Mapping[str, Any]:
    """The object in a body; `HTTPError` where it is none."""
    parsed = parse_json(body, name="the body of the request")
    if not isinstance(parsed, dict):
        raise bad_request("the body of the request is no JSON object")
    return parsed


async def read_body(request: Request) -> bytes:
    """All of a body, which is not kept beside what it holds (as `Request.body` would); it can be read once."""
    return b"".join([chunk async for chunk in request.stream()])


def _read_timeout(registry: ModelRegistry, request: Request) -> float:
    max_seconds = registry.settings.limits.deadline
    header = request.headers.get(DEADLINE_HEADER)
    if header is None:
        return max_seconds
    try:
        seconds = float(header)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise bad_request(f"{DEADLINE_HEADER}: {header[:40]!r} is no number of seconds above 0", param=DEADLINE_HEADER)
    return min(seconds, max_seconds)


async def _wait_for_disconnect(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
