"""Languages of a translation run: target languages by tags, and profiles that identify the language of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from heedful.atomic_io import read_manifest
from heedful.data.language_identification import MAX_TEXTS, LanguageIdentifier, LanguagePrediction
from heedful.errors import RecipeError, RunError
from heedful.language_tags import find_nearest_tag
from heedful.recipes.parallel_data import format_language_tag, format_source_tag
from heedful.tasks.predictor import TextLineFormat

if TYPE_CHECKING:
    from heedful.data.readers import SentencePair
    from heedful.data.tokenizers import Tokenizer
    from heedful.recipes.parallel_data import TranslationDirection

LANGUAGE_TAG: Final = re.compile(r"<2(.+)>")
"""A tag that asks for a target language."""
_SOURCE_TAG: Final = re.compile(r"<src:(.+)>")
_MAX_LISTED: Final = 20
_FOREIGN_LANGUAGE_TAG: Final = re.compile(r">>(.+)<<")


def parse_language_tag(tag: str) -> str | None:
    """Return the target language of a tag, also of a foreign model's tag such as `>>fra<<`; None if it is not a
    language tag.
    """
    match = LANGUAGE_TAG.fullmatch(tag) or _FOREIGN_LANGUAGE_TAG.fullmatch(tag)
    return None if match is None else match[1]


def list_source_languages(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the languages of sources that tags name; other tags are ignored."""
    return tuple(match[1] for tag in tags if (match := _SOURCE_TAG.fullmatch(tag)))


def choose_language(requested: str, available: Sequence[str], *, use: str) -> str:
    """Return the language of a model that a tag such as `de` or `zh-TW` means.

    Args:
        requested: the tag.
        available: languages of the model.
        use: what the model does with them: "writes" or "reads".

    Raises:
        RecipeError: the model has no such language, or none at all.
    """
    nearest = requested if requested in available else find_nearest_tag(requested, available)
    if nearest is not None:
        return nearest
    remedy = (
        f"it {use} {list_briefly(available)}: choose one of these"
        if available
        else f"it {use} only one, so leave the language out"
    )
    raise RecipeError(f"{requested}: this model does not {use.removesuffix('s')} this language; {remedy}")


def choose_language_tags(
    source: tuple[str | None, Sequence[str]], target: tuple[str | None, Sequence[str]]
) -> list[str]:
    """Return the tags of the requested source and target language, each given with the languages that a model reads or
    writes; none for a language that is not requested (None). Raise RecipeError for one that the model does not have.
    """
    return [
        format_tag(choose_language(requested, available, use=use))
        for (requested, available), use, format_tag in (
            (source, "reads", format_source_tag),
            (target, "writes", format_language_tag),
        )
        if requested is not None
    ]


def list_briefly(languages: Sequence[str]) -> str:
    """List languages for a message: all of a few, else the first and the number of others."""
    if len(languages) <= _MAX_LISTED:
        return ", ".join(languages)
    return f"{', '.join(languages[:_MAX_LISTED])} and {len(languages) - _MAX_LISTED} others"


def list_tag_languages(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the languages that tags ask for; other tags are ignored."""
    return tuple(match[1] for tag in tags if (match := LANGUAGE_TAG.fullmatch(tag)))


def list_target_tags(source: Tokenizer, target: Tokenizer) -> tuple[str, ...]:
    """Return the tags that begin a translation instead of a source."""
    return tuple(tag for tag in target.tag_ids if tag not in source.tag_ids)


def find_direction_problem(source: Tokenizer, target: Tokenizer) -> str | None:
    """Return what must be named before texts can be translated: their language, for a model that reads it, or the
    language of translations, for a model that begins them with it; None if nothing is missing.
    """
    known_sources = list_source_languages(source.tag_ids)
    source_ids = {source.tag_ids[format_source_tag(language)] for language in known_sources}
    if source_ids and source_ids.isdisjoint(source.prefix_ids):
        known = list_briefly(known_sources)
        return f"this model reads {known}: name the language of the texts with --from or towards(source=...)"
    target_tags = list_target_tags(source, target)
    target_ids = {target.tag_ids[tag] for tag in target_tags}
    if target_ids and target_ids.isdisjoint(target.prefix_ids):
        known = list_briefly(list_tag_languages(target_tags))
        return f"this model writes {known}: choose one with --to or towards()"
    return None


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
            f"{run}: contains no language profiles; name the languages in a translation recipe, source_language and "
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
