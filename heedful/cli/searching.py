"""The options that say how outputs are looked for; shared by the commands that translate or write."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from heedful.cli.arguments import MaybeFloat, MaybeInt, maybe
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.recipes.generation import ContinuationConfig, GenerationConfig


_KEYS: Final = {"search": "kind", "beam": "width"}
"""Options that are called otherwise in a recipe."""
_KINDS: Final = {
    "sampling": frozenset({"temperature", "top_k", "top_p", "min_p"}),
    "beam": frozenset({"width", "length_penalty"}),
}
"""Which kind of search is meant where it was not said, by the keys that it alone has."""


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Kind of search, and how tokens are sampled."""

    search: str | None = None
    temperature: MaybeFloat = None
    """of sampling: below 1 is bolder, above 1 more varied"""
    top_k: MaybeInt = None
    """sample from this many most probable tokens only"""
    top_p: MaybeFloat = None
    """sample from the fewest tokens with this probability together"""
    min_p: MaybeFloat = None
    """sample only tokens at least so many times as probable as the most probable one"""

    def _changed(self, recipe: Any, config: Any, *, shared: tuple[str, ...], by: str) -> Any:
        """A recipe's way with what was given; where the kind changes, nothing of it but what is shared is kept."""
        from pydantic import TypeAdapter, ValidationError

        options = {_KEYS.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in options.items() if value not in (None, ())}
        meant = (kind for kind, names in _KINDS.items() if not names.isdisjoint(given))
        kind = given.setdefault("kind", next(meant, recipe.kind))
        before = recipe.model_dump(exclude_none=True)
        kept = before if recipe.kind == kind else {name: before[name] for name in shared}
        try:
            return TypeAdapter(config).validate_python({**kept, **given})
        except ValidationError as error:
            first = error.errors()[0]
            name = next(str(part) for part in reversed(first["loc"]) if isinstance(part, str))
            option = name.replace("_", "-").replace("width", "beam")
            odd = "is no option of it" if first["type"] == "extra_forbidden" else first["msg"].lower()
            raise RecipeError(f"--{option}: does not fit --search {kind} ({odd}); see heedful {by} --help") from None


@dataclass(frozen=True, kw_only=True)
class SearchOptions(_Options):
    """How translations are looked for; what is not given comes from the recipe."""

    search: Annotated[Literal["greedy", "beam", "sampling"] | None, maybe("{greedy,beam,sampling}")] = None
    """kind of search"""
    beam: MaybeInt = None
    """hypotheses that grow side by side"""
    length_penalty: MaybeFloat = None
    """alpha of Wu et al. 2016: 0 favours short translations"""
    max_ratio: MaybeFloat = None
    """longest translation, as a multiple of the source's tokens"""
    max_extra: MaybeInt = None
    """tokens granted on top of that"""

    def config(self, recipe: GenerationConfig) -> GenerationConfig:
        """The recipe's way to search, changed by what was given.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        from heedful.recipes.generation import GenerationConfig

        shared = ("max_ratio", "max_extra")
        changed: GenerationConfig = self._changed(recipe, GenerationConfig, shared=shared, by="translate")
        return changed


@dataclass(frozen=True, kw_only=True)
class WritingOptions(_Options):
    """How prompts are continued; what is not given comes from the recipe."""

    search: Annotated[Literal["greedy", "sampling"] | None, maybe("{greedy,sampling}")] = None
    """how tokens are chosen; the recipe's way if not given"""
    repetition_penalty: MaybeFloat = None
    """above 1 makes tokens less probable that were there before, in the prompt too"""
    stop: tuple[str, ...] = ()
    """end before the first of these strings, one or several; the recipe's if not given"""
    tokens: MaybeInt = None
    """longest continuation"""

    def config(self, recipe: ContinuationConfig) -> ContinuationConfig:
        """The recipe's way to write, changed by what was given.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        from heedful.recipes.generation import ContinuationConfig

        shared = ("tokens", "repetition_penalty", "stop")
        changed: ContinuationConfig = self._changed(recipe, ContinuationConfig, shared=shared, by="generate")
        return changed
