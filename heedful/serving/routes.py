"""Routes: path, request and response types, handler, and how errors are turned into responses."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, final, get_type_hints

from annotated_types import Le, Lt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from heedful.errors import HeedfulError, MissingExtraError, RunError
from heedful.recipes.generation import list_search_options
from heedful.serving.auth import KEY_NAME_FIELD, find_key
from heedful.serving.deadline import ClientDisconnected, RequestDeadline
from heedful.serving.http_errors import HTTPError, bad_request, deadline_exceeded, internal_error, model_error
from heedful.serving.registry import ModelRegistry
from heedful.serving.request_body import read_json
from heedful.serving.request_log import log_failure, note_request
from heedful.serving.settings import ServerLimits

DEADLINE_HEADER: Final = "heedful-deadline"
"""Header with the number of seconds that the client is ready to wait."""
MAX_INTEGER: Final = 2**31 - 1
"""Largest whole number in requests if no smaller bound is known; every tensor can hold it."""
MAX_FACTOR: Final = 1_000.0
"""Largest factor or weight in requests; larger ones overflow in products."""
_REQUEST_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Request ids of clients that are accepted."""
_GRACE_SECONDS: Final = 1.0
"""Seconds after its deadline when a request is answered even if its work has not stopped."""
_ID_RNG: Final = random.Random()
REQUEST_ID_FIELD: Final = "heedful.id"
"""Field of the ASGI scope with the request id."""


class StrictMessage(BaseModel):
    """A JSON message of a request or response; unknown keys are rejected.

    Abstract.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LenientMessage(StrictMessage):
    """A JSON message of a third-party protocol; unknown keys are ignored.

    Abstract.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


@final
@dataclass(frozen=True)
class RequestContext:
    """One HTTP request with what its handler needs.

    Attributes:
        registry: models and shared state.
        request: the Starlette request.
        id: request id in the log.
        deadline: of the request.
    """

    registry: ModelRegistry
    request: Request
    id: str
    deadline: RequestDeadline

    @property
    def limits(self) -> ServerLimits:
        """Limits of the server on requests."""
        return self.registry.settings.limits


HandlerResult: TypeAlias = Response | BaseModel | Sequence[BaseModel] | Mapping[str, Any] | Sequence[Mapping[str, Any]]
ErrorFormatter: TypeAlias = Callable[[HTTPError], Mapping[str, Any]]
"""Formats an error for the clients of a protocol."""


def openai_error(error: HTTPError) -> Mapping[str, Any]:
    """Format an error as OpenAI's clients read it."""
    error_type = "server_error" if error.status >= 500 else "invalid_request_error"
    return {"error": {"message": error.message, "type": error_type, "param": error.param, "code": error.code}}


