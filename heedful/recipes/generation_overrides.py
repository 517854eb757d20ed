"""Changes of a recipe's generation config by command options or request fields."""

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
"""Keys that only one kind of search has; they imply the kind if it is not given."""


def override_generation(
    generation: Any,
    config_type: Any,
    overrides: Mapping[str, Any],
    *,
    common_class: type[Config],
    format_key: Callable[[str], str],
    help_hint: str,
) -> Any:
    """Return the generation config with the given keys changed; if the kind of search changes, only the common keys
    are kept.

    Args:
        generation: the current config, of one of the kinds of `config_type`.
        config_type: the union of all kinds.
        overrides: the requested keys and values.
        common_class: class with the keys that all kinds have.
        format_key: formats a key as the user writes it.
        help_hint: where all keys are listed, for messages about unknown keys.

    Raises:
        RecipeError: a key does not belong to the kind of search, or its value is out of range.
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
        reason = "is not an option of it" if error_detail["type"] == "extra_forbidden" else error_detail["msg"].lower()
        remedy = f"leave it out, or give {owners}" if owners and kind not in owners else help_hint
        raise RecipeError(
            f"{format_key(name)}: does not fit {format_key('kind')} {kind} ({reason}); {remedy}"
        ) from None
