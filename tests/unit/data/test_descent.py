"""What the pieces of a new vocabulary begin with."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from jaxtyping import Bool
from torch import Tensor

from heedful.data.pretrained_tokenizers import HuggingFaceTokenizer, MappedSentencePieceTokenizer, build_byte_level_json
from heedful.data.tokenizers import (
    EOS,
    UNK,
    CharacterTokenizer,
    SentencePieceTokenizer,
    SpecialIds,
    Tokenizer,
    WordTokenizer,
    learn_sentencepiece,
)
from heedful.data.word_vectors import VocabularyMapping, is_same_vocabulary

SYLLABLES = ["ka", "lo", "mi", "nu", "tra", "sel", "ong", "ur"]


def texts(seed: int, *, more: Sequence[str] = ()) -> list[str]:
    dice = random.Random(seed)
    words = ["".join(dice.choices([*SYLLABLES, *more], k=dice.randrange(1, 5))) for _ in range(120)]
    return ["".join([*SYLLABLES, *more]), *(" ".join(dice.choices(words, k=6)) + "." for _ in range(300))]


def learned(seed: int, *, kind: str = "bpe", size: int = 90, more: Sequence[str] = ()) -> SentencePieceTokenizer:
    how = {"kind": kind, "size": size, "lowercase": False}
    return learn_sentencepiece(texts(seed, more=more), **how)  # type: ignore[arg-type]


def table(tokenizer: Tokenizer, *shape: int) -> Tensor:
    return torch.randn(tokenizer.size, *shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    "tokenizer",
    [
        learned(1),
        learned(1, kind="unigram"),
        CharacterTokenizer("abc ", lowercase=False),
        WordTokenizer(["a", "b", "."], lowercase=True),
    ],
    ids=["bpe", "unigram", "characters", "words"],
)
def test_a_vocabulary_descends_from_itself_to_the_bit(tokenizer: Tokenizer) -> None:
    descent = VocabularyMapping.from_tokenizers([tokenizer], tokenizer)
    assert (descent.num_kept, descent.num_averaged, descent.num_without_parts) == (tokenizer.size, 0, 0)
    old = table(tokenizer, 5)
    assert torch.equal(descent.map_rows(old), old)
    bias = old[:, 0].clone()
    assert torch.equal(descent.map_rows(bias), bias)


def test_words_by_hand() -> None:
    old = WordTokenizer(["dog", "cat", "house", "."], lowercase=False)
    new = WordTokenizer([".", "bird", "cat"], lowercase=False)
    descent = VocabularyMapping.from_tokenizers([old], new)
    assert str(descent) == "6 pieces kept, 0 started from their parts, 1 new"
    rows = table(old, 3)
    found = descent.map_rows(rows)
    mean = rows[4:8].mean(0)
    torch.testing.assert_close(found, torch.stack([*rows[:4], rows[7], mean, rows[5]]))


def test_subwords_from_letters_by_hand() -> None:
    """Old pieces carry no mark of a word's begin, new ones do."""
    old, new = CharacterTokenizer("aeklmnorstu ", lowercase=False), learned(1, size=60)
    descent = VocabularyMapping.from_tokenizers([old], new)
    rows = table(old, 4)
    found = descent.map_rows(rows)
    ids = {piece: number for number, piece in enumerate(old.to_pieces(range(old.size)))}
    for number, piece in enumerate(new.to_pieces(range(new.size))):
        letters = [ids[letter] for letter in piece.lstrip("▁") if letter in ids]
        if number > UNK and len(piece.lstrip("▁")) > 1 and letters:
            torch.testing.assert_close(found[number], rows[letters].mean(0))
    assert descent.num_averaged > 20


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_are_the_mean_of_what_the_old_tokenizer_cuts_them_into(kind: str) -> None:
    old, new = learned(1, kind=kind, size=70), learned(2, kind=kind, size=120, more=["xyz", "lok"])
    descent = VocabularyMapping.from_tokenizers([old], new)
    rows = table(old, 4)
    found = descent.map_rows(rows)
    names = old.to_pieces(range(old.size))
    begins = [n for n, piece in enumerate(new.to_pieces(range(new.size))) if n > UNK and piece.startswith("▁")]
    unseen = [n for n in begins if new.to_pieces([n])[0] not in names and len(new.to_pieces([n])[0]) > 1]
    assert len(unseen) > 10
    for number in unseen:
        parts = [part for part in old.encode(new.decode([number])) if part != UNK]
        torch.testing.assert_close(found[number], rows[parts].mean(0))


def test_pieces_inside_words_begin_with_pieces_inside_words() -> None:
    old = learned(1, size=70)
    new = learned(2, size=140)
    names = {piece: number for number, piece in enumerate(old.to_pieces(range(old.size)))}
    descent = VocabularyMapping.from_tokenizers([old], new)
    both = 0
    for number, piece in enumerate(new.to_pieces(range(new.size))):
        if number <= UNK or piece.startswith("▁") or piece in names:
            continue
        parts = descent.old_ids[descent.new_ids == number]
        told = old.to_pieces(parts)
        assert "".join(told).replace("▁", "") == piece, "nothing here is unknown"
        if told[0].startswith("▁"):
            assert told[0].removeprefix("▁") not in names, "the same letters inside a word are another piece"
        both += 1
    assert both > 10


def test_a_piece_of_nothing_known_is_the_mean_of_all_pieces_and_one_of_some_that_of_these() -> None:
    old, new = WordTokenizer(["a", "b"], lowercase=False), CharacterTokenizer("abz", lowercase=False)
    rows = table(old, 2)
    found = VocabularyMapping.from_tokenizers([old], new).map_rows(rows)
    torch.testing.assert_close(found[-1], rows[4:].mean(0))
    partly = VocabularyMapping.from_tokenizers(
        [CharacterTokenizer("ab", lowercase=False)], WordTokenizer(["azb", "zz"], lowercase=False)
    )
    assert (partly.num_kept, partly.num_averaged, partly.num_without_parts) == (4, 1, 1)
    assert partly.old_ids[partly.new_ids == 4].tolist() == [4, 5]


