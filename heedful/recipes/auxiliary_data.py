"""Auxiliary parallel texts (`heedful new --also`): found like the main text, in its direction, and without its
held-out pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from heedful.compression import is_compressed
from heedful.data.detect.dataset_report import DatasetReport, build_report
from heedful.data.detect.format import DetectedDataset, PartWriter
from heedful.data.detect.hash_sample import DatasetSplit, hash_texts
from heedful.data.detect.languages import LanguageInfo
from heedful.data.detect.parallel import DetectedParallelText
from heedful.data.detect.registry import sniff_file
from heedful.data.detect.sniff import FileSniff, PlainLinesShape
from heedful.data.translation_files import TranslationFileShape
from heedful.errors import DataError, RecipeError
from heedful.language_tags import is_same_language
from heedful.recipes.recipe_writer import DatasetProposal, format_path, propose_datasets
from heedful.recipes.reference import list_keys
from heedful.registry import list_tasks

_TEXTS_KEY: Final = "data.train.texts"
_LANGUAGE_KEYS: Final = ("source_language", "target_language")
_INVALID_NAME_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class AuxiliaryText:
    """A parallel text in addition to the main one.

    Attributes:
        name: name of its table in the recipe.
        dataset: its files, and how they are read.
        is_certain: whether the format was recognized with certainty.
        saver: writes it if it must be converted or filtered.
        notes: further messages, in sentences.
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

    def survey(self, held_out: frozenset[int], *, processes: int = 1) -> SurveyedText:
        """Read the whole text without its held-out pairs, by this number of processes; raise `DataError` if no pair is
        left.
        """
        text_survey = build_report(self.dataset, processes=processes)
        count = sum(1 for pair in self.dataset.read_examples("train") if _is_held_out(pair.texts, held_out))
        if count == text_survey.example_counts["train"]:
            raise DataError(f"--also: {self.description} has only pairs that are held out; leave it out")
        return SurveyedText(self, text_survey, held_out, count)


@dataclass(frozen=True)
class SurveyedText:
    """An auxiliary text that has been read completely.

    Attributes:
        text: the text.
        survey: survey of its content.
        held_out: fingerprints of the held-out sides of the main text.
        num_excluded: number of pairs that are left out because one of their sides is held out.
    """

    text: AuxiliaryText
    survey: DatasetReport
    held_out: frozenset[int]
    num_excluded: int

    @property
    def num_pairs(self) -> int:
        """Number of pairs that are kept."""
        return self.survey.example_counts["train"] - self.num_excluded

    @property
    def paths(self) -> Sequence[Path]:
        """Files that must be written; empty if the original files can be used."""
        return self.text.saver.paths if self.num_excluded or self.text.dataset.conversion_reason else ()

    @property
    def description_lines(self) -> Sequence[str]:
        """Description of the text, in lines."""
        dataset = self.text.dataset
        doubt = "" if self.text.is_certain else ", which is not certain"
        lines = [f"also, {self.text.description}: {dataset.format_description}, {dataset.learning_description}{doubt}"]
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
        """Write the kept pairs, those that are not held out, to files, unless the original files can be used as they
        are.
        """
        if not self.paths:
            return
        with self.text.saver as saver:
            for pair in self.text.dataset.read_examples("train"):
                if not _is_held_out(pair.texts, self.held_out):
                    saver.write_example(pair.raw)

    def to_table(self, folder: Path) -> Mapping[str, Any]:
        """Return the table of this text for a recipe that lies in `folder`, to which the paths are relative."""
        return self.text.dataset.to_recipe_table(
            [format_path(path, folder) for path in self.paths or self.text.dataset.files["train"]]
        )


def allows_multiple_texts(task: str) -> bool:
    """Whether recipes of a task may have several training texts."""
    return any(key.path == _TEXTS_KEY for key in list_keys(task))


