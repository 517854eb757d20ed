"""Languages of a translation run: target languages by tags, and profiles that identify the language of a text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from heedful.atomic_io import read_manifest
from heedful.data.context import get_source_with_context
from heedful.data.language_identification import MAX_TEXTS, LanguageIdentifier, LanguagePrediction
from heedful.errors import RunError
from heedful.tasks.predictor import TextLineFormat

if TYPE_CHECKING:
    from heedful.data.readers import SentencePair
    from heedful.recipes.parallel_data import TranslationDirection
    from heedful.tasks.translation.translations import Translation
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
    return tuple(tag for tag in tags if not _LANGUAGE_TAG.fullmatch(tag))


PROFILES_FILE: Final = "languages.safetensors"


def learn_profiles(texts: Sequence[tuple[TranslationDirection, Iterable[SentencePair]]]) -> LanguageIdentifier | None:
    """Learn language profiles from both sides of texts with known directions; None if there are none."""

    def iter_sides() -> Iterator[tuple[str, str]]:
        """Yield language and text of both sides."""
        for direction, pairs in texts:
            assert direction.source is not None
            assert direction.target is not None
            for pair in islice(pairs, MAX_TEXTS):
                yield direction.source, pair.source
                yield direction.target, pair.target

    return LanguageIdentifier.learn(iter_sides()) if texts else None


def load_run_profiles(run: Path) -> LanguageIdentifier:
    """Load the language profiles of a run.

    Raises:
        RunError: the folder is not a run, or contains no profiles.
    """
    read_manifest(run)
    if not (run / PROFILES_FILE).exists():
        raise RunError(
            f"{run}: does not know any languages; name them in a translation recipe, source_language and "
            "target_language of its texts, and train again"
        )
    return LanguageIdentifier.load(run / PROFILES_FILE)


@final
@dataclass(frozen=True)
class LanguageLineFormat(TextLineFormat[LanguagePrediction | None]):
    """One text per line; its language and probability.

    Attributes:
        profiles: of the languages.
    """

    profiles: LanguageIdentifier

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> Sequence[LanguagePrediction | None]:
        """Identify the language of each text."""
        return [self.profiles.identify(text) for text in inputs]

    def to_json(self, answer: LanguagePrediction | None) -> Any:
        """Return language and probability; nulls if a text has no letters."""
        language, probability = answer or (None, None)
        return {"language": language, "probability": probability}

    def format_answer(self, answer: LanguagePrediction | None) -> str:
        """Format language and probability as two columns."""
        return "\t\n" if answer is None else f"{answer.language}\t{answer.probability:.4f}\n"
