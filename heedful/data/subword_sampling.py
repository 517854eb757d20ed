"""Random splits of training text into pieces, so that a model sees each word in several forms: BPE-dropout (Provilkov
et al. 2020) and subword regularisation with a unigram model (Kudo 2018).

Both samplers read the pieces of an encoded text. These pieces, joined, are the normalised text, so the letters are not
needed.
"""

from __future__ import annotations

import itertools
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from heedful.data.batches import PairBatch, build_pair_batch, pad_rows, to_tokens
from heedful.data.corpus import Corpus
from heedful.data.tokenizers import SentencePieceTokenizer, Tokenizer
from heedful.errors import RecipeError
from heedful.tensors import Tokens

_SPACE: Final = "▁"
_CACHED_SPLITS: Final = 2**17  # splits of words whose possible merges are remembered, about 40 MB


class SubwordSampler(ABC):
    """Splits texts into random pieces of a vocabulary.

    Args:
        tokenizer: the vocabulary.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        self._pieces = tokenizer.to_pieces(range(tokenizer.size))
        self._kept_ids = tokenizer.special.skipped_ids | {tokenizer.special.unk}
        self._ids = {piece: number for number, piece in enumerate(self._pieces) if number not in self._kept_ids}

    @final
    def resample(self, ids: Sequence[int], generator: np.random.Generator) -> list[int]:
        """Return other ids of the same text, drawn at random; special ids and the unknown id stay where they are."""
        sampled: list[int] = []
        run: list[str] = []
        for number in (*ids, None):
            if number is not None and number not in self._kept_ids:
                run.append(self._pieces[number])
                continue
            for word in "".join(run).replace(_SPACE, f" {_SPACE}").split():
                sampled += [self._ids[piece] for piece in self._split_word(word, generator)]
            run.clear()
            if number is not None:
                sampled.append(number)
        return sampled

    @abstractmethod
    def _split_word(self, word: str, generator: np.random.Generator) -> list[str]:
        """Split a word, with the `▁` before it, into pieces of the vocabulary."""


@final
class BpeDropout(SubwordSampler):
    """BPE-dropout (Provilkov et al. 2020, section 3): in each step of merging a word, every possible merge is left out
    with some probability; the best of the others is made, until none is left.

    Args:
        tokenizer: a vocabulary of byte-pair encoding.
        dropout: probability of leaving out a merge; with 0 the text is split as without sampling.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, *, dropout: float) -> None:
        super().__init__(tokenizer)
        self._dropout = dropout
        self._cached_merges = lru_cache(maxsize=_CACHED_SPLITS)(self._rank_merges)

    def _split_word(self, word: str, generator: np.random.Generator) -> list[str]:
        parts = tuple(word)
        while True:
            for position in self._cached_merges(parts):  # the first that is not left out is the best of the others
                if generator.random() >= self._dropout:
                    parts = (*parts[:position], parts[position] + parts[position + 1], *parts[position + 2 :])
                    break
            else:
                return list(parts)

    def _rank_merges(self, parts: tuple[str, ...]) -> tuple[int, ...]:
        """List the positions of the possible merges, the best first: pieces are numbered in the order of learning."""
        merges = [
            (number, position)
            for position, (first, second) in enumerate(itertools.pairwise(parts))
            if (number := self._ids.get(first + second)) is not None
        ]
        return tuple(position for _, position in sorted(merges))


