"""Build search algorithms and length limits from generation configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, assert_never, final

import numpy as np

from heedful.data.token_offsets import collect_word_characters, get_added_texts
from heedful.data.tokenizers import SpecialIds, Tokenizer
from heedful.errors import RecipeError
from heedful.generation import (
    BadWord,
    BadWords,
    GNMTLengthPenalty,
    LogitsFilter,
    LogitsMask,
    MultinomialSampler,
    PowerLengthPenalty,
    SuppressTokens,
)
from heedful.generation.prefill import GenerationRequest
from heedful.generation.results import Hypothesis, SearchResult
from heedful.generation.search import (
    BeamSearch,
    CoverageReranker,
    DiverseBeamSearch,
    GreedySearch,
    SamplingSearch,
    SearchStrategy,
)
from heedful.metrics.weighted_sacrebleu import ChrFUtility, PairwiseUtility, SentenceBLEUUtility
from heedful.models.interface import State, Step
from heedful.recipes.generation import (
    BeamConfig,
    ContinuationConfig,
    GenerationConfig,
    GreedyConfig,
    GreedyContinuationConfig,
    LengthLimitedConfig,
    LogitsRule,
    RepetitionConfig,
    SampledContinuationConfig,
    SamplingConfig,
)
from heedful.registry import load_object


def rank_by_expected_utility(
    texts: Sequence[str], utility: PairwiseUtility, *, log_probabilities: Sequence[float] | None = None
) -> list[tuple[int, float]]:
    """Return the index and the expected utility of each distinct text, highest first.

    All texts together are samples of the model's distribution (Eikema and Aziz 2020, section 5): each is compared with
    all, and repeated texts count several times, which is right for samples. A beam contains each text once, so beam
    hypotheses are weighted by their probability among all of them (Kumar and Byrne 2004, section 4).

    Args:
        texts: the texts; of equal ones the most probable first.
        utility: utility of each text against each.
        log_probabilities: the model's log-probabilities, up to a constant; None for samples.
    """
    text_weights = (
        np.exp(np.array(log_probabilities) - max(log_probabilities)) if log_probabilities else np.ones(len(texts))
    )
    weight_by_text: dict[str, float] = {}
    for text, weight in zip(texts, text_weights.tolist(), strict=True):
        weight_by_text[text] = weight_by_text.get(text, 0.0) + weight
    distinct_texts = list(weight_by_text)
    weights = np.array(list(weight_by_text.values())) / text_weights.sum()
    expected = (utility(distinct_texts) @ weights).tolist()
    first_index = {text: index for index, text in reversed(list(enumerate(texts)))}
    ranked = [(first_index[text], value) for text, value in zip(distinct_texts, expected, strict=True)]
    return sorted(ranked, key=lambda item: -item[1])


@final
@dataclass(frozen=True)
class MinimumBayesRisk(SearchStrategy):
    """Search that reranks another search's hypotheses by expected utility and returns the `n_best`, with the utility
    as score.

    Samples have equal weights; beam hypotheses are weighted by their probability, without length penalties.
    """

    search: SearchStrategy
    tokenizer: Tokenizer
    utility: PairwiseUtility
    n_best: int = 1

    @property
    def rows_per_sentence(self) -> int:
        """Rows of the inner search."""
        return self.search.rows_per_sentence

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """Return at most `n_best` hypotheses with distinct texts for each row."""
        results = self.search.decode_request(step, state, request)
        return results.rerank([self._rank_hypotheses(hypotheses) for hypotheses in results.hypotheses])

    def _rank_hypotheses(self, hypotheses: Sequence[Hypothesis]) -> list[tuple[int, float]]:
        """Rank hypotheses by expected utility."""
        texts = [self.tokenizer.decode(hypothesis.ids) for hypothesis in hypotheses]
        log_probabilities = (
            None
            if isinstance(self.search, SamplingSearch)
            else [hypothesis.log_probability for hypothesis in hypotheses]
        )
        return rank_by_expected_utility(texts, self.utility, log_probabilities=log_probabilities)[: self.n_best]


_DEFAULT_DIVERSITY: Final = 0.5
"""Diversity strength if a recipe gives none; Vijayakumar et al. found 0.2 to 0.8 good, section 5."""
_DEFAULT_RISK_SAMPLES: Final = 32
"""Samples for minimum Bayes risk decoding if a recipe gives no number."""


@dataclass(frozen=True)
class LengthLimits:
    """Minimum and maximum length of outputs, by the length of the source.

    Attributes:
        ratio, extra: the maximum is ratio times the source's tokens, plus `extra`.
        min_ratio, min_length: the minimum is ratio times the source's tokens, but at least `min_length`.
        max_length: upper bound of the maximum, if any.
    """

    ratio: float = 1.0
    extra: int = 50
    min_ratio: float = 0.0
    min_length: int = 0
    max_length: int | None = None

    def max_tokens(self, tokens: int) -> int:
        """Return the maximum output length for a source of `tokens` tokens, the end included."""
        limit = int(self.ratio * tokens) + self.extra
        return limit if self.max_length is None else min(limit, self.max_length)

    def min_tokens(self, tokens: int) -> int:
        """Return the minimum output length for a source of `tokens` tokens, the end not included."""
        return max(self.min_length, int(self.min_ratio * tokens))


def build_search(config: GenerationConfig, tokenizer: Tokenizer, *, n_best: int = 1, seed: int = 1) -> SearchStrategy:
    """Build the search algorithm of a generation config, which returns the `n_best` outputs and reranks candidates if
    the config asks for it; `seed` is for sampling.
    """
    match config:
        case SamplingConfig(risk=risk) | BeamConfig(risk=risk) if risk is not None:
            num_candidates = config.candidates or (
                config.width if isinstance(config, BeamConfig) else _DEFAULT_RISK_SAMPLES
            )
            search = _build_base_search(config, tokenizer, n_best=max(num_candidates, n_best), seed=seed)
            return MinimumBayesRisk(
                search, tokenizer, ChrFUtility() if risk == "chrf" else SentenceBLEUUtility(), n_best
            )
        case BeamConfig(width=width, coverage=coverage_weight) if coverage_weight:
            return CoverageReranker(
                _build_base_search(config, tokenizer, n_best=max(width, n_best), seed=seed), coverage_weight, n_best
            )
    return _build_base_search(config, tokenizer, n_best=n_best, seed=seed)


def _build_base_search(config: GenerationConfig, tokenizer: Tokenizer, *, n_best: int, seed: int) -> SearchStrategy:
    """Build the search algorithm that returns `n_best` outputs, without coverage or minimum Bayes risk reranking. Raise
    `RecipeError` if greedy search should return several.
    """
    special = tokenizer.special
    eos, filters = special.eos, _build_forbid_filters(special.suppressed_ids)
    penalties = _build_rules(config, "penalty", eos=eos)
    masks = (*_build_rules(config, "mask", eos=eos), *_build_word_masks(config, tokenizer))
    match config:
        case GreedyConfig():
            if n_best > 1:
                raise RecipeError(f"n-best {n_best}: greedy search finds one output; use a beam or sampling")
            return GreedySearch(eos, filters, penalties, masks)
        case BeamConfig(width=width, length_penalty=penalty_weight, normalisation=normalisation):
            penalty = GNMTLengthPenalty(penalty_weight) if normalisation == "wu" else PowerLengthPenalty(penalty_weight)
            if config.groups == 1:
                return BeamSearch(
                    eos, max(width, n_best), penalty, n_best, filters, penalties=penalties, logits_masks=masks
                )
            group_width = ceil(max(width, n_best) / config.groups)
            diversity = _DEFAULT_DIVERSITY if config.diversity is None else config.diversity
            groups = (group_width * config.groups, config.groups, diversity)
            return DiverseBeamSearch(eos, *groups, penalty, n_best, filters, penalties, masks)
        case SamplingConfig():
            sampling_filters = (*filters, *_build_rules(config, "filter", eos=eos))
            sampler = MultinomialSampler(config.temperature, sampling_filters, seed=seed)
            return SamplingSearch(eos, sampler, n_best, penalties, masks)
    assert_never(config)


def build_continuation_search(
    config: ContinuationConfig, special: SpecialIds, *, n: int = 1, seed: int = 1
) -> tuple[SearchStrategy, int]:
    """Build the search algorithm of a continuation config, which returns `n` continuations, and return it with the
    maximum number of tokens. `special` has the ids that end a text or must not occur.
    """
    unknown_ids = () if special.unk is None else (special.unk,)
    eos, filters = special.eos, _build_forbid_filters((*special.suppressed_ids, *unknown_ids))
    penalties, masks = _build_rules(config, "penalty", eos=eos), _build_rules(config, "mask", eos=eos)
    match config:
        case GreedyContinuationConfig():
            if n > 1:
                raise RecipeError(f"{n} samples: greedy search finds one continuation; use sampling")
            return GreedySearch(eos, filters, penalties, masks), config.tokens
        case SampledContinuationConfig():
            sampling_filters = (*filters, *_build_rules(config, "filter", eos=eos))
            sampler = MultinomialSampler(config.temperature, sampling_filters, seed=seed)
            return SamplingSearch(eos, sampler, n, penalties, masks), config.tokens
    assert_never(config)


def build_length_limits(config: GenerationConfig) -> LengthLimits:
    """Build the length limits of a generation config."""
    return LengthLimits(config.max_ratio, config.max_extra, config.min_ratio, config.min_length)


def _build_rules(config: RepetitionConfig, role: str, *, eos: int) -> tuple[Any, ...]:
    """Build the rules of one role ("filter", "penalty" or "mask") for the options that a config sets (`LogitsRule`);
    some do not apply to the end id `eos`.
    """
    rules = []
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        for rule in field.metadata:
            if isinstance(rule, LogitsRule) and rule.role == role and value != field.default:
                rule_class = load_object(rule.location, context=f"generation.{name}")
                rules.append(rule_class(value, exempt_ids=(eos,)) if rule.exempts_end else rule_class(value))
    return tuple(rules)


def _build_word_masks(config: LengthLimitedConfig, tokenizer: Tokenizer) -> tuple[LogitsMask, ...]:
    """Build the mask that forbids the words in `forbid`; empty if there are none."""
    if not config.forbid:
        return ()
    words, token_texts = [_parse_forbidden_word(word, tokenizer) for word in config.forbid], get_added_texts(tokenizer)
    joining = collect_word_characters([*token_texts, *(word.text for word in words)])
    return (BadWords(words, token_texts=token_texts, word_characters=joining, eos=tokenizer.special.eos),)


def _parse_forbidden_word(pattern: str, tokenizer: Tokenizer) -> BadWord:
    """Convert a forbidden word of a recipe, which may end with `*` for any ending, to the form that the vocabulary
    writes; raise `RecipeError` if nothing is left of it.
    """
    stem = pattern.removesuffix("*") or pattern
    text = tokenizer.normalise(stem).strip()
    if not text:
        raise RecipeError(f"forbid: {pattern!r} has no letters for this model; leave it out")
    return BadWord(text, ignore_case=text == text.lower(), is_prefix=stem != pattern)


def _build_forbid_filters(ids: tuple[int, ...]) -> tuple[LogitsFilter, ...]:
    """Build the filter that forbids ids; empty if there are none."""
    return (SuppressTokens(ids),) if ids else ()
