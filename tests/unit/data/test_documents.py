"""Documents as they are read and encoded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from heedful.data import documents
from heedful.data.corpus import write_corpus
from heedful.data.documents import DocumentChunk, JsonlDocuments, LineDocuments, PlainTextReader, build_document_encoder
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import EOS, learn_characters
from heedful.errors import DataError

TEXT = "First Citizen:\nSpeak,  speak.\n\n\tAll:\n"


def test_a_text_is_read_to_the_letter(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_bytes(TEXT.replace("\n", "\r\n").encode())
    zipped.write_bytes(gzip.compress(TEXT.encode()))
    for path in (plain, zipped):
        assert list(PlainTextReader(path)) == [DocumentChunk(TEXT, is_last=True)]


def test_a_long_text_comes_in_parts_of_which_the_last_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_CHUNK_CHARACTERS", 20)
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 5)
    parts = list(PlainTextReader(path))
    assert len(parts) > 3
    assert "".join(part.text for part in parts) == TEXT * 5
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]


def test_lines_and_fields_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n\n  \ntwo words\n")
    assert [document.text for document in LineDocuments(path)] == ["one", "two words"]
    path.write_text("\n".join(json.dumps({"body": text}) for text in ("a\nb", "", "c")) + "\n\n")
    assert [document.text for document in JsonlDocuments(path, field="body")] == ["a\nb", "c"]
    with pytest.raises(DataError, match=r"a\.txt:1: no field 'text' \(available: 'body'\)"):
        list(JsonlDocuments(path, field="text"))
    with pytest.raises(DataError, match="there is no such file"):
        LineDocuments(tmp_path / "gone")


def test_the_stream_is_the_text_and_the_ends_of_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_CHUNK_CHARACTERS", 20)
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 2)
    tokenizer = learn_characters([TEXT], size=None, lowercase=False, verbatim=True)
    stream = write_corpus(tmp_path / "c", PlainTextReader(path), encoder=build_document_encoder(tokenizer))[
        "text"
    ].stream
    assert tokenizer.decode(stream.tolist()) == TEXT * 2
    assert stream.tolist().count(EOS) == 1
    assert stream[-1] == EOS
    path.write_text("ab\ncd\n")
    stream = write_corpus(tmp_path / "c", LineDocuments(path), encoder=build_document_encoder(tokenizer))["text"].stream
    assert (stream == EOS).nonzero()[0].tolist() == [2, 5]


def test_verbatim_characters_keep_everything_and_survive_saving(tmp_path: Path) -> None:
    text = "A  b\tﬁ\n\n"
    verbatim = learn_characters([text], size=None, lowercase=False, verbatim=True)
    assert verbatim.decode(verbatim.encode(text)) == text
    assert verbatim.to_pieces(verbatim.encode("b \n")) == ["b", "▁", "↵"]
    verbatim.save(tmp_path / "t")
    again = load_tokenizer(tmp_path / "t")
    assert again.encode(text) == verbatim.encode(text)
    assert again.decode(again.encode(text)) == text
    normalised = learn_characters([text], size=None, lowercase=False)
    assert normalised.decode(normalised.encode(text)) == "A b fi"
    lower = learn_characters([text], size=None, lowercase=True, verbatim=True)
    assert lower.decode(lower.encode(text)) == text.lower()
