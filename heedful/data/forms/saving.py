"""Parts of a data set as files, in the form in which the whole was."""

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


class Saver(ABC):
    """Files that hold one part; they get their names when all of it is there.

    Abstract: each form writes its examples.

    Args:
        paths: the files.
    """

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self._beside = [path.with_name(f".{path.name}.new") for path in paths]
        self._streams: list[IO[str]] = []

    @abstractmethod
    def add(self, raw: Any) -> None:
        """One example."""

    def begin(self) -> None:
        """Writes what stands before the first, nothing in most forms."""
        return

    def end(self) -> None:
        """Writes what stands behind the last, nothing in most forms."""
        return

    @final
    def write(self, text: str, *, file: int = 0) -> None:
        """Text for one of the files."""
        self._streams[file].write(text)

    @final
    def __enter__(self) -> Self:
        for path, beside in zip(self.paths, self._beside, strict=True):
            if path.suffix == ".gz":  # without the time, so that the same data give the same file
                zipped = gzip.GzipFile(filename="", fileobj=beside.open("wb"), mode="wb", compresslevel=6, mtime=0)
                self._streams.append(io.TextIOWrapper(zipped, encoding="utf-8", newline=""))
            else:
                self._streams.append(beside.open("w", encoding="utf-8", newline=""))
        self.begin()
        return self

    @final
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end()
        for stream in self._streams:
            inner = getattr(getattr(stream, "buffer", None), "fileobj", None)
            stream.close()
            if inner is not None:
                inner.close()
        for path, beside in zip(self.paths, self._beside, strict=True):
            if kind is None:
                beside.replace(path)
            else:
                beside.unlink(missing_ok=True)


@final
class LineSaver(Saver):
    """A line in each of the files for every example; `head` stands before them."""

    def __init__(self, *paths: Path, head: str | None = None) -> None:
        super().__init__(*paths)
        self._head = head

    def begin(self) -> None:
        """The header."""
        if self._head is not None:
            self.write(f"{self._head}\n")

    def add(self, raw: Any) -> None:
        """One line a file, or several in one."""
        lines: Sequence[str] = (raw,) if isinstance(raw, str) else raw
        for number, line in enumerate(lines):
            self.write(f"{line}\n", file=number)


@final
class CsvSaver(Saver):
    """A row for every example, with commas between columns."""

    def __init__(self, path: Path, *, head: Sequence[str] | None) -> None:
        super().__init__(path)
        self._head = head

    def begin(self) -> None:
        """The header."""
        self._rows = csv.writer(self._streams[0], lineterminator="\n")
        if self._head is not None:
            self._rows.writerow(self._head)

    def add(self, raw: Any) -> None:
        """A row."""
        self._rows.writerow(raw)


@final
class JsonlSaver(Saver):
    """An object on a line for every example."""

    def add(self, raw: Any) -> None:
        """An object."""
        self.write(json.dumps(raw, ensure_ascii=False) + "\n")


@final
class SquadSaver(Saver):
    """SQuAD's JSON: paragraphs with the questions about them."""

    def begin(self) -> None:
        """Nothing yet."""
        self._paragraphs: dict[tuple[str, str], list[Any]] = {}

    def add(self, raw: Any) -> None:
        """The title of an article, a context and a question."""
        title, context, question = raw
        self._paragraphs.setdefault((title, context), []).append(question)

    def end(self) -> None:
        """Everything at once."""
        articles: dict[str, list[Any]] = {}
        for (title, context), questions in self._paragraphs.items():
            articles.setdefault(title, []).append({"context": context, "qas": questions})
        data = [{"title": title, "paragraphs": paragraphs} for title, paragraphs in articles.items()]
        self.write(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False) + "\n")
