r"""Types of option values, and detection of file names among words of a command line where a text may stand too.

A word is the name of a file where

- it ends like one: the ending belongs to a format that heedful reads or writes, or to documents, tables, pictures,
  sounds, clips, archives or weights (`letter.docx`, `my letter.docx`, `train.en.gz`);
- it is one word and its ending is the code of a language, as corpora have it (`test.de`);
- it begins like a path (`./x`, `../x`, `~/x`, `/x/y`, `C:\x`, `\\server\x`), with spaces in it or without;
- it is one word with a slash or backslash between names (`runs/my-run`, `and/or`).

Everything else is text, such as `Hello.`, `e.g.`, `Node.js`, `3/4`, `</b>`, `https://example.com/a.html`, and
`this and/or that`. An option such as `--text` takes a word as text whatever it looks like.
"""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, final

from heedful.english_words import closest_match
from heedful.errors import RecipeError

_MAX_INT: Final = 2**63 - 1
_MAX_SHOWN: Final = 40


def shorten(word: str) -> str:
    """Shorten a long word in the middle for messages."""
    return word if len(word) <= _MAX_SHOWN else f"{word[: _MAX_SHOWN // 2]}...{word[-_MAX_SHOWN // 4 :]}"


def _describe_too_large(word: str) -> str:
    """Return the message for a number that is too large."""
    return f"{shorten(word)} is too large; give a number of at most 18 digits"


class OptionType(ABC):
    """Type of an option's value, which is one word.

    Abstract: each type defines how a word is converted.

    Attributes:
        noun: what to give, for messages.
        example: an example, for messages.
        metavar: the word for a value in the help.
        choices: all allowed words, if there are few.
        is_path: whether the value is the path of a file or folder.
    """

    noun: str
    example: ClassVar[str] = ""
    metavar: str
    choices: Sequence[str] = ()
    is_path: ClassVar[bool] = False

    @abstractmethod
    def convert(self, word: str) -> Any:
        """Convert a word to the value; raise `ValueError` with a description of what is wrong."""


@final
class TextType(OptionType):
    """Any text."""

    noun = "a text"
    example = "TEXT"
    metavar = "TEXT"

    def convert(self, word: str) -> str:
        """Return the word."""
        return word


@final
@dataclass(frozen=True)
class PathType(OptionType):
    """A path; `-` is standard input for files that are read.

    Attributes:
        suffixes: allowed suffixes of files that are written; empty for any.
        hint: hint for other suffixes.
    """

    noun = "a path"
    example = "PATH"
    metavar = "PATH"
    is_path = True

    suffixes: Sequence[str] = ()
    hint: str = ""

    def convert(self, word: str) -> Path:
        """Return the path; `ValueError` for an empty one, which would be the current folder, and for a suffix that is
        not allowed.
        """
        if not word:
            raise ValueError("is empty; give a path")
        path = Path(word)
        if self.suffixes and path.suffix and path.suffix.lower() not in self.suffixes:
            allowed = " or ".join(self.suffixes)
            raise ValueError(
                f"{word!r} ends with {path.suffix}, but the file to write must end with {allowed}{self.hint}"
            )
        return path


@final
class IntType(OptionType):
    """A whole number."""

    noun = "a whole number"
    example = "4"
    metavar = "INT"

    def convert(self, word: str) -> int:
        """Return the number; `ValueError` for other words, and for numbers of more than 64 bits."""
        try:
            number = int(word)
        except ValueError:
            if word.lstrip("+-").isdecimal():  # Python reads no number of several thousand digits
                raise ValueError(_describe_too_large(word)) from None
            raise ValueError(f"{shorten(word)!r} is not a whole number") from None
        if abs(number) > _MAX_INT:
            raise ValueError(_describe_too_large(word))
        return number


@final
class FloatType(OptionType):
    """A number."""

    noun = "a number"
    example = "0.9"
    metavar = "FLOAT"

    def convert(self, word: str) -> float:
        """Return the number; `ValueError` for other words."""
        try:
            return float(word)
        except ValueError:
            comma = f"; write {word.replace(',', '.')}" if word.replace(",", "", 1).isdecimal() else ""
            raise ValueError(f"{shorten(word)!r} is not a number{comma}") from None


@final
@dataclass(frozen=True)
class ChoiceType(OptionType):
    """One of a few words."""

    choices: Sequence[str]

    @property
    def noun(self) -> str:  # type: ignore[override]  # it depends on the words
        """All allowed words, for messages."""
        return f"one of {', '.join(self.choices)}"

    @property
    def metavar(self) -> str:  # type: ignore[override]  # likewise
        """All allowed words, for the help."""
        return f"{{{','.join(self.choices)}}}"

    def convert(self, word: str) -> str:
        """Return the word if it is one of the choices; otherwise raise `ValueError`, which suggests a similar one."""
        if word in self.choices:
            return word
        suggestion = closest_match(word, self.choices)
        raise ValueError(
            f"{word!r} is not one of {', '.join(self.choices)}{f'; did you mean {suggestion}?' if suggestion else ''}"
        )


