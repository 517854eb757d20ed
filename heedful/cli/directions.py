"""Options that say into which language sentences are translated, and of what kind they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heedful.cli.arguments import MaybeText
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.localisation.documents import Document
    from heedful.tasks.translation.face import Translator


@dataclass(frozen=True, kw_only=True)
class DirectionOptions:
    """What a model that knows several languages or kinds of text is told of sentences."""

    to: MaybeText = None
    """the language that is written, of a model that writes several; unless given, a translators' file says it itself"""
    tags: tuple[str, ...] = ()
    """what else stands before the sources, as data.train.tags of the recipe, such as "<captions>" """

    def __post_init__(self) -> None:
        if self.tags:
            from heedful.tasks.translation.directions import language_in

            for tag in self.tags:
                if asked := language_in(tag):
                    raise RecipeError(f"--tags: {tag} asks for a language; leave it away, and say --to {asked}")

    @property
    def before(self) -> tuple[str, ...]:
        """What stands before sources, the tag of the language first."""
        from heedful.recipes.directed import language_tag

        return (*([] if self.to is None else [language_tag(self.to)]), *self.tags)

    def of(self, user: object, *, document: Document | None = None) -> Translator:
        """A translator that is told so, or into the language that a document says it is to be in.

        Raises:
            RecipeError: the model knows no such language or tag, or translates nothing.
        """
        from heedful.tasks.translation.face import Translator

        if not isinstance(user, Translator):
            raise RecipeError("--to, --tags: belong to models that translate; leave them away")
        to = self.to
        if to is None and document is not None and user.languages:
            to = _said(document, user.languages)
        return user.towards(to, tags=self.tags)


def _said(document: Document, languages: Sequence[str]) -> str | None:
    """Which of a model's languages a document says it is to be in, if it says any."""
    from heedful.language_tags import nearest_tag

    said = document.languages.target
    if said is None:
        return None
    exact = (each for each in languages if each.lower().replace("_", "-") == said.lower().replace("_", "-"))
    found = next(exact, None) or nearest_tag(said, languages)
    if found is None:
        known = ", ".join(languages)
        raise RecipeError(f"{document.path}: is to be in {said!r}, and this model writes {known}; choose one with --to")
    return found
