"""Readers of documents for language modelling: whole files, blocks, lines, or fields of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

from heedful.data.readers import ExampleReader, read_lines, read_records

if TYPE_CHECKING:
    from heedful.data.corpus import ExampleEncoder
    from heedful.data.tokenizers import Tokenizer

_CHUNK_CHARACTERS = 2**20
"""Number of characters after which a document may be returned in chunks, so that documents of any length can be
read."""


class DocumentChunk(NamedTuple):
    """A document or a part of one; `is_last` is true for the last part."""

    text: str
    is_last: bool


@final
class PlainTextReader(ExampleReader[DocumentChunk]):
    """Read one file as one document; all line ends become line feeds."""

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
    """Read each line as a document; empty lines are skipped."""

    def __iter__(self) -> Iterator[DocumentChunk]:
        return (DocumentChunk(line, is_last=True) for line in read_lines(self.paths[0]) if line.strip())


@final
class BlankSeparatedDocuments(ExampleReader[DocumentChunk]):
    """Read documents separated by empty lines, the format of BERT's pre-training data."""

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
    """Read a document from one field of the JSON object on each line."""

    def __init__(self, path: Path, *, field: str) -> None:
        super().__init__(path)
        self._field = field

    def __iter__(self) -> Iterator[DocumentChunk]:
        texts = (record.get_text(self._field) for _, record in read_records(self.paths[0]))
        return (DocumentChunk(text, is_last=True) for text in texts if text)


def build_document_encoder(tokenizer: Tokenizer) -> ExampleEncoder[DocumentChunk]:
    """Build the encoder of documents: the ids of the text, and the end id after the last chunk."""
    from heedful.data.corpus import ExampleEncoder  # which needs torch

    eos = tokenizer.special.eos

    def encode(chunk: DocumentChunk) -> tuple[list[int]]:
        """Encode one chunk."""
        ids = tokenizer.encode(chunk.text)
        return ([*ids, eos] if ids and chunk.is_last else ids,)

    return ExampleEncoder({"text": tokenizer.size}, encode, identity_key=lambda document: document.text)
