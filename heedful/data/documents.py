"""Plain text: one text in a file, a document on each line or between empty lines, or in a field of JSON; its readers
and how its files are detected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, final

from heedful.data.detect.checks import ENCODING_CHECKS, LeakageCheck, RepeatCheck, count_faults
from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import (
    DataCheck,
    DataFormat,
    DatasetExample,
    DetectedDataset,
    LinePartWriter,
    PartWriter,
    find_single_files,
)
from heedful.data.detect.hash_sample import hash_texts
from heedful.data.detect.languages import guess_language
from heedful.data.detect.sniff import FileSniff, JsonObjectsShape, PlainLinesShape
from heedful.data.detect.tables import DataTable, select_tables
from heedful.data.readers import ExampleReader, read_blocks, read_lines, read_records

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
        return (DocumentChunk("\n".join(lines), is_last=True) for _, lines in read_blocks(self.paths[0]))


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

    return ExampleEncoder(
        {"text": tokenizer.size},
        encode,
        identity_key=lambda document: document.text,
        count_characters=lambda document: len(document.text),
    )


TextUnit = Literal["paragraphs", "stretches", "lines", "fields"]
_SENTENCE_END: Final = re.compile(r"[.!?…\u3002\uff01\uff1f:;\"'»”)\]]\s*$")
_MIN_BLOCKS: Final = 30
"""Number of paragraphs from which on a text is split between them."""
_MAX_STRETCH_LINES: Final = 200
"""Largest number of lines of a stretch."""


@final
@dataclass(frozen=True, kw_only=True)
class DetectedPlainText(DetectedDataset):
    """A dataset of plain text.

    Attributes:
        unit: the unit that stays together when the data is split.
        kind: kind of the text in a recipe.
        stretch_rate: a stretch ends on average at one of this many lines.
        field: name of the field of JSON; empty if there is none.
    """

    unit: TextUnit
    kind: str
    stretch_rate: int = 1
    field: str = ""

    @property
    def format_description(self) -> str:
        """Description of what separates documents."""
        return {
            "paragraphs": "text with empty lines between paragraphs",
            "stretches": "text without empty lines",
            "lines": "a text on each line",
            "fields": "a JSON object on each line",
        }[self.unit]

    @property
    def learning_description(self) -> str:
        """Description of what a document is."""
        language_text = f" ({self.languages[0]})" if self.languages and self.languages[0] else ""
        descriptions = {
            "text": f"the file is one text{language_text}",
            "lines": f"each line is a document{language_text}",
            "blocks": f"empty lines separate documents{language_text}",
            "jsonl": f"field {self.field} is a document{language_text}",
        }
        return descriptions[self.kind]

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each unit in the file of a part: a paragraph, a stretch of lines, a line, or a field of
        JSON.
        """
        path = self.get_first_file(part)
        if self.unit == "fields":
            for row in DataTable(path, _build_empty_shape()).read_rows([self.field]):
                yield DatasetExample(row.values, (), row.line, row.raw, row.values)
            return
        numbered_lines: Iterator[tuple[int, list[str]]]
        if self.unit == "lines":
            numbered_lines = (
                (line_number, [line]) for line_number, line in enumerate(read_lines(path), 1) if line.strip()
            )
        else:
            numbered_lines = (
                read_blocks(path) if self.unit == "paragraphs" else _read_stretches(path, self.stretch_rate)
            )
        for line_number, lines in numbered_lines:
            text = "\n".join(lines)
            raw = f"{text}\n" if self.unit == "paragraphs" else text
            yield DatasetExample((text,), (), line_number, raw, (text,))

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the recipe table of one part: its path in `files`, and how documents are separated, if it is not the
        default.
        """
        if self.kind == "jsonl":
            return {"path": files[0], "field": self.field}
        return {"path": files[0]} | ({} if self.kind in ("text", "blocks") else {"kind": self.kind})

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build the writer of the file of a part in `folder`, with unchanged lines; `compress` adds gzip."""
        ending = "jsonl" if self.kind == "jsonl" else "txt"
        return LinePartWriter(folder / f"{part}.{ending}{'.gz' * compress}")

    def build_checks(self) -> Sequence[DataCheck]:
        """Return the checks for plain text."""
        return [LeakageCheck(), RepeatCheck(self.noun), *count_faults(self.noun, *ENCODING_CHECKS)]


