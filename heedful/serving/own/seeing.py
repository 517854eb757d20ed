"""What pictures and clips show, in our own interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from heedful.data.clips import Clip
from heedful.data.pictures import Picture
from heedful.inspection.record import Record
from heedful.serving.house import House, Model
from heedful.serving.own.answers import Answers, CaptionRecord
from heedful.serving.own.asking import require_within
from heedful.serving.own.messages import Caption, Inspect
from heedful.serving.own.sent import clip_in, perceived, picture_in, read_sent, sent_as
from heedful.serving.own.translating import length_for
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked, Route
from heedful.serving.uses import Use, is_served
from heedful.tasks.caption_writer import CaptionLines, CaptionWriter
from heedful.tasks.captioning.face import Captioner
from heedful.tasks.inspecting import Scope, widened
from heedful.tasks.searches import build_length, build_search
from heedful.tasks.video.face import VideoCaptioner

GROUP: Final = "perception"
_SENT: Final[Mapping[type[Any], tuple[str, ...]]] = {Captioner: ("image",), VideoCaptioner: ("clip", "frames")}
"""Under which names each kind of captioner is shown something."""
_DECODED: Final = 2**33
"""Bytes of all frames of a video, as pixels: some minutes of a small one, one of a large one."""
_HELD: Final = 2**27
"""Of an array of frames, which are held in memory."""


def _first(face: Any) -> object:
    if isinstance(face, Captioner):
        size = face.framing.size
        return face.caption([np.zeros((size, size, 3), dtype=np.uint8)])
    black = np.zeros((1, *face.items.shape), face.items.dtype)
    return face.caption([Clip(black, np.zeros(1, dtype=np.int64))])


def _names(face: Any) -> tuple[str, ...]:
    return next(names for kind, names in _SENT.items() if isinstance(face, kind))


def _look(asked: Asked, model: Model[Any], message: Inspect) -> Callable[[], Record]:
    face = model.face
    name = perceived(message, *_names(face))
    search = face.search if message.beam is None else widened(face.search, message.beam)
    shown, how = getattr(message, name), {"search": search, "scope": Scope(attribution="auto")}

    def seen() -> Record:
        if name == "image":
            found: Record = face.inspect(_framed(asked, face, shown), message.pair, **how)
        else:
            with _clip(asked, face, shown, name=name) as path:
                found = face.inspect(path, message.pair, **how)
        return replace(found, title="1")  # and not where the file was

    return seen


USES = (
    Use(
        "caption",
        (Captioner, VideoCaptioner),
        "say what they see",
        _first,
        _look,
        lambda model: {"takes": model.face.seen},
    ),
)


def routes(house: House) -> Iterator[Route]:
    """That of captioners, where there are any."""
    if is_served(house, "caption"):
        yield Route(
            path="/v1/heedful/caption",
            answer=_caption,
            about="say what a picture or a clip shows",
            takes=Caption,
            gives=Answers[CaptionRecord],
            reads=read_sent,
            files=True,
            group=GROUP,
        )


@contextmanager
def _clip(asked: Asked, face: VideoCaptioner, sent: Any, *, name: str) -> Iterator[Path]:
    """A clip that is sent, while the block runs; `Refusal` where it holds more frames than are decoded for anybody."""
    with clip_in(sent, asked, name=name, memory=face.memory) as path:
        granted = _HELD if path.suffix == ".npz" else _DECODED
        if path.is_file() and (size := face.size(path)) > granted:
            message = f"{name}: {size:,} bytes of frames; this server decodes at most {granted:,}: cut or shrink it"
            raise wrong(message, param=name)
        yield path


async def _caption(asked: Asked, message: Caption) -> Mapping[str, Any]:
    require_within(asked, message)
    name = sent_as(message, "image", "clip", "frames")
    kind = next(kind for kind, names in _SENT.items() if name in names)
    model = asked.house.model((kind,), message.model, use=f"say what {kind.seen}s show")
    captioner, limits = model.face, asked.house.settings.limits
    config = message.config(captioner.generation)
    search = build_search(config, captioner.target.tokenizer, n_best=message.n_best, seed=message.seed)
    length = length_for(message, build_length(config), limits, longest=1)
    lines = CaptionLines(captioner, search, length, several=message.n_best > 1)

    def work() -> list[Mapping[str, Any]]:
        shown = _seen(asked, captioner, getattr(message, name), name=name)
        asked.term.check()
        found = captioner.caption([shown], search=search, length=length)
        asked.term.check()
        return [_record(lines, each, shown, align=message.align) for each in found]

    return {"model": model.name, "answers": await model.ask(asked.term, work)}


def _seen(asked: Asked, captioner: CaptionWriter[Any], sent: Any, *, name: str) -> Any:
    """What is sent, as its captioner sees it, which is small."""
    if isinstance(captioner, Captioner):
        return _framed(asked, captioner, sent)
    assert isinstance(captioner, VideoCaptioner), "there are no other captioners"
    with _clip(asked, captioner, sent, name=name) as path:
        return captioner.see(path)


def _framed(asked: Asked, captioner: Captioner, sent: Any) -> Picture:
    with picture_in(sent, asked) as picture:
        return captioner.framing(picture)


def _record(lines: CaptionLines, caption: Any, shown: Any, *, align: bool) -> dict[str, Any]:
    record = lines.record(caption)
    if align and lines.captioner.attentive and caption.text:
        (looked,) = lines.captioner.attend([(shown, caption.text)])
        record["looked"] = {"tokens": list(looked.tokens), "weights": looked.weights.astype(float).round(4).tolist()}
        if isinstance(shown, Clip):
            record["looked"]["frames"] = shown.numbers.tolist()
    return record
