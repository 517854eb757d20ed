"""Answers that come in pieces, as OpenAI's clients read them: server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final, final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from heedful.serving.house import Gone, Model
from heedful.serving.routes import Asked, ours, refusal_of

MEDIA: Final = "text/event-stream"

Said = Mapping[str, Any]
"""An event."""


async def streamed(asked: Asked, model: Model[Any], work: Callable[[Callable[[Said], None]], object]) -> Response:
    """What `work` says, an event each, and `[DONE]`.

    What goes wrong before the first event is refused as ever, with a status; later, an event tells of it, and it is the
    last.
    """
    events: AsyncIterator[Said] = model.hear(asked.term, work)
    first = await anext(events)
    return _Events(asked, _told(asked, first, events))


async def _told(asked: Asked, first: Said, events: AsyncIterator[Said]) -> AsyncGenerator[str, None]:
    try:
        yield _event(first)
        async for each in events:
            yield _event(each)
        yield "data: [DONE]\n\n"
    except Gone:
        return
    except Exception as error:
        yield _event(ours(refusal_of(error, asked.id)))


def _event(content: Said) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(',', ':'))}\n\n"


@final
class _Events(StreamingResponse):
    """Ends the work for a stream when the stream ends, whoever ended it."""

    def __init__(self, asked: Asked, events: AsyncGenerator[str, None]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type=MEDIA, headers=headers)
        self._asked = asked
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._asked.term.left.set()
            await self._events.aclose()
