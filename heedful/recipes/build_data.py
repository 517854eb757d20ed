"""From configs to what a model learns from: readers of text, and tokenizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from heedful.data.documents import DocumentReader, JsonlDocuments, Lines, PlainText
from heedful.data.readers import JsonLines, LineAligned, PairReader, TabSeparated
from heedful.data.records import Reader
from heedful.data.sentences import BlankSeparated
from heedful.data.tokenizers import Tokenizer, learn_characters, learn_sentencepiece, learn_words
from heedful.recipes.build_labelled import build_labelled, build_questions
from heedful.recipes.data import (
    AnyTextConfig,
    BlocksConfig,
    ColumnsConfig,
    ConlluConfig,
    DocumentJsonlConfig,
    DocumentLinesConfig,
    DocumentsConfig,
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
from heedful.recipes.labelled import (
    BenchmarkConfig,
    LabelledCsvConfig,
    LabelledJsonlConfig,
    LabelledTsvConfig,
    QuestionsJsonlConfig,
    SquadConfig,
    SubjqaConfig,
)
from heedful.tasks.benchmarks.table import find
from heedful.tasks.tagging.data import Columns, ConllU, TaggedReader


def build_text(config: AnyTextConfig) -> PairReader | DocumentReader | TaggedReader | Reader[Any]:
    """A part of the data of any task; `DataError` where a file is missing."""
    match config:
        case LinesConfig() | TsvConfig() | JsonlConfig():
            return build_pairs(config)
        case PlainTextConfig() | BlocksConfig() | DocumentLinesConfig() | DocumentJsonlConfig():
            return build_documents(config)
        case ColumnsConfig() | ConlluConfig():
            return build_tagged(config)
        case LabelledTsvConfig() | LabelledCsvConfig() | LabelledJsonlConfig():
            return build_labelled(config)
        case SquadConfig() | SubjqaConfig() | QuestionsJsonlConfig():
            return build_questions(config)
        case BenchmarkConfig():
            return find(config.benchmark).reader(config.folder, config.split)
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


def build_documents(config: TextConfig | DocumentsConfig) -> DocumentReader:
    """Documents, to be read as often as one likes."""
    match config:
        case BlocksConfig():
            return BlankSeparated(config.path)
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


def learn_text(config: TokenizerConfig, texts: Iterable[str], *, masked: bool = False) -> Tokenizer:
    """The tokenizer of one kind of text; `masked` where tokens will be hidden."""
    match config.kind:
        case "bpe" | "unigram":
            assert config.size is not None
            return learn_sentencepiece(
                texts,
                kind=config.kind,
                size=config.size,
                lowercase=config.lowercase,
                character_coverage=config.character_coverage,
                masked=masked,
            )
        case "characters":
            verbatim = isinstance(config, TextTokenizerConfig) and config.verbatim
            return learn_characters(
                texts, size=config.size, lowercase=config.lowercase, verbatim=verbatim, masked=masked
            )
        case "words":
            return learn_words(texts, size=config.size, lowercase=config.lowercase, masked=masked)
    assert_never(config.kind)


def _both(reader: PairReader) -> Iterator[str]:
    for pair in reader:
        yield pair.source
        yield pair.target