def _build_empty_shape() -> JsonObjectsShape:
    """Return a shape of JSON objects without columns."""
    return JsonObjectsShape((), frozenset(), ())


def _read_stretches(path: Path, stretch_rate: int) -> Iterator[tuple[int, list[str]]]:
    """Yield consecutive lines in stretches, each with the number of its first line; a stretch ends by the hash of its
    last line, on average at one of `stretch_rate` lines, or when it is too long.
    """
    lines: list[str] = []
    line_number = 0
    for line_number, line in enumerate(read_lines(path), 1):
        lines.append(line)
        if len(lines) == _MAX_STRETCH_LINES or hash_texts(line) % stretch_rate == 0:
            yield line_number - len(lines) + 1, lines
            lines = []
    if lines:
        yield line_number - len(lines) + 1, lines


@final
@dataclass(frozen=True)
class PlainTextFormat(DataFormat):
    """Format of one plain text file for each part.

    Attributes:
        confidence: confidence in the detection.
        allows_single_text: whether a file may be one text; otherwise empty lines separate documents.
    """

    confidence: float = 0.85
    allows_single_text: bool = True

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset if no columns are named and there is one file of plain text for each part: documents on lines
        if nearly all lines end like sentences, else one text or blocks between empty lines.
        """
        parts = find_single_files(files)
        if columns or parts is None or not all(isinstance(file.shape, PlainLinesShape) for file in files):
            return
        shape = next(iter(parts.values())).shape
        assert isinstance(shape, PlainLinesShape)
        lines = shape.lines
        filled = [line for line in lines if line.strip()]
        ended_share = sum(bool(_SENTENCE_END.search(line)) for line in filled) / len(filled)
        has_blank_lines = len(filled) < len(lines)
        kind, unit = ("text" if self.allows_single_text else "blocks"), "paragraphs"
        notes: list[str] = []
        if not has_blank_lines and (ended_share > 0.7 or not self.allows_single_text):
            kind = unit = "lines"
            notes = ["each line is read as a separate text; remove kind below [data] if the lines follow each other"]
        elif self.allows_single_text and _count_blocks(lines) < _MIN_BLOCKS:
            unit = "stretches"
        yield DetectedPlainText(
            files={part: [file.path] for part, file in parts.items()},
            confidence=self.confidence if unit != "stretches" else min(0.6, self.confidence),
            min_training_examples=200 if unit == "stretches" else 1000,
            noun={"paragraphs": "paragraphs", "stretches": "stretches", "lines": "lines"}[unit],
            languages=[guess_language(filled[:1000])],
            unit=unit,  # type: ignore[arg-type]  # one of the three
            kind=kind,
            stretch_rate=max(1, min(32, len(lines) // 200)),
            notes=notes if self.allows_single_text else [],
        )


def _count_blocks(lines: Sequence[str]) -> int:
    """Count the blocks of lines between empty lines."""
    return sum(1 for previous, line in zip(["", *lines], lines, strict=False) if line.strip() and not previous.strip())


@final
@dataclass(frozen=True)
class TextFieldFormat(DataFormat):
    """Format of JSON objects with documents in one field."""

    confidence: float = 0.85

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset with the documents in the named column, or else in the field with the longest texts, if all
        files are JSON objects; the confidence is lower if there are other candidates.
        """
        tables = select_tables(files)
        if tables is None or len(columns) > 1:
            return
        table = tables[next(iter(tables))]
        if not table.is_json or (isinstance(table.shape, JsonObjectsShape) and table.shape.nested and not columns):
            return
        texts = [table.find_column(name) for name in columns] or [item for item in table.columns if item.is_text]
        if not texts:
            return
        text = max(texts, key=lambda item: item.mean_words)
        is_only_candidate = len(texts) == 1 and not any(item.is_label for item in table.columns)
        yield DetectedPlainText(
            files={part: [item.path] for part, item in tables.items()},
            confidence=self.confidence if is_only_candidate or columns else 0.3,
            languages=[guess_language(table.get_sample_values(text.name)[:1000])],
            unit="fields",
            kind="jsonl",
            field=text.name,
        )
