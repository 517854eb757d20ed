"""What pictures show, in our own interface."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, Final

import numpy as np
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from heedful.data.pictures import Picture, decoded_picture
from heedful.inspection.record import Record
from heedful.serving.house import House, Model
from heedful.serving.own.answers import Answers, CaptionRecord
from heedful.serving.own.asking import require_within
from heedful.serving.own.messages import Caption, Inspect
from heedful.serving.own.translating import length_for
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked, Route, read_json
from heedful.serving.uses import Use, is_served, model_for
from heedful.tasks.caption_writer import CaptionLines
from heedful.tasks.captioning.face import Captioner
from heedful.tasks.inspecting import Scope, widened
from heedful.tasks.searches import build_length, build_search

_PIXELS: Final = 2**24
"""Of a picture; a small file may claim any number."""
_TEXTS: Final = frozenset({"model", "search", "text", "pair", "to", "format"})
"""Fields of forms that are text; others stand there as in JSON."""


def _first(captioner: Captioner) -> object:
    size = captioner.framing.size
    return captioner.caption([np.zeros((size, size, 3), dtype=np.uint8)])


def _look(asked: Asked, model: Model[Any], message: Inspect) -> Callable[[], Record]:
    if message.image is None:
        raise wrong("image: this model looks at pictures; give one", param="image")
    image, most, captioner = message.image, asked.house.settings.limits.file, model.face
    search = captioner.search if message.beam is None else widened(captioner.search, message.beam)
    scope = Scope(attribution="auto")
    return lambda: captioner.inspect(picture_in(image, most=most), message.pair, search=search, scope=scope)


USES = (Use("caption", (Captioner,), "say what pictures show", _first, _look),)


def routes(house: House) -> Iterator[Route]:
    """That of captioners, where there are any."""
    if is_served(house, "caption"):
        yield Route(
            path="/v1/heedful/caption",
            answer=_caption,
            about="say what a picture shows",
            takes=Caption,
            gives=Answers[CaptionRecord],
            reads=read_pictured,
            files=True,
            group="pictures",
        )


async def read_pictured(request: Request) -> Mapping[str, Any]:
    """The fields of a form with a file `image`, or the JSON of a body; `Refusal` where it is neither."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return await read_json(request)
    try:
        async with request.form(max_files=1, max_fields=32) as form:
            table: dict[str, Any] = {}
            for name, value in form.multi_items():
                table[name] = await value.read() if isinstance(value, UploadFile) else _field(name, value)
            return table
    except MultiPartException as error:
        raise wrong(f"the body is no form: {error.message}") from None


def _field(name: str, text: str) -> Any:
    if name in _TEXTS:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def picture_in(image: str | bytes, *, most: int) -> Picture:
    """The picture of a message, of at most so many bytes; `Refusal` where there is none."""
    content = image
    if isinstance(content, str):
        head, comma, rest = content.partition(",")
        try:
            content = base64.b64decode(rest if comma and head.startswith("data:") else content, validate=True)
        except (binascii.Error, ValueError):
            raise wrong(
                "image: is no base 64; send a file's bytes so, or as multipart/form-data", param="image"
            ) from None
    if len(content) > most:
        raise wrong(f"image: {len(content):,} bytes; this server takes at most {most:,}", param="image")
    return decoded_picture(BytesIO(content), name="image", largest=_PIXELS)


async def _caption(asked: Asked, message: Caption) -> Mapping[str, Any]:
    require_within(asked, message)
    model = model_for(asked.house, "caption", message.model)
    captioner: Captioner = model.face
    limits = asked.house.settings.limits
    config = message.config(captioner.generation)
    search = build_search(config, captioner.target.tokenizer, n_best=message.n_best, seed=message.seed)
    length = length_for(message, build_length(config), limits, longest=1)
    lines = CaptionLines(captioner, search, length, several=message.n_best > 1)

    def work() -> list[Mapping[str, Any]]:
        picture = picture_in(message.image, most=limits.file)
        asked.term.check()
        found = captioner.caption([picture], search=search, length=length)
        asked.term.check()
        return [_record(lines, each, picture, align=message.align) for each in found]

    return {"model": model.name, "answers": await model.ask(asked.term, work)}


def _record(lines: CaptionLines, caption: Any, picture: Picture, *, align: bool) -> dict[str, Any]:
    record = lines.record(caption)
    if align and lines.captioner.attentive and caption.text:
        (looked,) = lines.captioner.attend([(picture, caption.text)])
        record["looked"] = {"tokens": list(looked.tokens), "weights": looked.weights.astype(float).round(4).tolist()}
    return record
