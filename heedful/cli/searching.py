"""The options that say how outputs are looked for; shared by the commands that translate or write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from heedful.cli.arguments import MaybeFloat, MaybeInt
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.recipes.generation import ContinuationConfig, GenerationConfig


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

    @property
    def _given(self) -> dict[str, Any]:
        """What was given but the kind, by its key in a recipe."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "search"}
        return {name: value for name, value in given.items() if value not in (None, ())}


@dataclass(frozen=True, kw_only=True)
class SearchOptions(_Options):
    """How translations are looked for; what is not given comes from the recipe."""

    search: Annotated[
        Literal["greedy", "beam", "sampling"] | None,
        tyro.conf.arg(metavar="{greedy,beam,sampling}", help_behavior_hint=""),
    ] = None
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

        given = {"width" if name == "beam" else name: value for name, value in self._given.items()}
        kind = self.search or recipe.kind
        if self.search is None and {"temperature", "top_k", "top_p", "min_p"} & given.keys():
            kind = "sampling"
        elif self.search is None and {"width", "length_penalty"} & given.keys():
            kind = "beam"
        shared = ("max_ratio", "max_extra")
        changed: GenerationConfig = _changed(recipe, given, GenerationConfig, kind=kind, shared=shared, by="translate")
        return changed


@dataclass(frozen=True, kw_only=True)
class WritingOptions(_Options):
    """How prompts are continued; what is not given comes from the recipe."""

    search: Annotated[
        Literal["greedy", "sampling"] | None,
        tyro.conf.arg(metavar="{greedy,sampling}", help_behavior_hint=""),
    ] = None
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

        given, shared = self._given, ("tokens", "repetition_penalty", "stop")
        kind = self.search or ("sampling" if given.keys() - shared else recipe.kind)
        changed: ContinuationConfig = _changed(
            recipe, given, ContinuationConfig, kind=kind, shared=shared, by="generate"
        )
        return changed


def _changed(recipe: Any, given: Mapping[str, Any], config: Any, *, kind: str, shared: tuple[str, ...], by: str) -> Any:
    """A recipe's way with what was given to a command; where the kind changes, nothing but what is shared is kept."""
    from pydantic import TypeAdapter, ValidationError

    before = recipe.model_dump(exclude_none=True)
    kept = before if recipe.kind == kind else {name: before[name] for name in shared}
    try:
        return TypeAdapter(config).validate_python({**kept, **given, "kind": kind})
    except ValidationError as error:
        first = error.errors()[0]
        name = next(str(part) for part in reversed(first["loc"]) if isinstance(part, str))
        option = name.replace("_", "-").replace("width", "beam")
        odd = "is no option of it" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise RecipeError(f"--{option}: does not fit --search {kind} ({odd}); see heedful {by} --help") from None
