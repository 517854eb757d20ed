"""Options that say into which language sentences are translated, and of what kind they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heedful.cli.arguments import OptionalText
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.localisation.documents import TranslatableDocument
    from heedful.tasks.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class DirectionOptions:
    """What a model that knows several languages or kinds of text is told of sentences."""

    to: OptionalText = None
    """the language that is written, of a model that writes several; unless given, a translators' file says it itself"""
    tags: tuple[str, ...] = ()
    """what else stands before the sources, as data.train.tags of the recipe, such as "<captions>" """

    def __post_init__(self) -> None:
        if self.tags:
            from heedful.tasks.translation.directions import parse_language_tag

            for tag in self.tags:
                if language := parse_language_tag(tag):
                    raise RecipeError(f"--tags: {tag} asks for a language; leave it away, and say --to {language}")

    @property
    def source_tags(self) -> tuple[str, ...]:
        """What stands before sources, the tag of the language first."""
        from heedful.recipes.parallel_data import format_language_tag

        return (*([] if self.to is None else [format_language_tag(self.to)]), *self.tags)

    def apply_to(self, predictor: object, *, document: TranslatableDocument | None = None) -> Translator:
        """A translator that is told so, or into the language that a document says it is to be in.

        Raises:
            RecipeError: the model knows no such language or tag, or translates nothing.
        """
        from heedful.tasks.translation.translator import Translator

        if not isinstance(predictor, Translator):
            raise RecipeError("--to, --tags: belong to models that translate; leave them away")
        target = self.to
        if target is None and document is not None and predictor.languages:
            target = _find_document_language(document, predictor.languages)
        return predictor.towards(target, tags=self.tags)


def _find_document_language(document: TranslatableDocument, languages: Sequence[str]) -> str | None:
    """Which of a model's languages a document says it is to be in, if it says any."""
    from heedful.language_tags import find_nearest_tag

    named = document.languages.target
    if named is None:
        return None
    exact_matches = (
        language for language in languages if language.lower().replace("_", "-") == named.lower().replace("_", "-")
    )
    match = next(exact_matches, None) or find_nearest_tag(named, languages)
    if match is None:
        language_list = ", ".join(languages)
        raise RecipeError(
            f"{document.path}: is to be in {named!r}, and this model writes {language_list}; choose one with --to"
        )
    return match
