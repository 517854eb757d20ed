"""Parse the names of files: the part of the dataset, and the languages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from heedful.compression import strip_compression_suffix
from heedful.data.detect.languages import LanguageInfo, parse_language_code

DatasetPart = Literal["train", "validation", "test"]
PARTS: Final[tuple[DatasetPart, ...]] = ("train", "validation", "test")
_PART_PATTERNS: Final[tuple[tuple[DatasetPart, str], ...]] = (
    ("train", r"train(ing|set)?|trn|learn"),
    ("validation", r"val(id(ation)?)?|dev(el|elopment)?(set)?|tune|tuning"),
    ("test", r"test(ing|set|b)?|tst|eval(uation)?|held-?out"),
)
_IGNORED_SUFFIXES: Final = (
    "gz",
    "txt",
    "tsv",
    "csv",
    "jsonl",
    "ndjson",
    "json",
    "conllu",
    "conll",
    "text",
    "tok",
    "src",
    "tgt",
)


@dataclass(frozen=True)
class FileNameInfo:
    """The information in a file name.

    Attributes:
        part: the part of the dataset; None if the name has none.
        language: the language of the whole file; unknown if the name has none.
        language_pair: the languages of both sides, as in `en-de`; None if the name has none.
    """

    part: DatasetPart | None
    language: LanguageInfo
    language_pair: tuple[LanguageInfo, LanguageInfo] | None


def parse_file_name(path: Path) -> FileNameInfo:
    """Parse the name of a file; if it has no part, the part is taken from the name of its folder."""
    name = path.name.lower()
    part = _parse_part(name) or _parse_part(path.parent.name.lower())
    return FileNameInfo(part, _parse_language(name), _parse_language_pair(name))


def get_suffix(path: Path) -> str:
    """Return the suffix of a file name in lower case, without `.gz`."""
    return Path(strip_compression_suffix(path.name.lower())).suffix


def _parse_part(name: str) -> DatasetPart | None:
    """Return the part that a word in the name of a file or folder stands for; None if there is none."""
    words = re.split(r"[^a-z0-9]+|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])", name)
    for part, pattern in _PART_PATTERNS:
        if any(re.fullmatch(pattern, word) for word in words):
            return part
    return None


def _parse_language(name: str) -> LanguageInfo:
    """Return the language that a suffix or the last word of a file name stands for; unknown if there is none."""
    for word in reversed(name.split(".")[1:]):
        if word not in _IGNORED_SUFFIXES:
            return parse_language_code(word) if re.fullmatch(r"[a-z]{2,3}([_-][a-z]{2,4})?", word) else LanguageInfo()
    stem = name.split(".", maxsplit=1)[0]
    last = re.split(r"[-_]", stem)[-1]
    return (
        parse_language_code(last)
        if re.fullmatch(r"[a-z]{2,3}", last) and _parse_language_pair(name) is None
        else LanguageInfo()
    )


def _parse_language_pair(name: str) -> tuple[LanguageInfo, LanguageInfo] | None:
    """Return the two languages in a file name such as `en-de`; None if there are none."""
    for match in re.finditer(r"(?<![a-z])(?=([a-z]{2,3})[-_]([a-z]{2,3})(?![a-z]))", name):
        pair = parse_language_code(match[1]), parse_language_code(match[2])
        if all(pair) and pair[0] != pair[1]:
            return pair
    return None
