"""How our own interface asks: within limits, as `Lines` know it, a part of the texts after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from heedful.inspection.record import Record
from heedful.serving.house import Model
from heedful.serving.own.messages import FILES, Inspect, words_of
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked
from heedful.tasks.faces import Asked as Looking
from heedful.tasks.faces import Face, Lines, Unread, chunked
from heedful.tasks.inspecting import Scope

Input = TypeVar("Input")


def listed(texts: str | Sequence[Input]) -> list[Any]:
    """One text, or several, as a list."""
    return [texts] if isinstance(texts, str) else list(texts)


def require_within(asked: Asked, message: BaseModel, *, texts: int = 1) -> None:
    """`Refusal` where a message asks for more than the settings grant.

    Args:
        asked: whose.
        message: what is asked; files have a limit of their own.
        texts: of the message.
    """
    limits = asked.house.settings.limits
    given = {name: getattr(message, name) for name in type(message).model_fields if name not in FILES}
    characters = sum(map(len, words_of(list(given.values()))))
    if characters > limits.characters:
        raise wrong(f"{characters:,} characters of text; a request may have {limits.characters:,}: send fewer")
    if texts > limits.batch:
        raise wrong(f"{texts:,} texts; a request may have {limits.batch:,}: send fewer")
    most = {"n_best": limits.alternatives + 1, "beam": limits.rows, "tokens": limits.tokens, "top": limits.batch}
    for name, bound in most.items():
        if (value := given.get(name)) is not None and value > bound:
            raise wrong(f"{name}: {value:,}; this server grants at most {bound:,}", param=name)


async def told(asked: Asked, model: Model[Any], lines: Lines[Input, Any], inputs: Sequence[Input]) -> Mapping[str, Any]:
    """What a model says of inputs, in the records that commands write as JSON."""

    def work() -> list[Any]:
        return records(asked, lines, inputs)

    return {"model": model.name, "answers": await model.ask(asked.term, work)}


def records(asked: Asked, lines: Lines[Input, Any], inputs: Sequence[Input]) -> list[Any]:
    """The same where it is worked for a request, which ends as soon as nobody waits."""
    found: list[Any] = []
    done = 0
    for part in chunked(inputs, asked.house.settings.limits.rows):
        asked.term.check()
        answers = lines.answers(part, first=done + 1)
        found += ({"error": each.message} if isinstance(each, Unread) else lines.record(each) for each in answers)
        done += len(part)
    return found


def look_plainly(face: Face, message: Inspect) -> Callable[[], Record]:
    """How a face that reads texts is looked at; a text is never the name of a file here."""
    for name in FILES:
        if getattr(message, name) is not None:
            raise wrong(f"{name}: this model reads texts; leave it out", param=name)
    scope = Scope(attribution="auto")
    looking = Looking(message.text, message.pair, beam=message.beam, tokens=message.tokens, scope=scope)
    return lambda: face.look(looking)


def look_at(_asked: Asked, model: Model[Any], message: Inspect) -> Callable[[], Record]:
    """`look_plainly`, of a model."""
    return look_plainly(model.face, message)
