"""Continuations and replies in our own interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from starlette.responses import Response

from heedful.generation.hypotheses import Hypothesis
from heedful.generation.search import Search
from heedful.recipes.generation import ContinuationConfig
from heedful.serving.house import House, Model
from heedful.serving.own.answers import Answers, ContinuationRecord, ReplyRecord
from heedful.serving.own.asking import listed, look_at, require_within
from heedful.serving.own.events import Event, streamed
from heedful.serving.own.messages import Chat, Generate, Turn
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked, Route
from heedful.serving.uses import Use, is_served, model_for
from heedful.tasks.conversation import data
from heedful.tasks.conversation.face import Partner, Reply
from heedful.tasks.language.face import Continuation, Writer
from heedful.tasks.searches import build_continuation
from heedful.tasks.stop_strings import Growing

GROUP = "text"
_FEW: Final = 2
"""Tokens of a first text."""
USES = (
    Use("generate", (Writer,), "continue texts", lambda face: face.write(["a"], limit=_FEW), look_at),
    Use("chat", (Partner,), "talk", lambda face: face.reply([face.turns(["a"])], limit=_FEW), look_at),
)


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
    how = {**_how(asked, search, limit, config), "complete": message.complete}
    if message.stream:
        if len(prompts) > 1 or message.n_best > 1:
            raise wrong("stream: tells one continuation of one prompt; ask for no more", param="stream")
        return await _streamed(asked, model, lambda: writer.stream(prompts[0], **how), _Written(writer, prompts[0]))

    def work() -> list[Mapping[str, Any]]:
        found = writer.write(prompts, **how)
        asked.term.check()
        lines = writer.lines()
        return [lines.record((prompt, each)) for prompt, own in zip(prompts, found, strict=True) for each in own]

    return {"model": model.name, "answers": await model.ask(asked.term, work)}


async def _chat(asked: Asked, message: Chat) -> Any:
    require_within(asked, message)
    model = model_for(asked.house, "chat", message.model)
    partner: Partner = model.face
    config: ContinuationConfig = message.config(partner.generation)
    search, limit = build_continuation(config, partner.script.special, seed=message.seed)
    turns, how = turns_of(partner, message), _how(asked, search, limit, config)
    if message.stream:
        return await _streamed(asked, model, lambda: partner.stream(turns, **how), _Replied(partner))

    def work() -> list[Mapping[str, Any]]:
        found = partner.reply([turns], **how)
        asked.term.check()
        return [partner.lines().record(each) for each in found]

    return {"model": model.name, "answers": await model.ask(asked.term, work)}


def _how(asked: Asked, search: Search, limit: int, config: ContinuationConfig) -> dict[str, Any]:
    """How faces write; they end where nobody waits any more."""
    most = min(limit, asked.house.settings.limits.tokens)
    return {"search": search, "limit": most, "stop": config.stop, "until": lambda: asked.term.over}


@final
@dataclass(frozen=True)
class _Written:
    """The record of a continuation that has grown."""

    writer: Writer
    prompt: str

    def __call__(self, growing: Growing, found: Hypothesis) -> Mapping[str, Any]:
        pieces = tuple(self.writer.tokenizer.pieces(found.ids))
        each = found.log_probability, found.finished, growing.stop, found.ids, found.token_log_probabilities
        record: Mapping[str, Any] = self.writer.lines().record((self.prompt, Continuation(growing.text, pieces, *each)))
        return record


@final
@dataclass(frozen=True)
class _Replied:
    """The record of a reply that has grown."""

    partner: Partner

    def __call__(self, growing: Growing, found: Hypothesis) -> Mapping[str, Any]:
        pieces = tuple(self.partner.script.pieces(found.ids))
        each = found.log_probability, found.finished, growing.stop
        reply = Reply(self.partner.speaker, growing.text, pieces, *each)
        record: Mapping[str, Any] = self.partner.lines().record(reply)
        return record


async def _streamed(
    asked: Asked, model: Model[Any], begin: Callable[[], Growing], record: _Written | _Replied
) -> Response:
    """Tells each piece of a text as it comes, and in the end its record."""

    def work(say: Callable[[Event], None]) -> None:
        growing = begin()
        for piece in growing:
            asked.term.check()
            say(("growing", {"piece": piece}))
        asked.term.check()
        assert growing.found is not None, "it has ended"
        say(("record", {"model": model.name, "answers": [record(growing, growing.found)]}))

    return await streamed(asked, model, work)


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
