"""Word alignments of parallel text: reading them from files and projecting them to the pieces of a vocabulary.

A line of links has the format of Pharaoh: `0-0 1-2`, the index of a source word, a hyphen, and the index of a target
word, both counted from 0. Words are separated by white space in the original text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from heedful.data.batches import PairBatch, collate_pairs
from heedful.data.context import find_sentence_positions
from heedful.data.corpus import ArraySpec, Corpus, ExampleEncoder
from heedful.data.readers import ExampleReader, SentencePair, zip_with_lines
from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.tensors import Tokens

WordLink: TypeAlias = tuple[int, int]
"""Indices of a source and a target word, or of a source and a target piece."""
LINKS_SIDE: Final = "links"
"""Name of the corpus side that holds the links of pieces."""

_LINK: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_WORD: Final = re.compile(r"\S+")


def parse_links(line: str, *, location: str) -> tuple[WordLink, ...]:
    """Parse a line of links, in order; raise `DataError` with its `location` if it is malformed."""
    links = []
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise DataError(f"{location}: {word!r} is not a link; write source-target, as in 0-0, both counted from 0")
        links.append((int(match[1]), int(match[2])))
    return tuple(links)


@final
class AlignedPairs(ExampleReader[SentencePair]):
    """Pairs with the links of their words, read from a file with one line for each pair.

    Args:
        pairs: reader of the parallel text; empty pairs have an empty line of links.
        path: the file of links.

    Raises:
        DataError: the text cannot be read; a line is not a line of links; a link has no word in its pair; there are
            more or fewer lines than pairs.
    """

    def __init__(self, pairs: ExampleReader[SentencePair], path: Path) -> None:
        super().__init__(*pairs.paths, path)
        self._pairs = pairs

    def __iter__(self) -> Iterator[SentencePair]:
        remedy = "write one line of links for each pair, an empty line if it has none"
        for pair, line, location in zip_with_lines(self._pairs, self.paths[-1], remedy=remedy):
            yield pair._replace(links=_check_links(parse_links(line, location=location), pair, location))


def _check_links(links: tuple[WordLink, ...], pair: SentencePair, location: str) -> tuple[WordLink, ...]:
    """Return the links; raise `DataError` at `location` if one points beyond the words of its pair."""
    word_counts = len(pair.source.split()), len(pair.target.split())
    for link in links:
        for index, count, side in zip(link, word_counts, ("source", "target"), strict=True):
            if index >= count:
                raise DataError(
                    f"{location}: link {link[0]}-{link[1]} has no {side} word: {pair.location} has {count} there, "
                    "counted from 0; align exactly this text"
                )
    return links


def map_pieces_to_words(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return for each piece of a text the index of the word in which it begins; -1 for a piece that is not part of a
    word.

    Words are separated by white space.

    Raises:
        DataError: the pieces cannot be found in the text; see `compute_offsets`.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    word_indices, word = [], 0
    for start, stop in compute_offsets(tokenizer, text):
        if start == stop:
            word_indices.append(-1)
            continue
        while words[word][1] <= start:
            word += 1
        word_indices.append(word)
    return word_indices


def map_context_pieces_to_words(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[int]:
    """Return the word index of each id of a text with context (`prepend_context`); -1 for the pieces of the context."""
    word_indices = [-1] * len(ids)
    for position, word_index in zip(
        find_sentence_positions(tokenizer, ids), map_pieces_to_words(tokenizer, text), strict=True
    ):
        word_indices[position] = word_index
    return word_indices


def project_links(links: Sequence[WordLink], *, source: Sequence[int], target: Sequence[int]) -> list[WordLink]:
    """Project word links to pieces: link each piece of a word with each piece of the other word. `source` and `target`
    have the word index of each piece.

    Args:
        links: links of words.
        source: the word index of each source piece; see `map_pieces_to_words`.
        target: the word index of each target piece.
    """
    source_pieces, target_pieces = _group_by_word(source), _group_by_word(target)
    return sorted(
        {
            (s, t)
            for source_word, target_word in links
            for s in source_pieces[source_word]
            for t in target_pieces[target_word]
        }
    )


def _group_by_word(word_indices: Sequence[int]) -> dict[int, list[int]]:
    """Return the indices of the pieces of each word, from the word index of each piece."""
    pieces: dict[int, list[int]] = defaultdict(list)
    for piece, word in enumerate(word_indices):
        pieces[word].append(piece)
    return pieces


def build_aligned_encoder(
    pair_encoder: ExampleEncoder[SentencePair], source: Tokenizer, target: Tokenizer
) -> ExampleEncoder[SentencePair]:
    """Build an encoder of parallel text with a third side, the links of pieces; the end ids of both sentences are
    linked.

    Args:
        pair_encoder: encodes both sides, each with its end id.
        source: the tokenizer of the source.
        target: the tokenizer of the target.
    """

    get_tagged_tokenizer = cache(source.with_tags)

    def encode(pair: SentencePair) -> Sequence[Sequence[int] | np.ndarray | None]:
        """Encode a pair and its links."""
        sides = source_ids, target_ids = pair_encoder.encode(pair)
        ends = [(len(source_ids) - 1, len(target_ids) - 1)] if source_ids and target_ids else [(0, 0)]
        piece_links: list[WordLink] = []
        if pair.links and source_ids and target_ids:
            try:
                tokenizer = get_tagged_tokenizer(pair.tags)
                word_indices = (
                    map_context_pieces_to_words(tokenizer, pair.source, list(source_ids)[:-1]),
                    map_pieces_to_words(target, pair.target),
                )
            except DataError as error:
                raise DataError(f"{pair.location}: {error}") from None
            piece_links = project_links(pair.links, source=word_indices[0], target=word_indices[1])
        return (*sides, np.array([*piece_links, *ends]))

    return replace(
        pair_encoder, side_sizes={**pair_encoder.side_sizes, LINKS_SIDE: ArraySpec("<u4", (2,))}, encode=encode
    )


@dataclass(frozen=True)
class AlignedBatch(PairBatch[Tokens]):
    """A batch of pairs with the links of their pieces.

    Attributes:
        links: row, position of the label, and position in the source, for each link.
        link_weights: 1 / (number of links of the label) for each link, so that those of a label sum to 1.
        num_linked_labels: number of labels that have links.
    """

    links: Int[Tensor, "L 3"]
    link_weights: Float[Tensor, " L"]
    num_linked_labels: int


def collate_aligned_pairs(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, bos: int) -> AlignedBatch:
    """Collate the pairs of a corpus in `rows`, as `collate_pairs` does, with their links; decoder inputs begin with the
    id `bos`.
    """
    pairs, piece_links = collate_pairs(corpus, rows, bos=bos), [corpus[LINKS_SIDE][row] for row in rows]
    row = np.repeat(np.arange(len(piece_links)), [len(links_of_pair) for links_of_pair in piece_links])
    source, target = (np.concatenate(piece_links) if piece_links else np.empty((0, 2))).astype(np.int64).T
    _, label, counts = np.unique(np.stack([row, target]), axis=1, return_inverse=True, return_counts=True)
    weights = (1 / counts[label.reshape(-1)]).astype(np.float32)
    links = torch.from_numpy(np.stack([row, target, source], axis=1))
    sides = (pairs.source, pairs.target, pairs.labels)
    return AlignedBatch(*sides, links, torch.from_numpy(weights), len(counts), weights=pairs.weights)
