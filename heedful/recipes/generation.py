"""Configs of generation (search, sampling and length limits), and their keys as options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import Field, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from heedful.errors import RecipeError
from heedful.recipes.config import Config, PositiveInt, add_default_kind
from heedful.recipes.error_messages import describe_bound

NonEmptyText = Annotated[str, Field(min_length=1)]
StopString = NonEmptyText
_Probability = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class LogitsRule:
    """Marks an option that changes logits; at its default it does nothing.

    Attributes:
        role: how a search uses the rule.
        location: the class of the rule, as "module:NAME"; it is built with the option's value.
        exempts_end: whether it gets the end of a text as `exempt_ids`, because that also begins a document.
    """

    role: Literal["filter", "penalty", "mask"]
    location: str
    exempts_end: bool = False


RECIPE_ONLY: Final = object()
"""Marks keys that no command and no request has as an option."""


class RepetitionConfig(Config):
    """Settings against repetition; abstract."""

    repetition_penalty: Annotated[
        float, Field(gt=0), LogitsRule("penalty", "heedful.generation:RepetitionPenalty", exempts_end=True)
    ] = 1.0
    """divisor of the logits of tokens that occurred before, also in the prompt, or factor if these are negative (Keskar
    et al. 2019): above 1 reduces repetition, 1 has no effect"""
    no_repeat_ngram: Annotated[
        Annotated[int, Field(ge=1)] | None, LogitsRule("mask", "heedful.generation:NoRepeatNGram", exempts_end=True)
    ] = None
    """no n-gram of this many tokens may occur twice (Paulus et al. 2018); 1 allows each token once"""


class LengthLimitedConfig(RepetitionConfig):
    """Settings of the output length: at most max_ratio * (source tokens) + max_extra tokens; abstract."""

    kind: str
    max_ratio: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """maximum output length, as a multiple of the source length"""
    max_extra: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """number of tokens that are added to max_ratio times the source length"""
    min_ratio: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """minimum output length, as a multiple of the source length; the maximum takes precedence"""
    min_length: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """minimum output length in tokens; the maximum takes precedence"""
    forbid: Annotated[tuple[NonEmptyText, ...], Field(strict=False)] = ()
    """words that must not be written, in any tokenization; a word in lower case matches any case, and a word with * at
    its end also matches longer words that start with it"""

    @field_validator("max_extra")
    @classmethod
    def _check_max_extra(cls, max_extra: int, info: ValidationInfo) -> int:
        """Raise `ValueError` if `max_extra` and `max_ratio` are both 0, which allows only empty outputs; otherwise
        return it.
        """
        if max_extra == 0 and info.data.get("max_ratio") == 0:
            raise ValueError("must be above 0 when generation.max_ratio = 0, or every answer is empty")
        return max_extra


class MinimumRiskConfig(LengthLimitedConfig):
    """Settings of minimum Bayes risk decoding: candidates are compared with each other before one is chosen;
    abstract.
    """

    risk: Annotated[Literal["chrf", "bleu"] | None, RECIPE_ONLY] = None
    """choose the candidate that is most similar to all others by this measure: minimum Bayes risk (Eikema and Aziz
    2020); samples have equal weight, beam hypotheses count by their score"""
    candidates: Annotated[Annotated[int, Field(ge=1)] | None, RECIPE_ONLY] = None
    """with risk: number of candidates to compare; if not given, 32 samples, or all hypotheses of the beam"""

    @field_validator("candidates")
    @classmethod
    def _check_candidates(cls, candidates: int | None, info: ValidationInfo) -> int | None:
        """Raise `ValueError` if `candidates` is given without `risk`; otherwise return it."""
        if candidates is not None and info.data.get("risk") is None:
            raise ValueError('is for generation.risk, which is not given; add risk = "chrf", or leave it out')
        return candidates


class GreedyConfig(LengthLimitedConfig):
    """Greedy search: always the most probable token."""

    kind: Literal["greedy"] = "greedy"


class BeamConfig(MinimumRiskConfig):
    """Beam search with `width` hypotheses."""

    kind: Literal["beam"] = "beam"
    width: Annotated[int, Field(ge=1, le=500)] = 5
    """hypotheses of each sentence"""
    length_penalty: Annotated[float, Field(ge=0)] = 0.6
    """alpha of Wu et al. 2016, equation 14: 0 prefers short outputs, 1 divides by the length"""
    normalisation: Annotated[Literal["wu", "power"], RECIPE_ONLY] = "wu"
    """divisor of log-probabilities: Wu's ((5 + length) / 6)^alpha, or length^alpha as in transformers"""
    groups: Annotated[int, Field(ge=1)] = 1
    """groups that share the beam evenly and avoid each other's tokens (Vijayakumar et al. 2018), for lists of diverse
    outputs"""
    diversity: Annotated[float, Field(ge=0)] | None = None
    """with groups: penalty on a token's log-probability for each hypothesis of an earlier group that chose it at the
    same step; 0.5 if not given"""
    coverage: Annotated[float, Field(ge=0)] = 0.0
    """beta of Wu et al. 2016, equation 14: weight of the coverage of the source by attention in the final ranking of
    the beam; for translation"""

    @field_validator("groups")
    @classmethod
    def _check_groups(cls, groups: int, info: ValidationInfo) -> int:
        """Raise `ValueError` if the number of groups does not divide the width of the beam; otherwise return it."""
        if (width := info.data.get("width")) is not None and width % groups:
            raise ValueError(f"cannot share a beam of {width} evenly; give a width that it divides")
        return groups

    @field_validator("diversity")
    @classmethod
    def _check_diversity(cls, diversity: float | None, info: ValidationInfo) -> float | None:
        """Raise `ValueError` if `diversity` is given with a single group; otherwise return it."""
        if diversity is not None and info.data.get("groups") == 1:
            raise ValueError("is between groups, and there is one; give 2 groups or more")
        return diversity

    @field_validator("coverage")
    @classmethod
    def _check_coverage(cls, coverage: float, info: ValidationInfo) -> float:
        """Raise `ValueError` if both `coverage` and `risk` are given; otherwise return it."""
        if coverage and info.data.get("risk") is not None:
            raise ValueError("and risk both rank what was found; leave one of them out")
        return coverage


