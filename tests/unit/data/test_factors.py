# ruff: noqa: RUF001  (U+FFE8 looks like a letter)
"""Factors of words: the case of letters, labels beside words, and what pieces and batches make of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heedful.data.batches import collate_encoded_sources, collate_pairs
from heedful.data.corpus import Corpus, build_factored_encoder, build_pair_encoder, write_corpus
from heedful.data.factors import (
    FACTORS_SIDE,
    CaseFactor,
    EncodedText,
    Factor,
    FactoredPairs,
    GivenFactor,
    SourceEncoder,
    attach_labels,
    load_factor,
    split_factors,
)
from heedful.data.labels import LabelVocabulary
from heedful.data.readers import SentencePair, TsvPairReader
from heedful.data.tokenizers import BOS, EOS, CharacterTokenizer, Tokenizer, WordTokenizer, learn_sentencepiece
from heedful.data.word_alignments import LINKS_SIDE, build_aligned_encoder
from heedful.errors import DataError, RunError

TEXT = "The dog's U.S. McDonald ΣΑΣ école École Anglo-Saxon 3 漢字 I e-Mail iPhone"
LETTERS = CharacterTokenizer("abcdefgh ", lowercase=False, tags=("<x>",)).with_lowercase()
POS = GivenFactor(LabelVocabulary(["NOUN", "VERB"]))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("the", ["lower"]),
        ("The", ["title"]),
        ("I", ["title"]),
        ("NATO", ["upper"]),
        ("McDonald", ["mixed"]),
        ("iPhone", ["mixed"]),
        ("dog's", ["lower"]),
        ("Don't", ["title"]),
        ("DON\u2019T", ["upper"]),
        ("Anglo-Saxon e-Mail", ["title", "title", "lower", "title"]),
        ("'The'", ["title"]),
        ("E\u0301cole", ["title"]),
        ("ΣΑΣ Σας", ["upper", "title"]),
        ("\u01c5epoch", ["title"]),
        ("3 漢字 _ ...", []),
        ("漢A", ["title"]),
        ("x2Y", ["lower", "title"]),
        ("", []),
    ],
)
def test_case_is_that_of_each_run_of_letters(text: str, names: list[str]) -> None:
    assert [CaseFactor.case_names[number] for *_, number in CaseFactor().iter_spans(text, ())] == names


def subwords(text: str) -> Tokenizer:
    return learn_sentencepiece(
        [text.lower(), "the and dog then"] * 9, kind="bpe", size=90, lowercase=False
    ).with_lowercase()


@pytest.mark.parametrize(
    "tokenizer",
    [
        subwords(TEXT),
        WordTokenizer(sorted({*TEXT.lower().split(), "dog"}), lowercase=False).with_lowercase(),
        CharacterTokenizer(sorted(set(TEXT.lower())), lowercase=False).with_lowercase(),
    ],
    ids=["subwords", "words", "characters"],
)
def test_every_piece_has_the_case_of_its_letters_and_upper_and_lower_case_share_pieces(tokenizer: Tokenizer) -> None:
    """Against each letter of the text: all letters of a run have one number, and what is no letter has none."""
    reading = SourceEncoder(tokenizer, {"case": CaseFactor()})
    found = reading.encode(TEXT)
    assert found.factors is not None
    assert found.ids == reading.encode(TEXT.upper()).ids == reading.encode(TEXT.lower()).ids
    told = dict.fromkeys(range(len(TEXT)), 0)
    for start, stop, number in CaseFactor().iter_spans(TEXT, ()):
        told |= dict.fromkeys(range(start, stop), number)
    surfaces, place = reading.get_surfaces(TEXT), 0
    assert len(surfaces) == len(found.ids)
    for surface, number in zip(surfaces, found.factors[:, 0], strict=True):
        if not surface:
            assert number == 0
            continue
        place = TEXT.index(surface, place)
        numbers = [told[at] for at in range(place, place + len(surface)) if told[at]]
        assert number == (numbers[0] if numbers else 0), surface
        place += len(surface)
    assert set(found.factors[:, 0]) == {0, 1, 2, 3, 4}, "all of them occur"


def test_without_factors_a_text_is_read_as_ever() -> None:
    plain = CharacterTokenizer("abc ", lowercase=False)
    found = SourceEncoder(plain, {}).encode("ab c￨x")
    assert (found.ids, found.factors) == (plain.encode("ab c￨x"), None)
    assert SourceEncoder(plain, {}).get_surfaces("ab c") == plain.get_surfaces("ab c")


def test_labels_go_from_words_to_all_of_their_pieces() -> None:
    reading = SourceEncoder(
        LETTERS.with_tags(["<x>"]),
        {"pos": POS, "case": CaseFactor(), "other": GivenFactor(LabelVocabulary(["VERB", "x"]))},
    )
    found = reading.encode(" ab￨VERB￨x  C￨NOUN￨VERB  dD￨new￨new ")
    assert found.factors is not None
    assert reading.tokenizer.to_pieces(found.ids) == ["<x>", "a", "b", "▁", "c", "▁", "d", "d"]
    assert found.factors.tolist() == [
        *([0, 0, 0], [2, 1, 2], [2, 1, 2], [0, 0, 0], [1, 2, 1], [0, 0, 0]),
        *([0, 4, 0], [0, 4, 0]),
    ]
    assert reading.strip_labels(" ab￨VERB￨x  C￨NOUN￨VERB ") == " ab  C "
    assert reading.get_surfaces("C￨NOUN￨x b￨NOUN￨x") == ["", "C", "", "b"]


@pytest.mark.parametrize("text", ["ab", "ab￨VERB c", "ab￨VERB￨x", "￨VERB", "ab￨"])
def test_a_word_without_its_labels_is_named(text: str) -> None:
    with pytest.raises(DataError, match="is not word￨pos: this model reads labels after each word") as raised:
        split_factors(text, ["pos"])
    assert repr(next(word for word in text.split() if word != "ab￨VERB")) in str(raised.value)


def test_labels_of_a_file_are_put_behind_their_words(tmp_path: Path) -> None:
    assert attach_labels("a  b\tc", "X Y￨1 Z", location="f:1") == "a￨X  b￨Y￨1\tc￨Z"
    assert attach_labels("", "", location="f:1") == ""
    (tmp_path / "t.tsv").write_text("a b\tx\n\ty\nc\tz\n")
    (tmp_path / "t.pos").write_text("X Y\n\nZ\n")
    found = FactoredPairs(TsvPairReader(tmp_path / "t.tsv"), tmp_path / "t.pos")
    for _ in range(2):
        assert [(each.source, each.target) for each in found] == [("a￨X b￨Y", "x"), ("", "y"), ("c￨Z", "z")]
    assert [path.name for path in found.paths] == ["t.tsv", "t.pos"], "both are hashed"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("X\n\nZ\n", r"t\.pos:1: has 1 labels, but its sentence has 2 words between white space, 'a b'"),
        ("X Y\nX\nZ\n", r"t\.pos:2: has 1 labels, but its sentence has 0 words"),
        ("X Y\n\n", r"t\.pos: has fewer lines than there are pairs"),
        ("X Y\n\nZ\n\n", r"t\.pos: has more lines than there are pairs"),
    ],
)
def test_labels_that_do_not_fit_are_told(tmp_path: Path, lines: str, message: str) -> None:
    (tmp_path / "t.tsv").write_text("a b\tx\n\ty\nc\tz\n")
    (tmp_path / "t.pos").write_text(lines)
    with pytest.raises(DataError, match=message):
        list(FactoredPairs(TsvPairReader(tmp_path / "t.tsv"), tmp_path / "t.pos"))
    with pytest.raises(DataError, match="has labels already"):
        attach_labels("a￨b", "X", location="f:1")


@pytest.mark.parametrize("factor", [CaseFactor(), POS], ids=["case", "given"])
def test_a_file_gives_back_a_factor(tmp_path: Path, factor: Factor) -> None:
    factor.save(tmp_path / "f.json")
    found = load_factor(tmp_path / "f.json")
    assert (type(found), found.size) == (type(factor), factor.size)
    found.save(tmp_path / "g.json")
    assert (tmp_path / "f.json").read_bytes() == (tmp_path / "g.json").read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": 1, "kind": "none"}',
        '{"format": 1, "kind": "given", "labels": [1]}',
        '{"format": 2, "kind": "case"}',
    ],
)
def test_a_file_of_something_else_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "f.json").write_text(content)
    with pytest.raises(RunError, match=r"f\.json: (holds no factor|factor format 2)"):
        load_factor(tmp_path / "f.json")


def test_a_corpus_keeps_factors_beside_the_pairs_that_it_keeps(tmp_path: Path) -> None:
    """As they are read one by one, whether links stand beside them or not, with nothing at ends and in padding."""
    reading = SourceEncoder(LETTERS, {"pos": POS, "case": CaseFactor()})
    pairs = [
        SentencePair("Ab￨VERB c￨NOUN", "d", "f:1", tags=("<x>",)),
        SentencePair("", "d", "f:2"),
        SentencePair("abcdefgh￨NOUN abcdefgh￨NOUN", "d", "f:3"),
        SentencePair("a￨NOUN", "efg", "f:4", links=((0, 0),)),
    ]
    plain = build_pair_encoder(LETTERS, LETTERS, max_length=12)
    for number, inside in enumerate((plain, build_aligned_encoder(plain, LETTERS, LETTERS))):
        encoding = build_factored_encoder(inside, reading, max_length=12)
        corpus: Corpus = write_corpus(tmp_path / f"{number}", pairs, encoder=encoding)
        assert (corpus.report.kept, corpus.report.empty, corpus.report.too_long) == (2, 1, 1)
        assert (LINKS_SIDE in corpus.sides) == bool(number)
        source = collate_pairs(corpus, np.array([1, 0]), bos=BOS, pad_to=4).source
        assert source.factors is not None
        assert source.factors.shape == (2, 8, 2)
        served = [
            collate_encoded_sources([reading.encode("a￨NOUN")], eos=EOS),
            collate_encoded_sources([reading.with_tags(["<x>"]).encode("Ab￨VERB c￨NOUN")], eos=EOS),
        ]
        for row, each in enumerate(served):
            assert each.factors is not None
            width = each.ids.size(1)
            assert source.ids[row, :width].tolist() == each.ids[0].tolist()
            assert source.factors[row, :width].tolist() == each.factors[0].tolist()
            assert not source.factors[row, width - 1 :].any()
        assert corpus[FACTORS_SIDE].lengths.tolist() == corpus["source"].lengths.tolist()


def test_sentences_are_padded_with_nothing_and_an_empty_one_is_its_end() -> None:
    reading = SourceEncoder(LETTERS, {"case": CaseFactor()})
    tokens = collate_encoded_sources([reading.encode(text) for text in ("", "aB", "C")], eos=EOS)
    assert tokens.factors is not None
    assert tokens.factors[:, :, 0].tolist() == [[0, 0, 0], [4, 4, 0], [2, 0, 0]]
    assert collate_encoded_sources([EncodedText([5]), EncodedText([6, 7])], eos=EOS).factors is None


def test_a_pair_whose_labels_are_missing_is_named(tmp_path: Path) -> None:
    encoding = build_factored_encoder(
        build_pair_encoder(LETTERS, LETTERS, max_length=12), SourceEncoder(LETTERS, {"pos": POS}), max_length=12
    )
    with pytest.raises(DataError, match=r"^f:7: 'b' is not word￨pos"):
        write_corpus(tmp_path / "c", [SentencePair("a￨NOUN b", "d", "f:7")], encoder=encoding)
