"""From configs to searches: how outputs are looked for, and how long they may become."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final, assert_never

from heedful.data.spelling import alphabet, surfaces
from heedful.data.tokenizers import Special, Tokenizer
from heedful.errors import RecipeError
from heedful.generation import (
    Ban,
    Filter,
    Forbid,
    MinP,
    Multinomial,
    NoRepeat,
    Penalty,
    Power,
    RepetitionPenalty,
    TopK,
    TopP,
    Unwritten,
    Word,
    Wu,
)
from heedful.generation.coverage import Covering
from heedful.generation.search import Beam, Diverse, Greedy, Sampling, Search
from heedful.metrics.utility import ChrF, SentenceBLEU
from heedful.recipes.generation import (
    BeamConfig,
    ContinuationConfig,
    GenerationConfig,
    GreedyConfig,
    GreedyContinuationConfig,
    Limited,
    SampledContinuationConfig,
    SamplingConfig,
    Unrepeated,
)
from heedful.tasks.least_risk import LeastRisk

_DIVERSITY: Final = 0.5
"""Of groups whose recipe says nothing; Vijayakumar et al. found 0.2 to 0.8 good, section 5."""
_SAMPLES: Final = 32
"""Drawn for minimum Bayes risk where a recipe says nothing."""


@dataclass(frozen=True)
class Length:
    """How long outputs may and must become.

    Attributes:
        ratio, extra: the longest has ratio times the source's tokens and `extra` more.
        least_ratio, least: the shortest has ratio times the source's tokens and no fewer than `least`.
        most: tokens that none has more than, if there is such a bound.
    """

    ratio: float = 1.0
    extra: int = 50
    least_ratio: float = 0.0
    least: int = 0
    most: int | None = None

    def limit(self, tokens: int) -> int:
        """The most that are written for a source of so many tokens, the end included."""
        granted = int(self.ratio * tokens) + self.extra
        return granted if self.most is None else min(granted, self.most)

    def fewest(self, tokens: int) -> int:
        """The fewest, the end not included."""
        return max(self.least, int(self.least_ratio * tokens))


def build_search(config: GenerationConfig, tokenizer: Tokenizer, *, n_best: int = 1, seed: int = 1) -> Search:
    """How outputs are looked for in a vocabulary, and which of what is found they are."""
    match config:
        case SamplingConfig(risk=risk) | BeamConfig(risk=risk) if risk is not None:
            most = config.candidates or (config.width if isinstance(config, BeamConfig) else _SAMPLES)
            found = _found(config, tokenizer, n_best=max(most, n_best), seed=seed)
            return LeastRisk(found, tokenizer, ChrF() if risk == "chrf" else SentenceBLEU(), n_best)
        case BeamConfig(width=width, coverage=beta) if beta:
            return Covering(_found(config, tokenizer, n_best=max(width, n_best), seed=seed), beta, n_best)
    return _found(config, tokenizer, n_best=n_best, seed=seed)


def _found(config: GenerationConfig, tokenizer: Tokenizer, *, n_best: int, seed: int) -> Search:
    special = tokenizer.special
    eos, unspeakable = special.eos, _unspeakable(special.unspeakable)
    penalties, bans = _penalties(config, eos=eos), (*_repeats(config, eos=eos), *_unwritten(config, tokenizer))
    match config:
        case GreedyConfig():
            if n_best > 1:
                raise RecipeError(f"n-best {n_best}: greedy search finds one output; use a beam or sampling")
            return Greedy(eos, unspeakable, penalties, bans)
        case BeamConfig(width=width, length_penalty=alpha, normalisation=normalisation):
            penalty = Wu(alpha) if normalisation == "wu" else Power(alpha)
            if config.groups == 1:
                return Beam(eos, max(width, n_best), penalty, n_best, unspeakable, penalties=penalties, bans=bans)
            each = ceil(max(width, n_best) / config.groups)
            strength = _DIVERSITY if config.diversity is None else config.diversity
            groups = (each * config.groups, config.groups, strength)
            return Diverse(eos, *groups, penalty, n_best, unspeakable, penalties, bans)
        case SamplingConfig():
            return Sampling(eos, _multinomial(config, forbidden=unspeakable, seed=seed), n_best, penalties, bans)
    assert_never(config)


def build_continuation(
    config: ContinuationConfig, special: Special, *, n: int = 1, seed: int = 1
) -> tuple[Search, int]:
    """How continuations are looked for in a vocabulary with these special ids, and the most tokens of one."""
    unknown = () if special.unk is None else (special.unk,)
    eos, unspeakable = special.eos, _unspeakable((*special.unspeakable, *unknown))
    penalties, bans = _penalties(config, eos=eos), _repeats(config, eos=eos)
    match config:
        case GreedyContinuationConfig():
            if n > 1:
                raise RecipeError(f"{n} samples: greedy search finds one continuation; use sampling")
            return Greedy(eos, unspeakable, penalties, bans), config.tokens
        case SampledContinuationConfig():
            pick = _multinomial(config, forbidden=unspeakable, seed=seed)
            return Sampling(eos, pick, n, penalties, bans), config.tokens
    assert_never(config)


def build_length(config: GenerationConfig) -> Length:
    """How long outputs may become."""
    return Length(config.max_ratio, config.max_extra, config.min_ratio, config.min_length)


def _penalties(config: Unrepeated, *, eos: int) -> tuple[Penalty, ...]:
    # the end of a document also stands before every document, which is no repetition
    theta = config.repetition_penalty
    return () if theta == 1 else (RepetitionPenalty(theta, spared=(eos,)),)


def _repeats(config: Unrepeated, *, eos: int) -> tuple[Ban, ...]:
    return () if config.no_repeat_ngram is None else (NoRepeat(config.no_repeat_ngram, spared=(eos,)),)


def _unwritten(config: Limited, tokenizer: Tokenizer) -> tuple[Ban, ...]:
    if not config.forbid:
        return ()
    words, added = [_word(word, tokenizer) for word in config.forbid], surfaces(tokenizer)
    joining = alphabet([*added, *(word.text for word in words)])
    return (Unwritten(words, surfaces=added, joining=joining, eos=tokenizer.special.eos),)


def _word(given: str, tokenizer: Tokenizer) -> Word:
    """A forbidden word as the vocabulary writes it."""
    stem = given.removesuffix("*") or given
    text = tokenizer.normalise(stem).strip()
    if not text:
        raise RecipeError(f"forbid: {given!r} has no letters for this model; leave it out")
    return Word(text, folded=text == text.lower(), open=stem != given)


def _unspeakable(ids: tuple[int, ...]) -> tuple[Filter, ...]:
    return (Forbid(ids),) if ids else ()


def _multinomial(
    config: SamplingConfig | SampledContinuationConfig, *, forbidden: tuple[Filter, ...], seed: int
) -> Multinomial:
    filters = list(forbidden)
    if config.top_k is not None:
        filters.append(TopK(config.top_k))
    if config.top_p is not None:
        filters.append(TopP(config.top_p))
    if config.min_p is not None:
        filters.append(MinP(config.min_p))
    return Multinomial(config.temperature, tuple(filters), seed=seed)
