# ruff: noqa: RUF001  # marks that look like others are meant
import errno
import hashlib
import json
import os
import random
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import (
    BOS,
    EOS,
    MASK,
    PAD,
    UNK,
    CharacterTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    WordTokenizer,
    learn_characters,
    learn_sentencepiece,
    learn_words,
)
from heedful.errors import DataError, RecipeError, RunError

SYLLABLES = ["ka", "lo", "Mi", "nu", "ße", "tra", "é", "Žo", "日", "本", "x", "12", "7"]
LETTERS = sorted(set("".join(SYLLABLES))) + list(".,!?-'")


def make_texts(count: int = 400) -> list[str]:
    rng = random.Random(11)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randrange(1, 5))) for _ in range(150)]
    lines = [" ".join(rng.choices(words, k=rng.randrange(2, 9))) + rng.choice(".!?,") for _ in range(count)]
    return ["-'".join(LETTERS), *lines]


LEARN: dict[str, Callable[[list[str], bool], Tokenizer]] = {
    "bpe": lambda texts, lowercase: learn_sentencepiece(texts, kind="bpe", size=120, lowercase=lowercase),
    "unigram": lambda texts, lowercase: learn_sentencepiece(texts, kind="unigram", size=90, lowercase=lowercase),
    "characters": lambda texts, lowercase: learn_characters(texts, size=None, lowercase=lowercase),
    "words": lambda texts, lowercase: learn_words(texts, size=100, lowercase=lowercase),
}
LOSSLESS = [kind for kind in LEARN if kind != "words"]


@pytest.fixture(scope="module", params=[False, True], ids=["cased", "lowercase"])
def lowercase(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def learned(*, lowercase: bool) -> dict[str, Tokenizer]:
    return {kind: learn(make_texts(), lowercase) for kind, learn in LEARN.items()}


@pytest.mark.parametrize("kind", LOSSLESS)
def test_decoding_gives_back_the_normalised_text(learned: dict[str, Tokenizer], kind: str, *, lowercase: bool) -> None:
    rng, tokenizer = random.Random(13), learned[kind]
    for _ in range(500):
        text = "".join(rng.choices([*LETTERS, *" \t\u00a0\u3000", "\uff11"], k=rng.randrange(25)))
        expected = " ".join(unicodedata.normalize("NFKC", text).split())
        expected = expected.lower() if lowercase else expected
        ids = tokenizer.encode(text)
        assert tokenizer.normalise(text) == expected
        assert tokenizer.decode(ids) == expected
        assert tokenizer.decode(np.array(ids, dtype=np.int64)) == expected
        assert not {PAD, BOS, EOS, UNK} & set(ids)


def test_words_come_back_from_ordinary_sentences() -> None:
    tokenizer = learn_words(['The "old" dog (3.5 years) doesn\'t bark, does it?'], size=None, lowercase=False)
    text = 'The dog, "old" (3.5 years), doesn\'t bark?'
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode("The cat?")) == "The ⁇?"
    assert tokenizer.to_pieces(tokenizer.encode("does it cat")) == ["does", "it", "<unk>"]


def test_every_kind_keeps_the_contract_of_ids(learned: dict[str, Tokenizer]) -> None:
    for tokenizer in learned.values():
        assert tokenizer.to_pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]
        assert len(set(tokenizer.to_pieces(range(tokenizer.size)))) == tokenizer.size
        ids = [i for text in make_texts() for i in tokenizer.encode(text)]
        assert max(ids) < tokenizer.size
        assert min(ids) >= UNK
        ids = tokenizer.encode("ka lo")
        assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == tokenizer.decode(ids)
        assert tokenizer.encode("") == tokenizer.encode(" \t\u3000") == []
        assert tokenizer.decode([]) == tokenizer.decode([PAD, BOS, EOS]) == ""
        assert tokenizer.encode("<s> </s> <pad>")[0] != BOS
        assert tokenizer.encode("ω")[-1] == UNK
        assert tokenizer.decode(tokenizer.encode("ω")) == "⁇"
        with pytest.raises(DataError, match=r"character 2 of a text is U\+D800"):
            tokenizer.encode("a\ud800")


