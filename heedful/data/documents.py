"""Texts to be continued: whole files, blocks, lines, or fields of JSON, as documents that end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

from heedful.data.readers import ExampleReader, read_lines, read_records

if TYPE_CHECKING:
    from heedful.data.corpus import ExampleEncoder
    from heedful.data.tokenizers import Tokenizer

_CHUNK_CHARACTERS = 2**20
"""Characters after which a document may be handed on in parts, so that one of any length can be read."""


class DocumentChunk(NamedTuple):
    """A document or a part of one; `is_last` says whether it is the last part."""

    text: str
    is_last: bool


@final
class PlainTextReader(ExampleReader[DocumentChunk]):
    """One file as one document; its lines end with a line feed, whatever they ended with."""

    def __iter__(self) -> Iterator[DocumentChunk]:
        lines: list[str] = []
        size = 0
        for line in read_lines(self.paths[0]):
            if size > _CHUNK_CHARACTERS:
                yield DocumentChunk("".join(lines), is_last=False)
                lines, size = [], 0
            lines.append(f"{line}\n")
            size += len(line) + 1
        if lines:
            yield DocumentChunk("".join(lines), is_last=True)


@final
class LineDocuments(ExampleReader[DocumentChunk]):
    """A document on each line; empty lines are none."""

    def __iter__(self) -> Iterator[DocumentChunk]:
        return (DocumentChunk(line, is_last=True) for line in read_lines(self.paths[0]) if line.strip())


@final
class BlankSeparatedDocuments(ExampleReader[DocumentChunk]):
    """Documents with one or more empty lines between them, as BERT's pre-training data has them."""

    def __iter__(self) -> Iterator[DocumentChunk]:
        lines: list[str] = []
        for line in read_lines(self.paths[0]):
            if line.strip():
                lines.append(line)
            elif lines:
                yield DocumentChunk("\n".join(lines), is_last=True)
                lines = []
        if lines:
            yield DocumentChunk("\n".join(lines), is_last=True)


@final
class JsonlDocuments(ExampleReader[DocumentChunk]):
    """A document in a field of each line's JSON object."""

    def __init__(self, path: Path, *, field: str) -> None:
        super().__init__(path)
        self._field = field

    def __iter__(self) -> Iterator[DocumentChunk]:
        texts = (record.get_text(self._field) for _, record in read_records(self.paths[0]))
        return (DocumentChunk(text, is_last=True) for text in texts if text)


def build_document_encoder(tokenizer: Tokenizer) -> ExampleEncoder[DocumentChunk]:
    """A document as its ids, with its end."""
    from heedful.data.corpus import ExampleEncoder  # which needs torch

    eos = tokenizer.special.eos

    def encode(chunk: DocumentChunk) -> tuple[list[int]]:
        ids = tokenizer.encode(chunk.text)
        return ([*ids, eos] if ids and chunk.is_last else ids,)

    return ExampleEncoder({"text": tokenizer.size}, encode, identity_key=lambda document: document.text)
