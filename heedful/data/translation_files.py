"""Translators' files (TMX, PO, XLIFF) as parallel text: their reader, of confirmed translations only, and how they are
detected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, final

from heedful.compression import strip_compression_suffix
from heedful.data.detect.file_names import DatasetPart, get_suffix
from heedful.data.detect.format import (
    DataFormat,
    DatasetExample,
    DetectedDataset,
    JsonlPartWriter,
    PartWriter,
    find_single_files,
)
from heedful.data.detect.languages import LanguageInfo, guess_language, parse_language_code
from heedful.data.detect.parallel import DetectedParallelText
from heedful.data.detect.sniff import FileShape, FileSniff
from heedful.data.readers import ExampleReader, SentencePair
from heedful.errors import DataError
from heedful.localisation.files import read_document
from heedful.localisation.placeholders import to_plain_text
from heedful.localisation.tmx_document import list_languages
from heedful.localisation.xml_elements import read_xml_file


@final
class ConfirmedTranslations(ExampleReader[SentencePair]):
    """The finished translations of a TMX, PO or XLIFF file, with the same cleaning as when such a file is translated.

    Units without a translation, with one that needs review (fuzzy, or machine translation), and units that must not be
    translated are skipped. Markup and accelerator marks are removed, placeholder values stay, white space becomes
    single spaces.

    Args:
        path: the file, plain or compressed.
        source_language: of a TMX: the source language.
        target_language: of a TMX: the target language.
    """

    def __init__(self, path: Path, *, source_language: str | None = None, target_language: str | None = None) -> None:
        super().__init__(path)
        self._languages = (source_language, target_language)

    def __iter__(self) -> Iterator[SentencePair]:
        source, target = self._languages
        for unit in read_document(self.paths[0], source=source, target=target):
            if unit.state != "translated" or unit.target is None or not unit.translatable:
                continue
            pair = SentencePair(to_plain_text(unit.source), to_plain_text(unit.target), unit.location)
            if pair.source and pair.target:
                yield pair


TRANSLATION_SUFFIXES: Final = (".po", ".tmx", ".xlf", ".xliff")
_NUM_SAMPLE_PAIRS: Final = 1000
"""Number of pairs from which languages are guessed."""


@dataclass(frozen=True)
class TranslationFileShape(FileShape):
    """A translators' file; its own format defines how it is read.

    Attributes:
        languages: the languages that the file names, if its format allows more than two.
    """

    languages: Sequence[str] = ()

    @property
    def description(self) -> str:
        """Description of the shape in words."""
        return f"translations in {', '.join(self.languages)}" if self.languages else "translations"


def sniff_translation_file(path: Path) -> TranslationFileShape:
    """Read the languages of a TMX; other formats have two."""
    return TranslationFileShape(list_languages(read_xml_file(path).text) if get_suffix(path) == ".tmx" else ())


@final
@dataclass(frozen=True, kw_only=True)
class DetectedTranslationFile(DetectedParallelText):
    """Parallel text in one translators' file for each part; parts that are split off become JSON lines.

    Attributes:
        language_pair: of a TMX, the source and the target language.
        is_reversed: whether source and target are swapped, for a file with a direction of its own.
    """

    language_pair: tuple[str, str] | None = None
    is_reversed: bool = False

    @property
    def direction(self) -> tuple[str, str] | None:
        """Tags of the source and the target language: as the TMX names them, or else as the file states or its
        texts suggest.
        """
        return self.language_pair or super().direction

    def get_side_names(self, part: DatasetPart) -> Sequence[str]:
        """Return the file and the side."""
        return [f"{self.get_first_file(part)} ({side})" for side in self.language_pair or ("source", "target")]

    @property
    def format_description(self) -> str:
        """Description of the format."""
        return f"translations in a file of {self.get_first_file(self.present_parts[0]).name.split('.', 1)[-1].upper()}"

    @property
    def learning_description(self) -> str:
        """Description of source and target."""
        language_names = [str(language) if language else "" for language in self.languages] or ["", ""]
        source, target = self.language_pair or (
            language_names[0] or "the source",
            language_names[1] or "its translation",
        )
        return f"{source} becomes {target}, for finished translations"

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each confirmed translation in the file of a part."""
        for pair in ConfirmedTranslations(self.get_first_file(part), **self._language_options):
            line = int(pair.location.rpartition(":")[2])
            source, target = (pair.target, pair.source) if self.is_reversed else (pair.source, pair.target)
            yield DatasetExample((source, target), (), line, {"source": source, "target": target}, (source,))

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the recipe table of one part: its path in `files`, and the languages or fields to read."""
        if strip_compression_suffix(files[0]).endswith(".jsonl"):
            return {"path": files[0], "source_field": "source", "target_field": "target"}
        return {"path": files[0], **self._language_options}

    def swap_sides(self) -> Self:
        """Return the dataset with the languages swapped; a file with a direction of its own must then be converted."""
        languages = self.languages[::-1]
        if self.language_pair is not None:
            return replace(self, language_pair=self.language_pair[::-1], languages=languages)
        conversion_reason = "such a file is read only in its own direction, so its pairs are written as lines of JSON"
        return replace(self, is_reversed=not self.is_reversed, languages=languages, conversion_reason=conversion_reason)

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build a writer of JSON lines."""
        return JsonlPartWriter(folder / f"{part}.jsonl{'.gz' * compress}")

    @property
    def _language_options(self) -> Mapping[str, str]:
        """The languages of a TMX as keyword arguments of its reader."""
        return (
            {}
            if self.language_pair is None
            else dict(zip(("source_language", "target_language"), self.language_pair, strict=True))
        )