@final
@dataclass(frozen=True, kw_only=True)
class Route:
    """One HTTP endpoint.

    Attributes:
        path: with parameter names in braces.
        handler: called with the request context and, if there is a `request_type`, the parsed message.
        summary: one line for the list of routes.
        method: of HTTP.
        request_type: message that the body must hold, if any.
        response_type: message of the answer; None if it is not JSON.
        is_list: whether the answer is a list of these.
        read_fields: reads the fields of a request before they are validated.
        key_in_body: whether the API key may be among these fields; they are stored as `request.state.table`
            then.
        format_error: formats errors for the clients of this protocol.
        unauthorized_status: status if the key is missing or unknown.
        public: whether no key is needed.
        answers_always: whether it answers while the server loads models or ends, too.
        accepts_files: whether the body may hold a file and be as large as one.
        group: heading under which the route is listed.
        examples: of requests, or a function that makes them for the served models.
        media_type: of the answer, if that is not JSON.
        other_media_types: further media types of the answer, each with the condition for it.
        is_served: whether a server with these models has the route.
    """

    path: str
    handler: Callable[..., Awaitable[HandlerResult]]
    summary: str
    method: Literal["GET", "POST"] = "POST"
    request_type: type[BaseModel] | None = None
    response_type: type[BaseModel] | None = None
    is_list: bool = False
    read_fields: Callable[[Request], Awaitable[Mapping[str, Any]]] = read_json
    key_in_body: bool = False
    format_error: ErrorFormatter = openai_error
    unauthorized_status: Literal[401, 403] = 401
    public: bool = False
    answers_always: bool = False
    accepts_files: bool = False
    group: str = "heedful"
    examples: Sequence[Mapping[str, Any]] | Callable[[ModelRegistry], Sequence[Mapping[str, Any]]] = ()
    media_type: str = "application/json"
    other_media_types: Sequence[tuple[str, str]] = ()
    is_served: Callable[[ModelRegistry], bool] = lambda _: True

    async def respond(self, registry: ModelRegistry, request: Request) -> Response:
        """Answer a request with the models of a registry, turning errors into error responses; the work stops if the
        client disconnects.
        """
        request_id = request.scope.get(REQUEST_ID_FIELD) or new_request_id()
        try:
            if not self.answers_always:
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
        """Build an error response in the format of this route's protocol."""
        return error_response(error, format_error=self.format_error, unauthorized_status=self.unauthorized_status)

    async def _run_handler(self, context: RequestContext) -> Response:
        """Read the message of a request, run the handler on it and return the response; raise an error if the deadline
        is over or the client disconnects first.
        """
        message = await self._read_message(context)
        arguments = (context,) if self.request_type is None else (context, message)
        is_over, has_result, task = False, False, asyncio.current_task()
        assert task is not None, "requests are answered in tasks"
        disconnect_task = asyncio.ensure_future(_wait_for_disconnect(context.request))

        def stop_handler(_: object = None) -> None:
            """Interrupt the handler once, unless its result is there."""
            nonlocal is_over
            if not (has_result or is_over):
                is_over = True
                task.cancel()

        disconnect_task.add_done_callback(stop_handler)
        seconds = max(0.0, context.deadline.expires_at - time.monotonic()) + _GRACE_SECONDS
        timer = asyncio.get_running_loop().call_later(seconds, stop_handler)
        try:
            result = await self.handler(*arguments)
            has_result = True
            return render_response(result)
        except asyncio.CancelledError:
            if not is_over or task.uncancel():  # the server ends the task
                raise
            if not disconnect_task.done():
                raise deadline_exceeded(context.deadline.seconds) from None
            disconnect_task.result()  # which may say that the request is too large
            raise ClientDisconnected from None
        finally:
            timer.cancel()
            disconnect_task.remove_done_callback(stop_handler)
            disconnect_task.cancel()
            if not has_result:
                context.deadline.cancel()

    async def _read_message(self, context: RequestContext) -> BaseModel | None:
        """Read and validate the message of a request, and check the API key among its fields unless the request is
        authorized already; return None if the route takes no message.
        """
        is_authorized = self.public or KEY_NAME_FIELD in context.request.scope
        if self.request_type is None and is_authorized:
            return None
        fields = await self.read_fields(context.request) if is_authorized else await self._read_fields_with_key(context)
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

    async def _read_fields_with_key(self, context: RequestContext) -> Mapping[str, Any]:
        """Return the fields of a request whose API key may be among them, after checking the key. Other errors are
        raised only after the key is accepted, except a 413 error.
        """
        request = context.request
        read_error: HTTPError | None = None
        fields: Mapping[str, Any] = {}
        try:
            fields = await self.read_fields(request)
        except HTTPError as refusal:
            if refusal.status == 413:
                raise
            read_error = refusal
        context.registry.authenticator.authenticate(request.scope, find_key(getattr(request.state, "table", {})))
        if read_error is not None:
            raise read_error
        return fields


def declare_route(
    path: str, summary: str, **options: Any
) -> Callable[[Callable[..., Awaitable[HandlerResult]]], Route]:
    """Make the decorated handler a `Route`, whose further attributes are the `options`; its parameter `message`, if it
    has one, gives the type of the request.

    The routes of the modules in `heedful.serving.app.ROUTE_MODULES` are served.

    Args:
        path: see `Route`, as all others.
        summary: see there.
        options: see there.
    """

    def decorate(handler: Callable[..., Awaitable[HandlerResult]]) -> Route:
        request_type = get_type_hints(handler).get("message")
        return Route(path=path, summary=summary, handler=handler, request_type=request_type, **options)

    return decorate


def choose_request_id(client_id: str) -> str:
    """Return the client's request id if it is safe to log, else a new one."""
    return client_id if _REQUEST_ID_PATTERN.fullmatch(client_id) else new_request_id()


