"""Target languages of a translator, and calls with sentences of several directions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from heedful.tasks.translation.translator import Translator

_LANGUAGE_TAG: Final = re.compile(r"<2(.+)>")
_FOREIGN_LANGUAGE_TAG: Final = re.compile(r">>(.+)<<")

ExampleT = TypeVar("ExampleT")
AnswerT = TypeVar("AnswerT")


def parse_language_tag(tag: str) -> str | None:
    """Return the target language of a tag, also of a foreign model's tag such as `>>fra<<`; None if it is not a
    language tag.
    """
    match = _LANGUAGE_TAG.fullmatch(tag) or _FOREIGN_LANGUAGE_TAG.fullmatch(tag)
    return None if match is None else match[1]


def list_tag_languages(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the languages that tags ask for; other tags are ignored."""
    return tuple(match[1] for tag in tags if (match := _LANGUAGE_TAG.fullmatch(tag)))


def run_by_tags(
    translator: Translator,
    examples: Sequence[ExampleT],
    *,
    tags: Callable[[ExampleT], tuple[str, ...]],
    run_group: Callable[[Translator, list[ExampleT]], Sequence[AnswerT]],
) -> list[AnswerT]:
    """Answer examples in their order, grouped by tags; the translator is given the tags of each group.

    A translator with a single target language ignores language tags, so that it can be compared with a multilingual
    one.

    Args:
        translator: gets the tags of each group.
        examples: of any directions.
        tags: returns the tags before the source of an example.
        run_group: answers the examples of a group.
    """
    groups = defaultdict[tuple[str, ...], list[int]](list)
    for index, example in enumerate(examples):
        own_tags = tags(example)
        groups[own_tags if translator.languages else _drop_language_tags(own_tags)].append(index)
    results: dict[int, AnswerT] = {}
    for own_tags, indices in groups.items():
        answers = run_group(translator.with_tags(own_tags), [examples[index] for index in indices])
        results.update(zip(indices, answers, strict=True))
    return [results[index] for index in range(len(examples))]


def _drop_language_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that do not ask for a language."""
    return tuple(tag for tag in tags if not _LANGUAGE_TAG.fullmatch(tag))