@final
@dataclass(frozen=True)
class TranslationFileFormat(DataFormat):
    """Format of translators' files, one for each part."""

    confidence: float = 0.95

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset if all files are translators' files of one kind, one for each part. The languages of a TMX
        are its two, or those that `columns` names.
        """
        parts = find_single_files(files)
        shapes = [file.shape for file in files if isinstance(file.shape, TranslationFileShape)]
        if parts is None or len(shapes) < len(files):
            return
        languages_by_file = [shape.languages for shape in shapes if shape.languages]
        if (languages_by_file and len(languages_by_file) < len(files)) or (
            columns and (not languages_by_file or len(columns) != 2)
        ):
            return
        language_pair = _choose_languages(languages_by_file[0], columns) if languages_by_file else None
        if languages_by_file and language_pair is None:
            return
        yield DetectedTranslationFile(
            files={part: [file.path] for part, file in parts.items()},
            confidence=self.confidence,
            languages=[parse_language_code(language) for language in language_pair or ()]
            or _detect_languages(files[0].path),
            language_pair=language_pair,
        )

    def get_hint(self, files: Sequence[FileSniff]) -> str:
        """Return how to select two languages if a file has more than two; empty if none has."""
        shapes = {file.path: file.shape for file in files if isinstance(file.shape, TranslationFileShape)}
        multilingual_file = next(((path, shape) for path, shape in shapes.items() if len(shape.languages) > 2), None)
        if multilingual_file is None:
            return ""
        path, shape = multilingual_file
        present_languages = ", ".join(shape.languages[:8])
        return f"{path}: has {present_languages}; name the source and the target, as in --columns en de"


def _detect_languages(path: Path) -> Sequence[LanguageInfo]:
    """Return the languages of a PO or XLIFF file, as stated in the file or guessed from its texts; empty if one is
    unknown.
    """
    try:
        stated = read_document(path).languages
        pairs = list(islice(ConfirmedTranslations(path), _NUM_SAMPLE_PAIRS))
    except DataError:
        return []  # reading its examples raises this again
    source = parse_language_code(stated.source or "") or guess_language(pair.source for pair in pairs)
    target = parse_language_code(stated.target or "") or guess_language(pair.target for pair in pairs)
    return [source, target] if source and target else []


def _choose_languages(languages: Sequence[str], columns: Sequence[str]) -> tuple[str, str] | None:
    """Return the two languages of a TMX: those that `columns` names, or else its own, English first; None if it does
    not have exactly two.
    """
    if columns:
        return columns[0], columns[1]
    if len(languages) != 2:
        return None
    first, second = sorted(languages, key=lambda language: not language.lower().startswith("en"))
    return first, second
