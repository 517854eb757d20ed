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
MAX_JSON_DEPTH: Final = 64
"""Levels of JSON; what heedful and transformers write has ten."""
MAX_TOML_DEPTH: Final = 24
"""Levels of TOML, and parts of a dotted key; recipes have six."""
_MAX_CONTAINERS: Final = 2**22
"""Lists and objects in one file; each takes twenty times the memory of its two characters."""
_OPEN_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_LONG_NUMBER: Final = re.compile(r"[0-9]{19}")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_KEY_PART: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY: Final = re.compile(rf"(?<![A-Za-z0-9_-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{{MAX_TOML_DEPTH},}}")


class UnsuitableFileError(OSError):
    """A file that is not opened; `strerror` says why."""


class NestedTooDeeplyError(ValueError):
    """Lists and tables that stand in each other on more levels than anything that is read has."""


def find_name_problem(path: str | Path) -> str | None:
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


def check_path_name(folder: Path) -> None:
    """A `RunError` where no file and no folder can have this name."""
    if problem := find_name_problem(folder):
        text = ascii(str(folder))[1:-1]
        text = f"{text[:60]}..." if len(text) > 60 else text
        raise RunError(f"{text}: cannot be a path ({problem}); check the path")


def is_plain_name(name: str) -> bool:
    """Whether a name that a file gives leads to a file inside of the folder: relative, without `..`."""
    if find_name_problem(name) is not None or not name or PureWindowsPath(name).drive or "\\" in name:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)


def resolve_inside(folder: Path, name: str) -> Path:
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


def open_regular(path: str | Path, *, max_bytes: int | None = None) -> BufferedReader:
    """A regular file, opened to be read; nothing else is waited for or read.

    Args:
        path: where.
        max_bytes: bytes that it may have.

    Raises:
        UnsuitableFileError: no file can have this name, it is no regular file, or it is larger.
        OSError: it is not there, or may not be read.
    """
    if problem := find_name_problem(path):
        raise UnsuitableFileError(errno.ENAMETOOLONG, problem)
    handle = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnsuitableFileError(errno.EINVAL, f"{_describe_file_type(status.st_mode)} and not a regular file")
        if max_bytes is not None and status.st_size > max_bytes:
            raise UnsuitableFileError(errno.EFBIG, f"it has {status.st_size:,} bytes, and {max_bytes:,} are the most")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | Path, *, max_bytes: int = LARGEST_TEXT) -> bytes:
    """The content of a regular file of at most `max_bytes` bytes; raises as `open_regular` does."""
    with open_regular(path, max_bytes=max_bytes) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def read_text(path: str | Path, *, max_bytes: int = LARGEST_TEXT, errors: str = "strict") -> str:
    """The same as text in UTF-8; a `ValueError` where it is none."""
    return read_bytes(path, max_bytes=max_bytes).decode("utf-8", errors)


def read_json(path: str | Path, *, max_bytes: int = LARGEST_TEXT) -> Any:
    """The value in a JSON file; raises as `open_regular` and `parse_json` do."""
    return parse_json(read_bytes(path, max_bytes=max_bytes))


def parse_json(text: str | bytes | bytearray) -> Any:
    """A value of JSON, whose depth, numbers and characters are bounded.

    Raises:
        NestedTooDeeplyError: it has more than `MAX_JSON_DEPTH` levels.
        ValueError: it is no JSON, or has too many parts, a whole number beyond 64 bits, or half of a character.
    """
    if not isinstance(text, str):
        text = text.decode("utf-8")
    num_containers = text.count("[") + text.count("{")
    if num_containers > _MAX_CONTAINERS:
        raise ValueError(f"it has {num_containers:,} lists and objects, and {_MAX_CONTAINERS:,} are the most")
    value = parse_data(text)
    if num_containers > MAX_JSON_DEPTH:
        check_depth(value, MAX_JSON_DEPTH)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parse_data(text: str) -> Any:
    """A value of JSON of any size, as people collect it; nobody who reads it follows its depth.

    Raises:
        NestedTooDeeplyError: it has more levels than Python can read.
        ValueError: it is no JSON, or has a whole number beyond 64 bits.
    """
    try:
        return json.loads(text, parse_int=_parse_int) if _LONG_NUMBER.search(text) else json.loads(text)
    except RecursionError:
        raise NestedTooDeeplyError("it is nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of TOML, whose depth is bounded.

    Raises:
        ValueError: it is no TOML, or is nested too deeply.
    """
    if _LONG_KEY.search(text):  # which takes the parser time that grows with the square of the parts
        raise NestedTooDeeplyError(_describe_depth_limit(MAX_TOML_DEPTH))
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise NestedTooDeeplyError(_describe_depth_limit(MAX_TOML_DEPTH)) from None
    except ValueError:  # of Python, whose words name a function
        raise ValueError("it holds a whole number of thousands of digits") from None
    check_depth(content, MAX_TOML_DEPTH)
    return content


def check_depth(value: Any, max_depth: int) -> None:
    """A `ValueError` where lists and tables stand in each other on more than so many levels."""
    level = [value]
    for _ in range(max_depth + 1):
        level = [
            child for container in level for child in _iter_children(container) if isinstance(child, (Mapping, list))
        ]
        if not level:
            return
    raise NestedTooDeeplyError(_describe_depth_limit(max_depth))


def _iter_children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def _describe_depth_limit(max_depth: int) -> str:
    return f"it is nested more than {max_depth} levels deep"


def _parse_int(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= (number := int(digits)) < 2**64:
        raise ValueError(f"a whole number of {len(digits.lstrip('-')):,} digits, and 64 bits are the most")
    return number


def _describe_file_type(mode: int) -> str:
    tests = (
        (stat.S_ISDIR, "it is a folder"),
        (stat.S_ISFIFO, "it is a named pipe"),
        (stat.S_ISCHR, "it is a device"),
        (stat.S_ISBLK, "it is a device"),
        (stat.S_ISSOCK, "it is a socket"),
    )
    return next((words for test, words in tests if test(mode)), "it is something else")
