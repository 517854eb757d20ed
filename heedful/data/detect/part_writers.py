"""Write the parts of a dataset as files in the format of the original."""

from __future__ import annotations

import csv
import gzip
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, final


class PartWriter(ABC):
    """Base of writers of one part; the files get their names when everything is written.

    Abstract: each format writes its examples.

    Args:
        paths: the files.
    """

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self._temporary_paths = [path.with_name(f".{path.name}.new") for path in paths]
        self._streams: list[IO[str]] = []

    @abstractmethod
    def write_example(self, raw: Any) -> None:
        """Write one example, given as the `raw` of its `DatasetExample`."""

    def write_header(self) -> None:
        """Write what stands before the first example; nothing by default."""
        return

    def write_footer(self) -> None:
        """Write what stands after the last example; nothing by default."""
        return

    @final
    def write_text(self, text: str, *, file_index: int = 0) -> None:
        """Write a text to one of the files."""
        self._streams[file_index].write(text)

    @final
    def __enter__(self) -> Self:
        for path, temporary in zip(self.paths, self._temporary_paths, strict=True):
            if path.suffix == ".gz":  # without the time, so that the same data give the same file
                gzip_file = gzip.GzipFile(
                    filename="", fileobj=temporary.open("wb"), mode="wb", compresslevel=6, mtime=0
                )
                self._streams.append(io.TextIOWrapper(gzip_file, encoding="utf-8", newline=""))
            else:
                self._streams.append(temporary.open("w", encoding="utf-8", newline=""))
        self.write_header()
        return self

    @final
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.write_footer()
        for stream in self._streams:
            raw_file = getattr(getattr(stream, "buffer", None), "fileobj", None)
            stream.close()
            if raw_file is not None:
                raw_file.close()
        for path, temporary in zip(self.paths, self._temporary_paths, strict=True):
            if kind is None:
                temporary.replace(path)
            else:
                temporary.unlink(missing_ok=True)


@final
class LinePartWriter(PartWriter):
    """Writes a line to each of the files for every example; `header` is the first line."""

    def __init__(self, *paths: Path, header: str | None = None) -> None:
        super().__init__(*paths)
        self._header = header

    def write_header(self) -> None:
        """Write the header line."""
        if self._header is not None:
            self.write_text(f"{self._header}\n")

    def write_example(self, raw: Any) -> None:
        """Write one line to each file."""
        lines: Sequence[str] = (raw,) if isinstance(raw, str) else raw
        for index, line in enumerate(lines):
            self.write_text(f"{line}\n", file_index=index)


@final
class CsvPartWriter(PartWriter):
    """Writes a CSV row for every example."""

    def __init__(self, path: Path, *, header: Sequence[str] | None) -> None:
        super().__init__(path)
        self._header = header

    def write_header(self) -> None:
        """Write the header row."""
        self._csv_writer = csv.writer(self._streams[0], lineterminator="\n")
        if self._header is not None:
            self._csv_writer.writerow(self._header)

    def write_example(self, raw: Any) -> None:
        """Write one row."""
        self._csv_writer.writerow(raw)


@final
class JsonlPartWriter(PartWriter):
    """Writes a JSON object on a line for every example."""

    def write_example(self, raw: Any) -> None:
        """Write one object."""
        self.write_text(json.dumps(raw, ensure_ascii=False) + "\n")


@final
class SquadPartWriter(PartWriter):
    """Writes SQuAD's JSON: paragraphs with their questions."""

    def write_header(self) -> None:
        """Prepare the collection of questions; nothing is written yet."""
        self._paragraphs: dict[tuple[str, str], list[Any]] = {}

    def write_example(self, raw: Any) -> None:
        """Collect one question, given as title of the article, context, and question."""
        title, context, question = raw
        self._paragraphs.setdefault((title, context), []).append(question)

    def write_footer(self) -> None:
        """Write all collected questions as one JSON object."""
        articles: dict[str, list[Any]] = {}
        for (title, context), questions in self._paragraphs.items():
            articles.setdefault(title, []).append({"context": context, "qas": questions})
        data = [{"title": title, "paragraphs": paragraphs} for title, paragraphs in articles.items()]
        self.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False) + "\n")
