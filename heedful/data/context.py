"""Sentences with the preceding sentences of their document as context.

The source of a sentence is preceded by the sources before it, each followed by a separator that no text contains; the
target stays the translation of the one sentence (Tiedemann and Scherrer 2017, section 3.1: 2+1). An empty line ends a
document.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np

from heedful.data.factors import EncodedText, SourceEncoder
from heedful.data.readers import ExampleReader, SentencePair
from heedful.data.tokenizers import Tokenizer

CONTEXT_SEPARATOR: Final = "<ctx>"
"""The vocabulary piece that follows each context sentence."""


@final
@dataclass(frozen=True)
class SentenceInContext:
    """A sentence and the sentences before it in its document, the nearest last."""

    text: str
    context: tuple[str, ...]


SourceSentence: TypeAlias = str | SentenceInContext
"""A sentence alone, or a sentence with context."""


def attach_context(text: str, context: Iterable[str]) -> SourceSentence:
    """Combine a sentence with the sentences before it; return the text alone if there are none."""
    sentences = tuple(context)
    return SentenceInContext(text, sentences) if sentences else text


def get_text(sentence: SourceSentence) -> str:
    """Return the sentence without its context."""
    return sentence if isinstance(sentence, str) else sentence.text


def get_context(sentence: SourceSentence) -> tuple[str, ...]:
    """Return the sentences before a sentence; empty if it has no context."""
    return () if isinstance(sentence, str) else sentence.context


def iter_with_context(lines: Iterable[str], *, max_sentences: int) -> Iterator[SourceSentence]:
    """Yield each line with up to `max_sentences` lines before it in the same document."""
    previous = deque[str](maxlen=max_sentences)
    for line in lines:
        yield attach_context(line, previous if line.strip() else ())
        if line.strip():
            previous.append(line)
        else:
            previous.clear()


def enumerate_documents(pairs: Iterable[SentencePair]) -> Iterator[tuple[int, SentencePair]]:
    """Yield pairs with the index of their document, from 0; an empty source ends a document, and so does a change
    of `document`.
    """
    index, name, has_ended = -1, "", True
    for pair in pairs:
        if pair.source and (has_ended or pair.document != name):
            index += 1
        name, has_ended = pair.document, not pair.source
        yield max(0, index), pair


def add_context(pairs: Iterable[SentencePair], *, max_sentences: int) -> Iterator[SentencePair]:
    """Add to each pair up to `max_sentences` sources before it in the same document.

    A pair without a translation serves only as context of later pairs; a pair without a source ends the document.
    """
    previous, current = deque[str](maxlen=max_sentences), 0
    for index, pair in enumerate_documents(pairs):
        if index != current:
            previous.clear()
        current = index
        yield pair._replace(context=tuple(previous) if pair.source else ())
        if pair.source:
            previous.append(pair.source)


@final
class ContextReader(ExampleReader[SentencePair]):
    """Add to each pair of a reader the sources before it; see `add_context`."""

    def __init__(self, reader: ExampleReader[SentencePair], *, max_sentences: int) -> None:
        super().__init__(*reader.paths)
        self._reader, self._max_sentences = reader, max_sentences

    def __iter__(self) -> Iterator[SentencePair]:
        return add_context(self._reader, max_sentences=self._max_sentences)


def get_source_with_context(pair: SentencePair) -> SourceSentence:
    """Return the source of a pair together with its context."""
    return attach_context(pair.source, pair.context)


def prepend_context(
    encoder: SourceEncoder, encoded: EncodedText, context: Sequence[str], *, max_pieces: int
) -> EncodedText:
    """Insert the encoded context sentences before a sentence and after its tags, up to `max_pieces` pieces in all;
    separators get factor 0.

    Args:
        encoder: encodes the context; its tokenizer has the separator.
        encoded: the sentence.
        context: the sentences before it, the nearest last.
        max_pieces: largest number of pieces; surplus pieces are dropped from the farthest context.
    """
    if not context or not encoded.ids:
        return encoded
    num_tags, room = len(encoder.tokenizer.prefix_ids), max(0, max_pieces - len(encoded))
    ids, factor_arrays = list[int](), list[np.ndarray]()
    for text in context:
        words = text.split()  # each word has at least one piece, so more are never needed
        context_sentence = encoder.encode(text if len(words) <= max_pieces else " ".join(words[-max_pieces:]))
        if len(context_sentence) == num_tags:
            continue
        ids += [*context_sentence.ids[num_tags:], encoder.tokenizer.tag_ids[CONTEXT_SEPARATOR]]
        if context_sentence.factors is not None:
            factor_arrays += [context_sentence.factors[num_tags:], np.zeros_like(context_sentence.factors[:1])]
    num_dropped = max(0, len(ids) - room)
    joined_ids = [*encoded.ids[:num_tags], *ids[num_dropped:], *encoded.ids[num_tags:]]
    if encoded.factors is None or not factor_arrays:
        return EncodedText(joined_ids, encoded.factors)
    return EncodedText(
        joined_ids,
        np.concatenate(
            [encoded.factors[:num_tags], np.concatenate(factor_arrays)[num_dropped:], encoded.factors[num_tags:]]
        ),
    )


def find_sentence_positions(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """Return the positions of a sentence's own ids and tags among the ids that `prepend_context` returned."""
    separator, num_tags = tokenizer.tag_ids.get(CONTEXT_SEPARATOR), len(tokenizer.prefix_ids)
    if separator is None:
        return list(range(len(ids)))
    sentence_start = next(
        (position for position in range(len(ids), num_tags, -1) if ids[position - 1] == separator), num_tags
    )
    return [*range(min(num_tags, len(ids))), *range(sentence_start, len(ids))]
