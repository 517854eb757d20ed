"""What a model attends to, told as a record or shown as a page."""

from __future__ import annotations

import base64
import secrets
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

from starlette.responses import Response

from heedful.inspection.record import Record
from heedful.inspection.record_files import save_record
from heedful.inspection.web import payload, viewer_html
from heedful.serving.house import House
from heedful.serving.own.answers import Inspected
from heedful.serving.own.asking import require_within
from heedful.serving.own.messages import Inspect
from heedful.serving.own.sent import read_sent
from heedful.serving.refusal import missing, wrong
from heedful.serving.routes import Asked, Route
from heedful.serving.uses import uses, uses_of

_CHARACTERS: Final = 2_000
"""Of both texts: what is recorded grows with their square."""
_SECONDS, _PAGES, _BYTES = 600.0, 64, 64_000_000
"""How long pages are kept, and how many."""
_POLICY: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' data:; img-src data: blob:; frame-ancestors 'self'"
)
"""Of pages: they run their own scripts, as if they came from nowhere, and load nothing."""


@final
class Kept:
    """Pages that wait to be opened, by names that nobody guesses."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pages: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._clock = clock
        self._lock = threading.Lock()

    def keep(self, page: bytes) -> str:
        """The name under which the page is found for a while; old ones make room."""
        name = secrets.token_urlsafe(18)
        with self._lock:
            self._pages[name] = (self._clock() + _SECONDS, page)
            while len(self._pages) > 1 and (len(self._pages) > _PAGES or self._size > _BYTES):
                self._pages.popitem(last=False)
        return name

    def page(self, name: str) -> bytes:
        """`Refusal` where there is none, or no longer."""
        with self._lock:
            until, page = self._pages.get(name, (0.0, b""))
            if not page or until < self._clock():
                self._pages.pop(name, None)
                raise missing("this page is no longer kept; ask for it again")
        return page

    @property
    def _size(self) -> int:
        return sum(len(page) for _, page in self._pages.values())


def is_seen(face: Any) -> bool:
    """Whether a face can be looked at over HTTP."""
    return any(use.look is not None for use in uses_of(face))


def routes(house: House) -> Iterator[Route]:
    """Those of models that can be looked at, where there are any."""
    if not any(is_seen(model.face) for model in house.models.values()):
        return
    kept = Kept()

    async def look(asked: Asked, message: Inspect) -> Any:
        return await _inspect(asked, message, kept)

    async def page(asked: Asked) -> Response:
        return _shown(kept.page(asked.request.path_params["name"]))

    yield Route(
        path="/v1/heedful/inspect",
        answer=look,
        about="what a model attends to while it reads or writes a text, looks at something or listens",
        takes=Inspect,
        gives=Inspected,
        reads=read_sent,
        files=True,
        group="inspection",
        examples=({"text": "A dog runs.", "format": "link"},),
    )
    yield Route(
        path="/v1/heedful/inspected/{name}",
        method="GET",
        answer=page,
        about="a page that `inspect` has made a link to",
        free=True,
        group="inspection",
        media="text/html",
    )


def _shown(page: bytes) -> Response:
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return Response(page, media_type="text/html", headers=headers)


async def _inspect(asked: Asked, message: Inspect, kept: Kept) -> Mapping[str, Any] | Response:
    require_within(asked, message)
    if len(message.text) + len(message.pair or "") > _CHARACTERS:
        raise wrong(f"text, pair: more than {_CHARACTERS:,} characters to look at; give a shorter text", param="text")
    kinds = tuple(kind for use in uses().values() if use.look is not None for kind in use.kinds)
    model = asked.house.model(kinds, message.model, use="can be looked at")
    look = next(use.look for use in uses_of(model.face) if use.look is not None)(asked, model, message)

    def work() -> dict[str, Any] | bytes:
        asked.term.check()
        record = look()
        asked.term.check()
        if message.format == "record":
            return {"record": payload(record)}
        if message.format == "safetensors":
            return {"record": base64.b64encode(_file(record)).decode("ascii")}
        page = viewer_html(record).encode()
        if message.format == "page":
            return page
        return {"page": f"/v1/heedful/inspected/{kept.keep(page)}", "seconds": _SECONDS}

    told = await model.ask(asked.term, work)
    return _shown(told) if isinstance(told, bytes) else {"model": model.name, "format": message.format, **told}


def _file(record: Record) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        save_record(record, path)
        return path.read_bytes()
