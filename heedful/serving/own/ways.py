"""Which translator is meant, and in which direction."""

from __future__ import annotations

from typing import Any

from heedful.serving.house import House, Model
from heedful.serving.languages import found_in
from heedful.serving.refusal import wrong
from heedful.serving.uses import model_for
from heedful.tasks.translation.face import Translator


def translator_for(
    house: House, name: str | None, *, use: str, source: str | None, to: str | None
) -> tuple[Model[Any], Translator]:
    """A model that translates, and its face for one direction.

    Args:
        house: that is asked.
        name: of the model; not needed where languages tell it.
        use: what it is to do.
        source: language that it reads.
        to: language that it writes.

    Raises:
        Refusal: it is not known which model is meant, or that one does not know the languages.
    """
    fitting = [model for model in house.of(Translator) if ways_of(model, source=source, to=to)]
    model = fitting[0] if name is None and len(fitting) == 1 else model_for(house, use, name)
    ways = ways_of(model, source=source, to=to)
    if not ways:
        known = ", ".join(f"{one or 'anything'} to {other or 'anything'}" for one, other in ways_of(model))
        raise wrong(f"source, to: {model.name} translates {known}; ask for one of these", param="to")
    translator: Translator = model.face
    if not translator.languages:
        return model, translator
    targets = dict.fromkeys(target for _, target in ways)
    if len(targets) > 1:
        raise wrong(f"to: {model.name} writes {', '.join(filter(None, targets))}; name one of these", param="to")
    (target,) = targets
    return model, translator.towards(target)


def ways_of(
    model: Model[Any], *, source: str | None = None, to: str | None = None
) -> list[tuple[str | None, str | None]]:
    """What a model translates, as far as it is known and agrees with what is asked for; None is not known."""
    translator: Translator = model.face
    known: list[tuple[str | None, str | None]] = [*model.spoken.ways]
    tagged: list[tuple[str | None, str | None]] = [(None, language) for language in translator.languages]
    return [way for way in known or tagged or [(None, None)] if _agrees(source, way[0]) and _agrees(to, way[1])]


def _agrees(asked: str | None, known: str | None) -> bool:
    return asked is None or known is None or found_in(asked, [known]) is not None