class TokenSamplingConfig(Config):
    """Settings of random sampling of tokens; abstract."""

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """divisor of the logits: below 1 favours probable tokens, above 1 is more varied"""
    top_k: Annotated[Annotated[int, Field(ge=1)] | None, LogitsRule("filter", "heedful.generation:TopKFilter")] = None
    """sample only from this many most probable tokens"""
    top_p: Annotated[_Probability | None, LogitsRule("filter", "heedful.generation:TopPFilter")] = None
    """sample only from the smallest set of tokens with this total probability (Holtzman et al. 2020)"""
    min_p: Annotated[_Probability | None, LogitsRule("filter", "heedful.generation:MinPFilter")] = None
    """sample only tokens with at least this fraction of the probability of the most probable one (Nguyen et al.
    2024)"""


class SamplingConfig(TokenSamplingConfig, MinimumRiskConfig):
    """Random sampling of tokens."""

    kind: Literal["sampling"] = "sampling"


GenerationConfig = Annotated[
    BeamConfig | GreedyConfig | SamplingConfig, Field(discriminator="kind"), add_default_kind("beam")
]


class ContinuationBaseConfig(RepetitionConfig):
    """Settings that all ways to continue a prompt share; abstract."""

    kind: str
    tokens: Annotated[PositiveInt, Field(le=1_000_000)] = 200
    """maximum number of new tokens"""
    stop: Annotated[tuple[StopString, ...], Field(strict=False)] = ()
    """strings before which a continuation ends"""


class GreedyContinuationConfig(ContinuationBaseConfig):
    """Greedy continuation: always the most probable token."""

    kind: Literal["greedy"] = "greedy"


class SampledContinuationConfig(TokenSamplingConfig, ContinuationBaseConfig):
    """Random sampling of tokens: penalty and temperature are applied first, then top_k, top_p and min_p exclude
    tokens.
    """

    kind: Literal["sampling"] = "sampling"


ContinuationConfig = Annotated[
    SampledContinuationConfig | GreedyContinuationConfig, Field(discriminator="kind"), add_default_kind("sampling")
]


_OPTION_NAMES: Final = {"kind": "search", "width": "beam"}
"""Keys of recipes whose options have another name."""


@dataclass(frozen=True)
class SearchOption:
    """An option of a search.

    Attributes:
        key: its key in a recipe.
        value_type: type of its values, without bounds; None if the option is not given is no part of it.
        bounds: the bounds, as metadata of `Annotated`.
        owner: a config class that has the key.
    """

    key: str
    value_type: Any
    bounds: Sequence[Any]
    owner: type[Config]

    @property
    def name(self) -> str:
        """Its name in commands and requests."""
        return _OPTION_NAMES.get(self.key, self.key)

    def describe(self) -> str:
        """Return its meaning, from the docstring of the key."""
        return "kind of search" if self.key == "kind" else self.owner.describe_keys()[self.key]


