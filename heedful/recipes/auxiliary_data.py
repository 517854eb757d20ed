"""Texts that are learned from beside the main one: found like it, in its direction, without what is held out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from heedful.data.detect.dataset_report import DatasetReport, build_report
from heedful.data.detect.format import DetectedDataset
from heedful.data.detect.hash_sample import DatasetSplit, hash_texts
from heedful.data.detect.languages import LanguageInfo, has_same_language
from heedful.data.detect.parallel import DetectedParallelText
from heedful.data.detect.part_writers import PartWriter
from heedful.data.detect.sniff import (
    FileSniff,
    JsonObjectsShape,
    ParquetShape,
    PlainLinesShape,
    TableShape,
    TranslationFileShape,
    is_gzipped,
    sniff_file,
)
from heedful.data.detect.tables import DataTable
from heedful.errors import DataError, RecipeError
from heedful.recipes.dataset_proposals import DatasetProposal, propose_datasets
from heedful.recipes.recipe_writer import format_path
from heedful.recipes.reference import list_keys
from heedful.registry import list_tasks

_TEXTS_KEY: Final = "data.train.texts"
_LANGUAGE_KEYS: Final = ("source_language", "target_language")
_INVALID_NAME_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class AuxiliaryText:
    """A text beside the main one.

    Attributes:
        name: that of its table.
        dataset: its files, and how they are read.
        is_certain: whether nobody doubts that.
        saver: what writes it where it must be written anew.
        notes: what else is to be told, in sentences.
    """

    name: str
    dataset: DetectedParallelText
    is_certain: bool
    saver: PartWriter
    notes: Sequence[str] = ()

    @property
    def description(self) -> str:
        """Its name and its files."""
        return f"{self.name} ({' and '.join(path.name for path in self.dataset.files['train'])})"

    def survey(self, held_out: frozenset[int]) -> SurveyedText:
        """All of it read; `DataError` where nothing stays of it."""
        text_survey = build_report(self.dataset)
        count = sum(1 for pair in self.dataset.read_examples("train") if _is_held_out(pair.texts, held_out))
        if count == text_survey.example_counts["train"]:
            raise DataError(f"--also: {self.description} has nothing but pairs that are held out; leave it away")
        return SurveyedText(self, text_survey, held_out, count)


@dataclass(frozen=True)
class SurveyedText:
    """A text beside the main one, all of which was read.

    Attributes:
        text: which one.
        survey: what is in it.
        held_out: what is held out of the main text.
        num_excluded: how many pairs are left out since they hold some of that.
    """

    text: AuxiliaryText
    survey: DatasetReport
    held_out: frozenset[int]
    num_excluded: int

    @property
    def num_pairs(self) -> int:
        """The pairs that stay."""
        return self.survey.example_counts["train"] - self.num_excluded

    @property
    def paths(self) -> Sequence[Path]:
        """The files that are to be written; none where it stays where it is."""
        return self.text.saver.paths if self.num_excluded or self.text.dataset.conversion_reason else ()

    @property
    def description_lines(self) -> Sequence[str]:
        """What was seen, in lines."""
        dataset = self.text.dataset
        doubt = "" if self.text.is_certain else ", which is not certain"
        lines = [
            f"beside it, {self.text.description}: {dataset.format_description}, {dataset.learning_description}{doubt}"
        ]
        excluded = (
            f"; {self.num_excluded:,} left out, whose source or translation is held out" if self.num_excluded else ""
        )
        written = f", written to {self.text.saver.paths[0].parent}" if self.paths else ""
        return [
            *lines,
            f"{dataset.noun} of {self.text.name}: {self.num_pairs:,} for training{excluded}{written}",
            *self.text.notes,
        ]

    def write(self) -> None:
        """Writes it where it cannot stay as it is."""
        if not self.paths:
            return
        with self.text.saver as saver:
            for pair in self.text.dataset.read_examples("train"):
                if not _is_held_out(pair.texts, self.held_out):
                    saver.write_example(pair.raw)

    def to_table(self, folder: Path) -> Mapping[str, Any]:
        """Its table in a recipe of a folder."""
        return self.text.dataset.to_recipe_table(
            [format_path(path, folder) for path in self.paths or self.text.dataset.files["train"]]
        )


def allows_multiple_texts(task: str) -> bool:
    """Whether recipes of a task may have several texts to learn from."""
    return any(key.path == _TEXTS_KEY for key in list_keys(task))


def find_auxiliary_texts(
    files: Sequence[Path], main: DatasetProposal, folder: Path, *, columns: Sequence[str] = ()
) -> Sequence[AuxiliaryText]:
    """What files hold beside the main text.

    Args:
        files: of any form; two of plain text belong together where one stands behind the other.
        main: the main text.
        folder: for those that must be written anew.
        columns: those of the main text, which are read of tables that have them.

    Raises:
        RecipeError: the task learns from one text, a file misses its partner, or languages do not fit.
        DataError: files are of no form.
    """
    if not allows_multiple_texts(main.task):
        supporting_tasks = ", ".join(task for task in list_tasks() if allows_multiple_texts(task))
        raise RecipeError(
            f'--also: task = "{main.task}" learns from one text; leave it away, or add --task {supporting_tasks}'
        )
    assert isinstance(main.dataset, DetectedParallelText), "what takes several texts is parallel"
    used_names = [derive_name(main.dataset)]
    texts: list[AuxiliaryText] = []
    languages = _get_languages(main.dataset)
    for group in _group_files([sniff_file(file) for file in files]):
        proposal = _propose_for_group(group, main.task, languages, columns)
        assert isinstance(proposal.dataset, DetectedParallelText)
        dataset, notes = _align_direction(proposal.dataset, languages)
        languages = languages or (
            _get_languages(dataset)
            if any(isinstance(preview.shape, TranslationFileShape) for preview in group)
            else None
        )
        name = _make_unique(derive_name(dataset), used_names)
        used_names.append(name)
        saver = dataset.build_writer(folder / name, "train", compress=is_gzipped(dataset.get_first_file("train")))
        texts.append(AuxiliaryText(name, dataset, proposal.is_certain, saver, [*notes, *dataset.notes]))
    return texts


def collect_held_out(dataset: DetectedDataset, split: DatasetSplit | None) -> frozenset[int]:
    """Fingerprints of each side of all that validation and test are made of.

    Args:
        dataset: the main text, before it is split.
        split: what is split off it, if anything is.
    """
    fingerprints: set[int] = set()
    for part in dataset.present_parts:
        for example in dataset.read_examples(part):
            if part != "train" or (split is not None and split.find_part(example.split_keys) is not None):
                fingerprints.update(_fingerprint_sides(example.texts))
    return frozenset(fingerprints)


def find_common_languages(dataset: DetectedDataset, auxiliary: Sequence[SurveyedText], task: str) -> Mapping[str, str]:
    """The keys of a recipe that say from which language into which all texts are translated.

    Args:
        dataset: the main text.
        auxiliary: the others.
        task: what is learned; not each task's recipe has the keys.

    Returns:
        `source_language` and `target_language`; nothing where a language is not known, or a text seems to be of others.
    """
    if not isinstance(dataset, DetectedParallelText) or dataset.direction is None or not allows_multiple_texts(task):
        return {}
    main_languages = _get_languages(dataset)
    other_languages = [_get_languages(text.text.dataset) for text in auxiliary]
    if any(
        other is not None and (main_languages is None or list(other) != list(main_languages))
        for other in other_languages
    ):
        return {}
    return dict(zip(_LANGUAGE_KEYS, dataset.direction, strict=True))


def build_text_tables(
    main: Mapping[str, Any], name: str, auxiliary: Sequence[SurveyedText], folder: Path, *, languages: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """The tables of all texts by their names, each with its languages.

    Args:
        main: the table of the main text.
        name: of the main text.
        auxiliary: the others.
        folder: that of the recipe.
        languages: what they are where no file calls them otherwise.

    Raises:
        RecipeError: files call one language by different names.
    """
    tables = {name: dict(main), **{text.text.name: dict(text.to_table(folder)) for text in auxiliary}}
    for side in _LANGUAGE_KEYS:
        tags = list(dict.fromkeys(table[side] for table in tables.values() if side in table))
        base_languages = list(dict.fromkeys(re.split("[-_]", tag.lower())[0] for tag in tags))
        if len(base_languages) > 1:
            raise RecipeError(f"--also: files call one language {' and '.join(tags)}; let them call it the same")
        for table in tables.values():
            table.update(
                {side: tags[0] if len(tags) == 1 else base_languages[0]} if tags else _select_language(languages, side)
            )
    return tables


def _select_language(languages: Mapping[str, str], side: str) -> dict[str, str]:
    return {side: languages[side]} if side in languages else {}


def derive_name(dataset: DetectedDataset) -> str:
    """What a text is called by its files: the words with which their names begin, up to a dot."""
    stems = [path.name.partition(".")[0] for path in dataset.files[dataset.present_parts[0]]]
    words = [re.split("([-_])", stem) for stem in stems]
    common = "".join(column[0] for column in takewhile(lambda column: len({*column}) == 1, zip(*words, strict=False)))
    return _INVALID_NAME_CHARACTERS.sub("-", common.rstrip("-_") or stems[0]).strip("-") or "text"


def _make_unique(name: str, used_names: Sequence[str]) -> str:
    """The name, with a number where another text has it."""
    number, unique_name = 1, name
    while unique_name in used_names:
        number += 1
        unique_name = f"{name}-{number}"
    return unique_name


def _group_files(files: Sequence[FileSniff]) -> Iterator[Sequence[FileSniff]]:
    """Files that belong together: plain ones two by two, each other one alone."""
    remaining = list(files)
    while remaining:
        first = remaining.pop(0)
        if not isinstance(first.shape, PlainLinesShape):
            yield [first]
        elif remaining and isinstance(remaining[0].shape, PlainLinesShape):
            yield [first, remaining.pop(0)]
        else:
            raise RecipeError(
                f"--also: {first.path}: {first.description}, where translations need two files; name its translation behind "
                "it, as in --also made.en made.de"
            )


def _propose_for_group(
    group: Sequence[FileSniff], task: str, languages: Sequence[LanguageInfo] | None, columns: Sequence[str]
) -> DatasetProposal:
    """What a text is for; of a memory of many languages, those of the main text."""
    (shape, *_), path = [file.shape for file in group], group[0].path
    if isinstance(shape, TranslationFileShape):
        selected_columns = _select_memory_languages(path, shape.languages, languages) if shape.languages else ()
    else:
        selected_columns = columns if _has_columns(group[0], columns) else ()
    try:
        return propose_datasets(group, task=task, columns=selected_columns)[0]
    except DataError as error:
        raise DataError(f"--also: {error}") from None


def _select_memory_languages(
    path: Path, available: Sequence[str], languages: Sequence[LanguageInfo] | None
) -> Sequence[str]:
    if languages is None:
        if len(available) == 2:
            return ()  # which has its own order
        raise RecipeError(
            f"--also: {path} has {', '.join(available)}, and the languages of the text itself cannot be told; name its "
            "files by them, as in train.en train.de"
        )
    tags = [next((tag for tag in available if has_same_language(tag, language.code)), None) for language in languages]
    for tag, language in zip(tags, languages, strict=True):
        if tag is None:
            raise RecipeError(f"--also: {path} has {', '.join(available)}, and nothing in {language}; leave it away")
    return [tag for tag in tags if tag is not None]


def _has_columns(file: FileSniff, columns: Sequence[str]) -> bool:
    """Whether a table has all of some columns."""
    if isinstance(file.shape, ParquetShape):
        return {*columns} <= {*file.shape.texts}
    if not isinstance(file.shape, TableShape | JsonObjectsShape):
        return False
    try:
        return bool([DataTable(file.path, file.shape).find_column(name) for name in columns])
    except RecipeError:
        return False


def _get_languages(dataset: DetectedParallelText) -> Sequence[LanguageInfo] | None:
    """The language that is read and the one that is written, where both can be told and differ."""
    are_distinct = (
        len(dataset.languages) == 2 and all(dataset.languages) and dataset.languages[0] != dataset.languages[1]
    )
    return dataset.languages if are_distinct else None


def _align_direction(
    dataset: DetectedParallelText, languages: Sequence[LanguageInfo] | None
) -> tuple[DetectedParallelText, Sequence[str]]:
    """A text in the direction of the main one, and what is to be said of it."""
    own_languages = _get_languages(dataset)
    if own_languages is None or languages is None or list(own_languages) == list(languages):
        return dataset, ()
    if list(own_languages) == list(reversed(languages)):
        return dataset.swap_sides(), ()
    first, second = languages
    return dataset, [
        f"note: that seems to be {own_languages[0]} to {own_languages[1]}, and the text itself is {first} to {second}"
    ]


def _fingerprint_sides(texts: Sequence[str]) -> Iterator[int]:
    """Fingerprints of the sides of a pair; an empty one has none."""
    yield from (hash_texts(str(side), text) for side, text in enumerate(texts) if text.strip())


def _is_held_out(texts: Sequence[str], held_out: frozenset[int]) -> bool:
    """Whether a side of a pair is one that is held out."""
    return any(side_fingerprint in held_out for side_fingerprint in _fingerprint_sides(texts))
