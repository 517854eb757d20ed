"""Vocabularies from files: SentencePiece models, tokenizer.json, and codes of subword-nmt."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from heedful.data.adopted_tokenizers import adopt_vocabulary
from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import BOS, EOS, MASK, PAD, UNK, Tokenizer, learn_sentencepiece
from heedful.errors import DataError

WORDS = ["the", "cat", "sat", "unwashed", "washing", "machine", "machines", "12", "été", "größer", "don't", "日本"]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=n % 9 + 1)) + " ." for n in range(300)]
CODES = ["t h", "th e</w>", "a t</w>", "c at</w>", "s at</w>", "w a", "wa s", "was h", "i n", "in g</w>", "m a"]


def write_sentencepiece(path: Path, **options: Any) -> sentencepiece.SentencePieceProcessor:
    prefix = str(path.with_suffix(""))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_prefix=prefix, minloglevel=3, hard_vocab_limit=False,
        **{"vocab_size": 70, "model_type": "unigram", **options},
    )  # fmt: skip
    Path(f"{prefix}.model").rename(path)
    return sentencepiece.SentencePieceProcessor(str(path))


def write_json(path: Path, kind: str) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    if kind == "byte_level":
        learned = tokenizers.ByteLevelBPETokenizer()
        learned.train_from_iterator(TEXTS, vocab_size=340, show_progress=False, special_tokens=["<|endoftext|>"])
    else:
        learned = tokenizers.BertWordPieceTokenizer(lowercase=False, strip_accents=False)
        learned.train_from_iterator(TEXTS, vocab_size=120, show_progress=False)
    learned.save(str(path))
    return learned


def save_and_load(tokenizer: Tokenizer, path: Path) -> Tokenizer:
    tokenizer.save(path)
    again = load_tokenizer(path)
    assert (again.size, again.special, dict(again.tag_ids)) == (
        tokenizer.size,
        tokenizer.special,
        dict(tokenizer.tag_ids),
    )
    assert again.sha256 == tokenizer.sha256
    return again


def check(tokenizer: Tokenizer, folder: Path) -> None:
    """Check what holds for every vocabulary."""
    again = save_and_load(tokenizer, folder / "vocabulary")
    assert (tokenizer.special.bos, tokenizer.special.eos, tokenizer.special.unk) == (BOS, EOS, UNK)
    for text in TEXTS[:60]:
        ids = tokenizer.encode(text)
        assert ids == again.encode(text)
        assert tokenizer.decode(ids) == again.decode(ids) == text
        assert min(ids) > UNK
        spans = compute_offsets(tokenizer, text)
        assert "".join(text[start:stop] for start, stop in dict.fromkeys(spans)) == text.replace(" ", "")
    assert not tokenizer.get_continuation_mask()[:4].any()
    assert tokenizer.to_pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]


@pytest.mark.parametrize("options", [{}, {"model_type": "bpe"}, {"pad_id": 3, "unk_id": 7}, {"bos_id": -1}])
def test_a_sentencepiece_model_of_any_order(options: dict[str, Any], tmp_path: Path) -> None:
    theirs = write_sentencepiece(tmp_path / "any.model", **options)
    mine = adopt_vocabulary(tmp_path / "any.model", (), lowercase=False, tags=["<2de>"])
    check(mine, tmp_path)
    for text in TEXTS[:60]:
        assert mine.to_pieces(mine.encode(text)) == theirs.encode_as_pieces(text)
    assert mine.with_tags(["<2de>"]).encode("the cat")[0] == mine.tag_ids["<2de>"] == 4
    unknown = mine.encode("the λ cat")
    assert UNK in unknown
    assert mine.decode(unknown).split() == ["the", "⁇", "cat"]
    num_special = sum(theirs.is_control(n) or theirs.is_unknown(n) for n in range(theirs.vocab_size()))
    assert mine.size == theirs.vocab_size() - num_special + 5


@pytest.mark.parametrize("kind", ["byte_level", "word_piece"])
def test_a_tokenizer_json(kind: str, tmp_path: Path) -> None:
    theirs = write_json(tmp_path / "tokenizer.json", kind)
    mine = adopt_vocabulary(tmp_path / "tokenizer.json", (), lowercase=False, masked=True)
    assert mine.special.mask == MASK
    for text in TEXTS[:60]:
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert len(mine.encode(text)) == len(ids)
        decoded = theirs.decode(ids)
        assert mine.decode(mine.encode(text)) == decoded.strip()
    again = save_and_load(mine, tmp_path / "vocabulary")
    assert again.encode(TEXTS[7]) == mine.encode(TEXTS[7])
    first, second = mine.encode("unwashed"), mine.encode("unwashed cat")
    continues = mine.get_continuation_mask()
    assert all(continues[first[1:]])
    assert not continues[second[len(first)]]
    assert mine.encode_with_masks("the [MASK] sat").count(MASK) == 1


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_codes_of_subword_nmt(version: str, tmp_path: Path) -> None:
    codes = CODES if version == "0.2" else [code.replace("</w>", " </w>") for code in CODES]
    if version == "0.1":  # the end of a word is a letter of its own there
        codes = ["t h", "th e", "the </w>", "a t", "at </w>", "c at</w>", "s at</w>", "w a", "wa s", "was h", "i n"]
    header = ["#version: 0.2"] if version == "0.2" else []
    (tmp_path / "codes").write_text("\n".join([*header, *codes]) + "\n", encoding="utf-8")
    mine = adopt_vocabulary(tmp_path / "codes", TEXTS, lowercase=False, masked=True, tags=["<x>"])
    check(mine, tmp_path)
    assert mine.to_pieces(mine.encode("the cat sat")) == ["▁the", "▁cat", "▁sat"]
    assert mine.to_pieces(mine.encode("unwashed")) == ["▁u", "n", "wash", "e", "d"]
    assert mine.encode("the λ")[-1] == UNK
    assert [bool(each) for each in mine.get_continuation_mask()[mine.encode("unwashed cat")]] == [
        False, True, True, True, True, False,
    ]  # fmt: skip


def test_codes_merge_every_pair_of_a_word_at_once(tmp_path: Path) -> None:
    """As subword-nmt: all `a b` become `ab` before the next merge is looked for."""
    (tmp_path / "codes").write_text("#version: 0.2\na b\nab ab\nb a\n", encoding="utf-8")
    mine = adopt_vocabulary(tmp_path / "codes", ["ababab x"], lowercase=False)
    assert mine.to_pieces(mine.encode("ababab")) == ["▁abab", "a", "b"]  # the last b ends the word


def test_case_is_folded_before_the_file_splits(tmp_path: Path) -> None:
    write_sentencepiece(tmp_path / "any.model")
    mine = save_and_load(adopt_vocabulary(tmp_path / "any.model", (), lowercase=True), tmp_path / "vocabulary")
    assert mine.encode("The CAT") == mine.encode("the cat")
    assert UNK not in mine.encode("The CAT")


def test_files_that_are_none_of_these(tmp_path: Path) -> None:
    for name, content in {
        "empty": b"",
        "text": b"three words here\n",
        "noise": bytes(range(200, 256)) * 9,
        "list": b"[1]",
        "object": json.dumps({"model": {"type": "WordLevel", "vocab": {"a": 0}}}).encode(),
        "version": b"#version: 9\na b\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=r"correct tokenizer\.path"):
            adopt_vocabulary(tmp_path / name, TEXTS, lowercase=False)
    with pytest.raises(DataError, match="cannot be read"):
        adopt_vocabulary(tmp_path / "missing", TEXTS, lowercase=False)


def test_a_vocabulary_of_heedful_is_one_too(tmp_path: Path) -> None:
    own = learn_sentencepiece(TEXTS, kind="bpe", size=60, lowercase=False)
    own.save(tmp_path / "own")
    mine = adopt_vocabulary(tmp_path / "own", (), lowercase=False)
    assert mine.size == own.size
    assert [mine.encode(text) for text in TEXTS[:20]] == [own.encode(text) for text in TEXTS[:20]]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_texts_that_are_not_normalised(kind: str, tmp_path: Path) -> None:
    texts = ["今天\uff0c天气很好。", "\u0645\u06cc\u200c\u062e\u0648", "e\u0301 é ﬁne… ½"] * 30
    raw = learn_sentencepiece(texts, kind=kind, size=60, lowercase=False, normalizes=False)  # type: ignore[arg-type]
    nfc = learn_sentencepiece(texts, kind=kind, size=60, lowercase=False, uses_nfc=True)  # type: ignore[arg-type]
    for text in texts[:3]:
        assert raw.decode(raw.encode(text)) == text
    assert dict(raw.tag_ids) == {}
    again = save_and_load(raw, tmp_path / "vocabulary")
    assert again.decode(again.encode(texts[2])) == texts[2]
    assert nfc.decode(nfc.encode(texts[2])) == "é é ﬁne… ½"
    assert nfc.decode(nfc.encode(texts[1])) == texts[1]
