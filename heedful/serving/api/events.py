"""Server-sent events with names, for streamed answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import Response

from heedful.serving import sse
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext, openai_error
from heedful.serving.sse import MEDIA_TYPE, EventFormat

NamedEvent = tuple[str, Mapping[str, Any]]
"""Its name, and what it tells: `growing` what there is so far, `record` the whole answer, `error` why there is none."""


def _format_event(event: NamedEvent) -> str:
    """Format one event."""
    name, data = event
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n"


_EVENT_FORMAT: Final = EventFormat(
    event=_format_event, error=lambda refusal: _format_event(("error", openai_error(refusal)))
)


async def stream_events(
    context: RequestContext, model: LoadedModel[Any], work: Callable[[Callable[[NamedEvent], None]], object]
) -> Response:
    """Run `work` and stream the events that it emits; see `heedful.serving.sse.stream_response`."""
    return await sse.stream_response(context, model, work, event_format=_EVENT_FORMAT)


__all__ = ["MEDIA_TYPE", "NamedEvent", "stream_events"]
