"""Middleware of Ray Serve's HTTP proxies, which repeats requests of a replica that has died.

Ray imports `build_middlewares` in its proxies if RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heedful.serving.http_errors import HTTPError, unavailable
from heedful.serving.libretranslate.messages import format_error as libretranslate_error
from heedful.serving.routes import error_response, openai_error

CALLBACK: Final = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
"""Variable of the environment in which Ray Serve looks for a function that returns middleware of its HTTP proxies."""
_PAUSES: Final = (0.1, 0.5)
"""Seconds before a request is sent to another replica, for the second and the third time."""
_MAX_REPEATED: Final = 2**20
"""Largest body of a request that is sent again, in bytes; it is kept until the answer starts."""
_RAY_TYPE: Final = b"text/plain"
_STREAM_TYPE: Final = b"text/event-stream"


def build_middlewares() -> list[Middleware]:
    """Return the middleware of Ray's HTTP proxies."""
    return [Middleware(ReplicaFailover)]


@final
class ReplicaFailover:
    """ASGI middleware around Ray's HTTP proxy that handles replicas which die while they answer.

    A request that has no answer yet is sent to another replica, at most twice: all that heedful answers are
    computations, which can be repeated. If that fails too, the client gets 503 with `Retry-After`. A stream that has
    begun ends with an error event; any other answer that has begun is cut off, since the HTTP server closes the
    connection. Messages of Ray itself, as for full queues, become errors in heedful's format.

    Args:
        app: ASGI application of the proxy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI event."""
        if scope["type"] != "http" or scope["path"].startswith("/-/"):  # which are routes of Ray itself
            await self._app(scope, receive, send)
            return
        request, answer = _RepeatableRequest(receive), _TrackedAnswer(scope["path"], send)
        for pause in (*_PAUSES, None):
            try:
                await self._app(_copy_scope(scope), request.receive, answer.send)
            except Exception:
                logging.getLogger("ray.serve").exception("heedful: the proxy failed")
            if answer.is_complete or request.is_disconnected:
                return
            if answer.is_started:
                await answer.cut()
                return
            if pause is None or not request.is_repeatable:
                break
            await asyncio.sleep(pause)
            request.rewind()
        await error_response(_build_replica_error(), format_error=answer.format_error)(scope, receive, send)


def _copy_scope(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a copy of a scope, which the proxy may change."""
    return {**scope, "headers": list(scope["headers"])}


def _build_replica_error() -> HTTPError:
    """Build a 503 error: the process that computed the answer ended, and so did others after it."""
    message = "the process that computed this answer has ended; ask again in a few seconds"
    return HTTPError(503, message, code="unavailable", retry_after=2)


def _convert_status(status: int) -> HTTPError | None:
    """Return the error that says what Ray means by a status with a message of its own; None for other statuses."""
    if status == 404:  # the application is not deployed
        return unavailable("loading or ending")
    if status == 408:
        return HTTPError(504, "no answer within the time of a request; ask for less", code="timeout")
    if status in (429, 503):
        return HTTPError(503, "all replicas are busy; ask again in a second", code="overloaded", retry_after=1)
    return None


@final
class _RepeatableRequest:
    """Messages of a request, which are kept so that they can be received again.

    Args:
        receive: ASGI function that gives the messages.

    Attributes:
        is_disconnected: whether the client has gone.
        is_repeatable: whether all messages so far have been kept.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept_messages: list[Message] = []
        self._num_read, self._num_bytes = 0, 0
        self.is_disconnected, self.is_repeatable = False, True

    async def receive(self) -> Message:
        """Return the next message, first those that are kept."""
        if self._num_read < len(self._kept_messages):
            self._num_read += 1
            return self._kept_messages[self._num_read - 1]
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_disconnected = True
            return message
        self._num_bytes += len(message.get("body", b""))
        if self._num_bytes > _MAX_REPEATED:
            self._kept_messages, self._num_read, self.is_repeatable = [], 0, False
        if self.is_repeatable:
            self._kept_messages.append(message)
            self._num_read += 1
        return message

    def rewind(self) -> None:
        """Begin again with the first message."""
        self._num_read = 0


@final
@dataclass
class _TrackedAnswer:
    """Answer that is sent to a client, with what is known about it.

    Attributes:
        path: of the request, which decides how errors are written.
        send_to_client: ASGI function that sends messages to the client.
    """

    path: str
    send_to_client: Send
    is_started: bool = field(default=False, init=False)
    is_complete: bool = field(default=False, init=False)
    _is_stream: bool = field(default=False, init=False)
    _has_named_events: bool = field(default=False, init=False)
    _is_replaced: bool = field(default=False, init=False)

    async def send(self, message: Message) -> None:
        """Pass a message on to the client; replace an error message of Ray by one of heedful."""
        if message["type"] == "http.response.start":
            self.is_started = True
            headers = {bytes(name).lower(): bytes(value) for name, value in message["headers"]}
            message = {**message, "headers": list(headers.items())}  # Ray adds a second X-Request-Id
            content_type = headers.get(b"content-type", b"")
            self._is_stream = content_type.startswith(_STREAM_TYPE)
            error = _convert_status(int(message["status"])) if content_type.startswith(_RAY_TYPE) else None
            if error is not None:
                self._is_replaced = True
                await self._send_error(error)
                return
        if message["type"] == "http.response.body":
            self._has_named_events = self._has_named_events or message.get("body", b"").startswith(b"event: ")
            self.is_complete = not message.get("more_body", False)
            if self._is_replaced:
                return
        await self.send_to_client(message)

    async def cut(self) -> None:
        """End an answer that has begun and will not be completed: a stream with an error event, any other answer
        without its rest, so that the server closes the connection.
        """
        if not self._is_stream:
            return
        from heedful.serving.sse import NAMED_EVENTS, OPENAI_CHUNKS

        event_format = NAMED_EVENTS if self._has_named_events else OPENAI_CHUNKS
        body = event_format.error(_build_replica_error()).encode()
        await self.send_to_client({"type": "http.response.body", "body": body, "more_body": False})

    def format_error(self, error: HTTPError) -> Any:
        """Format an error as the interface of the path does."""
        return openai_error(error) if self.path.startswith("/v1/") else libretranslate_error(error)

    async def _send_error(self, error: HTTPError) -> None:
        """Send an error response; the message of Ray behind it is dropped."""
        response = error_response(error, format_error=self.format_error)
        await response({"type": "http"}, _receive_nothing, self.send_to_client)


async def _receive_nothing() -> Message:
    """Return no message; responses with a body do not ask for one."""
    raise AssertionError("a response asked for a message")
