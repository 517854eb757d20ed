"""A recipe's way to answer, changed by what somebody asks for: options of a command, or fields of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from heedful.errors import RecipeError
from heedful.recipes.problems import out_of_bounds
from heedful.recipes.section import Section

_KINDS: Final = {
    "sampling": frozenset({"temperature", "top_k", "top_p", "min_p"}),
    "beam": frozenset({"width", "length_penalty", "groups", "diversity", "coverage"}),
}
"""Which kind of search is meant where it was not said, by the keys that it alone has."""


def changed(
    recipe: Any,
    config: Any,
    given: Mapping[str, Any],
    *,
    common: type[Section],
    called: Callable[[str], str],
    listed: str,
) -> Any:
    """The same with what was given; where the kind of search changes, nothing of it but what is common is kept.

    Args:
        recipe: one of the kinds of `config`.
        config: the union of all kinds.
        given: keys of it, those that were asked for.
        common: has the keys of all kinds.
        called: what whoever asks calls a key.
        listed: where all of them are listed, for who asks for one that is none.

    Raises:
        RecipeError: something does not belong to the kind of search, or is out of range.
    """
    meant = (kind for kind, names in _KINDS.items() if not names.isdisjoint(given))
    kind = given.get("kind") or next(meant, recipe.kind)
    before = recipe.model_dump(exclude_none=True)
    kept = before if recipe.kind == kind else {name: before[name] for name in common.model_fields if name in before}
    try:
        return TypeAdapter(config).validate_python({**kept, **given, "kind": kind})
    except ValidationError as error:
        first = error.errors()[0]
        name = next(str(part) for part in reversed(first["loc"]) if isinstance(part, str))
        if wrong := out_of_bounds(first) or first.get("ctx", {}).get("error"):
            raise RecipeError(f"{called(name)}: {first['input']} {wrong}") from None
        owners = " or ".join(f"{called('kind')} {each}" for each, own in _KINDS.items() if name in own)
        odd = "is no option of it" if first["type"] == "extra_forbidden" else first["msg"].lower()
        remedy = f"leave it out, or give {owners}" if owners and kind not in owners else listed
        raise RecipeError(f"{called(name)}: does not fit {called('kind')} {kind} ({odd}); {remedy}") from None
