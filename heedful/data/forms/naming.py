"""What the name of a file tells: which part of the data it is, and of which language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from heedful.data.forms.languages import Language, code_of

Part = Literal["train", "validation", "test"]
PARTS: Final[tuple[Part, ...]] = ("train", "validation", "test")
_WORDS: Final[tuple[tuple[Part, str], ...]] = (
    ("train", r"train(ing|set)?|trn|learn"),
    ("validation", r"val(id(ation)?)?|dev(el|elopment)?(set)?|tune|tuning"),
    ("test", r"test(ing|set|b)?|tst|eval(uation)?|held-?out"),
)
_COMMON: Final = ("gz", "txt", "tsv", "csv", "jsonl", "ndjson", "json", "conllu", "conll", "text", "tok", "src", "tgt")


@dataclass(frozen=True)
class Named:
    """What a name says.

    Attributes:
        part: which part of the data; None where it says nothing.
        language: of the whole file; unknown where it says nothing.
        pair: the languages of both sides, as in `en-de`; None where it names none.
    """

    part: Part | None
    language: Language
    pair: tuple[Language, Language] | None


def named(path: Path) -> Named:
    """What the name of a file says, or where it names no part, that of its folder."""
    name = path.name.lower()
    part = _part(name) or _part(path.parent.name.lower())
    return Named(part, _language(name), _pair(name))


def plain_suffix(path: Path) -> str:
    """The ending of a name, in lower case and without that of gzip."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _part(name: str) -> Part | None:
    words = re.split(r"[^a-z0-9]+|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])", name)
    for part, pattern in _WORDS:
        if any(re.fullmatch(pattern, word) for word in words):
            return part
    return None


def _language(name: str) -> Language:
    for word in reversed(name.split(".")[1:]):
        if word not in _COMMON:
            return code_of(word) if re.fullmatch(r"[a-z]{2,3}([_-][a-z]{2,4})?", word) else Language()
    stem = name.split(".", maxsplit=1)[0]
    last = re.split(r"[-_]", stem)[-1]
    return code_of(last) if re.fullmatch(r"[a-z]{2,3}", last) and _pair(name) is None else Language()


def _pair(name: str) -> tuple[Language, Language] | None:
    for found in re.finditer(r"(?<![a-z])(?=([a-z]{2,3})[-_]([a-z]{2,3})(?![a-z]))", name):
        pair = code_of(found[1]), code_of(found[2])
        if all(pair) and pair[0] != pair[1]:
            return pair
    return None
