"""What models do in our own interface, and which model is meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from heedful.serving.house import House, Model
from heedful.serving.languages import found_in
from heedful.serving.refusal import wrong
from heedful.tasks.captioning.face import Captioner
from heedful.tasks.classification.face import Classifier
from heedful.tasks.conversation.face import Partner
from heedful.tasks.embedder import Embeds
from heedful.tasks.language.face import Writer
from heedful.tasks.pretraining.face import EncoderFace, Reader
from heedful.tasks.spans.face import Answerer
from heedful.tasks.stories.face import StoryReader
from heedful.tasks.tagging.face import Tagger
from heedful.tasks.translation.face import Translator

USES: Final[Mapping[str, tuple[tuple[type[Any], ...], str]]] = {
    "translate": ((Translator,), "translate"),
    "generate": ((Writer,), "continue texts"),
    "chat": ((Partner,), "talk"),
    "fill": ((Reader,), "fill gaps"),
    "classify": ((Classifier,), "classify"),
    "tag": ((Tagger,), "tag words"),
    "answer": ((Answerer,), "answer questions"),
    "ask": ((StoryReader,), "answer questions about stories"),
    "caption": ((Captioner,), "say what pictures show"),
    "embed": ((Embeds,), "make vectors of texts"),
    "score": ((Translator,), "translate"),
    "align": ((Translator,), "translate"),
    "inspect": (
        (Translator, Writer, Partner, EncoderFace, Classifier, Tagger, Answerer, StoryReader, Captioner),
        "can be looked at",
    ),
}
"""Things that may be asked: which faces do each, and what that is called."""


def is_served(house: House, use: str) -> bool:
    """Whether a model does it."""
    kinds, _ = USES[use]
    return any(isinstance(model.face, kinds) for model in house.models.values())


def model_for(house: House, use: str, name: str | None) -> Model[Any]:
    """The model that does it, by its name where there are several; `Refusal` where it is not known which."""
    kinds, words = USES[use]
    return house.model(kinds, name, use=words)


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
