"""Open and read files safely; all modules read files through these functions.

A file must be regular, its size is checked before it is read, and the depth and the numbers of its content are limited.
A problem with a file is an `OSError` described by its `strerror`; a problem with its content is a `ValueError`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from heedful.errors import RunError

LONGEST_NAME: Final = 255
"""Largest length of a file name in bytes."""
LONGEST_PATH: Final = 4095
"""Largest length of a path in bytes."""
LARGEST_TEXT: Final = 2**26
"""Largest size in bytes of a file that is parsed as a whole: 64 MiB, twice the largest published vocabulary."""
LARGEST_LOG: Final = 2**28
"""Largest size in bytes of a metrics file: a million lines."""
LARGEST_RECIPE: Final = 2**20
"""Largest size in bytes of a file that people write."""
MAX_JSON_DEPTH: Final = 64
"""Largest depth of JSON; files of heedful and transformers have ten levels."""
MAX_TOML_DEPTH: Final = 24
"""Largest depth of TOML, and of dotted keys; recipes have six levels."""
_MAX_CONTAINERS: Final = 2**22
"""Largest number of lists and objects in one file; each takes twenty times the memory of its two characters."""
_OPEN_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_LONG_NUMBER: Final = re.compile(r"[0-9]{19}")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_KEY_PART: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY: Final = re.compile(rf"(?<![A-Za-z0-9_-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{{MAX_TOML_DEPTH},}}")


class UnsuitableFileError(OSError):
    """A file that must not be opened; `strerror` gives the reason."""


class NestedTooDeeplyError(ValueError):
    """Lists and tables are nested more deeply than is allowed."""


def find_name_problem(path: str | Path) -> str | None:
    """Return why no file can have this path; None if one can."""
    text = str(path)
    if "\0" in text:
        return "the name holds a NUL character"
    try:
        parts = [len(part) for part in os.fsencode(text).split(os.fsencode(os.sep))]
    except UnicodeEncodeError:
        return "the name holds half of a character"
    if max(parts) > LONGEST_NAME:
        return f"a name of {max(parts):,} bytes; the maximum is {LONGEST_NAME}"
    total = sum(parts) + len(parts) - 1
    return f"a path of {total:,} bytes; the maximum is {LONGEST_PATH:,}" if total > LONGEST_PATH else None


def check_path_name(folder: Path) -> None:
    """Raise `RunError` if no file or folder can have this name."""
    if problem := find_name_problem(folder):
        text = ascii(str(folder))[1:-1]
        text = f"{text[:60]}..." if len(text) > 60 else text
        raise RunError(f"{text}: cannot be a path ({problem}); check the path")


def is_plain_name(name: str) -> bool:
    """Return whether a file name, as a manifest lists it, is a relative path inside its folder, without `..`."""
    if find_name_problem(name) is not None or not name or PureWindowsPath(name).drive or "\\" in name:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)


def resolve_inside(folder: Path, name: str) -> Path:
    """Return the path of the file `name` in a folder, if it leads to a place inside the folder.

    Raises:
        UnsuitableFileError: `..` or a link leads out of the folder.
    """
    path = folder / name
    if not is_plain_name(name):
        raise UnsuitableFileError(errno.EINVAL, "its name leads out of the folder")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UnsuitableFileError(errno.EINVAL, "a link leads out of the folder; put a copy in its place")
    return path


def is_file(path: Path) -> bool:
    """Return whether a path is that of a file. Unlike `Path.is_file`, it returns False for a name that no file can
    have, as data may contain one.
    """
    return find_name_problem(path) is None and path.is_file()


def is_folder(path: Path) -> bool:
    """Return whether a path is that of a folder; False for a name that none can have."""
    return find_name_problem(path) is None and path.is_dir()


def replace_durably(temporary: Path, path: Path) -> None:
    """Flush a file that was written to disk and rename it to `path`, so that a power cut leaves the old or the new one.

    Raises:
        OSError: the disk is full, or writing is not allowed.
    """
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def walk_folder(folder: Path) -> Iterator[Path]:
    """Yield all files and folders at any depth, in no order; links to folders are not followed.

    Unlike `Path.glob` and `Path.rglob`, it leaves nothing out in silence.

    Raises:
        OSError: a folder cannot be listed.
    """
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from walk_folder(path)


def find_leftovers(path: Path) -> Iterator[Path]:
    """Yield the temporary files that killed processes, or this one, left beside a path."""
    for leftover in path.parent.glob(f".{path.name}.*"):
        process_id = leftover.name.removeprefix(f".{path.name}.").removesuffix(".old")
        if process_id.isdecimal() and (int(process_id) == os.getpid() or not _is_alive(int(process_id))):
            yield leftover


def _is_alive(process_id: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return True


def open_regular(path: str | Path, *, max_bytes: int | None = None) -> BufferedReader:
    """Open a regular file for reading; pipes and devices are refused without waiting.

    Args:
        path: of the file.
        max_bytes: largest allowed size in bytes.

    Raises:
        UnsuitableFileError: the name is invalid, the file is not regular, or it is too large.
        OSError: it does not exist, or cannot be read.
    """
    if problem := find_name_problem(path):
        raise UnsuitableFileError(errno.ENAMETOOLONG, problem)
    handle = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnsuitableFileError(errno.EINVAL, f"{_describe_file_type(status.st_mode)} and not a regular file")
        if max_bytes is not None and status.st_size > max_bytes:
            raise UnsuitableFileError(errno.EFBIG, f"it has {status.st_size:,} bytes; the maximum is {max_bytes:,}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | Path, *, max_bytes: int = LARGEST_TEXT) -> bytes:
    """Read a regular file of at most `max_bytes` bytes; raises as `open_regular` does."""
    with open_regular(path, max_bytes=max_bytes) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def read_text(path: str | Path, *, max_bytes: int = LARGEST_TEXT, errors: str = "strict") -> str:
    """Read a regular file as UTF-8; raises as `open_regular` does, and `ValueError` if it is not UTF-8."""
    return read_bytes(path, max_bytes=max_bytes).decode("utf-8", errors)


def read_json(path: str | Path, *, max_bytes: int = LARGEST_TEXT) -> Any:
    """Read the value of a JSON file; raises as `open_regular` and `parse_json` do."""
    return parse_json(read_bytes(path, max_bytes=max_bytes))


def parse_json(text: str | bytes | bytearray) -> Any:
    """Parse JSON with limits on its depth, numbers and characters.

    Raises:
        NestedTooDeeplyError: it has more than `MAX_JSON_DEPTH` levels.
        ValueError: it is not JSON, or has too many containers, an integer beyond 64 bits, or an unpaired surrogate.
    """
    if not isinstance(text, str):
        text = text.decode("utf-8")
    num_containers = text.count("[") + text.count("{")
    if num_containers > _MAX_CONTAINERS:
        raise ValueError(f"it has {num_containers:,} lists and objects; the maximum is {_MAX_CONTAINERS:,}")
    value = parse_data(text)
    if num_containers > MAX_JSON_DEPTH:
        check_depth(value, MAX_JSON_DEPTH)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parse_data(text: str) -> Any:
    """Parse JSON of any size, for data sets; its depth is not checked.

    Raises:
        NestedTooDeeplyError: it has more levels than Python can parse.
        ValueError: it is not JSON, or has an integer beyond 64 bits.
    """
    try:
        return json.loads(text, parse_int=_parse_int) if _LONG_NUMBER.search(text) else json.loads(text)
    except RecursionError:
        raise NestedTooDeeplyError("it is nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML of limited depth.

    Raises:
        ValueError: it is not TOML, or is nested too deeply.
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
        raise ValueError("it contains a whole number with thousands of digits") from None
    check_depth(content, MAX_TOML_DEPTH)
    return content


def check_depth(value: Any, max_depth: int) -> None:
    """Raise `NestedTooDeeplyError` if lists and tables are nested more than `max_depth` levels deep."""
    level = [value]
    for _ in range(max_depth + 1):
        level = [
            child for container in level for child in _iter_children(container) if isinstance(child, (Mapping, list))
        ]
        if not level:
            return
    raise NestedTooDeeplyError(_describe_depth_limit(max_depth))


def _iter_children(value: Any) -> Iterable[Any]:
    """Return the elements of a list or table; nothing for other values."""
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def _describe_depth_limit(max_depth: int) -> str:
    """Describe the error of a value that is nested too deeply."""
    return f"it is nested more than {max_depth} levels deep"


def _parse_int(digits: str) -> int:
    """Parse an integer of at most 64 bits; raise `ValueError` for a longer one."""
    if len(digits) > 20 or not -(2**63) <= (number := int(digits)) < 2**64:
        raise ValueError(f"a whole number of {len(digits.lstrip('-')):,} digits; the maximum is 64 bits")
    return number


def _describe_file_type(mode: int) -> str:
    """Describe the type of a file that is not regular, from its `st_mode`."""
    tests = (
        (stat.S_ISDIR, "it is a folder"),
        (stat.S_ISFIFO, "it is a named pipe"),
        (stat.S_ISCHR, "it is a device"),
        (stat.S_ISBLK, "it is a device"),
        (stat.S_ISSOCK, "it is a socket"),
    )
    return next((words for test, words in tests if test(mode)), "it is something else")
