"""Normalization of letters before WordPiece, as the files of a folder specify it, compared with transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.errors import RunError

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra: hf)")

from reference.test_hugging_face import _silence_transformers, save_model, write  # noqa: E402, F401 - a fixture

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "café", "Cafe", "Café", "日", "本", "日本"]
TEXT = "Café café 日本 zzz"


def create_folder(path: Path, pieces: list[str], **settings: Any) -> Path:
    """Create a BERT whose vocabulary is vocab.txt."""
    path.mkdir(exist_ok=True)
    (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    write(path / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **settings})
    config = transformers.BertConfig(
        vocab_size=len(pieces), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=16,
    )  # fmt: skip
    save_model(transformers.BertModel(config), path)
    return path


def tokenize(path: Path, text: str = TEXT) -> list[str]:
    tokenizer = heedful.load(path, device="cpu").tokenizer
    return list(tokenizer.to_pieces(tokenizer.encode(text)))


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["cafe", "cafe", "日", "本", "[UNK]"]),
    ({"do_lower_case": None}, ["cafe", "cafe", "日", "本", "[UNK]"]),
    ({"do_lower_case": True}, ["cafe", "cafe", "日", "本", "[UNK]"]),
    ({"do_lower_case": False}, ["Café", "café", "日", "本", "[UNK]"]),
    ({"do_lower_case": True, "strip_accents": False}, ["café", "café", "日", "本", "[UNK]"]),
    ({"do_lower_case": False, "strip_accents": True}, ["Cafe", "cafe", "日", "本", "[UNK]"]),
    ({"tokenize_chinese_chars": False}, ["cafe", "cafe", "日本", "[UNK]"]),
]


@pytest.mark.parametrize(("settings", "expected"), CASES, ids=lambda each: str(each) if isinstance(each, dict) else "")
def test_letters_with_a_list_of_pieces(settings: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    assert tokenize(create_folder(tmp_path, PIECES, **settings)) == expected
    if settings.get("do_lower_case", True) is not None:
        assert transformers.AutoTokenizer.from_pretrained(tmp_path).tokenize(TEXT) == expected


@pytest.mark.parametrize("written", [True, False], ids=["lower", "cased"])
@pytest.mark.parametrize(
    ("settings", "expected"), CASES[2:], ids=lambda each: str(each) if isinstance(each, dict) else ""
)
def test_settings_have_priority_over_the_tokenizer_file(
    settings: dict[str, Any], expected: list[str], written: bool, tmp_path: Path
) -> None:
    """tokenizer.json has another setting of case, and tokenizer_config.json wins."""
    create_folder(tmp_path, PIECES, **{"do_lower_case": True, **settings})
    learned = tokenizers.BertWordPieceTokenizer(str(tmp_path / "vocab.txt"), lowercase=written)
    learned.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "vocab.txt").unlink()
    assert tokenize(tmp_path) == expected


def test_missing_settings_are_taken_from_the_tokenizer_file(tmp_path: Path) -> None:
    create_folder(tmp_path, PIECES)
    learned = tokenizers.BertWordPieceTokenizer(str(tmp_path / "vocab.txt"), lowercase=False, strip_accents=True)
    learned.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "vocab.txt").unlink()
    assert tokenize(tmp_path) == ["Cafe", "cafe", "日", "本", "[UNK]"]


def test_the_unknown_piece_may_have_any_name(tmp_path: Path) -> None:
    pieces = ["<oov>" if piece == "[UNK]" else piece for piece in PIECES]
    path = create_folder(tmp_path, pieces, unk_token="<oov>")
    assert tokenize(path) == ["cafe", "cafe", "日", "本", "<oov>"]
    content = json.loads((path / "tokenizer_config.json").read_text())
    del content["unk_token"]
    write(path / "tokenizer_config.json", content)
    with pytest.raises(RunError, match=r"vocab\.txt: has no piece '\[UNK\]', the piece for unknown words"):
        heedful.load(path, device="cpu")
