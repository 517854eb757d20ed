"""Sentences in their documents: which stand before each of them, and how these are read with it.

The source of a sentence is read behind the sources before it, each with a separator behind it that no text has; its
translation stays that of the one sentence (Tiedemann and Scherrer 2017, section 3.1: 2+1). A line that is empty ends a
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
"""The piece of a vocabulary that stands behind each sentence which is read before another one."""


@final
@dataclass(frozen=True)
class SentenceInContext:
    """A sentence, and those before it in its document, the nearest last."""

    text: str
    context: tuple[str, ...]


SourceSentence: TypeAlias = str | SentenceInContext
"""A sentence that stands by itself, or one with those before it."""


def attach_context(text: str, context: Iterable[str]) -> SourceSentence:
    """A sentence with those before it, where there are any."""
    sentences = tuple(context)
    return SentenceInContext(text, sentences) if sentences else text


def get_text(sentence: SourceSentence) -> str:
    """The sentence alone."""
    return sentence if isinstance(sentence, str) else sentence.text


def get_context(sentence: SourceSentence) -> tuple[str, ...]:
    """The sentences before it."""
    return () if isinstance(sentence, str) else sentence.context


def iter_with_context(lines: Iterable[str], *, max_sentences: int) -> Iterator[SourceSentence]:
    """Each line with as many before it in its document as there are, but at most `max_sentences`."""
    previous = deque[str](maxlen=max_sentences)
    for line in lines:
        yield attach_context(line, previous if line.strip() else ())
        if line.strip():
            previous.append(line)
        else:
            previous.clear()


def enumerate_documents(pairs: Iterable[SentencePair]) -> Iterator[tuple[int, SentencePair]]:
    """Pairs with the numbers of their documents, from 0: an empty source ends one, and so does another `document`."""
    index, name, has_ended = -1, "", True
    for pair in pairs:
        if pair.source and (has_ended or pair.document != name):
            index += 1
        name, has_ended = pair.document, not pair.source
        yield max(0, index), pair


def add_context(pairs: Iterable[SentencePair], *, max_sentences: int) -> Iterator[SentencePair]:
    """Pairs with the sources before theirs, of the same document and at most `max_sentences`.

    A pair without a translation is one that others follow; a pair without a source ends the document.
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
    """The pairs of a reader with the sources before theirs; see `add_context`."""

    def __init__(self, reader: ExampleReader[SentencePair], *, max_sentences: int) -> None:
        super().__init__(*reader.paths)
        self._reader, self._max_sentences = reader, max_sentences

    def __iter__(self) -> Iterator[SentencePair]:
        return add_context(self._reader, max_sentences=self._max_sentences)


def get_source_with_context(pair: SentencePair) -> SourceSentence:
    """The source of a pair, with what stands before it."""
    return attach_context(pair.source, pair.context)


def prepend_context(
    encoder: SourceEncoder, encoded: EncodedText, context: Sequence[str], *, max_pieces: int
) -> EncodedText:
    """A sentence behind the sentences before it, which stand behind its tags; separators have no factors.

    Args:
        encoder: of the sentence, with a tokenizer that has the separator.
        encoded: the sentence.
        context: those before it, the nearest last.
        max_pieces: how many pieces there may be; what is too much is cut off those that are farthest away.
    """
    if not context or not encoded.ids:
        return encoded
    num_tags, room = len(encoder.tokenizer.prefix_ids), max(0, max_pieces - len(encoded))
    ids, factor_arrays = list[int](), list[np.ndarray]()
    for text in context:
        words = text.split()  # there is no word without a piece, so more are never needed
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
    """Where the ids of a sentence and its tags stand among those that `prepend_context` gave."""
    separator, num_tags = tokenizer.tag_ids.get(CONTEXT_SEPARATOR), len(tokenizer.prefix_ids)
    if separator is None:
        return list(range(len(ids)))
    sentence_start = next(
        (position for position in range(len(ids), num_tags, -1) if ids[position - 1] == separator), num_tags
    )
    return [*range(min(num_tags, len(ids))), *range(sentence_start, len(ids))]