def test_pieces_show_where_spaces_are(learned: dict[str, Tokenizer]) -> None:
    for kind in LOSSLESS:
        pieces = learned[kind].to_pieces(learned[kind].encode("ka lo"))
        assert "".join(pieces).removeprefix("▁") == "ka▁lo"


@pytest.mark.parametrize("kind", LEARN)
def test_saving_and_loading_changes_nothing(tmp_path: Path, learned: dict[str, Tokenizer], kind: str) -> None:
    tokenizer, path = learned[kind], tmp_path / "tokenizer.model"
    path.write_bytes(b"what was there before")
    tokenizer.save(path)
    again = load_tokenizer(path)
    assert type(again) is type(tokenizer)
    assert again.size == tokenizer.size
    texts = [*make_texts(), "SOMETHING Else ω"]
    assert [again.encode(text) for text in texts] == [tokenizer.encode(text) for text in texts]
    assert again.to_pieces(range(again.size)) == tokenizer.to_pieces(range(again.size))
    copy = tmp_path / "copy"
    again.save(copy)
    assert copy.read_bytes() == path.read_bytes()
    assert sorted(tmp_path.iterdir()) == [copy, path]


def test_the_saved_subwords_are_a_file_of_sentencepiece(tmp_path: Path) -> None:
    tokenizer, path = LEARN["bpe"](make_texts(), False), tmp_path / "a.model"
    tokenizer.save(path)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert all(theirs.encode(text) == tokenizer.encode(text) for text in make_texts())


FRESH = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_tokenizers import LEARN, make_texts
for kind, learn in LEARN.items():
    learn(make_texts(), True).save(Path(sys.argv[2]) / kind)
