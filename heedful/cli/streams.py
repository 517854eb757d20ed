"""Standard streams of the process: closed streams are opened, and errors name the stream that failed."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, Final, final

from heedful.errors import DataError

_INPUT, _OUTPUT, _ERRORS = range(3)
_REMEDY: Final = "make room, or send it elsewhere (heedful ... > FILE)"


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
    """Open the null device under the number of a standard stream, so that no other file gets that number."""
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
    """Return the error to raise for an `OSError` of standard output."""
    if isinstance(error, BrokenPipeError):
        return error
    if error.errno == errno.EBADF:
        return DataError("standard output: is closed; name a file for the results with --output, or leave it open")
    return DataError(f"standard output: cannot be written ({error.strerror or error}); {_REMEDY}")
