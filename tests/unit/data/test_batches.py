from pathlib import Path

import numpy as np
import pytest
import torch

from heedful.data.batches import batch_by_size, collate_pairs, collate_sources
from heedful.data.corpus import Corpus, build_pair_encoder, write_corpus
from heedful.data.readers import SentencePair
from heedful.data.tokenizers import BOS, EOS, PAD, CharacterTokenizer
from heedful.tensors import Tokens, move_to_device


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    rng = np.random.default_rng(1)
    letters = CharacterTokenizer("abcdefghij", lowercase=False)
    sides = [["".join(rng.choice(list("abcdefghij"), size=rng.integers(1, 12))) for _ in range(60)] for _ in "st"]
    pairs = [SentencePair(source, target, "x") for source, target in zip(*sides, strict=True)]
    return write_corpus(tmp_path / "c", pairs, encoder=build_pair_encoder(letters, letters, max_length=30))


def rows_of(tokens: Tokens) -> list[list[int]]:
    """What is there according to positions, after checking that they count from 0 and that the rest is padding."""
    result = []
    for ids, positions in zip(tokens.ids, tokens.positions, strict=True):
        real = positions >= 0
        assert positions[real].tolist() == list(range(int(real.sum())))
        assert (positions[~real] == -1).all()
        assert (ids >= 0).all()
        assert (ids[real] != PAD).all()
        result.append(ids[real].tolist())
    return result


@pytest.mark.parametrize("pad_to", [1, 8])
def test_a_batch_is_its_sentences_one_by_one(corpus: Corpus, pad_to: int) -> None:
    for rows in batch_by_size(corpus.lengths, max_tokens=100, seed=1, epoch=0, pad_to=pad_to):
        batch = collate_pairs(corpus, rows, pad_to=pad_to, bos=BOS)
        sources = [corpus["source"][row].tolist() for row in rows]
        targets = [corpus["target"][row].tolist() for row in rows]
        assert rows_of(batch.source) == sources
        assert rows_of(batch.target) == [[BOS, *ids[:-1]] for ids in targets]
        assert torch.equal(batch.labels < 0, batch.target.positions < 0)
        assert rows_of(Tokens(batch.labels.clamp(min=0), batch.target.positions)) == targets
        assert all(ids[-1] == EOS for ids in targets + sources)
        width = -(-max(map(len, targets)) // pad_to) * pad_to
        assert batch.labels.shape == batch.target.ids.shape == (len(rows), width)
        assert batch.labels.dtype == batch.source.ids.dtype == batch.target.positions.dtype == torch.int64
        assert len(rows) == 1 or len(rows) * width <= 100


def test_each_label_is_what_the_decoder_reads_next(corpus: Corpus) -> None:
    batch = collate_pairs(corpus, np.arange(60), bos=BOS)
    follows = batch.target.positions[:, 1:] >= 0
    assert torch.equal(batch.target.ids[:, 1:][follows], batch.labels[:, :-1][follows])
    last = (batch.target.positions >= 0).sum(1) - 1
    assert (batch.labels[torch.arange(60), last] == EOS).all()
    assert not (batch.target.ids == EOS).any()


def test_a_batch_moves_and_owns_its_memory(corpus: Corpus) -> None:
    batch = collate_pairs(corpus, np.array([3, 1]), bos=BOS)
    moved = move_to_device(batch, "meta")
    assert moved.labels.device.type == moved.source.positions.device.type == "meta"
    before = corpus["target"][3].tolist()
    batch.labels.zero_()
    batch.source.ids.zero_()
    assert corpus["target"][3].tolist() == before
    assert (batch.target.ids[:, 0] == BOS).all()


def test_a_process_without_rows_gets_a_batch_without_rows(corpus: Corpus) -> None:
    batch = collate_pairs(corpus, np.array([], dtype=np.int64), bos=BOS)
    assert batch.labels.shape == batch.target.ids.shape == batch.source.positions.shape == (0, 1)


def test_sources_for_inference_look_as_in_training(corpus: Corpus) -> None:
    rows = np.arange(20)
    trained = collate_pairs(corpus, rows, bos=BOS).source
    served = collate_sources([corpus["source"][row][:-1].tolist() for row in rows], eos=EOS)
    assert torch.equal(trained.ids, served.ids)
    assert torch.equal(trained.positions, served.positions)


def test_an_empty_source_is_its_end() -> None:
    assert rows_of(collate_sources([[], [5, 6]], eos=EOS)) == [[EOS], [5, 6, EOS]]
    assert collate_sources([], eos=EOS).ids.shape == (0, 1)
