"""Options that say into which language sentences are translated, and of what kind they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from heedful.cli.arguments import MaybeText
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.translation.face import Translator


@dataclass(frozen=True, kw_only=True)
class DirectionOptions:
    """What a model that knows several languages or kinds of text is told of sentences."""

    to: MaybeText = None
    """the language that is written, of a model that writes several"""
    tags: tuple[str, ...] = ()
    """what else stands before the sources, as data.train.tags of the recipe, such as "<captions>" """

    @property
    def before(self) -> tuple[str, ...]:
        """What stands before sources, the tag of the language first."""
        from heedful.recipes.directed import language_tag

        return (*([] if self.to is None else [language_tag(self.to)]), *self.tags)

    def of(self, user: object) -> Translator:
        """A translator that is told so; `RecipeError` where it knows no such language or tag, or translates nothing."""
        from heedful.tasks.translation.face import Translator

        if not isinstance(user, Translator):
            raise RecipeError("--to, --tags: belong to models that translate; leave them away")
        return user.towards(self.to, tags=self.tags)
