"""The options that say how translations are looked for; shared by the commands that translate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from heedful.cli.arguments import MaybeFloat, MaybeInt
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.recipes.generation import GenerationConfig


@dataclass(frozen=True)
class SearchOptions:
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
    temperature: MaybeFloat = None
    """of sampling: below 1 is bolder, above 1 more varied"""
    top_k: MaybeInt = None
    """sample from this many most probable tokens only"""
    top_p: MaybeFloat = None
    """sample from the fewest tokens with this probability together"""
    min_p: MaybeFloat = None
    """sample only tokens at least so many times as probable as the most probable one"""
    max_ratio: MaybeFloat = None
    """longest translation, as a multiple of the source's tokens"""
    max_extra: MaybeInt = None
    """tokens granted on top of that"""

    def config(self, recipe: GenerationConfig) -> GenerationConfig:
        """The recipe's way to search, changed by what was given.

        Raises:
            RecipeError: an option does not belong to the kind of search, or is out of range.
        """
        from pydantic import TypeAdapter, ValidationError

        from heedful.recipes.generation import GenerationConfig

        given = {
            "width": self.beam,
            "length_penalty": self.length_penalty,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
            "max_ratio": self.max_ratio,
            "max_extra": self.max_extra,
        }
        changed = {name: value for name, value in given.items() if value is not None}
        kind = self.search or self._implied(changed) or recipe.kind
        common = ("max_ratio", "max_extra")
        before = recipe.model_dump(exclude_none=True)
        kept = before if before["kind"] == kind else {name: before[name] for name in common}
        try:
            return TypeAdapter(GenerationConfig).validate_python({**kept, **changed, "kind": kind})
        except ValidationError as error:
            first = error.errors()[0]
            option = str(first["loc"][-1]).replace("_", "-").replace("width", "beam")
            odd = "is no option of it" if first["type"] == "extra_forbidden" else first["msg"].lower()
            raise RecipeError(
                f"--{option}: does not fit --search {kind} ({odd}); see heedful translate --help"
            ) from None

    @staticmethod
    def _implied(changed: dict[str, float]) -> str | None:
        if {"temperature", "top_k", "top_p", "min_p"} & changed.keys():
            return "sampling"
        return "beam" if {"width", "length_penalty"} & changed.keys() else None
