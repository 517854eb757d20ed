"""The first request of each model, so that nobody who asks pays for what is made only once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from heedful.errors import HeedfulError, RecipeError
from heedful.retrieval.index import PassageIndex
from heedful.serving.house import House
from heedful.serving.term import Term
from heedful.tasks.captioning.face import Captioner
from heedful.tasks.classification.face import Classifier
from heedful.tasks.conversation.face import Partner
from heedful.tasks.embedder import Embeds
from heedful.tasks.language.face import Writer
from heedful.tasks.pretraining.face import Reader
from heedful.tasks.spans.face import Answerer
from heedful.tasks.stories.face import StoryReader
from heedful.tasks.tagging.face import Tagger
from heedful.tasks.translation.face import Translator

_TEXT: Final = "a"
_TOKENS: Final = 2
"""That are written."""
_SECONDS: Final = 600.0


def warm(house: House, say: Callable[[str], None]) -> None:
    """Asks every model and index of a house for something tiny, the way in which requests ask.

    Args:
        house: with its models.
        say: told which model said that it cannot answer that.

    Raises:
        RecipeError: a model is of a kind that no route asks.
    """
    for name, model in (*house.models.items(), *house.indices.items()):
        first = _first(name, model.face)
        try:
            asyncio.run(model.ask(Term.of(_SECONDS), first))
        except HeedfulError as error:
            say(f"{name}: is not warm, its first request will take longer ({error})")


def _first(name: str, face: Any) -> Callable[[], object]:  # noqa: PLR0911 - one for each kind
    """A request that a face answers."""
    match face:
        case Translator():
            one = face.towards(face.languages[0]) if face.languages else face
            return lambda: one.translate([_TEXT])
        case Writer():
            return lambda: face.write([_TEXT], limit=_TOKENS)
        case Partner():
            return lambda: face.reply([face.turns([_TEXT])], limit=_TOKENS)
        case Reader():
            return lambda: face.fill(["[MASK]"])
        case Classifier():
            text = (_TEXT, _TEXT) if face.paired else _TEXT
            return lambda: face.choose([[text, text]]) if face.answered == "choice" else face.classify([text])
        case Tagger():
            return lambda: face.tag([[_TEXT]])
        case Answerer():
            return lambda: face.answer(_TEXT, _TEXT)
        case StoryReader():
            return lambda: face.ask([_TEXT], _TEXT)
        case Captioner():
            size = face.framing.size
            return lambda: face.caption([np.zeros((size, size, 3), dtype=np.uint8)])
        case Embeds():
            return lambda: face.embed([_TEXT])
        case PassageIndex():
            return lambda: face.search(_TEXT, top=1)
    raise RecipeError(f"{name}: is a {type(face).__name__}, which cannot be asked over HTTP; leave it out")
