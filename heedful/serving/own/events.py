"""Answers that grow in our own interface: events with names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import Response

from heedful.serving import streams
from heedful.serving.house import Model
from heedful.serving.routes import Asked, ours
from heedful.serving.streams import MEDIA, Wording

Event = tuple[str, Mapping[str, Any]]
"""Its name, and what it tells: `growing` what there is so far, `record` the whole answer, `error` why there is none."""


def _written(event: Event) -> str:
    name, content = event
    return f"event: {name}\ndata: {json.dumps(content, ensure_ascii=False, allow_nan=False)}\n\n"


_WORDING: Final = Wording(event=_written, refusal=lambda refusal: _written(("error", ours(refusal))))


async def streamed(asked: Asked, model: Model[Any], work: Callable[[Callable[[Event], None]], object]) -> Response:
    """What `work` says; see `heedful.serving.streams.streamed`."""
    return await streams.streamed(asked, model, work, wording=_WORDING)


__all__ = ["MEDIA", "Event", "streamed"]