def new_request_id() -> str:
    """Return a random request id for the log; it is not a secret."""
    return f"{_ID_RNG.getrandbits(128):032x}"


def error_response(
    error: HTTPError, *, format_error: ErrorFormatter = openai_error, unauthorized_status: int = 401
) -> Response:
    """Build the HTTP response for an error, whose content `format_error` makes for a protocol; `unauthorized_status`
    replaces the status 401.
    """
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    status = unauthorized_status if error.status == 401 else error.status
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(dict(format_error(error)), status_code=status, headers=headers)


def to_http_error(error: Exception, request_id: str) -> HTTPError:
    """Convert an exception to an `HTTPError`: a model's complaint about the input becomes 400, everything else is
    logged under the request id and becomes 500; an `HTTPError` stays as it is.
    """
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, HeedfulError) and not _is_server_fault(error):
        return model_error(error)
    log_failure(request_id)  # something is missing here, or the server has a bug
    return internal_error(request_id)


def _is_server_fault(error: HeedfulError) -> bool:
    """Return whether an error means that the server has a defect, as a missing extra or a damaged run, rather than the
    request.
    """
    if not isinstance(error, RunError | MissingExtraError):
        return False
    from heedful.generation.results import NoTokenError  # which reads torch, and the server answers before that

    return not isinstance(error, NoTokenError)


def render_response(result: HandlerResult) -> Response:
    """Convert the result of a handler to a Starlette response: messages and mappings become JSON, a response stays."""
    if isinstance(result, Response):
        return result
    if isinstance(result, BaseModel):
        return JSONResponse(result.model_dump(mode="json", exclude_none=True))
    if isinstance(result, Mapping):
        return JSONResponse(dict(result))
    return JSONResponse(
        [item.model_dump(mode="json", exclude_none=True) if isinstance(item, BaseModel) else item for item in result]
    )


def _read_timeout(registry: ModelRegistry, request: Request) -> float:
    """Return the seconds that a request may take: those in its deadline header, but at most the limit in the registry's
    settings. Raise an `HTTPError` for a wrong header.
    """
    max_seconds = registry.settings.limits.deadline
    header = request.headers.get(DEADLINE_HEADER)
    if header is None:
        return max_seconds
    try:
        seconds = float(header)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise bad_request(
            f"{DEADLINE_HEADER}: {header[:40]!r} is not a number of seconds above 0", param=DEADLINE_HEADER
        )
    return min(seconds, max_seconds)


async def _wait_for_disconnect(request: Request) -> None:
    """Receive the messages of a request until its client has disconnected."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


MessageT = TypeVar("MessageT", bound=BaseModel)


def add_search_fields(
    config_type: Any, *, limits: Mapping[str, Any] | None = None, excluded: tuple[str, ...] = (), note: str = ""
) -> Callable[[type[MessageT]], type[MessageT]]:
    """Decorate a request class: add a field for each option of a search that the class does not declare itself.

    Values have the bounds of the recipe. A number without an upper bound there gets the server's.

    Args:
        config_type: union of the configs with the options (`list_search_options`).
        limits: further bounds by the name of an option.
        excluded: names of options that get no field.
        note: text after each description.
    """

    def add_fields(cls: type[MessageT]) -> type[MessageT]:
        own_names = cls.__annotations__.keys() | set(excluded)
        new_fields: dict[str, Any] = {}
        for option in list_search_options(config_type):
            if option.name in own_names:
                continue
            bounds = [*option.bounds, *filter(None, [(limits or {}).get(option.name)])]
            if option.value_type in (int, float) and not any(isinstance(bound, Le | Lt) for bound in bounds):
                bounds.append(Le(MAX_INTEGER if option.value_type is int else MAX_FACTOR))
            value_type = Annotated[option.value_type, *bounds] if bounds else option.value_type
            new_fields[option.name] = (value_type | None, Field(None, description=option.describe() + note))
        return create_model(cls.__name__, __base__=cls, __module__=cls.__module__, __doc__=cls.__doc__, **new_fields)

    return add_fields


def read_search_options(message: BaseModel, config_type: Any) -> dict[str, Any]:
    """Return the options of a search that a request gives, by their names."""
    values = {option.name: getattr(message, option.name, None) for option in list_search_options(config_type)}
    return {name: value for name, value in values.items() if value is not None}
