"""From configs to what surrounds a model: readers, tokenizers, schedules, searches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

import torch

from heedful.configs.data import (
    AnyTextConfig,
    ColumnsConfig,
    ConlluConfig,
    DocumentJsonlConfig,
    DocumentLinesConfig,
    JsonlConfig,
    LinesConfig,
    PairTokenizerConfig,
    ParallelTextConfig,
    PlainTextConfig,
    TaggedTextConfig,
    TextConfig,
    TextTokenizerConfig,
    TokenizerConfig,
    TsvConfig,
)
from heedful.configs.generation import (
    BeamConfig,
    ContinuationConfig,
    GenerationConfig,
    GreedyConfig,
    GreedyContinuationConfig,
    SampledContinuationConfig,
    SamplingConfig,
)
from heedful.configs.training import (
    ConstantConfig,
    CosineConfig,
    InverseSqrtConfig,
    LinearConfig,
    NoamConfig,
    TrainingConfig,
)
from heedful.data.documents import DocumentReader, JsonlDocuments, Lines, PlainText
from heedful.data.readers import JsonLines, LineAligned, PairReader, TabSeparated
from heedful.data.tagged import Columns, ConllU, TaggedReader
from heedful.data.tokenizers import (
    BOS,
    EOS,
    PAD,
    UNK,
    Tokenizer,
    learn_characters,
    learn_sentencepiece,
    learn_words,
)
from heedful.errors import RecipeError
from heedful.generation import Filter, Forbid, Multinomial, TopK, TopP, Wu
from heedful.generation.search import Beam, Greedy, Sampling, Search
from heedful.tasks.translations import Length
from heedful.training.precision import has_fast_bf16
from heedful.training.schedules import Constant, Cosine, InverseSquareRoot, Linear, Noam, Schedule
from heedful.training.trainer import Habits, Limits


def build_text(config: AnyTextConfig) -> PairReader | DocumentReader | TaggedReader:
    """A part of the data of any task; `DataError` where a file is missing."""
    match config:
        case LinesConfig() | TsvConfig() | JsonlConfig():
            return build_pairs(config)
        case PlainTextConfig() | DocumentLinesConfig() | DocumentJsonlConfig():
            return build_documents(config)
        case ColumnsConfig() | ConlluConfig():
            return build_tagged(config)
    assert_never(config)


def build_pairs(config: ParallelTextConfig) -> PairReader:
    """Parallel text, to be read as often as one likes."""
    match config:
        case LinesConfig():
            return LineAligned(config.source, config.target)
        case TsvConfig():
            return TabSeparated(config.path, source_column=config.source_column, target_column=config.target_column)
        case JsonlConfig():
            return JsonLines(config.path, source_field=config.source_field, target_field=config.target_field)
    assert_never(config)


def learn_pair(config: PairTokenizerConfig, reader: PairReader) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target, learned from the training text; the same one twice where they are joint."""
    if config.joint:
        joint = learn_text(config, _both(reader))
        return joint, joint
    source = learn_text(config, (pair.source for pair in reader))
    return source, learn_text(config, (pair.target for pair in reader))


def build_documents(config: TextConfig) -> DocumentReader:
    """Text to be continued, to be read as often as one likes."""
    match config:
        case PlainTextConfig():
            return PlainText(config.path)
        case DocumentLinesConfig():
            return Lines(config.path)
        case DocumentJsonlConfig():
            return JsonlDocuments(config.path, field=config.field)
    assert_never(config)


def build_tagged(config: TaggedTextConfig) -> TaggedReader:
    """Tagged sentences, to be read as often as one likes."""
    match config:
        case ColumnsConfig():
            return Columns(config.path, word_column=config.word_column, tag_column=config.tag_column)
        case ConlluConfig():
            return ConllU(config.path, tag=config.tag)
    assert_never(config)


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


def build_habits(config: TrainingConfig, *, seed: int, monitor: str) -> Habits:
    """How training goes on from update to update; `monitor` is one of the task's metrics."""
    return Habits(
        seed=seed,
        accumulate=config.accumulate,
        clip=config.clip,
        evaluate_every=config.evaluate_every,
        monitor=monitor,
        higher_is_better=monitor != "loss",
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
            return Sampling(EOS, _multinomial(temperature, k, p, forbidden=unspeakable, seed=seed), n_best)
    assert_never(config)


def build_continuation(config: ContinuationConfig, *, n: int = 1, seed: int = 1) -> tuple[Search, int]:
    """How continuations are looked for, and the most tokens of one."""
    unspeakable: tuple[Filter, ...] = (Forbid((PAD, BOS, UNK)),)
    match config:
        case GreedyContinuationConfig(tokens=tokens):
            if n > 1:
                raise RecipeError(f"{n} samples: greedy search finds one continuation; use sampling")
            return Greedy(EOS, unspeakable), tokens
        case SampledContinuationConfig(temperature=temperature, top_k=k, top_p=p, tokens=tokens):
            return Sampling(EOS, _multinomial(temperature, k, p, forbidden=unspeakable, seed=seed), n), tokens
    assert_never(config)


def build_length(config: GenerationConfig) -> Length:
    """How long outputs may become."""
    return Length(config.max_ratio, config.max_extra)


def learn_text(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer of one kind of text."""
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
            verbatim = isinstance(config, TextTokenizerConfig) and config.verbatim
            return learn_characters(texts, size=config.size, lowercase=config.lowercase, verbatim=verbatim)
        case "words":
            return learn_words(texts, size=config.size, lowercase=config.lowercase)
    assert_never(config.kind)


def _both(reader: PairReader) -> Iterator[str]:
    for pair in reader:
        yield pair.source
        yield pair.target


def _multinomial(
    temperature: float, k: int | None, p: float | None, *, forbidden: tuple[Filter, ...], seed: int
) -> Multinomial:
    filters = list(forbidden)
    if k is not None:
        filters.append(TopK(k))
    if p is not None:
        filters.append(TopP(p))
    return Multinomial(temperature, tuple(filters), seed=seed)