"""


@pytest.mark.slow
def test_two_fresh_processes_learn_the_same_bytes(tmp_path: Path) -> None:
    hashes = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        command = [sys.executable, "-c", FRESH, str(Path(__file__).parent), str(folder)]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        )
        assert done.stdout + done.stderr == "", "sentencepiece has a long log to print"
        hashes.append([hashlib.sha256((folder / kind).read_bytes()).hexdigest() for kind in LEARN])
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == len(LEARN)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_size_that_the_text_does_not_allow_is_less_or_names_one_that_it_does(kind: str) -> None:
    def learn(size: int) -> SentencePieceTokenizer:
        return learn_sentencepiece(make_texts(), kind=kind, size=size, lowercase=False)  # type: ignore[arg-type]

    largest = learn(99_999).size
    assert largest < 99_999
    assert learn(largest - 1).size == largest - 1
    assert learn(largest + 1).size == largest
    with pytest.raises(DataError, match=r"a vocabulary of 8 pieces is too small .* needs [0-9]+;") as small:
        learn(8)
    smallest = int(str(small.value).partition("needs ")[2].partition(";")[0])
    assert learn(smallest).size == smallest
    for size in (smallest - 1, 4, 0, -5):
        with pytest.raises(DataError, match=f"a vocabulary of {size} pieces"):
            learn(size)


@pytest.mark.parametrize("learn", [learn_characters, learn_words])
def test_listed_pieces_are_the_most_frequent_ones(learn: Callable[..., Tokenizer]) -> None:
    texts = ["b b b a a c d d", "a b"]
    counts = Counter("".join(texts) + " " if learn is learn_characters else " ".join(texts).split())
    del counts[" "]
    offset = 4 + (learn is learn_characters)
    tokenizer = learn(texts, size=offset + 2, lowercase=False)
    assert set(tokenizer.to_pieces(range(4, tokenizer.size))) - {"▁"} == {piece for piece, _ in counts.most_common(2)}
    assert learn(texts, size=None, lowercase=False).size == offset + 4
    assert learn(texts, size=offset + 4, lowercase=False).size == offset + 4
    assert learn(texts, size=20, lowercase=False).size == offset + 4, "a short text has fewer"
    with pytest.raises(DataError, match="a vocabulary of 4 pieces is too small"):
        learn(texts, size=4, lowercase=False)


@pytest.mark.parametrize("kind", LEARN)
@pytest.mark.parametrize("texts", [[], [""], ["", " \t", "\u200b"]])
def test_nothing_to_read_is_an_error(kind: str, texts: list[str]) -> None:
    with pytest.raises(DataError, match="there is no text to learn"):
        LEARN[kind](texts, False)


@pytest.mark.parametrize("kind", LEARN)
def test_errors_of_the_texts_pass_through_learning(kind: str) -> None:
    def texts() -> Iterator[str]:
        yield from make_texts()
        raise DataError("a.en:7: a NUL character")

    with pytest.raises(DataError, match=r"^a\.en:7: a NUL character$"):
        LEARN[kind](texts(), False)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"U\+DC00"):
        LEARN[kind]([*make_texts(), "\udc00"], False)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_long_text_without_a_space_is_learned_from_whole(kind: str) -> None:
    long = "ab" * 100_000 + "ω"
    tokenizer = learn_sentencepiece([*make_texts(), long], kind=kind, size=80, lowercase=False)  # type: ignore[arg-type]
    assert UNK not in tokenizer.encode("ω")
    assert tokenizer.decode(tokenizer.encode(long)) == long


def test_rare_characters_go_when_coverage_is_lower() -> None:
    texts = [*make_texts(), "ω"]
    whole = learn_sentencepiece(texts, kind="bpe", size=120, lowercase=False)
    part = learn_sentencepiece(texts, kind="bpe", size=120, lowercase=False, character_coverage=0.999)
    assert UNK not in whole.encode("ω")
    assert UNK in part.encode("ω")
    with pytest.raises(RecipeError, match=r"character_coverage is 0\.5"):
        learn_sentencepiece(texts, kind="bpe", size=120, lowercase=False, character_coverage=0.5)


def test_a_sample_of_the_sentences_is_learned_from_the_same_each_time() -> None:
    def learn(sentences: int) -> list[str]:
        tokenizer = learn_sentencepiece(
            make_texts(3000), kind="bpe", size=100, lowercase=False, max_sentences=sentences, character_coverage=0.99
        )
        return tokenizer.to_pieces(range(tokenizer.size))

    assert learn(300) == learn(300) != learn(3001)


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"gone\.model: cannot be read"):
        load_tokenizer(tmp_path / "gone.model")
    with pytest.raises(RunError, match="cannot be read"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("kind", LEARN)
def test_a_cut_tokenizer_file_is_refused(tmp_path: Path, learned: dict[str, Tokenizer], kind: str) -> None:
    path = tmp_path / "a.model"
    learned[kind].save(path)
    whole = path.read_bytes()
    for length in (0, 1, 10, len(whole) // 3, len(whole) - 4):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match=r"a\.model: "):
            load_tokenizer(path)


@pytest.mark.parametrize(
    "content",
    [
        b"not a model",
        b"{}}",
        b"{" + b'"a":[' * 100_000,
        b'{"format": 1, "kind": "morse", "lowercase": true, "pieces": ["a"]}',
        b'{"format": 1, "kind": ["words"], "lowercase": true, "pieces": ["a"]}',
        b'{"format": 1, "kind": "words", "lowercase": 1, "pieces": ["a"]}',
        b'{"format": 1, "kind": "words", "lowercase": true, "pieces": ["a", "a"]}',
        b'{"format": 1, "kind": "words", "lowercase": true, "pieces": ["a", ""]}',
        b'{"format": 1, "kind": "words", "lowercase": true, "pieces": ["a", 1]}',
        b'{"format": 1, "kind": "words", "lowercase": true, "pieces": "ab"}',
        b'{"format": 1, "kind": "words", "lowercase": true, "pieces": ["\xff"]}',
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.model"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"a\.model: is not a tokenizer, or is damaged"):
        load_tokenizer(path)


def test_a_tokenizer_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.model"
    WordTokenizer(["a"], lowercase=False).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))
    with pytest.raises(RunError, match="tokenizer format 2, but this heedful reads 1"):
        load_tokenizer(path)


def test_a_sentencepiece_model_with_other_special_ids_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.model"
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(make_texts()), model_writer=file, vocab_size=90, minloglevel=3
        )
    with pytest.raises(RunError, match=r"have the ids \(-1, 1, 2, 0\) where heedful needs \(0, 1, 2, 3\)"):
        load_tokenizer(path)


def test_a_full_disk_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.model"
    CharacterTokenizer(["a"], lowercase=False).save(path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"a.model: cannot be written \(No space left on device\)"):
        CharacterTokenizer(["b"], lowercase=False).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_none_cannot_be_saved_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "a.model", tmp_path / "missing" / "a.model"):
        with pytest.raises(RunError, match=r"a\.model: cannot be written"):
            WordTokenizer(["a"], lowercase=False).save(path)


MASKED: dict[str, Callable[[list[str]], Tokenizer]] = {
    "bpe": lambda texts: learn_sentencepiece(texts, kind="bpe", size=120, lowercase=False, masked=True),
    "unigram": lambda texts: learn_sentencepiece(texts, kind="unigram", size=90, lowercase=False, masked=True),
    "characters": lambda texts: learn_characters(texts, size=None, lowercase=False, masked=True),
    "verbatim": lambda texts: learn_characters(texts, size=None, lowercase=False, verbatim=True, masked=True),
    "words": lambda texts: learn_words(texts, size=100, lowercase=False, masked=True),
}


@pytest.mark.parametrize("kind", MASKED)
def test_a_mask_has_an_id_that_no_text_reaches(kind: str, tmp_path: Path) -> None:
    texts = make_texts()
    tokenizer = MASKED[kind](texts)
    assert tokenizer.special.mask == MASK
    assert tokenizer.special.suppressed_ids == (PAD, BOS, MASK)
    for text in (*texts[:50], "<mask> [MASK]", "<mask>"):
        assert MASK not in tokenizer.encode(text)
    assert tokenizer.decode([MASK]) == ""
    tokenizer.save(tmp_path / "t")
    again = load_tokenizer(tmp_path / "t")
    assert again.special == tokenizer.special
    assert [again.encode(text) for text in texts[:50]] == [tokenizer.encode(text) for text in texts[:50]]


@pytest.mark.parametrize("kind", MASKED)
def test_gaps_stand_where_they_were_written(kind: str) -> None:
    """Around a gap, text is cut as it would be beside some word; a gap swallows the space that its word would carry."""
    texts = make_texts()
    tokenizer = MASKED[kind](texts)
    for text in texts[1:40]:
        words = text.split(" ")
        for place in (0, len(words) // 2, len(words) - 1):
            holed = " ".join("[MASK]" if number == place else word for number, word in enumerate(words))
            ids = tokenizer.encode_with_masks(holed)
            assert ids.count(MASK) == 1
            at = ids.index(MASK)
            before, after = " ".join(words[:place]), " ".join(words[place + 1 :])
            assert tokenizer.decode(ids[:at]).strip() == tokenizer.decode(tokenizer.encode(before)).strip()
            assert tokenizer.decode(ids[at + 1 :]).strip() == tokenizer.decode(tokenizer.encode(after)).strip()
            if kind in ("bpe", "unigram"):
                assert "▁" not in tokenizer.to_pieces(ids[max(0, at - 1) : at])
    assert tokenizer.encode_with_masks("[MASK] [MASK]").count(MASK) == 2
    assert tokenizer.encode_with_masks("[MASK][MASK]").count(MASK) == 2
    assert tokenizer.encode_with_masks("x ___ y", blank="___").count(MASK) == 1


def test_a_vocabulary_without_a_mask_fills_no_gap() -> None:
    with pytest.raises(DataError, match="no mask piece"):
        WordTokenizer(["a"], lowercase=False).encode_with_masks("a [MASK]")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "verbatim", "words"])
def test_pieces_that_go_on_with_a_word_are_told(kind: str) -> None:
    texts = make_texts()
    tokenizer = MASKED[kind](texts)
    continues = tokenizer.get_continuation_mask()
    for text in texts[1:30]:
        ids = tokenizer.encode(text)
        begins = sum(not continues[number] for number in ids)
        if kind == "words":
            assert begins == len(ids)
        elif kind == "verbatim":
            assert begins == text.count(" ")
        else:
            assert begins == len(text.split())


MARKED = ["你好1，你们1？（好）", "wait… ½ of the ﬁle — “so” it is", "e\u0301té № 5 a²"] * 20
COMPOSING: dict[str, Callable[[list[str]], Tokenizer]] = {
    "bpe": lambda texts: learn_sentencepiece(texts, kind="bpe", size=120, lowercase=False, uses_nfc=True),
    "unigram": lambda texts: learn_sentencepiece(texts, kind="unigram", size=120, lowercase=False, uses_nfc=True),
    "characters": lambda texts: learn_characters(texts, size=None, lowercase=False, uses_nfc=True),
    "words": lambda texts: learn_words(texts, size=None, lowercase=False, uses_nfc=True),
}


@pytest.mark.parametrize("kind", COMPOSING)
def test_what_is_written_keeps_its_own_marks(kind: str, tmp_path: Path) -> None:
    tokenizer = COMPOSING[kind](MARKED)
    tokenizer.save(tmp_path / "pieces")
    loaded = load_tokenizer(tmp_path / "pieces")
    for each in (tokenizer, loaded):
        assert each.uses_nfc
        for text in MARKED[:3]:
            own = unicodedata.normalize("NFC", text)
            assert each.normalise(f"\u3000 {text}\t") == own
            assert UNK not in each.encode(text)
            read = each.decode(each.encode(text))
            assert read.replace(" ", "") == own.replace(" ", "") if kind == "words" else read == own
            assert "".join(each.get_surfaces(text)).replace(" ", "") == own.replace(" ", "")
    assert loaded.sha256 == tokenizer.sha256


@pytest.mark.parametrize("kind", COMPOSING)
def test_sources_of_a_shared_vocabulary_are_read_alike(kind: str) -> None:
    tokenizer = COMPOSING[kind]([*MARKED, "wait... of the file , ? ( ) 1/2 a b"] * 2)
    source = tokenizer.with_nfkc()
    assert source.normalise("ﬁle，a") == "file,a"
    assert source.encode("the ﬁle") == source.encode("the file") == tokenizer.encode("the file")
    assert tokenizer.encode("ﬁle") != tokenizer.encode("file")
    assert (source.size, source.sha256) == (tokenizer.size, tokenizer.sha256)
    assert not tokenizer.uses_nfkc_first


@pytest.mark.parametrize("kind", LEARN)
def test_vocabularies_of_older_runs_read_as_they_did(kind: str, tmp_path: Path) -> None:
    LEARN[kind]([*make_texts(60), "a,b... c"], False).save(tmp_path / "pieces")
    loaded = load_tokenizer(tmp_path / "pieces")
    assert not loaded.uses_nfc
    assert loaded.normalise("a，b…") == "a,b..."


def test_older_versions_refuse_what_they_would_read_otherwise(tmp_path: Path) -> None:
    COMPOSING["words"](MARKED).save(tmp_path / "pieces")
    record = json.loads((tmp_path / "pieces").read_text(encoding="utf-8"))
    assert record["kind"] not in ("words", "characters", "verbatim")


@pytest.mark.parametrize("kind", ["composed_words", "composed_characters", "composed_verbatim"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_a_vocabulary_in_nfc_is_neither_folded_nor_verbatim(kind: str, lowercase: bool, tmp_path: Path) -> None:
    record = {"format": 1, "kind": kind, "lowercase": lowercase, "pieces": ["a"]}
    (tmp_path / "pieces").write_text(json.dumps(record), encoding="utf-8")
    if lowercase or kind == "composed_verbatim":
        with pytest.raises(RunError, match="damaged"):
            load_tokenizer(tmp_path / "pieces")
    else:
        assert load_tokenizer(tmp_path / "pieces").uses_nfc
