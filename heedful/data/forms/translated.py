"""Files of translators that translations can be learned from: TMX, PO, XLIFF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, final

from heedful.data.forms.form import Example, Form, Found, by_part
from heedful.data.forms.glance import Glance, Translated
from heedful.data.forms.languages import Language, code_of, guessed
from heedful.data.forms.naming import Part
from heedful.data.forms.parallel import ParallelFound
from heedful.data.forms.saving import JsonlSaver, Saver
from heedful.data.translated import Confirmed
from heedful.errors import DataError
from heedful.localisation.files import read_document

_GUESSED: Final = 1000
"""Pairs by which languages are guessed."""


@final
@dataclass(frozen=True, kw_only=True)
class TranslatedFound(ParallelFound):
    """One file for each part; parts that are split off become lines of JSON.

    Attributes:
        between: of a TMX, the language that is read and the one that is written.
        exchanged: whether translations are read as sources, of a file that has one direction of its own.
    """

    between: tuple[str, str] | None = None
    exchanged: bool = False

    @property
    def direction(self) -> tuple[str, str] | None:
        """As a TMX itself calls its languages, and as tags where another file says them."""
        return self.between or super().direction

    def sides(self, part: Part) -> Sequence[str]:
        """A file, and what of it."""
        return [f"{self.first(part)} ({side})" for side in self.between or ("source", "target")]

    @property
    def seen(self) -> str:
        """The format, by its name."""
        return f"translations in a file of {self.first(self.present[0]).name.split('.', 1)[-1].upper()}"

    @property
    def taken(self) -> str:
        """What becomes what."""
        named = [str(language) if language else "" for language in self.languages] or ["", ""]
        source, target = self.between or (named[0] or "the source", named[1] or "its translation")
        return f"{source} becomes {target}, where that is finished"

    def examples(self, part: Part) -> Iterator[Example]:
        """Pair by pair."""
        for pair in Confirmed(self.first(part), **self._languages):
            line = int(pair.place.rpartition(":")[2])
            source, target = (pair.target, pair.source) if self.exchanged else (pair.source, pair.target)
            yield Example((source, target), (), line, {"source": source, "target": target}, (source,))

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """The file, and what it needs to be read."""
        if files[0].removesuffix(".gz").endswith(".jsonl"):
            return {"path": files[0], "source_field": "source", "target_field": "target"}
        return {"path": files[0], **self._languages}

    def turned(self) -> Self:
        """From the other language; a file with one direction of its own is written anew."""
        languages = self.languages[::-1]
        if self.between is not None:
            return replace(self, between=self.between[::-1], languages=languages)
        converted = "such a file is read in its own direction, so its pairs are written as lines of JSON"
        return replace(self, exchanged=not self.exchanged, languages=languages, converted=converted)

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """Lines of JSON."""
        return JsonlSaver(folder / f"{part}.jsonl{'.gz' * zipped}")

    @property
    def _languages(self) -> Mapping[str, str]:
        return (
            {} if self.between is None else dict(zip(("source_language", "target_language"), self.between, strict=True))
        )


@final
@dataclass(frozen=True)
class TranslatedFiles(Form):
    """Files that pair texts by themselves, one for each part."""

    certainty: float = 0.95

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """All of one kind; the languages of a TMX are its two, or those that are named as columns."""
        parts = by_part(files)
        shapes = [file.shape for file in files if isinstance(file.shape, Translated)]
        if len(shapes) < len(files) or any(len(each) > 1 for each in parts.values()):
            return
        named = [shape.languages for shape in shapes if shape.languages]
        if (named and len(named) < len(files)) or (columns and (not named or len(columns) != 2)):
            return
        between = _between(named[0], columns) if named else None
        if named and between is None:
            return
        yield TranslatedFound(
            files={part: [each[0].path] for part, each in parts.items()},
            certainty=self.certainty,
            languages=[code_of(language) for language in between or ()] or _languages(files[0].path),
            between=between,
        )

    def hint(self, files: Sequence[Glance]) -> str:
        """How to say which of many languages are meant."""
        shapes = {file.path: file.shape for file in files if isinstance(file.shape, Translated)}
        many = next(((path, shape) for path, shape in shapes.items() if len(shape.languages) > 2), None)
        if many is None:
            return ""
        path, shape = many
        there = ", ".join(shape.languages[:8])
        return f"{path}: has {there}; say which is read and which is written, as in --columns en de"


def _languages(path: Path) -> Sequence[Language]:
    """Those of a PO or XLIFF file, as it says them or as its texts look; none where both cannot be told."""
    try:
        said = read_document(path).languages
        texts = list(islice(Confirmed(path), _GUESSED))
    except DataError:
        return []  # reading its examples raises this again
    source = code_of(said.source or "") or guessed(pair.source for pair in texts)
    target = code_of(said.target or "") or guessed(pair.target for pair in texts)
    return [source, target] if source and target else []


def _between(languages: Sequence[str], columns: Sequence[str]) -> tuple[str, str] | None:
    """The languages of a memory, English first unless somebody says otherwise."""
    if columns:
        return columns[0], columns[1]
    if len(languages) != 2:
        return None
    first, second = sorted(languages, key=lambda language: not language.lower().startswith("en"))
    return first, second
