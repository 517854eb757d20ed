"""The one way in which files of folders are opened and read.

A file must be a regular one, its size is known and bounded before anything is read, and what is read is bounded in
depth and in the size of its numbers. Whatever is wrong with a file is an `OSError` that says so in `strerror`; whatever
is wrong with its content is a `ValueError`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from io import BufferedReader
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from heedful.errors import RunError

LONGEST_NAME: Final = 255
"""Bytes of a file's name that file systems take."""
LONGEST_PATH: Final = 4095
"""Bytes of a path that the system takes."""
LARGEST_TEXT: Final = 2**26
"""Bytes of a file that is parsed as a whole: 64 MiB, twice the largest vocabulary that is published."""
LARGEST_LOG: Final = 2**28
"""Bytes of a file of metrics: a million lines."""
LARGEST_RECIPE: Final = 2**20
"""Bytes of a file that people write."""
DEEPEST: Final = 64
"""Levels of JSON; what heedful and transformers write has ten."""
DEEPEST_TABLE: Final = 24
"""Levels of TOML, and parts of a dotted key; recipes have six."""
_MOST_CONTAINERS: Final = 2**22
"""Lists and objects in one file; each takes twenty times the memory of its two characters."""
_MODES: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_LONG_NUMBER: Final = re.compile(r"[0-9]{19}")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
_PART: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY: Final = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST_TABLE},}}")


class UnsuitableFileError(OSError):
    """A file that is not opened; `strerror` says why."""


class NestedTooDeeplyError(ValueError):
    """Lists and tables that stand in each other on more levels than anything that is read has."""


def name_problem(path: str | Path) -> str | None:
    """Why no file can have this path; None where one can."""
    text = str(path)
    if "\0" in text:
        return "the name holds a NUL character"
    try:
        parts = [len(part) for part in os.fsencode(text).split(os.fsencode(os.sep))]
    except UnicodeEncodeError:
        return "the name holds half of a character"
    if max(parts) > LONGEST_NAME:
        return f"a name of {max(parts):,} bytes, and {LONGEST_NAME} are the most"
    total = sum(parts) + len(parts) - 1
    return f"a path of {total:,} bytes, and {LONGEST_PATH:,} are the most" if total > LONGEST_PATH else None


def require_name(folder: Path) -> None:
    """A `RunError` where no file and no folder can have this name."""
    if problem := name_problem(folder):
        shown = ascii(str(folder))[1:-1]
        shown = f"{shown[:60]}..." if len(shown) > 60 else shown
        raise RunError(f"{shown}: cannot be a path ({problem}); check the path")


def is_plain_name(name: str) -> bool:
    """Whether a name that a file gives leads to a file inside of the folder: relative, without `..`."""
    if name_problem(name) is not None or not name or PureWindowsPath(name).drive or "\\" in name:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)


def require_inside(folder: Path, name: str) -> Path:
    """The path of a file that a manifest names, which neither `..` nor a link may lead out of the folder.

    Raises:
        UnsuitableFileError: the name leads somewhere else.
    """
    path = folder / name
    if not is_plain_name(name):
        raise UnsuitableFileError(errno.EINVAL, "its name leads out of the folder")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UnsuitableFileError(errno.EINVAL, "a link leads out of the folder; put a copy in its place")
    return path


def open_regular(path: str | Path, *, most: int | None = None) -> BufferedReader:
    """A regular file, opened to be read; nothing else is waited for or read.

    Args:
        path: where.
        most: bytes that it may have.

    Raises:
        UnsuitableFileError: no file can have this name, it is no regular file, or it is larger.
        OSError: it is not there, or may not be read.
    """
    if problem := name_problem(path):
        raise UnsuitableFileError(errno.ENAMETOOLONG, problem)
    handle = os.open(path, os.O_RDONLY | _MODES)
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise UnsuitableFileError(errno.EINVAL, f"{_kind(about.st_mode)} and not a regular file")
        if most is not None and about.st_size > most:
            raise UnsuitableFileError(errno.EFBIG, f"it has {about.st_size:,} bytes, and {most:,} are the most")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | Path, *, most: int = LARGEST_TEXT) -> bytes:
    """The content of a regular file of at most `most` bytes; raises as `open_regular` does."""
    with open_regular(path, most=most) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def read_text(path: str | Path, *, most: int = LARGEST_TEXT, errors: str = "strict") -> str:
    """The same as text in UTF-8; a `ValueError` where it is none."""
    return read_bytes(path, most=most).decode("utf-8", errors)


def read_json(path: str | Path, *, most: int = LARGEST_TEXT) -> Any:
    """The value in a JSON file; raises as `open_regular` and `parse_json` do."""
    return parse_json(read_bytes(path, most=most))


def parse_json(text: str | bytes | bytearray) -> Any:
    """A value of JSON, whose depth, numbers and characters are bounded.

    Raises:
        NestedTooDeeplyError: it has more than `DEEPEST` levels.
        ValueError: it is no JSON, or has too many parts, a whole number beyond 64 bits, or half of a character.
    """
    if not isinstance(text, str):
        text = text.decode("utf-8")
    containers = text.count("[") + text.count("{")
    if containers > _MOST_CONTAINERS:
        raise ValueError(f"it has {containers:,} lists and objects, and {_MOST_CONTAINERS:,} are the most")
    value = parse_data(text)
    if containers > DEEPEST:
        require_shallow(value, DEEPEST)
    if _HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parse_data(text: str) -> Any:
    """A value of JSON of any size, as people collect it; nobody who reads it follows its depth.

    Raises:
        NestedTooDeeplyError: it has more levels than Python can read.
        ValueError: it is no JSON, or has a whole number beyond 64 bits.
    """
    try:
        return json.loads(text, parse_int=_whole) if _LONG_NUMBER.search(text) else json.loads(text)
    except RecursionError:
        raise NestedTooDeeplyError("it is nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of TOML, whose depth is bounded.

    Raises:
        ValueError: it is no TOML, or is nested too deeply.
    """
    if _LONG_KEY.search(text):  # which takes the parser time that grows with the square of the parts
        raise NestedTooDeeplyError(_too_deep(DEEPEST_TABLE))
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise NestedTooDeeplyError(_too_deep(DEEPEST_TABLE)) from None
    except ValueError:  # of Python, whose words name a function
        raise ValueError("it holds a whole number of thousands of digits") from None
    require_shallow(content, DEEPEST_TABLE)
    return content


def require_shallow(value: Any, deepest: int) -> None:
    """A `ValueError` where lists and tables stand in each other on more than so many levels."""
    level = [value]
    for _ in range(deepest + 1):
        level = [each for every in level for each in _inside(every) if isinstance(each, (Mapping, list))]
        if not level:
            return
    raise NestedTooDeeplyError(_too_deep(deepest))


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def _too_deep(deepest: int) -> str:
    return f"it is nested more than {deepest} levels deep"


def _whole(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= (number := int(digits)) < 2**64:
        raise ValueError(f"a whole number of {len(digits.lstrip('-')):,} digits, and 64 bits are the most")
    return number


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "it is a folder"),
        (stat.S_ISFIFO, "it is a named pipe"),
        (stat.S_ISCHR, "it is a device"),
        (stat.S_ISBLK, "it is a device"),
        (stat.S_ISSOCK, "it is a socket"),
    )
    return next((words for test, words in kinds if test(mode)), "it is something else")
