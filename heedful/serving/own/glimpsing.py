"""What is seen glimpse by glimpse, in our own interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from heedful.inspection.record import Record
from heedful.serving.house import House, Model
from heedful.serving.own.answers import Answers, SightRecord
from heedful.serving.own.asking import require_within
from heedful.serving.own.messages import Inspect, Look, Sent
from heedful.serving.own.seeing import GROUP
from heedful.serving.own.sent import perceived, picture_in, read_sent
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked, Route
from heedful.serving.uses import Use, is_served, model_for
from heedful.tasks.glimpses.data import Pixels, fitted
from heedful.tasks.glimpses.face import Looker


def _first(looker: Looker) -> object:
    return looker.look_at([np.zeros(looker.shape, dtype=np.uint8)])


def _look(asked: Asked, model: Model[Any], message: Inspect) -> Callable[[], Record]:
    perceived(message, "image")
    for name in ("pair", "beam"):
        if getattr(message, name) is not None:
            raise wrong(f"{name}: this model writes nothing; leave it out", param=name)
    looker, image = model.face, message.image
    assert image is not None, "it is perceived"
    return lambda: looker.inspect(_pixels(asked, looker, image), title="1")


USES = (Use("look", (Looker,), "look at pictures", _first, _look, lambda _: {"takes": "picture"}),)


def routes(house: House) -> Iterator[Route]:
    """That of models that look glimpse by glimpse, where there are any."""
    if is_served(house, "look"):
        yield Route(
            path="/v1/heedful/look",
            answer=_seen,
            about="tell the class of a picture, glimpse by glimpse",
            takes=Look,
            gives=Answers[SightRecord],
            reads=read_sent,
            files=True,
            group=GROUP,
        )


async def _seen(asked: Asked, message: Look) -> Mapping[str, Any]:
    require_within(asked, message)
    model = model_for(asked.house, "look", message.model)
    looker: Looker = model.face

    def work() -> list[Mapping[str, Any]]:
        pixels = _pixels(asked, looker, message.image)
        asked.term.check()
        lines = looker.lines()
        return [lines.record(("1", sight)) for sight in looker.look_at([pixels])]

    return {"model": model.name, "answers": await model.ask(asked.term, work)}


def _pixels(asked: Asked, looker: Looker, image: Sent) -> Pixels:
    """The picture as the model sees it, which is small."""
    with picture_in(image, asked) as picture:
        return fitted(picture, looker.shape)
