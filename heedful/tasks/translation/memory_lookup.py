"""Reading of translation memory files, and lookup before a model translates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from heedful.data.detect.file_names import get_suffix
from heedful.data.detect.languages import is_similar_language, parse_language_code
from heedful.data.detect.parallel import DetectedParallelText
from heedful.data.detect.registry import sniff_file
from heedful.data.detect.sniff import FileShape, FileSniff, JsonObjectsShape, PlainLinesShape, TableShape
from heedful.data.translation_files import TranslationFileShape
from heedful.errors import DataError
from heedful.language_tags import is_same_language, is_same_variety
from heedful.localisation.documents import DocumentLanguages
from heedful.localisation.files import read_document
from heedful.localisation.placeholders import to_plain_text
from heedful.localisation.translation_memory import MemoryEntry, MemoryMatch, TranslationMemory
from heedful.recipes.recipe_writer import propose_datasets
from heedful.tasks.predictor import LineFormat, UnreadableInput
from heedful.tasks.translation.translations import TranslationInput

EXACT_MATCH: Final = "taken from the memory"
SIMILAR_MATCH: Final = "similar to a text of the memory"
NO_MATCH: Final = "like no text of the memory"
"""Note on a sentence without a match (see `LineFormat.input_notes`)."""


def load_translation_memory(
    paths: Sequence[Path], *, languages: DocumentLanguages, min_similarity: float
) -> TranslationMemory:
    """Load the approved translations of files as one translation memory.

    A TMX, PO or XLIFF gives its finished translations with all placeholders; a table or JSON lines two text columns;
    two plain text files follow each other, the source first. Translations in the language of another region (`pt-BR`
    for `pt-PT`), or only likely in the same script (`zh` for `zh-TW`), are suggested but never used as finished.

    Args:
        paths: of the files, the most trusted first.
        languages: of the text to translate, as far as known; a TMX needs both unless it has two languages.
        min_similarity: minimum similarity of a match, from 0 to 1; see `TranslationMemory`.

    Raises:
        DataError: a file is missing or damaged, has no pairs, or has other languages.
        MissingExtraError: rapidfuzz is not installed.
    """
    return TranslationMemory(_iter_entries(paths, languages), min_similarity=min_similarity)


def _iter_entries(paths: Sequence[Path], languages: DocumentLanguages) -> Iterator[MemoryEntry]:
    """Yield the entries of all files in order. Two plain text files after each other are source and target; raise
    DataError if there is only one.
    """
    pending = list(map(sniff_file, paths))
    while pending:
        file = pending.pop(0)
        if isinstance(file.shape, TranslationFileShape):
            yield from _iter_document_entries(file, file.shape, languages)
            continue
        files = [file]
        if isinstance(file.shape, PlainLinesShape):
            if not (pending and isinstance(pending[0].shape, PlainLinesShape)):
                raise DataError(
                    f"{file.path}: is plain text, whose translations are in a second file; give that file after it"
                )
            files.append(pending.pop(0))
        yield from _iter_text_entries(files, languages)


def _iter_document_entries(
    file: FileSniff, shape: TranslationFileShape, languages: DocumentLanguages
) -> Iterator[MemoryEntry]:
    """Yield the finished translations of a TMX, PO or XLIFF file; those of another variety of the languages are not
    reusable. Raise DataError if there are none, or if they are in other languages than `languages`.
    """
    description = ""
    if get_suffix(file.path) == ".tmx":
        languages = _choose_tmx_languages(file.path, shape.languages, languages)
        description = (
            f" from {languages.source!r} to {languages.target!r} (available: {', '.join(shape.languages) or 'none'})"
        )
    document = read_document(file.path, source=languages.source, target=languages.target)
    document_languages = document.languages
    for side_name, language, expected in (
        ("sources", document_languages.source, languages.source),
        ("translations", document_languages.target, languages.target),
    ):
        if language is not None and expected is not None and not is_same_language(language, expected):
            raise DataError(
                f"{file.path}: its {side_name} are in {language!r}, but {expected!r} is needed; name another memory"
            )
    reusable = all(
        language is None or expected is None or is_same_variety(language, expected)
        for language, expected in (
            (document_languages.source, languages.source),
            (document_languages.target, languages.target),
        )
    )
    is_empty = True
    for unit in document.units:
        if (
            unit.state == "translated"
            and unit.target is not None
            and to_plain_text(unit.source)
            and to_plain_text(unit.target)
        ):
            is_empty = False
            yield MemoryEntry(unit.source, unit.target, file.path.name, reusable)
    if is_empty:
        raise DataError(f"{file.path}: has no finished translation{description}; name another memory")


def _choose_tmx_languages(path: Path, available: Sequence[str], languages: DocumentLanguages) -> DocumentLanguages:
    """Choose source and target language of a TMX: those of `languages` that are known, and if the file has just two
    languages (`available`), one determines the other. Raise DataError with `path` if one remains unknown.
    """
    source, target = languages.source, languages.target
    other_languages = [language for language in available if not is_same_language(language, source or target or "")]
    if len(available) == 2 and len(other_languages) == 1:
        source, target = (
            source or (other_languages[0] if target else None),
            target or (other_languages[0] if source else None),
        )
    if source is None or target is None:
        raise DataError(
            f"{path}: does not say which language is translated into which (available: "
            f"{', '.join(available) or 'none'}); give both with --source-language en --target-language de"
        )
    return DocumentLanguages(source, target)


def _iter_text_entries(files: Sequence[FileSniff], languages: DocumentLanguages) -> Iterator[MemoryEntry]:
    """Yield the pairs of two text columns of one file, or of two files of lines; raise DataError if there are none, or
    if they are in other languages than `languages`.
    """
    dataset = propose_datasets(files, task="translation", columns=_find_text_columns(files[0].shape))[0].dataset
    assert isinstance(dataset, DetectedParallelText), "nothing else is translated"
    part = dataset.present_parts[0]
    expected = (languages.source, languages.target)
    for name, detected, tag in zip(dataset.get_side_names(part), dataset.languages, expected, strict=False):
        language_code = parse_language_code(tag or "")
        if detected and language_code and not is_similar_language(detected, language_code):
            raise DataError(
                f"{name}: is in {detected}, but {language_code} is needed; name another memory, or swap its sides"
            )
    is_empty = True
    for example in dataset.read_examples(part):
        source, target = example.texts
        if to_plain_text((source,)) and to_plain_text((target,)):
            is_empty = False
            yield MemoryEntry((source,), (target,), files[0].path.name)
    if is_empty:
        raise DataError(f"{files[0].path}: has no text with a translation; name another memory")


def _find_text_columns(shape: FileShape) -> Sequence[str]:
    """Return the names of source and target column of a table or of JSON objects; empty if they are ambiguous, or if
    the file has another shape.
    """
    if not isinstance(shape, TableShape | JsonObjectsShape):
        return ()
    names = [column.name for column in shape.columns]
    if {"source", "target"} <= set(names):
        return ("source", "target")
    return names if len(names) == 2 and isinstance(shape, TableShape) else ()


@final
@dataclass(frozen=True)
class MemoryAnswer:
    """A sentence with its translation memory match and the model's answer.

    Attributes:
        sentence: the input.
        match: its match in the memory, if there is one.
        answer: of the model, if the memory has no exact translation.
    """

    sentence: TranslationInput
    match: MemoryMatch | None
    answer: Any = None


@final
@dataclass(frozen=True)
class MemoryLineFormat(LineFormat[TranslationInput, MemoryAnswer]):
    """One sentence per line, translated by a translation memory or else by a model.

    Attributes:
        inner: line format of the model.
        memory: is searched first.
        accelerators: whether a sign before a letter may be a menu accelerator.
    """

    inner: LineFormat[TranslationInput, Any]
    memory: TranslationMemory
    accelerators: bool = False

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[TranslationInput]:
        """Convert lines to sentences without prefix and required terms."""
        return map(TranslationInput, lines)

    def answer_inputs(self, inputs: Sequence[TranslationInput], *, start: int) -> list[MemoryAnswer | UnreadableInput]:
        """Look up each sentence, and let the model translate those without an exact match; `start` is the number of the
        first sentence.

        The model gets an empty sentence in the place of one with an exact match, so that its numbers of sentences and
        its random streams are those of the lines.
        """
        matches = [self.memory.find_match((input_.text,), accelerators=self.accelerators) for input_ in inputs]
        unmatched = [
            TranslationInput("") if _is_exact(match) else input_ for input_, match in zip(inputs, matches, strict=True)
        ]
        answers = self.inner.answer_inputs(unmatched, start=start)
        return [
            answer
            if isinstance(answer, UnreadableInput)
            else MemoryAnswer(sentence, match, None if _is_exact(match) else answer)
            for sentence, match, answer in zip(inputs, matches, answers, strict=True)
        ]

    def to_json(self, answer: MemoryAnswer) -> Any:
        """Convert an answer to JSON data, with the matched text, its translation and similarity."""
        match = answer.match
        if match is None:
            return self.inner.to_json(answer.answer)
        memory_record = {"source": answer.sentence.text, "translation": _format_line(match)}
        record: dict[str, Any] = memory_record if _is_exact(match) else self.inner.to_json(answer.answer)
        similarity = round(match.similarity, 4)
        match_json = {
            "source": match.source_text,
            "target": match.target_text,
            "similarity": similarity,
            "taken": _is_exact(match),
        }
        return {**record, "match": match_json}

    def format_answer(self, answer: MemoryAnswer) -> str:
        """Format the exact translation of the memory as a line, else the model's answer in its own format."""
        if answer.match is not None and _is_exact(answer.match):
            return f"{_format_line(answer.match)}\n"
        return self.inner.format_answer(answer.answer)

    def input_notes(self, answer: MemoryAnswer) -> Iterator[str]:
        """Return whether the memory had an exact, a similar or no match; unless it was exact, also the notes of the
        model's answer.
        """
        if _is_exact(answer.match):
            yield EXACT_MATCH
            return
        yield NO_MATCH if answer.match is None else SIMILAR_MATCH
        yield from self.inner.input_notes(answer.answer)


def _is_exact(match: MemoryMatch | None) -> bool:
    """Return whether a match provides an exact translation."""
    return match is not None and match.exact_target is not None


def _format_line(match: MemoryMatch) -> str:
    """Return an exact translation as one line."""
    return " ".join("".join(part if isinstance(part, str) else part.raw for part in match.exact_target or ()).split())