_MAX_PATH_LENGTH: Final = 4096
"""Largest number of bytes of a path that systems accept."""
_TEXT_SUFFIXES: Final = """
    txt md rst tex rtf log html htm xhtml xml svg po pot xlf xliff sdlxliff tmx tbx srt vtt ttml sbv resx arb properties
    idml csv tsv tab json jsonl ndjson yaml yml toml ini cfg conf conll conllu sgm sgml ipynb vocab
"""
"""Suffixes of text, markup, localization files, tables, data and settings."""
_BINARY_SUFFIXES: Final = """
    pdf epub doc docx docm dot dotx odt odp ods ott fodt ppt pptx pptm xls xlsx xlsm mo
    parquet arrow feather avro orc h5 hdf5 db sqlite sqlite3
    npy npz pt pth ckpt safetensors bin gguf onnx pkl pickle spm model
    png jpg jpeg jpe gif bmp webp tif tiff heic heif avif ico psd eps ppm pgm
    wav mp3 flac ogg oga opus m4a aac wma aif aiff au mp4 m4v mkv avi mov webm mpg mpeg wmv flv ogv
    gz bz2 xz zst zip tar tgz 7z rar
"""
"""Suffixes of office documents, binary tables and arrays, weights, pictures, sounds, clips and archives."""
FILE_SUFFIXES: Final = frozenset((*_TEXT_SUFFIXES.split(), *_BINARY_SUFFIXES.split()))
"""All known file suffixes, in lower case."""
_LANGUAGE_SUFFIXES: Final = """
    af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu ha he hi hr hu hy id ig is it ja jv ka kk
    km kn ko ku ky la lb lo lt lv mg mi mk ml mn mr ms mt my nb ne nl nn no ny om or pa pl ps pt qu ro ru rw sd si sk sl
    sm sn so sq sr st su sv sw ta te tg th ti tk tl tn tr ts tt ug uk ur uz vi wo xh yi yo yue zh zu
"""
"""Language codes with which the names of corpora end."""
_SUFFIX: Final = re.compile(r"[^\s.]\.(\w+)$")
_PATH_START: Final = re.compile(r"\.{1,2}[/\\]|~[\w.-]*[/\\]|[A-Za-z]:[/\\](?!/)\S|\\\\\w|/[^/\s][^/]*/\S")
_NAMES_WITH_SLASH: Final = re.compile(r"[\w.~*?@%+=,-]+([/\\][\w.~*?@%+=,-]+)+[/\\]?")
_NUMBERS_ONLY: Final = re.compile(r"[\d\W_]+")


def is_file_name(word: str) -> bool:
    """Return whether a word has the form of a file name: a known suffix, the beginning of a path, or one word that ends
    with a language code or has slashes between names.
    """
    if "\n" in word or len(word) > _MAX_PATH_LENGTH or re.match(r"\w+://", word) or _NUMBERS_ONLY.fullmatch(word):
        return False
    if _PATH_START.match(word):
        return True
    suffix = _SUFFIX.search(word)
    if suffix and suffix[1].lower() in FILE_SUFFIXES:
        return True
    if any(map(str.isspace, word)):
        return False
    return bool((suffix and suffix[1].lower() in _LANGUAGE_SUFFIXES.split()) or _NAMES_WITH_SLASH.fullmatch(word))


def path_exists(word: str) -> bool:
    """Return whether a file or folder with the name `word` exists; False for names that the system does not accept."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):  # a text may be longer than any name
        return False


def count_leading_paths(words: Sequence[str]) -> int:
    """Count the words at the beginning that are paths: the first word, and further ones that exist or look like a
    file.
    """
    count = 1
    while count < len(words) and (path_exists(words[count]) or is_file_name(words[count])):
        count += 1
    return count


def require_text(word: str, *, option: str, input_option: str | None) -> None:
    """Raise an error for the name of a file where a text is expected. The message names `option`, which takes the word
    as a text, and `input_option`, which reads files.

    Args:
        word: word of the command line.
        option: the option that takes it as text.
        input_option: the option that reads files of texts; None if the command has none.

    Raises:
        RecipeError: the word looks like a file.
    """
    if not is_file_name(word):
        return
    as_text = f"write {option} {shlex.quote(word)} if it is a text"
    if not path_exists(word):
        raise RecipeError(f"{word}: there is no such file; check the name, or {as_text}")
    input_hint = (
        f"give it with {input_option} to read the texts in it"
        if input_option
        else "this command does not read such files"
    )
    raise RecipeError(f"{word}: is a file, but a text is expected here; {input_hint}, or {as_text}")


def require_folders(paths: Sequence[Path], *, input_hint: str) -> None:
    """Raise an error for files where run folders are expected; the message ends with `input_hint`.

    Args:
        paths: paths of the command line.
        input_hint: which files the command reads and how they are given, for messages.

    Raises:
        RecipeError: one is a file, or does not exist and its name has the suffix of a file.
    """
    for path in paths:
        suffix, exists = path.suffix.lower(), path_exists(str(path))
        if exists and (path.is_dir() or suffix == ".toml"):  # a recipe has a message of its own
            continue
        if not exists and suffix[1:] not in FILE_SUFFIXES:
            continue
        state = "is a file and not a run folder" if exists else "there is no such file"
        raise RecipeError(f"{path}: {state}; {input_hint}")


def require_text_suffix(path: Path, *, option: str) -> None:
    """Raise an error if the name of an output file of text has the suffix of another format, such as a document or an
    archive. The message names the `option`.

    Raises:
        RecipeError: its suffix is one of those.
    """
    if path.suffix.lower()[1:] in _BINARY_SUFFIXES.split():
        other = path.with_suffix(".txt").name
        raise RecipeError(
            f"{option}: {path} ends with {path.suffix}, but lines of plain text are written; choose another name, such "
            f"as {other}"
        )