@final
class UnigramSampler(SubwordSampler):
    """Subword regularisation (Kudo 2018, section 3.2) over all splits of a word: a split x has the probability
    P(x)^alpha / sum P(x')^alpha, by forward filtering and backward sampling.

    Args:
        tokenizer: a vocabulary of a unigram model.
        alpha: smoothing: 0 draws all splits alike, a large number always the best.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, *, alpha: float) -> None:
        super().__init__(tokenizer)
        scores = tokenizer.get_scores()
        self._log_weights = {piece: alpha * scores[number] for piece, number in self._ids.items()}
        self._max_length = max(map(len, self._ids), default=1)

    def _split_word(self, word: str, generator: np.random.Generator) -> list[str]:
        totals = [0.0]  # logarithm of the sum over the splits of each beginning of the word
        choices: list[list[tuple[int, float]]] = [[]]  # starts of the last piece, with the logarithms of their weights
        for stop in range(1, len(word) + 1):
            starts = range(max(0, stop - self._max_length), stop)
            weights = [
                (start, totals[start] + weight)
                for start in starts
                if (weight := self._log_weights.get(word[start:stop])) is not None
            ]
            highest = max((weight for _, weight in weights), default=-math.inf)
            total = sum(math.exp(weight - highest) for _, weight in weights) if weights else 0.0
            totals.append(highest + math.log(total) if weights else -math.inf)
            choices.append(weights)
        pieces: list[str] = []
        stop = len(word)
        while stop:
            threshold = generator.random()
            for start, weight in choices[stop]:  # noqa: B007 - the last start is taken if rounding leaves a rest
                threshold -= math.exp(weight - totals[stop])
                if threshold < 0:
                    break
            pieces.append(word[start:stop])
            stop = start
        return pieces[::-1]


def build_sampler(tokenizer: Tokenizer, amount: float) -> SubwordSampler:
    """Build the sampler that fits a vocabulary: `BpeDropout` for BPE, `UnigramSampler` for a unigram model.

    Args:
        tokenizer: a vocabulary that heedful learned with sentencepiece.
        amount: probability of leaving out a merge of BPE, or exponent of the probabilities of a unigram model.

    Raises:
        RecipeError: the vocabulary is of another kind.
    """
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise RecipeError(
            'training.subword_sampling: needs a vocabulary of tokenizer.kind = "bpe" or "unigram" learned here; set it '
            "to 0"
        )
    if tokenizer.is_bpe:
        return BpeDropout(tokenizer, dropout=amount)
    return UnigramSampler(tokenizer, alpha=amount)


@final
class PairSampler:
    """Samples the pieces of both sides of training batches. The seed and the rows of a batch determine the sample. So a
    batch of other rows gets other pieces, and an interrupted training continues with the same ones.

    Args:
        source: sampler of the sources.
        target: sampler of the targets.
        seed: seed of the training.
        max_length: largest number of ids of a side; a longer sample is replaced by the text's own pieces.
    """

    def __init__(self, source: SubwordSampler, target: SubwordSampler, *, seed: int, max_length: int) -> None:
        self._source = source
        self._target = target
        self._seed = seed
        self._max_length = max_length

    def collate(
        self,
        collate: Callable[[Corpus, Integer[np.ndarray, " B"]], PairBatch[Tokens]],
        train: Corpus,
        corpus: Corpus,
        rows: Integer[np.ndarray, " B"],
    ) -> PairBatch[Tokens]:
        """Collate some examples of `corpus`, with sampled pieces if it is the training corpus `train`.

        Args:
            collate: collates examples with their own pieces.
            train: the training corpus.
            corpus: the corpus of the examples, `train` or the validation corpus.
            rows: indices of the examples.
        """
        batch = collate(corpus, rows)
        if corpus is not train:
            return batch
        generator = np.random.default_rng([self._seed, zlib.crc32(np.asarray(rows, dtype=np.int64).tobytes())])
        source_ids = torch.where(batch.source.positions >= 0, batch.source.ids, -1)
        source = to_tokens(self._resample_rows(source_ids, self._source, generator))
        labels = self._resample_rows(batch.labels, self._target, generator)
        sampled = build_pair_batch(source, labels, bos=int(batch.target.ids[0, 0]))
        return replace(batch, source=source, target=sampled.target, labels=sampled.labels)

    def _resample_rows(
        self, ids: Int[Tensor, "B T"], sampler: SubwordSampler, generator: np.random.Generator
    ) -> Int[np.ndarray, "B U"]:
        """Draw other pieces of each row; -1 is padding."""
        sampled = []
        for row in ids.tolist():
            own = [number for number in row if number >= 0]
            drawn = sampler.resample(own, generator)
            sampled.append(drawn if len(drawn) <= self._max_length else own)
        return pad_rows(sampled)
