"""Random splits of training text: BPE-dropout and subword regularisation."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from heedful.data.batches import collate_pairs
from heedful.data.corpus import build_pair_encoder, write_corpus
from heedful.data.readers import SentencePair
from heedful.data.subword_sampling import BpeDropout, PairSampler, SubwordSampler, UnigramSampler, build_sampler
from heedful.data.tokenizers import BOS, UNK, SentencePieceTokenizer, learn_sentencepiece, learn_words
from heedful.errors import RecipeError

WORDS = ["the", "cat", "cats", "sat", "mat", "on", "unwashed", "washing", "machine", "machines", "12", "été", "größer"]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=n % 9 + 1)) + "." for n in range(300)]


def learn(kind: str) -> SentencePieceTokenizer:
    return learn_sentencepiece(TEXTS, kind=kind, size=70, lowercase=False, tags=["<2de>"])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_without_chance_texts_are_split_as_always(kind: str) -> None:
    tokenizer = learn(kind)
    sampler: SubwordSampler = (
        BpeDropout(tokenizer, dropout=0.0) if kind == "bpe" else UnigramSampler(tokenizer, alpha=1000.0)
    )
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert sampler.resample(ids, np.random.default_rng(1)) == ids


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_texts_stay_and_special_ids_too(kind: str) -> None:
    tokenizer = learn(kind)
    sampler: SubwordSampler = (
        BpeDropout(tokenizer, dropout=0.3) if kind == "bpe" else UnigramSampler(tokenizer, alpha=0.2)
    )
    generator = np.random.default_rng(7)
    changed = 0
    for text in TEXTS:
        ids = [tokenizer.tag_ids["<2de>"], *tokenizer.encode(f"{text} λ cats"), tokenizer.special.eos]
        sampled = sampler.resample(ids, generator)
        assert sampled[0] == ids[0]
        assert sampled[-1] == ids[-1]
        assert sampled.count(UNK) == ids.count(UNK) == 1
        assert tokenizer.decode(sampled) == tokenizer.decode(ids)
        changed += sampled != ids
    assert changed > 200
    again = [sampler.resample(tokenizer.encode(TEXTS[5]), np.random.default_rng(3)) for _ in range(2)]
    assert again[0] == again[1], "the same generator gives the same pieces"


def test_certain_dropout_leaves_letters() -> None:
    tokenizer = learn("bpe")
    ids = BpeDropout(tokenizer, dropout=1.0).resample(tokenizer.encode("the cats"), np.random.default_rng(1))
    assert tokenizer.to_pieces(ids) == [*"▁the▁cats"]


def test_every_merge_is_left_out_by_itself() -> None:
    """`the` needs two merges, `▁` and `the` one more: each survives a draw with the probability 1 - p, and a merge that
    was left out is drawn again with the next one.
    """
    tokenizer, dropout = learn("bpe"), 0.4
    sampler, generator = BpeDropout(tokenizer, dropout=dropout), np.random.default_rng(5)
    word = next(
        piece
        for piece in tokenizer.to_pieces(range(tokenizer.size))
        if len(piece) == 2 and piece.isalpha() and tokenizer.to_pieces(tokenizer.encode(piece))[-1] == piece
    )
    ids = [tokenizer.to_pieces(range(tokenizer.size)).index(word)]
    trials = 4000
    whole = sum(len(sampler.resample(ids, generator)) == 1 for _ in range(trials))
    assert whole / trials == pytest.approx(1 - dropout, abs=4 * math.sqrt(0.24 / trials))


def test_unigram_splits_have_their_probabilities() -> None:
    tokenizer, alpha = learn("unigram"), 0.5
    pieces, scores = tokenizer.to_pieces(range(tokenizer.size)), tokenizer.get_scores()
    log_weights = {piece: alpha * scores[number] for number, piece in enumerate(pieces) if number > 4}
    word = "▁cats"
    weights = {}
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        stops = [*(index + 1 for index, is_cut in enumerate(cuts) if is_cut), len(word)]
        parts = tuple(word[start:stop] for start, stop in zip([0, *stops], stops, strict=False))
        if all(part in log_weights for part in parts):
            weights[parts] = math.exp(sum(log_weights[part] for part in parts))
    assert len(weights) >= 3
    sampler, generator, trials = UnigramSampler(tokenizer, alpha=alpha), np.random.default_rng(2), 4000
    ids = tokenizer.encode("cats")
    counts = Counter(tuple(tokenizer.to_pieces(sampler.resample(ids, generator))) for _ in range(trials))
    assert counts.keys() <= weights.keys()
    for parts, weight in weights.items():
        probability = weight / sum(weights.values())
        error = 4 * math.sqrt(probability * (1 - probability) / trials) + 1e-3
        assert counts[parts] / trials == pytest.approx(probability, abs=error)


def test_training_batches_are_sampled_and_others_not(tmp_path: Path) -> None:
    tokenizer = learn("bpe")
    encoder = build_pair_encoder(tokenizer, tokenizer, max_length=60)
    pairs = [SentencePair(text, f"{text} cats", "") for text in TEXTS[:40]]
    train, validation = (write_corpus(tmp_path / name, pairs, encoder=encoder) for name in "tv")
    collate = partial(collate_pairs, bos=BOS)
    samplers = [build_sampler(tokenizer, 0.3) for _ in range(2)]
    sampling = PairSampler(*samplers, seed=4, max_length=60)
    rows = np.arange(30)
    own, sampled, again = (
        collate(train, rows),
        sampling.collate(collate, train, train, rows),
        sampling.collate(collate, train, train, rows),
    )
    other = sampling.collate(collate, train, train, rows[::-1])
    for name in ("source", "target"):
        mine, theirs = getattr(sampled, name), getattr(own, name)
        texts = [
            [tokenizer.decode(row[place >= 0].tolist()) for row, place in zip(t.ids, t.positions, strict=True)]
            for t in (mine, theirs)
        ]
        assert texts[0] == texts[1]
        assert mine.ids.shape != theirs.ids.shape or not torch.equal(mine.ids, theirs.ids)
        assert torch.equal(mine.ids, getattr(again, name).ids)
    assert (
        sampled.labels[:, :-1][sampled.labels[:, 1:] >= 0] == sampled.target.ids[:, 1:][sampled.labels[:, 1:] >= 0]
    ).all()
    assert not torch.equal(other.labels.flip(0)[:, :5], sampled.labels[:, :5]), "another order draws other pieces"
    kept = sampling.collate(collate, train, validation, rows)
    assert torch.equal(kept.labels, own.labels)
    short = PairSampler(*samplers, seed=4, max_length=1).collate(collate, train, train, rows)
    assert torch.equal(short.labels, own.labels), "what would be too long keeps its pieces"
    with pytest.raises(RecipeError, match=r"training\.subword_sampling: needs a vocabulary"):
        build_sampler(learn_words(TEXTS, size=None, lowercase=False), 0.1)
