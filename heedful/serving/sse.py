"""Streamed answers as server-sent events: how they start, and which event ends them in each case."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, final

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from heedful.serving.deadline import ClientDisconnected
from heedful.serving.http_errors import HTTPError, unavailable
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext, openai_error, to_http_error

MEDIA_TYPE: Final = "text/event-stream"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

EventT = TypeVar("EventT")
NamedEvent: TypeAlias = tuple[str, Mapping[str, Any]]
"""Its name and its data: `growing` the answer so far, `record` the complete answer, `error` why there is none."""
ChunkEvent: TypeAlias = Mapping[str, Any]
"""A chunk of the answer as a JSON object."""


@final
@dataclass(frozen=True, kw_only=True)
class EventFormat(Generic[EventT]):
    """How a protocol writes the events of a stream.

    Attributes:
        event: formats one event.
        error: formats the error that ends a stream.
        end: text behind the last event.
    """

    event: Callable[[EventT], str]
    error: Callable[[HTTPError], str]
    end: str = ""


def _format_named_event(event: NamedEvent) -> str:
    name, data = event
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n"


def _format_chunk(chunk: ChunkEvent) -> str:
    return f"data: {json.dumps(chunk, ensure_ascii=False, allow_nan=False, separators=(',', ':'))}\n\n"


NAMED_EVENTS: Final = EventFormat[NamedEvent](
    event=_format_named_event, error=lambda refusal: _format_named_event(("error", openai_error(refusal)))
)
"""Events of the own interface."""
OPENAI_CHUNKS: Final = EventFormat[ChunkEvent](
    event=_format_chunk, error=lambda refusal: _format_chunk(openai_error(refusal)), end="data: [DONE]\n\n"
)
"""Events as OpenAI's clients read them: without names, and with `[DONE]` at the end."""


async def stream_response(
    context: RequestContext,
    model: LoadedModel[Any],
    work: Callable[[Callable[[EventT], None]], object],
    *,
    event_format: EventFormat[EventT],
) -> Response:
    """Run `work` on a model for a request, and return a response that streams the events which it passes to its
    argument, a callback, as `event_format` writes them.

    An error before the first event becomes an HTTP error response; a later one becomes the last event.
    """
    events: AsyncIterator[EventT] = model.stream(context.deadline, work)
    first = await anext(events)
    return _EventStreamResponse(context, _format_events(context, first, events, event_format), event_format.error)


async def _format_events(
    context: RequestContext, first_event: EventT, events: AsyncIterator[EventT], event_format: EventFormat[EventT]
) -> AsyncGenerator[str, None]:
    """Yield the first event, the others and the end of a stream as `event_format` writes them, and an error event if
    the work fails; the context gives the request id for the log.
    """
    try:
        yield event_format.event(first_event)
        async for event in events:
            yield event_format.event(event)
        if event_format.end:
            yield event_format.end
    except ClientDisconnected:
        return
    except Exception as error:
        yield event_format.error(to_http_error(error, context.id))


@final
class _EventStreamResponse(StreamingResponse):
    """Streaming response that cancels its work when the stream ends, and sends an error event if the work did not
    end by itself.
    """

    def __init__(
        self, context: RequestContext, body: AsyncGenerator[str, None], format_error: Callable[[HTTPError], str]
    ) -> None:
        super().__init__(body, media_type=MEDIA_TYPE, headers=_HEADERS)
        self._context = context
        self._body = body
        self._format_error = format_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_more = False

        async def send_and_track(message: Message) -> None:
            """Send a message, and remember whether more will follow."""
            nonlocal has_more
            has_more = message["type"] == "http.response.start" or message["more_body"]
            await send(message)

        async def send_error(error: HTTPError) -> None:
            content = self._format_error(error).encode(self.charset)
            await send({"type": "http.response.body", "body": content, "more_body": False})

        try:
            await super().__call__(scope, receive, send_and_track)
        except asyncio.CancelledError:
            if has_more:  # no time is left for the rest
                await send_error(unavailable("ending"))
            raise
        except Exception as error:
            if not has_more:
                raise
            await send_error(to_http_error(error, self._context.id))
        finally:
            self._context.deadline.cancel()
            await self._body.aclose()