class Ended(WordTokenizer):  # type: ignore[misc]  # a vocabulary whose end begins texts too, as GPT's
    def __init__(self, words: list[str]) -> None:
        super().__init__(words, lowercase=False)
        self.special = SpecialIds(bos=EOS, eos=EOS, others=frozenset({0, 1, 3}))


def test_special_ids_descend_from_what_means_the_same_wherever_it_stands() -> None:
    ours, theirs = WordTokenizer(["x"], lowercase=False), Ended(["x"])
    rows = table(theirs, 2)
    found = VocabularyMapping.from_tokenizers([theirs], ours).map_rows(rows)
    torch.testing.assert_close(found[[1, 2, 4]], rows[[EOS, EOS, 4]])
    torch.testing.assert_close(found[UNK], rows[4])  # the mean of the one piece that texts are made of
    back = VocabularyMapping.from_tokenizers([ours], theirs)
    assert back.old_ids[back.new_ids == EOS].tolist() == [EOS]


def test_no_piece_descends_from_a_special_id_of_its_name() -> None:
    old, new = WordTokenizer(["x"], lowercase=False), WordTokenizer(["x", "</s>"], lowercase=False)
    descent = VocabularyMapping.from_tokenizers([old], new)
    assert EOS not in descent.old_ids[descent.new_ids == 5]


def test_of_two_ways_to_cut_the_shorter_one_counts() -> None:
    letters = "abc"
    one, other = WordTokenizer([letters, *letters], lowercase=False), Cut([letters, *letters], lowercase=False)
    assert is_same_vocabulary(one, other)
    new = WordTokenizer(["abcx"], lowercase=False)
    assert VocabularyMapping.from_tokenizers([one, other], new).old_ids.tolist()[4:] == [4]
    spelled = Cut([letters, *letters], lowercase=False, ids=(5, 6, 7))
    for both in ([spelled, other], [other, spelled]):
        assert VocabularyMapping.from_tokenizers(both, new).old_ids.tolist()[4:] == [4]
    assert VocabularyMapping.from_tokenizers([one], new).num_without_parts == 1
    assert not is_same_vocabulary(one, WordTokenizer([*letters, letters], lowercase=False))
    assert not is_same_vocabulary(one, WordTokenizer([*letters], lowercase=False))


def test_marian_reads_two_languages_by_one_table() -> None:
    """Its two sentencepiece models cut in their own ways, and one list says the ids of both."""
    models = learned(1, size=70), learned(4, size=70, more=["wex", "bip"])
    pieces = dict.fromkeys(piece for model in models for piece in model.to_pieces(range(UNK + 1, model.size)))
    ids = {"</s>": 0, "<unk>": 1, **{piece: number for number, piece in enumerate(pieces, 2)}, "<pad>": len(pieces) + 2}
    special = SpecialIds(bos=ids["<pad>"], eos=0, unk=1, others=frozenset({ids["<pad>"]}))
    source, target = (MappedSentencePieceTokenizer(model.model, ids, special=special) for model in models)
    assert is_same_vocabulary(source, target)
    new = learned(4, size=110, more=["wex", "bip"])
    both, one = (
        VocabularyMapping.from_tokenizers([source, target], new),
        VocabularyMapping.from_tokenizers([source], new),
    )
    assert both.num_kept == one.num_kept > 20
    assert both.num_averaged >= one.num_averaged
    assert len(both.old_ids) < len(one.old_ids), "the target's way to cut is the shorter one of its own language"
    assert both.old_ids[both.new_ids == 1].tolist() == [ids["<pad>"]], "what texts begin with"
    assert both.old_ids[both.new_ids == EOS].tolist() == [0]


def test_bytes_know_where_words_begin() -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    letters = ["a", "b", "c", "Ġ"]
    names = ["<s>", "</s>", *letters, "ab", "Ġa", "Ġab"]
    content = build_byte_level_json(
        {name: n for n, name in enumerate(names)}, ["Ġ a", "Ġa b", "a b"], prefix_space=False
    )
    special = SpecialIds(bos=1, eos=1, others=frozenset({0}))
    old = HuggingFaceTokenizer(content, special=special, prefix_ids=(0,))
    new = Listed(["▁ab", "ab", "▁abc", "abc", "▁c", "z"], lowercase=False)
    descent = VocabularyMapping.from_tokenizers([old], new)
    told = {
        new.to_pieces([n])[0]: [names[p] for p in descent.old_ids[descent.new_ids == n]]
        for n in range(UNK + 1, new.size)
    }
    assert told == {"▁ab": ["Ġab"], "ab": ["ab"], "▁abc": ["Ġab", "c"], "abc": ["ab", "c"], "▁c": ["Ġ", "c"], "z": []}


class Listed(WordTokenizer):  # type: ignore[misc]  # pieces with marks, however a text is cut
    def get_continuation_mask(self) -> Bool[np.ndarray, " size"]:
        return np.array([not piece.startswith("▁") for piece in self.to_pieces(range(self.size))])


class Cut(WordTokenizer):  # type: ignore[misc]  # the same ids, another way to cut
    def __init__(self, words: Sequence[str], *, lowercase: bool, ids: Sequence[int] = (4,)) -> None:
        super().__init__(words, lowercase=lowercase)
        self._cut = list(ids)

    def encode(self, text: str) -> list[int]:
        return self._cut if "abc" in text else super().encode(text)
