"""From what pieces looked at to which words belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from heedful.data.tokenizers import Tokenizer

Links = tuple[tuple[int, int], ...]
"""Pairs of a source and a target word, both counted from 0."""


def words_of_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """For each piece the number of the word, between spaces, that it is a part of."""
    return [max(0, len(tokenizer.decode(ids[: end + 1]).split()) - 1) for end in range(len(ids))]


def link_words(weights: Float[np.ndarray, "T S"], *, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Each target word with the source word that it looked at most (Luong et al. 2015, section 4.4: the argmax).

    Weights on the pieces of one source word count together, as do the rows of one target word. What is behind the
    words, the ends of the sentences, is left out.

    Args:
        weights: of each target piece on each source piece.
        source_words: the word of each source piece.
        target_words: the word of each target piece.
    """
    if not source_words or not target_words:
        return ()
    total = np.zeros((max(target_words) + 1, max(source_words) + 1))
    rows, columns = np.meshgrid(target_words, source_words, indexing="ij")
    np.add.at(total, (rows, columns), weights[: len(target_words), : len(source_words)])
    return tuple((int(row.argmax()), target) for target, row in enumerate(total))


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """One line of `source-target` pairs, the format of Pharaoh and its heirs."""
    return " ".join(f"{source}-{target}" for source, target in links)
