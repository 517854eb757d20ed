"""Answers that grow, as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final, final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from heedful.serving.house import Model
from heedful.serving.routes import Asked, ours, refusal_of
from heedful.serving.term import Gone

MEDIA: Final = "text/event-stream"

Event = tuple[str, Mapping[str, Any]]
"""Its name, and what it tells: `growing` what there is so far, `record` the whole answer, `error` why there is none."""


async def streamed(asked: Asked, model: Model[Any], work: Callable[[Callable[[Event], None]], object]) -> Response:
    """What `work` says, event by event; what fails before the first one fails the request as ever."""
    events: AsyncIterator[Event] = model.hear(asked.term, work)
    first = await anext(events)
    return _Events(asked, _body(asked, first, events))


async def _body(asked: Asked, first: Event, events: AsyncIterator[Event]) -> AsyncGenerator[str, None]:
    try:
        yield _written(first)
        async for event in events:
            yield _written(event)
    except Gone:
        return
    except Exception as error:
        yield _written(("error", ours(refusal_of(error, asked.id))))


@final
class _Events(StreamingResponse):
    """Ends the work for a stream when the stream ends, whoever ended it."""

    def __init__(self, asked: Asked, body: AsyncGenerator[str, None]) -> None:
        super().__init__(body, media_type=MEDIA, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._term = asked.term
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._term.left.set()
            await self._body.aclose()


def _written(event: Event) -> str:
    name, content = event
    return f"event: {name}\ndata: {json.dumps(content, ensure_ascii=False, allow_nan=False)}\n\n"
