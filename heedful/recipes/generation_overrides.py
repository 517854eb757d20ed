"""A recipe's way to answer, changed by what somebody asks for: options of a command, or fields of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from heedful.errors import RecipeError
from heedful.recipes.config import Config
from heedful.recipes.error_messages import describe_bound

_KEYS_OF_KIND: Final = {
    "sampling": frozenset({"temperature", "top_k", "top_p", "min_p"}),
    "beam": frozenset({"width", "length_penalty", "groups", "diversity", "coverage"}),
}
"""Which kind of search is meant where it was not said, by the keys that it alone has."""


def override_generation(
    generation: Any,
    config_type: Any,
    overrides: Mapping[str, Any],
    *,
    common_class: type[Config],
    format_key: Callable[[str], str],
    help_hint: str,
) -> Any:
    """The same with what was given; where the kind of search changes, nothing of it but what is common is kept.

    Args:
        generation: one of the kinds of `config_type`.
        config_type: the union of all kinds.
        overrides: keys of it, those that were asked for.
        common_class: has the keys of all kinds.
        format_key: what whoever asks calls a key.
        help_hint: where all of them are listed, for who asks for one that is none.

    Raises:
        RecipeError: something does not belong to the kind of search, or is out of range.
    """
    implied_kinds = (kind for kind, names in _KEYS_OF_KIND.items() if not names.isdisjoint(overrides))
    kind = overrides.get("kind") or next(implied_kinds, generation.kind)
    old_values = generation.model_dump(exclude_none=True)
    kept = (
        old_values
        if generation.kind == kind
        else {name: old_values[name] for name in common_class.model_fields if name in old_values}
    )
    try:
        return TypeAdapter(config_type).validate_python({**kept, **overrides, "kind": kind})
    except ValidationError as error:
        error_detail = error.errors()[0]
        name = next(str(part) for part in reversed(error_detail["loc"]) if isinstance(part, str))
        if message := describe_bound(error_detail) or error_detail.get("ctx", {}).get("error"):
            raise RecipeError(f"{format_key(name)}: {error_detail['input']} {message}") from None
        owners = " or ".join(
            f"{format_key('kind')} {other_kind}" for other_kind, own_keys in _KEYS_OF_KIND.items() if name in own_keys
        )
        reason = "is no option of it" if error_detail["type"] == "extra_forbidden" else error_detail["msg"].lower()
        remedy = f"leave it out, or give {owners}" if owners and kind not in owners else help_hint
        raise RecipeError(
            f"{format_key(name)}: does not fit {format_key('kind')} {kind} ({reason}); {remedy}"
        ) from None
