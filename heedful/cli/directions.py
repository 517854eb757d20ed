"""Options for the target language and the kind of text."""

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
    """Target language and tags for models with several languages or kinds of text."""

    to: OptionalText = None
    """target language, for models with several; for localization files, the language named in the file by default"""
    tags: tuple[str, ...] = ()
    """further tags before the sources, as data.train.tags of the recipe, such as <captions>"""

    def __post_init__(self) -> None:
        if self.tags:
            from heedful.tasks.translation.languages import parse_language_tag

            for tag in self.tags:
                if language := parse_language_tag(tag):
                    raise RecipeError(f"--tags: {tag} is the tag of a language; leave it out, and give --to {language}")

    @property
    def source_tags(self) -> tuple[str, ...]:
        """The tags before each source, that of the language first."""
        from heedful.recipes.parallel_data import format_language_tag

        return (*([] if self.to is None else [format_language_tag(self.to)]), *self.tags)

    def apply_to(self, predictor: object, *, document: TranslatableDocument | None = None) -> Translator:
        """Return the translator with the target language and tags set; by default with the target language of a
        document.

        Raises:
            RecipeError: the model does not know the language or a tag, or does not translate.
        """
        from heedful.tasks.translation.translator import Translator

        if not isinstance(predictor, Translator):
            raise RecipeError("--to, --tags: are for models that translate; leave them out")
        target = self.to
        if target is None and document is not None and predictor.languages:
            target = _find_document_language(document, predictor.languages)
        return predictor.towards(target, tags=self.tags)


def _find_document_language(document: TranslatableDocument, languages: Sequence[str]) -> str | None:
    """Return the model's language that matches a document's target language; None if the document names none."""
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
            f"{document.path}: its target language is {named!r}, but this model writes {language_list}; choose one "
            "with --to"
        )
    return match
