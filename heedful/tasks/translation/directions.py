"""Which languages a translator writes, and sentences of several directions in one call."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from heedful.tasks.translation.face import Translator

_LANGUAGE: Final = re.compile(r"<2(.+)>")
_THEIRS: Final = re.compile(r">>(.+)<<")

Example = TypeVar("Example")
Answer = TypeVar("Answer")


def language_in(word: str) -> str | None:
    """The language that a tag asks for, or a piece of somebody else's model that is read as one, `>>fra<<`."""
    found = _LANGUAGE.fullmatch(word) or _THEIRS.fullmatch(word)
    return None if found is None else found[1]


def languages_of(tags: Iterable[str]) -> tuple[str, ...]:
    """The languages that tags ask for; other tags ask for none."""
    return tuple(found[1] for tag in tags if (found := _LANGUAGE.fullmatch(tag)))


def by_tags(
    translator: Translator,
    examples: Sequence[Example],
    *,
    tags: Callable[[Example], tuple[str, ...]],
    ask: Callable[[Translator, list[Example]], Sequence[Answer]],
) -> list[Answer]:
    """What translators say of examples, in their order; those with the same tags are asked together.

    A translator that writes one language alone is asked for none, so that it can be measured beside one of several.

    Args:
        translator: is given the tags of each group.
        examples: of any directions.
        tags: that stand before the source of an example.
        ask: an answer for each of some examples.
    """
    groups = defaultdict[tuple[str, ...], list[int]](list)
    for place, example in enumerate(examples):
        own = tags(example)
        groups[own if translator.languages else _without_languages(own)].append(place)
    found: dict[int, Answer] = {}
    for own, places in groups.items():
        answers = ask(translator.tagged(own), [examples[place] for place in places])
        found.update(zip(places, answers, strict=True))
    return [found[place] for place in range(len(examples))]


def _without_languages(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(tag for tag in tags if not _LANGUAGE.fullmatch(tag))
