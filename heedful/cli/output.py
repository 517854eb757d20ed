"""Standard streams, files for results, and messages; errors name the stream or the file that failed, or what the
machine lacks.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, final

from heedful.errors import DataError, RecipeError

_INPUT, _OUTPUT, _ERRORS = range(3)
_REMEDY: Final = "free some space, or send the output elsewhere (heedful ... > FILE)"


@final
class ResultStream(io.TextIOWrapper):
    """Standard output that raises `DataError` if it cannot be written, and `BrokenPipeError` if its reader has gone.

    An `OSError` of a full disk does not name the stream it belongs to.
    """

    def write(self, text: str) -> int:
        """Write text and return the number of characters."""
        try:
            return super().write(text)
        except OSError as error:
            raise _convert_output_error(error) from error

    def flush(self) -> None:
        """Write the buffered text."""
        try:
            super().flush()
        except OSError as error:
            raise _convert_output_error(error) from error


@final
class _ClosedInput(io.RawIOBase):
    """Standard input of a process that was started without one; reading raises `DataError`."""

    def readable(self) -> bool:
        return True

    def readinto(self, _: Any) -> int:
        raise DataError("standard input: is closed; name a file with --input, or give text to the command (< FILE)")


def prepare_streams() -> None:
    """Open each standard stream that is closed, and make standard output name itself in errors.

    Python has None in place of a closed stream, and the system gives its number to the next file that is opened, so
    that messages would be written into that file. Closed standard input and output become streams that fail when they
    are used, so that commands that do not need them work. Closed standard error accepts messages and drops them.
    Streams that were replaced by other code stay.
    """
    if sys.stdin is None:
        _open_null_device(_INPUT, os.O_RDONLY)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()))
    if sys.stdout is None:
        _open_null_device(_OUTPUT, os.O_RDONLY)
        sys.stdout = ResultStream(io.BufferedWriter(io.FileIO(_OUTPUT, "w", closefd=False)), encoding="utf-8")
    elif sys.stdout is sys.__stdout__ and type(sys.stdout) is io.TextIOWrapper:
        original = sys.stdout
        sys.stdout = ResultStream(
            original.buffer,
            encoding=original.encoding,
            errors=original.errors,
            line_buffering=original.line_buffering,
            write_through=original.write_through,
        )
    if sys.stderr is None:
        _open_null_device(_ERRORS, os.O_WRONLY)
        sys.stderr = open(_ERRORS, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _open_null_device(number: int, flags: int) -> None:
    """Open the null device for reading or writing (`flags`) under the number of a standard stream, so that no other
    file gets that number.
    """
    handle = os.open(os.devnull, flags)
    if handle != number:
        os.dup2(handle, number)
        os.close(handle)


def flush_streams() -> None:
    """Write the buffered output, or drop it if that fails, so that the interpreter exits without an error message."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, DataError):
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, stream.fileno())
            os.close(null_device)


def _convert_output_error(error: OSError) -> Exception:
    """Return the error to raise for an `OSError` of standard output: a `BrokenPipeError` itself, otherwise a
    `DataError`.
    """
    if isinstance(error, BrokenPipeError):
        return error
    if error.errno == errno.EBADF:
        return DataError("standard output: is closed; name a file for the results with --output, or leave it open")
    return DataError(f"standard output: cannot be written ({error.strerror or error}); {_REMEDY}")


_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@final
class ResultOutput:
    """Stream of results; a file keeps its previous content until the first result is written.

    Control characters are replaced by visible signs in a terminal, because texts may come from untrusted sources. If
    `truncate` is set, the previous content of the stream is removed at the first write.
    """

    def __init__(self, stream: IO[str], *, truncate: bool) -> None:
        self._stream = stream
        self._truncate = truncate

    @property
    def stream(self) -> IO[str]:
        """The underlying stream, for output with its own control characters."""
        if self._truncate:
            self._stream.truncate(0)
            self._truncate = False
        return self._stream

    def write(self, text: str) -> None:
        """Write a result or a part of one."""
        self.stream.write(escape_control_characters(text) if self.stream.isatty() else text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def store(self, *, num_answered: int, num_unread: int) -> None:
        """Flush the stream after the answers to a number of inputs, some of which could not be read."""
        self.flush()


@contextmanager
def open_output(path: Path | None) -> Iterator[ResultOutput]:
    """Open standard output or a file for results.

    Raises:
        DataError: the file cannot be written.
    """
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # pytest's stand-in lacks it
        yield ResultOutput(sys.stdout, truncate=False)
        return
    with wrap_write_errors(path, "--output"), path.open("a", encoding="utf-8") as file:
        out = ResultOutput(file, truncate=path.is_file())
        yield out
        out.write("")  # also if there are no results


def write_bytes_to_stdout(content: bytes) -> None:
    """Write the content of a whole file to standard output.

    Raises:
        DataError: it cannot be written.
    """
    sys.stdout.flush()
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"standard output: cannot be written ({error.strerror}); name a file with -o") from None


