"""Translation of examples of several directions by one translator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from heedful.data.context import get_source_with_context
from heedful.tasks.translation.languages import LANGUAGE_TAG

if TYPE_CHECKING:
    from heedful.data.readers import SentencePair
    from heedful.tasks.translation.translations import Translation
    from heedful.tasks.translation.translator import Translator

ExampleT = TypeVar("ExampleT")
AnswerT = TypeVar("AnswerT")


def run_by_tags(
    translator: Translator,
    examples: Sequence[ExampleT],
    *,
    run_group: Callable[[Translator, list[ExampleT]], Sequence[AnswerT]],
    tags: Callable[[ExampleT], tuple[str, ...]] = attrgetter("tags"),
) -> list[AnswerT]:
    """Answer examples in their order, grouped by tags; the translator is given the tags of each group.

    A translator with a single target language ignores language tags, so that it can be compared with a multilingual
    one.

    Args:
        translator: gets the tags of each group.
        examples: of any directions.
        run_group: answers the examples of a group.
        tags: returns the tags before the source of an example; by default its attribute of that name.
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


def translate_pairs(translator: Translator, pairs: Sequence[SentencePair], **options: Any) -> list[Translation]:
    """Translate the sources of pairs of any directions, in their order; `options` are those of
    `Translator.translate`.
    """
    return run_by_tags(
        translator,
        pairs,
        run_group=lambda directed, group: directed.translate(list(map(get_source_with_context, group)), **options),
    )


def _drop_language_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that do not ask for a language."""
    return tuple(tag for tag in tags if not LANGUAGE_TAG.fullmatch(tag))
