"""Initialise embeddings from pre-trained word vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.blocks.embedding import TokenEmbedding
from heedful.data.tokenizers import Tokenizer
from heedful.data.word_vectors import read_word_vectors

_BEFORE_WORD = "▁"


def init_from_vectors(module: nn.Module, tokenizer: Tokenizer, path: Path, *, log: Callable[[str], None]) -> None:
    """Copy the vectors of a file into a module's embedding table, and report their number to `log`; pieces without a
    vector stay random.

    If both languages share a table, the module that is initialised last wins.
    """
    table = _find_table(module)
    ids, vectors = _match_vectors(table, tokenizer, path)
    if len(ids):
        with torch.no_grad():
            table.weight[ids] = vectors
    log(f"{len(ids):,} of {tokenizer.size:,} pieces start from {path}")


def freeze_vectors(module: nn.Module, tokenizer: Tokenizer, path: Path) -> None:
    """Stop gradients of the pieces of a module's embedding table whose vectors are in the file, so that Adam leaves
    them unchanged.

    If the table is also the output projection, they are frozen there, too.
    """
    table = _find_table(module)
    ids = _match_vectors(table, tokenizer, path)[0].to(table.weight.device)
    hook = table.weight.register_hook
    hook(lambda gradient: gradient.index_fill(0, ids, 0.0))  # type: ignore[no-untyped-call]  # torch has no annotation


def _find_table(module: nn.Module) -> nn.Embedding:
    return next(module for module in module.modules() if isinstance(module, TokenEmbedding)).table


def _match_vectors(
    table: nn.Embedding, tokenizer: Tokenizer, path: Path
) -> tuple[Int[Tensor, " found"], Float[Tensor, "found d_model"]]:
    """Return the ids of pieces that have vectors in the file, and these vectors, scaled to fit the embedding table.

    Vectors keep their directions and relative lengths; they are scaled to the mean square of the random ones.
    """
    pieces = _pieces_by_word(tokenizer)
    numbers = {word: number for number, word in enumerate(pieces)}
    word_vectors = read_word_vectors(path, vocabulary=numbers, d_model=table.embedding_dim)
    ids_by_word = list(pieces.values())
    pairs = [(row, piece) for row, number in enumerate(word_vectors.ids.tolist()) for piece in ids_by_word[number]]
    vector_rows, ids = torch.tensor(pairs, dtype=torch.long).view(-1, 2).unbind(1)
    vectors = word_vectors.vectors / word_vectors.vectors.square().sum(1).mean().sqrt().clamp(
        min=torch.finfo(torch.float32).tiny
    )
    return ids, vectors[vector_rows]


def _pieces_by_word(tokenizer: Tokenizer) -> dict[str, list[int]]:
    """Return the pieces that are whole words, by word.

    If the tokenizer marks the beginning of words, `▁dog` is the word dog and `dog` the end of another word; only
    punctuation is also a word without the mark.
    """
    special = tokenizer.special.skipped_ids | {tokenizer.special.unk}
    ids = [number for number in range(tokenizer.size) if number not in special]
    pieces = tokenizer.to_pieces(ids)
    has_marks = any(len(piece) > 1 and piece.startswith(_BEFORE_WORD) for piece in pieces)
    pieces_by_word: dict[str, list[int]] = {}
    for number, piece in zip(ids, pieces, strict=True):
        word = piece.removeprefix(_BEFORE_WORD)
        if word and (word != piece or not has_marks or not any(map(str.isalnum, word))):
            pieces_by_word.setdefault(word, []).append(number)
    return pieces_by_word
