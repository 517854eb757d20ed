"""Answers that grow, as server-sent events: how they begin, and what is told last, whoever ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, final

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from heedful.serving.house import Model
from heedful.serving.refusal import Refusal, closed
from heedful.serving.routes import Asked, refusal_of
from heedful.serving.term import Gone

MEDIA: Final = "text/event-stream"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Said = TypeVar("Said")


@final
@dataclass(frozen=True, kw_only=True)
class Wording(Generic[Said]):
    """How a protocol writes what a stream tells.

    Attributes:
        event: something that was said.
        refusal: why there is no more, which is told last.
        end: what stands behind all that was said.
    """

    event: Callable[[Said], str]
    refusal: Callable[[Refusal], str]
    end: str = ""


async def streamed(
    asked: Asked, model: Model[Any], work: Callable[[Callable[[Said], None]], object], *, wording: Wording[Said]
) -> Response:
    """What `work` says, event by event.

    What goes wrong before the first event is refused as ever, with a status; later, a last event tells of it.
    """
    events: AsyncIterator[Said] = model.hear(asked.term, work)
    first = await anext(events)
    return _Events(asked, _told(asked, first, events, wording), wording.refusal)


async def _told(
    asked: Asked, first: Said, events: AsyncIterator[Said], wording: Wording[Said]
) -> AsyncGenerator[str, None]:
    try:
        yield wording.event(first)
        async for each in events:
            yield wording.event(each)
        if wording.end:
            yield wording.end
    except Gone:
        return
    except Exception as error:
        yield wording.refusal(refusal_of(error, asked.id))


@final
class _Events(StreamingResponse):
    """Ends the work for a stream when the stream ends, and tells why where that was not the work's own end."""

    def __init__(self, asked: Asked, body: AsyncGenerator[str, None], refusal: Callable[[Refusal], str]) -> None:
        super().__init__(body, media_type=MEDIA, headers=_HEADERS)
        self._asked = asked
        self._body = body
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        goes_on = False

        async def sending(message: Message) -> None:
            nonlocal goes_on
            goes_on = message["type"] == "http.response.start" or message["more_body"]
            await send(message)

        async def end(refusal: Refusal) -> None:
            content = self._refusal(refusal).encode(self.charset)
            await send({"type": "http.response.body", "body": content, "more_body": False})

        try:
            await super().__call__(scope, receive, sending)
        except asyncio.CancelledError:
            if goes_on:  # no time is left for the rest
                await end(closed("ending"))
            raise
        except Exception as error:
            if not goes_on:
                raise
            await end(refusal_of(error, self._asked.id))
        finally:
            self._asked.term.leave()
            await self._body.aclose()
