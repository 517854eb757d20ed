"""Answers that come in pieces, as OpenAI's clients read them: events without names, and `[DONE]` behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import Response

from heedful.serving import streams
from heedful.serving.house import Model
from heedful.serving.routes import Asked, ours
from heedful.serving.streams import Wording

Said = Mapping[str, Any]
"""An event."""


def _event(content: Said) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(',', ':'))}\n\n"


_WORDING: Final = Wording(event=_event, refusal=lambda refusal: _event(ours(refusal)), end="data: [DONE]\n\n")


async def streamed(asked: Asked, model: Model[Any], work: Callable[[Callable[[Said], None]], object]) -> Response:
    """What `work` says; see `heedful.serving.streams.streamed`."""
    return await streams.streamed(asked, model, work, wording=_WORDING)
