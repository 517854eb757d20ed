"""Options of a search are declared once, in the configs of recipes."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from heedful.cli.options import ContinuationOptions, SearchOptions
from heedful.data.tokenizers import CharacterTokenizer
from heedful.errors import RecipeError
from heedful.generation import MultinomialSampler, SuppressTokens, TopKFilter
from heedful.generation.search import SamplingSearch
from heedful.recipes.generation import (
    BeamConfig,
    ContinuationConfig,
    GenerationConfig,
    LogitsRule,
    SamplingConfig,
    list_kinds,
    list_search_options,
    override_generation,
)
from heedful.serving.api.handlers import ContinuationRequest, DecodingRequest
from heedful.serving.openai.generation import TextGenerationRequest
from heedful.tasks.search_factory import build_search

RECIPE_KEYS = {"normalisation", "risk", "candidates"}


@pytest.mark.parametrize(
    ("config_type", "command", "request_type"),
    [
        (GenerationConfig, SearchOptions, DecodingRequest),
        (ContinuationConfig, ContinuationOptions, ContinuationRequest),
    ],
)
def test_commands_and_requests_have_every_option(config_type: Any, command: Any, request_type: Any) -> None:
    options = {option.name: option for option in list_search_options(config_type)}
    keys = {key for member in list_kinds(config_type).values() for key in member.model_fields}
    assert {option.key for option in options.values()} == keys - RECIPE_KEYS
    assert options.keys() <= {entry.name for entry in fields(command)}
    assert options.keys() <= request_type.model_fields.keys()
    for name, option in options.items():
        assert request_type.model_fields[name].description == option.describe() != ""
        assert request_type.model_fields[name].default is None


def test_the_interface_of_openai_has_options_of_its_own_and_ours() -> None:
    names = TextGenerationRequest.model_fields.keys()
    assert {"top_k", "min_p", "repetition_penalty", "no_repeat_ngram"} <= names
    assert names.isdisjoint({"search", "tokens", "kind"})
    description = TextGenerationRequest.model_fields["top_k"].description
    assert description is not None and description.endswith("tokens (not part of OpenAI's interface)")


@pytest.mark.parametrize(
    ("field", "bad", "good"),
    [
        ("top_k", (0, 2**31), (1, 2**31 - 1)),
        ("temperature", (0, 1001.0), (0.1, 1000.0)),
        ("top_p", (0, 1.1), (0.1, 1.0)),
        ("max_extra", (-1, 1_000_001), (0, 1_000_000)),
        ("beam", (0, 501), (1, 500)),
        ("forbid", ([""],), (["a"], [])),
    ],
)
def test_requests_have_the_bounds_of_recipes_and_of_the_server(field: str, bad: tuple[Any], good: tuple[Any]) -> None:
    for value in bad:
        with pytest.raises(ValueError, match=field):
            DecodingRequest(**{field: value})
    for value in good:
        assert list(DecodingRequest(**{field: value}).model_fields_set) == [field]


class _SuppressingSampling(SamplingConfig):
    kind: Literal["sampling"] = "sampling"
    suppressed: Annotated[
        Annotated[tuple[int, ...], Field(strict=False)] | None,
        LogitsRule("filter", "heedful.generation:SuppressTokens"),
    ] = None
    """tokens that are never written"""


def test_a_new_option_needs_only_its_key_and_its_filter() -> None:
    def build_filters(config: SamplingConfig) -> list[object]:
        search = build_search(config, CharacterTokenizer("ab", lowercase=False))
        assert isinstance(search, SamplingSearch) and isinstance(search.sampler, MultinomialSampler)
        return list(search.sampler.filters)

    plain = build_search(SamplingConfig(repetition_penalty=1.0), CharacterTokenizer("ab", lowercase=False))
    assert isinstance(plain, SamplingSearch) and not (*plain.penalties, *plain.logits_masks)
    always = build_filters(SamplingConfig())
    assert build_filters(_SuppressingSampling()) == always
    new_filters = [TopKFilter(3), SuppressTokens((5,))]
    assert build_filters(_SuppressingSampling(suppressed=(5,), top_k=3)) == [*always, *new_filters]


def test_an_option_of_one_kind_implies_it() -> None:
    def override(**options: Any) -> Any:
        return override_generation(BeamConfig(min_length=3), GenerationConfig, options, help_hint="see there")

    assert override(beam=7) == BeamConfig(width=7, min_length=3)
    assert override(top_k=7) == SamplingConfig(top_k=7, min_length=3)
    assert override(search=None, forbid=()) == BeamConfig(min_length=3)
    with pytest.raises(
        RecipeError, match=r"^groups: does not fit search sampling \(is not .*\); leave it out, or give "
    ):
        override(search="sampling", groups=2)
    with pytest.raises(RecipeError, match=r"does not fit search beam .*; see there$"):
        override(unknown=2)
