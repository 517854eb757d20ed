"""Continuations and replies in our own interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from heedful.recipes.generation import ContinuationConfig
from heedful.serving.house import House
from heedful.serving.own_answers import Answers, ContinuationRecord, ReplyRecord
from heedful.serving.own_asking import listed, require_within
from heedful.serving.own_messages import Chat, Generate, Turn
from heedful.serving.own_uses import is_served, model_for
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked, Route
from heedful.tasks.conversation import data
from heedful.tasks.conversation.face import Partner
from heedful.tasks.language.face import Writer
from heedful.tasks.searches import build_continuation

GROUP = "text"


def routes(house: House) -> Iterator[Route]:
    """Those of models that write, as far as there are any."""
    if is_served(house, "generate"):
        yield Route(
            path="/v1/heedful/generate",
            answer=_generate,
            about="go on where prompts end",
            takes=Generate,
            gives=Answers[ContinuationRecord],
            group=GROUP,
            examples=({"prompts": "Once upon a time"},),
        )
    if is_served(house, "chat"):
        yield Route(
            path="/v1/heedful/chat",
            answer=_chat,
            about="say what comes next in a dialogue",
            takes=Chat,
            gives=Answers[ReplyRecord],
            group=GROUP,
            examples=({"turns": ["Hello"]},),
        )


async def _generate(asked: Asked, message: Generate) -> Any:
    prompts = listed(message.prompts)
    require_within(asked, message, texts=len(prompts))
    if message.n_best > 1 and message.search is None:
        message = message.model_copy(update={"search": "sampling"})
    model = model_for(asked.house, "generate", message.model)
    writer: Writer = model.face
    config = message.config(writer.generation)
    search, limit = build_continuation(config, writer.tokenizer.special, n=message.n_best, seed=message.seed)

    def work() -> list[Mapping[str, Any]]:
        limit_, until = _most(asked, limit), lambda: asked.term.over
        found = writer.write(prompts, search=search, limit=limit_, stop=config.stop, until=until)
        asked.term.check()
        lines = writer.lines()
        return [lines.record((prompt, each)) for prompt, own in zip(prompts, found, strict=True) for each in own]

    return {"model": model.name, "answers": await model.ask(asked.term, work)}


async def _chat(asked: Asked, message: Chat) -> Any:
    require_within(asked, message, texts=1)
    model = model_for(asked.house, "chat", message.model)
    partner: Partner = model.face
    config: ContinuationConfig = message.config(partner.generation)
    search, limit = build_continuation(config, partner.script.special, seed=message.seed)
    turns = turns_of(partner, message)

    def work() -> list[Mapping[str, Any]]:
        until = lambda: asked.term.over  # noqa: E731
        found = partner.reply([turns], search=search, limit=_most(asked, limit), stop=config.stop, until=until)
        asked.term.check()
        return [asdict(each) for each in found]

    return {"model": model.name, "answers": await model.ask(asked.term, work)}


def turns_of(partner: Partner, message: Chat) -> tuple[data.Turn, ...]:
    """What was said so far; `Refusal` where a speaker is unknown."""
    if not message.turns or not isinstance(message.turns[0], Turn):
        return partner.turns([turn for turn in message.turns if isinstance(turn, str)])
    known = partner.script.speakers.names
    turns = [turn for turn in message.turns if isinstance(turn, Turn)]
    for turn in turns:
        if turn.speaker not in known:
            raise wrong(f"turns: nobody is called {turn.speaker!r}; the speakers are {', '.join(known)}", param="turns")
    return tuple(data.Turn(turn.speaker, turn.text) for turn in turns)


def _most(asked: Asked, limit: int) -> int:
    """Tokens that are written at most."""
    return min(limit, asked.house.settings.limits.tokens)
