"""Which languages the models that are served read and write, and what these languages are called."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from heedful.data.forms.languages import NAMES, code_of
from heedful.errors import RecipeError
from heedful.language_tags import nearest_tag
from heedful.serving.settings import ModelSettings

if TYPE_CHECKING:
    from heedful.data.identification import Profiles

Way: TypeAlias = tuple[str, str]
"""The language that is read, and the one that is written."""
_LANGUAGE: Final = r"[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-(?:[A-Z]{2}|\d{3}))?"
_NAMED: Final = re.compile(rf"(?:.*[-_.])?(?P<source>{_LANGUAGE})-(?P<target>{_LANGUAGE})")
"""Models that are called after what they translate, as en-de, multi30k-en-de, en-pt-BR or en-zh-Hant."""


@final
@dataclass(frozen=True)
class Languages:
    """Those of a model.

    Attributes:
        ways: that it translates, the first is the one that it is best known for.
        profiles: by which texts are told apart, as far as its run has kept some.
    """

    ways: tuple[Way, ...] = ()
    profiles: Profiles | None = None

    @property
    def source(self) -> str | None:
        """The one that is read, where it is one."""
        return _only(source for source, _ in self.ways)

    @property
    def target(self) -> str | None:
        """The one that is written, likewise."""
        return _only(target for _, target in self.ways)


def _only(languages: Iterable[str]) -> str | None:
    found = set(languages)
    return found.pop() if len(found) == 1 else None


def languages_of(face: Any, given: ModelSettings, *, name: str, say: Callable[[str], None]) -> Languages:
    """Those of a loaded model: what its recipe says of its texts, what settings add, or what its name says.

    Args:
        face: that was loaded; one that does not translate has none.
        given: its settings.
        name: under which it is served.
        say: told where they are guessed or not known.

    Raises:
        RecipeError: the settings name a language that the recipe does not.
    """
    from heedful.tasks.translation.face import Translator

    if not isinstance(face, Translator):
        return Languages()
    learned = _learned(given.run) or [(None, target) for target in face.languages] or [(None, None)]
    ways = _filled(learned, given, name=name)
    if not ways and not face.languages and (found := _NAMED.fullmatch(name)) and _are_known(found):
        source, target = given.source_language or found["source"], given.target_language or found["target"]
        ways = ((source, target),)
        say(f"{name}: is taken to translate {source} to {target}, by its name")
    if not ways:
        say(
            f"{name}: its recipe does not say what it translates, so /translate does not offer it; name its languages, "
            f"as in heedful serve en-sw={_as_word(given.run)}, or write source_language and target_language "
            "into the table of its training text and train again"
        )
    return Languages(ways, _profiles(given.run))


def _as_word(run: Path) -> str:
    """A path as a command line has it, the shortest one."""
    try:
        return shlex.quote(str(run.resolve().relative_to(Path.cwd())))
    except (OSError, ValueError):
        return shlex.quote(str(run))


def _learned(run: Path) -> Sequence[tuple[str | None, str | None]]:
    """What the recipe of a run says of the texts that it has learned from; nothing of folders of Hugging Face."""
    from heedful.foreign.folders import is_hugging_face
    from heedful.recipes.directed import named_texts
    from heedful.runs.load import open_run
    from heedful.tasks.translation.recipe import TranslationRecipe

    if is_hugging_face(run):
        return []
    recipe = open_run(run).recipe
    assert isinstance(recipe, TranslationRecipe), "what translates has learned it"
    tables = recipe.data.tables("train")
    texts = [text for key, table in tables.items() for text in named_texts(table, key).values()]
    return list(dict.fromkeys((each.source, each.target) for text in texts for each in text.directions))


def _filled(learned: Iterable[tuple[str | None, str | None]], given: ModelSettings, *, name: str) -> tuple[Way, ...]:
    """Ways with what the settings add, those alone that agree with them and of which both languages are known."""
    wanted = given.source_language, given.target_language
    filled = [(source or wanted[0], target or wanted[1]) for source, target in learned]
    fitting = [way for way in filled if all(other in (None, one) for one, other in zip(way, wanted, strict=True))]
    if not fitting:
        said = ", ".join(f"{source or '?'} to {target or '?'}" for source, target in filled)
        asked = " to ".join(each or "anything" for each in wanted)
        raise RecipeError(f"models.{name}: is to translate {asked}, and has learned {said}; name one of these")
    return tuple(dict.fromkeys((source, target) for source, target in fitting if source and target))


def _are_known(found: re.Match[str]) -> bool:
    """Whether what a name ends in are two languages, and not any two words."""
    return bool(code_of(found["source"])) and bool(code_of(found["target"])) and found["source"] != found["target"]


def _profiles(run: Path) -> Profiles | None:
    from heedful.data.identification import Profiles
    from heedful.tasks.translation.identified import FILE

    return Profiles.load(run / FILE) if (run / FILE).exists() else None


def found_in(asked: str, languages: Sequence[str]) -> str | None:
    """Which of some languages somebody means, who may write it otherwise, as `pt_br`, `deu` or `de-AT`; None if none.

    What is written the same goes first, then what is nearest by script and region; see `nearest_tag`. Another script is
    another language.
    """
    plain = asked.lower().replace("_", "-")
    alike = (each for each in languages if each.lower().replace("_", "-") == plain)
    return next(alike, None) or nearest_tag(asked, languages)


@cache
def called(language: str) -> str:
    """The English name of a language; where Babel is not installed that of the commonest ones, else what was given."""
    known = code_of(language).code
    try:
        from babel import Locale, UnknownLocaleError
    except ModuleNotFoundError:
        return NAMES.get(known, language)
    plain = language.replace("_", "-")
    first, *others = plain.split("-")
    for tag in ("-".join([known or first, *others]), known or first):
        try:
            return str(Locale.parse(tag, sep="-").get_display_name("en"))
        except (UnknownLocaleError, ValueError):
            continue
    return language
