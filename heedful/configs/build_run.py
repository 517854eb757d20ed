"""From configs to what surrounds a model: readers, tokenizers, schedules, searches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import assert_never

import torch

from heedful.configs.data import JsonlConfig, LinesConfig, ParallelTextConfig, TokenizerConfig, TsvConfig
from heedful.configs.generation import BeamConfig, GenerationConfig, GreedyConfig, SamplingConfig
from heedful.configs.training import (
    ConstantConfig,
    CosineConfig,
    InverseSqrtConfig,
    LinearConfig,
    NoamConfig,
    TrainingConfig,
)
from heedful.data.readers import JsonLines, LineAligned, PairReader, TabSeparated
from heedful.data.tokenizers import (
    BOS,
    EOS,
    PAD,
    Tokenizer,
    learn_characters,
    learn_sentencepiece,
    learn_words,
)
from heedful.errors import RecipeError
from heedful.generation import Filter, Forbid, Multinomial, TopK, TopP, Wu
from heedful.generation.search import Beam, Greedy, Sampling, Search
from heedful.tasks.translator import Length
from heedful.training.precision import has_fast_bf16
from heedful.training.schedules import Constant, Cosine, InverseSquareRoot, Linear, Noam, Schedule
from heedful.training.trainer import Habits, Limits


def build_reader(config: ParallelTextConfig) -> PairReader:
    """Parallel text, to be read as often as one likes."""
    match config:
        case LinesConfig():
            return LineAligned(config.source, config.target)
        case TsvConfig():
            return TabSeparated(config.path, source_column=config.source_column, target_column=config.target_column)
        case JsonlConfig():
            return JsonLines(config.path, source_field=config.source_field, target_field=config.target_field)
    assert_never(config)


def learn_tokenizers(config: TokenizerConfig, reader: PairReader) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target, learned from the training text; the same one twice where they are joint."""
    if config.joint:
        joint = _learn(config, _both(reader))
        return joint, joint
    source = _learn(config, (pair.source for pair in reader))
    return source, _learn(config, (pair.target for pair in reader))


def build_schedule(config: TrainingConfig, *, d_model: int, steps: int | None) -> Schedule:
    """The learning rate; `steps` is how many updates there will be, for schedules that must know."""
    match config.schedule:
        case NoamConfig(factor=factor, warmup=warmup):
            return Noam(d_model, warmup, factor)
        case InverseSqrtConfig(rate=rate, warmup=warmup):
            return InverseSquareRoot(rate, warmup)
        case CosineConfig(rate=rate, warmup=warmup, floor=floor):
            assert steps is not None
            return Cosine(rate, warmup, steps, floor)
        case LinearConfig(rate=rate, warmup=warmup):
            assert steps is not None
            return Linear(rate, warmup, steps)
        case ConstantConfig(rate=rate, warmup=warmup):
            return Constant(rate, warmup)
    assert_never(config.schedule)


def build_limits(config: TrainingConfig) -> Limits:
    """When training ends."""
    return Limits(config.steps, config.epochs, config.minutes, config.patience)


def build_habits(config: TrainingConfig, *, seed: int) -> Habits:
    """How training goes on from update to update."""
    return Habits(
        seed=seed,
        accumulate=config.accumulate,
        clip=config.clip,
        evaluate_every=config.evaluate_every,
        monitor=config.monitor,
        higher_is_better=config.monitor == "bleu",
    )


def wants_half(config: TrainingConfig, device: torch.device) -> bool:
    """Whether to train in bf16: where asked for, or where the hardware is fast at it."""
    return config.precision == "bf16" or (config.precision == "auto" and has_fast_bf16(device))


def build_search(config: GenerationConfig, *, n_best: int = 1, seed: int = 1) -> Search:
    """How outputs are looked for."""
    unspeakable: tuple[Filter, ...] = (Forbid((PAD, BOS)),)
    match config:
        case GreedyConfig():
            if n_best > 1:
                raise RecipeError(f"n-best {n_best}: greedy search finds one output; use a beam or sampling")
            return Greedy(EOS, unspeakable)
        case BeamConfig(width=width, length_penalty=alpha):
            return Beam(EOS, max(width, n_best), Wu(alpha), n_best, unspeakable)
        case SamplingConfig(temperature=temperature, top_k=k, top_p=p):
            filters = list(unspeakable)
            if k is not None:
                filters.append(TopK(k))
            if p is not None:
                filters.append(TopP(p))
            return Sampling(EOS, Multinomial(temperature, tuple(filters), seed=seed), n_best)
    assert_never(config)


def build_length(config: GenerationConfig) -> Length:
    """How long outputs may become."""
    return Length(config.max_ratio, config.max_extra)


def paths(config: ParallelTextConfig) -> tuple[Path, ...]:
    """The files a config names."""
    return build_reader(config).paths


def _both(reader: PairReader) -> Iterator[str]:
    for pair in reader:
        yield pair.source
        yield pair.target


def _learn(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    match config.kind:
        case "bpe" | "unigram":
            assert config.size is not None
            return learn_sentencepiece(
                texts,
                kind=config.kind,
                size=config.size,
                lowercase=config.lowercase,
                character_coverage=config.character_coverage,
            )
        case "characters":
            return learn_characters(texts, size=config.size, lowercase=config.lowercase)
        case "words":
            return learn_words(texts, size=config.size, lowercase=config.lowercase)
    assert_never(config.kind)
