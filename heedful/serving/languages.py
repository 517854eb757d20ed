"""Source and target languages of the served translation models, and their English names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from heedful.data.detect.languages import LANGUAGE_NAMES, parse_language_code
from heedful.errors import RecipeError
from heedful.language_tags import find_nearest_tag
from heedful.serving.settings import ModelSettings

if TYPE_CHECKING:
    from heedful.data.language_identification import LanguageIdentifier
    from heedful.tasks.translation.translator import Translator

LanguagePair: TypeAlias = tuple[str, str]
"""Source and target language."""
_LANGUAGE_TAG: Final = r"[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-(?:[A-Z]{2}|\d{3}))?"
_MODEL_NAME_PATTERN: Final = re.compile(rf"(?:.*[-_.])?(?P<source>{_LANGUAGE_TAG})-(?P<target>{_LANGUAGE_TAG})")
"""Names of models that contain their languages, as en-de, multi30k-en-de, en-pt-BR or en-zh-Hant."""


@final
@dataclass(frozen=True)
class ModelLanguages:
    """The languages of one model.

    Attributes:
        pairs: translation directions, the main one first.
        profiles: for language identification, if its run has saved some.
    """

    pairs: tuple[LanguagePair, ...] = ()
    profiles: LanguageIdentifier | None = None

    @property
    def source(self) -> str | None:
        """The source language, if there is exactly one."""
        return _single_language(source for source, _ in self.pairs)

    @property
    def target(self) -> str | None:
        """The target language, if there is exactly one."""
        return _single_language(target for _, target in self.pairs)


def _single_language(languages: Iterable[str]) -> str | None:
    """Return the language if all are the same, else None."""
    distinct = set(languages)
    return distinct.pop() if len(distinct) == 1 else None


def find_languages(
    predictor: Any, model_settings: ModelSettings, *, name: str, log: Callable[[str], None]
) -> ModelLanguages:
    """Determine the languages of a loaded model from its recipe, its settings or its name.

    Args:
        predictor: loaded model; one that does not translate has no languages.
        model_settings: of the model.
        name: under which it is served.
        log: called if languages are guessed or unknown.

    Raises:
        RecipeError: the settings name a language that the recipe does not have.
    """
    from heedful.tasks.translation.translator import Translator

    if not isinstance(predictor, Translator):
        return ModelLanguages()
    recipe_pairs = _read_trained_pairs(model_settings.run) or _list_model_pairs(predictor, model_settings, name=name)
    pairs = _apply_settings(recipe_pairs, model_settings, name=name)
    if (
        not pairs
        and not predictor.languages
        and (match := _MODEL_NAME_PATTERN.fullmatch(name))
        and _names_languages(match)
    ):
        source, target = (
            model_settings.source_language or match["source"],
            model_settings.target_language or match["target"],
        )
        pairs = ((source, target),)
        log(f"{name}: translates {source} to {target}, according to its name")
    if not pairs:
        log(
            f"{name}: its recipe does not say what it translates, so /translate does not offer it; name its languages, "
            f"as in heedful serve en-sw={_quote_path(model_settings.run)}, or write source_language and "
            "target_language into the table of its training text and train again"
        )
    return ModelLanguages(pairs, _load_profiles(model_settings.run))


def _list_model_pairs(
    predictor: Translator, model_settings: ModelSettings, *, name: str
) -> list[tuple[str | None, str | None]]:
    """Return the (source, target) directions of a model without a recipe, with None for a language that it does not
    know. For a model that reads the language of its texts, only those that the settings name.

    Raises:
        RecipeError: the settings name a language that the model does not have.
    """
    if not predictor.source_languages:
        return [(None, target) for target in predictor.languages or (None,)]
    from heedful.tasks.translation.languages import choose_language

    sources, targets = predictor.source_languages, predictor.languages
    try:
        if (source := model_settings.source_language) is not None:
            choose_language(source, sources, use="reads")
            sources = (source,)
        if (target := model_settings.target_language) is not None:
            choose_language(target, targets, use="writes")
            targets = (target,)
    except RecipeError as error:
        raise RecipeError(f"models.{name}: {error}") from None
    return [(source, target) for source in sources for target in targets if source != target]


def _quote_path(run: Path) -> str:
    """Quote the path of a run for a command line, relative to the current folder if it is inside it."""
    try:
        return shlex.quote(str(run.resolve().relative_to(Path.cwd())))
    except (OSError, ValueError):
        return shlex.quote(str(run))


def _read_trained_pairs(run: Path) -> Sequence[tuple[str | None, str | None]]:
    """Return the (source, target) directions of the training texts of a run, with None for a language that the recipe
    does not name; empty for a Hugging Face folder.
    """
    from heedful.foreign.folders import is_hugging_face_folder
    from heedful.recipes.parallel_data import list_texts
    from heedful.runs.load import read_run_recipe
    from heedful.tasks.translation.recipe import TranslationRecipe

    if is_hugging_face_folder(run):
        return []
    recipe = read_run_recipe(run)
    assert isinstance(recipe, TranslationRecipe), "a translation model has a translation recipe"
    text_tables = recipe.data.get_tables("train")
    texts = [text for key, table in text_tables.items() for text in list_texts(table, key).values()]
    return list(dict.fromkeys((direction.source, direction.target) for text in texts for direction in text.directions))


def _apply_settings(
    pairs: Iterable[tuple[str | None, str | None]], model_settings: ModelSettings, *, name: str
) -> tuple[LanguagePair, ...]:
    """Fill the unknown languages (None) of (source, target) pairs from the settings, and return the pairs that agree
    with the settings and are completely known. Raise a `RecipeError` with the model's name if none agrees.
    """
    configured = model_settings.source_language, model_settings.target_language
    filled = [(source or configured[0], target or configured[1]) for source, target in pairs]
    matching = [
        pair
        for pair in filled
        if all(language in (None, wanted_language) for wanted_language, language in zip(pair, configured, strict=True))
    ]
    if not matching:
        known = ", ".join(f"{source or '?'} to {target or '?'}" for source, target in filled)
        requested = " to ".join(language or "anything" for language in configured)
        raise RecipeError(
            f"models.{name}: is requested to translate {requested}, but has learned {known}; name one of these"
        )
    return tuple(dict.fromkeys((source, target) for source, target in matching if source and target))


def _names_languages(match: re.Match[str]) -> bool:
    """Return whether both parts of a match of `_MODEL_NAME_PATTERN` are codes of languages and differ."""
    return (
        bool(parse_language_code(match["source"]))
        and bool(parse_language_code(match["target"]))
        and match["source"] != match["target"]
    )


def _load_profiles(run: Path) -> LanguageIdentifier | None:
    """Load the language profiles that a run has saved; None if there are none."""
    from heedful.data.language_identification import LanguageIdentifier
    from heedful.tasks.translation.languages import PROFILES_FILE

    return LanguageIdentifier.load(run / PROFILES_FILE) if (run / PROFILES_FILE).exists() else None


def match_language(requested: str, languages: Sequence[str]) -> str | None:
    """Return the one of some languages that a requested tag means, which may be written differently, as `pt_br`, `deu`
    or `de-AT`; None if it means none of them.

    An equal tag is preferred, then the nearest one by script and region; see `find_nearest_tag`. A different script
    counts as a different language.
    """
    normalized = requested.lower().replace("_", "-")
    equal = (language for language in languages if language.lower().replace("_", "-") == normalized)
    return next(equal, None) or find_nearest_tag(requested, languages)


@cache
def language_name(language: str) -> str:
    """Return the English name of a language, given by its tag.

    Without Babel, only common languages have one; others are returned unchanged.
    """
    language_code = parse_language_code(language).code
    try:
        from babel import Locale, UnknownLocaleError
    except ModuleNotFoundError:
        return LANGUAGE_NAMES.get(language_code, language)
    normalized = language.replace("_", "-")
    primary, *subtags = normalized.split("-")
    for tag in ("-".join([language_code or primary, *subtags]), language_code or primary):
        try:
            return str(Locale.parse(tag, sep="-").get_display_name("en"))
        except (UnknownLocaleError, ValueError):
            continue
    return language