def find_auxiliary_texts(
    files: Sequence[Path], main: DatasetProposal, folder: Path, *, columns: Sequence[str] = ()
) -> Sequence[AuxiliaryText]:
    """Recognize the texts in files that are trained on in addition to the main text; `folder` is for texts that must be
    written, `columns` are read from tables that have them.

    Args:
        files: files of any format; two files of plain text that follow each other belong together.
        main: the main text.
        folder: folder for texts that must be written.
        columns: columns of the main text, which are read from tables that have them.

    Raises:
        RecipeError: the task allows only one training text, a file lacks its partner, or languages do not fit.
        DataError: the format of a file is not recognized.
    """
    if not allows_multiple_texts(main.task):
        supporting_tasks = ", ".join(task for task in list_tasks() if allows_multiple_texts(task))
        raise RecipeError(
            f'--also: task = "{main.task}" trains on one text; leave it out, or add --task {supporting_tasks}'
        )
    assert isinstance(main.dataset, DetectedParallelText), "only parallel text can be given as several texts"
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
        saver = dataset.build_writer(folder / name, "train", compress=is_compressed(dataset.get_first_file("train")))
        texts.append(AuxiliaryText(name, dataset, proposal.is_certain, saver, [*notes, *dataset.notes]))
    return texts


def collect_held_out(dataset: DetectedDataset, split: DatasetSplit | None) -> frozenset[int]:
    """Collect fingerprints of both sides of all validation and test pairs of a dataset, with those training pairs that
    a planned split takes out (None for no split).

    Args:
        dataset: the main text, before it is split.
        split: the planned split of its training part; None if it is not split.
    """
    fingerprints: set[int] = set()
    for part in dataset.present_parts:
        for example in dataset.read_examples(part):
            if part != "train" or (split is not None and split.find_part(example.split_keys) is not None):
                fingerprints.update(_fingerprint_sides(example.texts))
    return frozenset(fingerprints)


