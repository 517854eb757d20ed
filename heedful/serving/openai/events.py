"""Server-sent events as OpenAI's clients read them: without names, and with `[DONE]` at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import Response

from heedful.serving import sse
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext, openai_error
from heedful.serving.sse import EventFormat

ChunkEvent = Mapping[str, Any]
"""One event: a chunk of the answer as a JSON object."""


def _format_event(chunk: ChunkEvent) -> str:
    """Format one event."""
    return f"data: {json.dumps(chunk, ensure_ascii=False, allow_nan=False, separators=(',', ':'))}\n\n"


_EVENT_FORMAT: Final = EventFormat(
    event=_format_event, error=lambda refusal: _format_event(openai_error(refusal)), end="data: [DONE]\n\n"
)


async def stream_chunks(
    context: RequestContext, model: LoadedModel[Any], work: Callable[[Callable[[ChunkEvent], None]], object]
) -> Response:
    """Run `work` and stream the chunks that it emits; see `heedful.serving.sse.stream_response`."""
    return await sse.stream_response(context, model, work, event_format=_EVENT_FORMAT)
