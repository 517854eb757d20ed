"""Texts to be continued: whole files, blocks, lines, or fields of JSON, as documents that end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

from heedful.data.readers import Reader, read_lines, records

if TYPE_CHECKING:
    from heedful.data.corpus import Encoding
    from heedful.data.tokenizers import Tokenizer

_PART = 2**20
"""Characters after which a document may be handed on in parts, so that one of any length can be read."""


class Document(NamedTuple):
    """A document or a part of one; `ends` says whether it is the last part."""

    text: str
    ends: bool


@final
class PlainText(Reader[Document]):
    """One file as one document; its lines end with a line feed, whatever they ended with."""

    def __iter__(self) -> Iterator[Document]:
        part: list[str] = []
        size = 0
        for line in read_lines(self.paths[0]):
            if size > _PART:
                yield Document("".join(part), ends=False)
                part, size = [], 0
            part.append(f"{line}\n")
            size += len(line) + 1
        if part:
            yield Document("".join(part), ends=True)


@final
class Lines(Reader[Document]):
    """A document on each line; empty lines are none."""

    def __iter__(self) -> Iterator[Document]:
        return (Document(line, ends=True) for line in read_lines(self.paths[0]) if line.strip())


@final
class BlankSeparated(Reader[Document]):
    """Documents with one or more empty lines between them, as BERT's pre-training data has them."""

    def __iter__(self) -> Iterator[Document]:
        lines: list[str] = []
        for line in read_lines(self.paths[0]):
            if line.strip():
                lines.append(line)
            elif lines:
                yield Document("\n".join(lines), ends=True)
                lines = []
        if lines:
            yield Document("\n".join(lines), ends=True)


@final
class JsonlDocuments(Reader[Document]):
    """A document in a field of each line's JSON object."""

    def __init__(self, path: Path, *, field: str) -> None:
        super().__init__(path)
        self._field = field

    def __iter__(self) -> Iterator[Document]:
        texts = (record.text(self._field) for _, record in records(self.paths[0]))
        return (Document(text, ends=True) for text in texts if text)


def document_encoding(tokenizer: Tokenizer) -> Encoding[Document]:
    """A document as its ids, with its end."""
    from heedful.data.corpus import Encoding  # which needs torch

    eos = tokenizer.special.eos

    def encode(document: Document) -> tuple[list[int]]:
        ids = tokenizer.encode(document.text)
        return ([*ids, eos] if ids and document.ends else ids,)

    return Encoding({"text": tokenizer.size}, encode, identity=lambda document: document.text)