@contextmanager
def wrap_write_errors(path: Path, option: str) -> Iterator[None]:
    """Convert an `OSError` in the block to a `DataError` that names the file and the option."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); choose another {option}") from None


def require_writable(path: Path, option: str) -> None:
    """Raise `DataError`, which names the option, if a file cannot be written, before hours of work; leave no file
    behind.

    A pipe is not tried, because its reader would take that for the end.
    """
    if path.is_fifo():
        return
    existed = path.exists()
    with wrap_write_errors(path, option):
        path.open("a", encoding="utf-8").close()
        if not existed:
            path.unlink()


def log(text: str) -> None:
    """Print a message to standard error; errors of writing are ignored."""
    with suppress(OSError):
        print(
            f"{text}\n", end="", file=sys.stderr, flush=True
        )  # in one call, because several threads may write messages


def escape_control_characters(text: str) -> str:
    """Replace each control character by a visible sign, as ␛ for escape; tabs and line feeds stay."""
    from heedful.inspection.svg import make_visible

    return _CONTROL_CHARACTERS.sub(lambda match: make_visible(match[0]), text)


def require_named_files(files: Sequence[Path]) -> None:
    """Raise `RecipeError` if standard input is among the files of a command that reads them more than once."""
    if any(str(file) == "-" for file in files):
        raise RecipeError("-: files are read more than once, and standard input cannot be; save it to a file first")


def require_unused_paths(paths: Iterable[Path], *, sources: Sequence[Path], overwrite: bool, remedy: str) -> None:
    """Raise `RecipeError` if an output is one of the inputs (`sources`), or exists and must not be overwritten; the
    message contains the `remedy`.

    Args:
        paths: the outputs.
        sources: the inputs.
        overwrite: whether existing files are replaced.
        remedy: what to do about it, such as "choose another place".
    """
    for path in paths:
        if any(path.resolve() == source.resolve() for source in sources):
            raise RecipeError(f"{path}: would be overwritten while it is read; {remedy}")
        if path.exists() and not overwrite:
            raise RecipeError(f"{path}: already exists; {remedy}, or add --overwrite")


_REMEDIES_BY_ERRNO: Final = {
    errno.ENAMETOOLONG: "shorten the name",
    errno.ELOOP: "the links there form a loop; correct them, or give the file itself",
    errno.ENOSPC: "free some space, and start the same command again",
    errno.EDQUOT: "free some space, and start the same command again",
    errno.EROFS: "choose a place with write permission",
    errno.EACCES: "check its permissions, or choose another place",
    errno.EPERM: "check its permissions, or choose another place",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file",
    errno.EIO: "check the disk or the connection to it",
    errno.ESTALE: "check the disk or the connection to it",
}
"""What to do about file errors of the operating system."""
_OUT_OF_MEMORY: Final = re.compile(
    r"can't allocate memory|cannot allocate memory|out of memory|not enough memory|bad_alloc"
    r"|storage size calculation overflowed|numel: integer multiplication overflow",
    re.IGNORECASE,
)
"""Messages of PyTorch for too little memory, or for sizes that no machine can have."""
_REQUESTED_SIZE: Final = re.compile(r"tried to allocate ([\d.,]+ ?\w+)")
_MAX_SHOWN: Final = 200
"""Number of characters of a path in a message."""
_MEMORY_REMEDY: Final = "use less (a smaller model, batch or beam, shorter texts), or a larger machine"
_REQUIRED_PACKAGES: Final = frozenset(
    (
        "filelock",
        "jaxtyping",
        "numpy",
        "pydantic",
        "pydantic_core",
        "rich",
        "sacrebleu",
        "safetensors",
        "sentencepiece",
        "torch",
    )
)
"""Packages that heedful needs."""


def explain_error(error: BaseException) -> str | None:
    """Return the message for an error of the machine or of the installation; None if it may be a bug of heedful.

    Such errors are missing memory, files that the system does not open, and packages that are missing or damaged.
    """
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error))):
        size = _REQUESTED_SIZE.search(str(error))
        return f"not enough memory{f' ({size[1]} requested at once)' if size else ''}; {_MEMORY_REMEDY}"
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # of Path.resolve until Python 3.12
        path = str(error).partition("'")[2].rstrip("'")
        return f"{_shorten_path(path)}: {os.strerror(errno.ELOOP)}; {_REMEDIES_BY_ERRNO[errno.ELOOP]}"
    if isinstance(error, OSError) and error.errno in _REMEDIES_BY_ERRNO:
        path = f"{_shorten_path(os.fsdecode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
        return f"{path}{error.strerror}; {_REMEDIES_BY_ERRNO[error.errno]}"
    if isinstance(error, ImportError):
        return _explain_import(error)
    return None


def _explain_import(error: ImportError) -> str | None:
    """Return the message for a required package that cannot be imported; None for other packages."""
    package = (error.name or "").partition(".")[0]
    if package not in _REQUIRED_PACKAGES:
        return None
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return f"{package} is not installed, but heedful needs it; install it with: pip install heedful"
    reason = str(error).partition("\n")[0]
    return f"{package} cannot be imported ({reason}); install it again with: pip install --force-reinstall {package}"


def _shorten_path(text: str) -> str:
    """Shorten a long text in the middle for messages."""
    half = _MAX_SHOWN // 2
    return text if len(text) <= _MAX_SHOWN else f"{text[:half]}...{text[-half:]}"
