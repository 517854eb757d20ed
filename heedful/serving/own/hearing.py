"""What is said in sounds, in our own interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from heedful.data.sound import Sound
from heedful.inspection.record import Record
from heedful.serving.house import House, Model
from heedful.serving.own.answers import Answers, SpeechRecord
from heedful.serving.own.asking import require_within
from heedful.serving.own.messages import Inspect, Transcribe
from heedful.serving.own.seeing import GROUP
from heedful.serving.own.sent import perceived, read_sent, sound_in
from heedful.serving.own.translating import length_for
from heedful.serving.routes import Asked, Route
from heedful.serving.uses import Use, is_served, model_for
from heedful.tasks.inspecting import Scope
from heedful.tasks.searches import build_length
from heedful.tasks.speech.data import slots_of
from heedful.tasks.speech.face import Recogniser


def _first(recogniser: Recogniser) -> object:
    front = recogniser.front
    return recogniser.transcribe([Sound(torch.zeros(front.width), front.rate)])


def _look(asked: Asked, model: Model[Any], message: Inspect) -> Callable[[], Record]:
    perceived(message, "sound")
    recogniser = model.face if message.beam is None else model.face.widened(message.beam)
    assert message.sound is not None, "it is perceived"
    sent, front = message.sound, recogniser.front

    def listened() -> Record:
        with sound_in(sent, asked, seconds=recogniser.seconds, rate=front.rate, name="sound") as sound:
            record: Record = recogniser.inspect(sound, message.pair, scope=Scope(attribution="auto"))
            return record

    return listened


USES = (Use("transcribe", (Recogniser,), "write what is said", _first, _look, lambda _: {"takes": "sound"}),)


def routes(house: House) -> Iterator[Route]:
    """That of recognisers, where there are any."""
    if is_served(house, "transcribe"):
        yield Route(
            path="/v1/heedful/transcribe",
            answer=_transcribe,
            about="write what is said in a sound",
            takes=Transcribe,
            gives=Answers[SpeechRecord],
            reads=read_sent,
            files=True,
            group=GROUP,
        )


async def _transcribe(asked: Asked, message: Transcribe) -> Mapping[str, Any]:
    name, found = await heard(asked, message, name="sound")
    return {"model": name, "answers": found}


async def heard(asked: Asked, message: Transcribe, *, name: str) -> tuple[str, list[Mapping[str, Any]]]:
    """Which model listened, and the record of what it heard; `name` is what errors call the sound."""
    require_within(asked, message)
    model = model_for(asked.house, "transcribe", message.model)
    recogniser: Recogniser = model.face
    limits = asked.house.settings.limits
    config = message.config(recogniser.generation)
    longest = slots_of(round(1000 * recogniser.seconds / recogniser.front.hop))
    length_for(message, build_length(config), limits, longest=longest)

    def work() -> list[Mapping[str, Any]]:
        with sound_in(message.sound, asked, seconds=recogniser.seconds, rate=recogniser.front.rate, name=name) as sound:
            asked.term.check()
            found = recogniser.transcribe([sound], generation=config, n_best=message.n_best, seed=message.seed)
        asked.term.check()
        return [recogniser.lines().record(each) for each in enumerate(found, 1)]

    return model.name, await model.ask(asked.term, work)