def list_kinds(config_type: Any) -> dict[str, type[Config]]:
    """Return the config classes of a union such as `GenerationConfig` by their kind."""
    return {member.model_fields["kind"].default: member for member in get_args(get_args(config_type)[0])}


def list_search_options(config_type: Any) -> list[SearchOption]:
    """List the options of `config_type`, a union of configs: the kind of search, then options of one kind, then those
    of all.
    """
    kinds, literal = list_kinds(config_type), Literal
    owners = {key: member for member in kinds.values() for key in member.model_fields if key != "kind"}
    keys = [key for key, member in owners.items() if RECIPE_ONLY not in member.model_fields[key].metadata]
    keys.sort(key=lambda key: _find_owning_kinds(key, config_type) == list(kinds))
    options = [SearchOption(key, *_split_bounds(owners[key].model_fields[key]), owners[key]) for key in keys]
    return [SearchOption("kind", literal[tuple(sorted(kinds))], (), next(iter(kinds.values()))), *options]


def _find_owning_kinds(key: str, config_type: Any) -> list[str]:
    return [kind for kind, member in list_kinds(config_type).items() if key in member.model_fields]


def _split_bounds(field: FieldInfo) -> tuple[Any, Sequence[Any]]:
    """Return the type of the values of a field without None and without bounds, and the bounds."""
    value_type, bounds = field.annotation, list(field.metadata)
    if get_origin(value_type) in (Union, UnionType):
        (value_type,) = (member for member in get_args(value_type) if member is not NoneType)
    if get_origin(value_type) is Annotated:
        value_type, *metadata = get_args(value_type)
        bounds += (bound for part in metadata for bound in (part.metadata if isinstance(part, FieldInfo) else [part]))
    return value_type, bounds


def override_generation(
    generation: Any,
    config_type: Any,
    options: Mapping[str, Any],
    *,
    format_name: Callable[[str], str] = str,
    help_hint: str,
) -> Any:
    """Return the generation config, of one of the kinds in the union `config_type`, changed by options: values by name,
    None if not given. Messages use `format_name` and `help_hint`.

    If the kind of search changes, only the keys that all kinds have are kept. An option of only one kind implies that
    kind, if none is given.

    Args:
        generation: the current config, of one of the kinds of `config_type`.
        config_type: the union of all kinds.
        options: values of options by their names; None stands for an option that is not given.
        format_name: formats the name of an option as the user writes it.
        help_hint: where all options are listed, for messages about unknown ones.

    Raises:
        RecipeError: an option does not belong to the kind of search, or its value is out of range.
    """
    kinds = list_kinds(config_type)
    keys_by_name = {option_name: key for key, option_name in _OPTION_NAMES.items()}
    overrides = {keys_by_name.get(name, name): value for name, value in options.items() if value not in (None, ())}
    owners_of_keys = [_find_owning_kinds(key, config_type) for key in overrides]
    implied_kind = next((kind for kind in reversed(kinds) if [kind] in owners_of_keys), generation.kind)
    kind = overrides.get("kind") or implied_kind
    old_values = generation.model_dump(exclude_none=True)
    kept = {
        key: value
        for key, value in old_values.items()
        if generation.kind == kind or len(_find_owning_kinds(key, config_type)) == len(kinds)
    }

    def format_key(key: str) -> str:
        return format_name(_OPTION_NAMES.get(key, key))

    try:
        return TypeAdapter(config_type).validate_python({**kept, **overrides, "kind": kind})
    except ValidationError as error:
        error_detail = error.errors()[0]
        key = next(str(part) for part in reversed(error_detail["loc"]) if isinstance(part, str))
        if message := describe_bound(error_detail) or error_detail.get("ctx", {}).get("error"):
            raise RecipeError(f"{format_key(key)}: {error_detail['input']} {message}") from None
        owners = _find_owning_kinds(key, config_type)
        reason = "is not an option of it" if error_detail["type"] == "extra_forbidden" else error_detail["msg"].lower()
        remedy = help_hint
        if owners and kind not in owners:
            remedy = "leave it out, or give " + " or ".join(f"{format_key('kind')} {owner}" for owner in owners)
        raise RecipeError(f"{format_key(key)}: does not fit {format_key('kind')} {kind} ({reason}); {remedy}") from None