def find_common_languages(dataset: DetectedDataset, auxiliary: Sequence[SurveyedText], task: str) -> Mapping[str, str]:
    """Return the recipe keys `source_language` and `target_language` with the languages that the main dataset and all
    auxiliary texts share; empty if a language is unknown or differs, or the task has no such keys.

    Args:
        dataset: the main text.
        auxiliary: the auxiliary texts.
        task: the task; not every task has these keys.

    Returns:
        `source_language` and `target_language`; empty if a language is unknown or a text seems to have other languages.
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
    """Build the recipe tables of the main text, called `name`, and of the auxiliary ones, by name, each with its
    languages. Paths are relative to `folder`, that of the recipe.

    Args:
        main: table of the main text.
        name: name of the main text.
        auxiliary: the auxiliary texts.
        folder: folder of the recipe.
        languages: the languages to use where a file does not name them.

    Raises:
        RecipeError: files use different names for one language.
    """
    tables = {name: dict(main), **{text.text.name: dict(text.to_table(folder)) for text in auxiliary}}
    for side in _LANGUAGE_KEYS:
        tags = list(dict.fromkeys(table[side] for table in tables.values() if side in table))
        base_languages = list(dict.fromkeys(re.split("[-_]", tag.lower())[0] for tag in tags))
        if len(base_languages) > 1:
            raise RecipeError(
                f"--also: the files name one language {' and '.join(tags)}; use the same name in all files"
            )
        for table in tables.values():
            table.update(
                {side: tags[0] if len(tags) == 1 else base_languages[0]} if tags else _select_language(languages, side)
            )
    return tables


def _select_language(languages: Mapping[str, str], side: str) -> dict[str, str]:
    """Return the language key of one side; empty if it is unknown."""
    return {side: languages[side]} if side in languages else {}


def derive_name(dataset: DetectedDataset) -> str:
    """Derive the name of a dataset from its files: the common beginning of their names, up to a dot."""
    stems = [path.name.partition(".")[0] for path in dataset.files[dataset.present_parts[0]]]
    words = [re.split("([-_])", stem) for stem in stems]
    common = "".join(column[0] for column in takewhile(lambda column: len({*column}) == 1, zip(*words, strict=False)))
    return _INVALID_NAME_CHARACTERS.sub("-", common.rstrip("-_") or stems[0]).strip("-") or "text"


def _make_unique(name: str, used_names: Sequence[str]) -> str:
    """Return the name, with a number appended if it is one of `used_names`."""
    number, unique_name = 1, name
    while unique_name in used_names:
        number += 1
        unique_name = f"{name}-{number}"
    return unique_name


def _group_files(files: Sequence[FileSniff]) -> Iterator[Sequence[FileSniff]]:
    """Yield the files that belong together: two plain texts that follow each other, all other files alone. Raise
    `RecipeError` if a plain text has no partner.
    """
    remaining = list(files)
    while remaining:
        first = remaining.pop(0)
        if not isinstance(first.shape, PlainLinesShape):
            yield [first]
        elif remaining and isinstance(remaining[0].shape, PlainLinesShape):
            yield [first, remaining.pop(0)]
        else:
            raise RecipeError(
                f"--also: {first.path}: {first.description}, but translations need two files; give its translation "
                "after it, as in --also made.en made.de"
            )


def _propose_for_group(
    group: Sequence[FileSniff], task: str, languages: Sequence[LanguageInfo] | None, columns: Sequence[str]
) -> DatasetProposal:
    """Recognize the text for a task in a group of files. A table is read with these columns if it has them; from a
    memory of many languages, those of the main text are chosen (None if unknown).
    """
    (shape, *_), path = [file.shape for file in group], group[0].path
    if isinstance(shape, TranslationFileShape):
        selected_columns = _select_memory_languages(path, shape.languages, languages) if shape.languages else ()
    else:
        selected_columns = columns if shape.has_columns(columns) else ()
    try:
        return propose_datasets(group, task=task, columns=selected_columns)[0]
    except DataError as error:
        raise DataError(f"--also: {error}") from None


def _select_memory_languages(
    path: Path, available: Sequence[str], languages: Sequence[LanguageInfo] | None
) -> Sequence[str]:
    """Choose the two languages of the main text among the `available` ones of a translation memory. If those of the
    main text are unknown (None), return nothing for a memory of two; otherwise raise `RecipeError`.
    """
    if languages is None:
        if len(available) == 2:
            return ()  # which has its own order
        raise RecipeError(
            f"--also: {path} has {', '.join(available)}, but the languages of the main text are unknown; name its "
            "files by language, as in train.en train.de"
        )
    tags = [next((tag for tag in available if is_same_language(tag, language.code)), None) for language in languages]
    for tag, language in zip(tags, languages, strict=True):
        if tag is None:
            raise RecipeError(f"--also: {path} has {', '.join(available)}, but nothing in {language}; leave it out")
    return [tag for tag in tags if tag is not None]


def _get_languages(dataset: DetectedParallelText) -> Sequence[LanguageInfo] | None:
    """Return source and target language of a dataset if both are known and differ; otherwise None."""
    are_distinct = (
        len(dataset.languages) == 2 and all(dataset.languages) and dataset.languages[0] != dataset.languages[1]
    )
    return dataset.languages if are_distinct else None


def _align_direction(
    dataset: DetectedParallelText, languages: Sequence[LanguageInfo] | None
) -> tuple[DetectedParallelText, Sequence[str]]:
    """Return a text in the direction of the main text, whose languages are given (None if unknown), and notes. Both
    sides are swapped if necessary; a note says that the languages seem to be others.
    """
    own_languages = _get_languages(dataset)
    if own_languages is None or languages is None or list(own_languages) == list(languages):
        return dataset, ()
    if list(own_languages) == list(reversed(languages)):
        return dataset.swap_sides(), ()
    first, second = languages
    return dataset, [
        f"note: that seems to be {own_languages[0]} to {own_languages[1]}, but the main text is {first} to {second}"
    ]


def _fingerprint_sides(texts: Sequence[str]) -> Iterator[int]:
    """Yield the fingerprints of the non-empty sides of a pair."""
    yield from (hash_texts(str(side), text) for side, text in enumerate(texts) if text.strip())


def _is_held_out(texts: Sequence[str], held_out: frozenset[int]) -> bool:
    return any(side_fingerprint in held_out for side_fingerprint in _fingerprint_sides(texts))
