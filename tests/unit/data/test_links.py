"""Links of words: what files say, and what pieces and batches make of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heedful.data.corpus import Corpus, build_pair_encoder, write_corpus
from heedful.data.readers import ReversedPairs, SentencePair, TsvPairReader
from heedful.data.tokenizers import BOS, CharacterTokenizer, learn_sentencepiece
from heedful.data.word_alignments import (
    LINKS_SIDE,
    AlignedPairs,
    build_aligned_encoder,
    collate_aligned_pairs,
    map_pieces_to_words,
    parse_links,
    project_links,
)
from heedful.errors import DataError

LETTERS = CharacterTokenizer("abcdefgh ", lowercase=False)


def reader(folder: Path, pairs: list[tuple[str, str]], links: str) -> AlignedPairs:
    (folder / "t.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (folder / "t.align").write_text(links)
    return AlignedPairs(TsvPairReader(folder / "t.tsv"), folder / "t.align")


def test_links_come_with_their_pairs(tmp_path: Path) -> None:
    pairs = [("a b", "c d e"), ("", "f"), ("g", "h")]
    found = reader(tmp_path, pairs, "1-0  0-2\n\n\n")
    for _ in range(2):
        assert [(each.source, each.target, each.links) for each in found] == [
            ("a b", "c d e", ((1, 0), (0, 2))),
            ("", "f", ()),
            ("g", "h", ()),
        ]
    assert [path.name for path in found.paths] == ["t.tsv", "t.align"], "both are hashed"


@pytest.mark.parametrize("word", ["0", "0-", "-1", "0--1", "0p0", "a-b", "1.0-0", "²-0", "9999999999-0", "0-0,"])
def test_what_is_no_link_is_named_with_its_place(word: str) -> None:
    with pytest.raises(DataError, match=r"^x:3: ") as raised:
        parse_links(f"0-0 {word} 1-1", location="x:3")
    assert repr(word) in str(raised.value)
    assert parse_links("", location="x:1") == ()


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("0-0\n", r"t\.tsv: 2 pairs, but .*t\.align has 1 lines"),
        ("0-0\n\n\n\n", r"t\.tsv: 2 pairs, but .*t\.align has 4 lines"),
        ("2-0\n\n", r"t\.align:1: link 2-0 has no source word: .*t\.tsv:1 has 2 there"),
        ("1-1\n\n", r"t\.align:1: link 1-1 has no target word: .*t\.tsv:1 has 1 there"),
        ("\n0-0\n", r"t\.align:2: link 0-0 has no source word: .*t\.tsv:2 has 0 there"),
        ("0_0\n\n", r"t\.align:1: '0_0' is not a link"),
    ],
)
def test_files_that_do_not_fit_are_told(tmp_path: Path, links: str, message: str) -> None:
    found = reader(tmp_path, [("a b", "c"), ("", "d")], links)
    with pytest.raises(DataError, match=message):
        list(found)


def test_a_file_that_is_missing_is_told_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tb\n")
    with pytest.raises(DataError, match=r"t\.align: there is no such file"):
        AlignedPairs(TsvPairReader(tmp_path / "t.tsv"), tmp_path / "t.align")


def test_every_piece_of_a_word_is_linked_with_every_piece_of_the_other() -> None:
    """Against all pairs of pieces, in a vocabulary that cuts words."""
    texts = ["kleine Hunde laufen", "ein Hund läuft , sagt er", "der kleinste Hund"] * 9
    tokenizer = learn_sentencepiece(texts, kind="bpe", size=40, lowercase=True)
    source, target, links = "Der  KLEINSTE Hund", "kleine , Hunde sagt", [(1, 0), (2, 2), (1, 2), (1, 0)]
    words = map_pieces_to_words(tokenizer, source), map_pieces_to_words(tokenizer, target)
    found = project_links(links, source=words[0], target=words[1])
    assert found == [
        (s, t) for s, one in enumerate(words[0]) for t, other in enumerate(words[1]) if (one, other) in links
    ]
    assert len(found) > len(set(links)), "words are cut"


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    pairs = [
        SentencePair("ab c", "de f", "x:1", links=((0, 1), (1, 0))),
        SentencePair("", "d", "x:2"),
        SentencePair("a", "b", "x:3"),
        SentencePair("aaaaaaaaaaaa", "b", "x:4", links=((0, 0),)),
        SentencePair("a bc", "d", "x:5", links=((0, 0), (1, 0))),
    ]
    encoding = build_aligned_encoder(build_pair_encoder(LETTERS, LETTERS, max_length=9), LETTERS, LETTERS)
    return write_corpus(tmp_path / "c", pairs, encoder=encoding)


def test_a_corpus_keeps_links_beside_the_pairs_that_it_keeps(corpus: Corpus) -> None:
    """Spaces are linked with nothing, ends with each other; pairs that are dropped take their links with them."""
    assert (corpus.report.kept, corpus.report.empty, corpus.report.too_long) == (3, 1, 1)
    assert corpus[LINKS_SIDE][0].tolist() == [[0, 3], [1, 3], [3, 0], [3, 1], [4, 4]]
    assert corpus[LINKS_SIDE][1].tolist() == [[1, 1]]
    assert corpus[LINKS_SIDE][2].tolist() == [[0, 0], [2, 0], [3, 0], [4, 1]]
    plain = build_pair_encoder(LETTERS, LETTERS, max_length=9)
    assert corpus["source"][2].tolist() == plain.encode(SentencePair("a bc", "d", ""))[0]


def test_batches_know_the_share_of_each_link(corpus: Corpus) -> None:
    batch = collate_aligned_pairs(corpus, np.array([2, 0]), bos=BOS)
    found = {tuple(link): share for link, share in zip(batch.links.tolist(), batch.link_weights.tolist(), strict=True)}
    third, half = pytest.approx(1 / 3), pytest.approx(0.5)
    first = {(0, 0, 0): third, (0, 0, 2): third, (0, 0, 3): third, (0, 1, 4): 1.0}
    second = {(1, 3, 0): half, (1, 3, 1): half, (1, 0, 3): 1.0, (1, 1, 3): 1.0, (1, 4, 4): 1.0}
    assert found == {**first, **second}
    assert batch.num_linked_labels == 6
    assert batch.labels[0].tolist() == [*LETTERS.encode("d"), 2, -1, -1, -1]
    empty = collate_aligned_pairs(corpus, np.array([], dtype=int), bos=BOS)
    assert (len(empty.links), empty.num_linked_labels) == (0, 0)


def test_a_text_whose_pieces_are_lost_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = build_aligned_encoder(build_pair_encoder(LETTERS, LETTERS, max_length=9), LETTERS, LETTERS)
    monkeypatch.setattr(type(LETTERS), "get_surfaces", lambda *_: ["b"])
    with pytest.raises(DataError, match=r"^x:7: character 1 of a text"):
        encoding.encode(SentencePair("a", "a", "x:7", links=((0, 0),)))
    encoding.encode(SentencePair("a", "a", "x:7"))


def test_tags_are_linked_with_nothing_and_links_turn_with_their_sides(tmp_path: Path) -> None:
    tagged = CharacterTokenizer("abcdef ", lowercase=False, tags=("<2x>",))
    encoding = build_aligned_encoder(build_pair_encoder(tagged, tagged, max_length=9), tagged, tagged)
    plain, led = (encoding.encode(SentencePair("a b", "c", "", tags, ((0, 0),))) for tags in ((), ("<2x>",)))
    assert len(led[0] or ()) == len(plain[0] or ()) + 1
    assert np.array(led[2]).tolist() == np.add(plain[2], [1, 0]).tolist()
    (tmp_path / "t.tsv").write_text("a b\tc\n")
    (tmp_path / "links").write_text("1-0\n")
    (turned,) = ReversedPairs(AlignedPairs(TsvPairReader(tmp_path / "t.tsv"), tmp_path / "links"))
    assert (turned.source, turned.links) == ("c", ((0, 1),))
