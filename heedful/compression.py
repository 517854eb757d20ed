"""Compressed files: gzip, bzip2, xz and zstd, which are recognised by their first bytes and read as streams."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from heedful.errors import DataError

_ByteStream: TypeAlias = io.BufferedIOBase | BinaryIO


def _import_zstd() -> Any | None:
    """Import the module for zstd that Python has from version 3.14 on."""
    try:
        return importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        return None


_ZSTD: Final = _import_zstd()


def _open_gzip(file: BinaryIO) -> _ByteStream:
    """Open a stream of gzip."""
    return gzip.GzipFile(fileobj=file)


def _open_zstd(file: BinaryIO) -> _ByteStream:
    """Open a stream of zstd, by Python itself or by PyArrow."""
    stream: Any = _import_pyarrow().CompressedInputStream(file, "zstd") if _ZSTD is None else _ZSTD.ZstdFile(file)
    return io.BufferedReader(stream)


def _compress_gzip(content: bytes) -> bytes:
    """Compress bytes by gzip, without the time, so that the same content gives the same bytes."""
    return gzip.compress(content, compresslevel=6, mtime=0)


def _compress_zstd(content: bytes) -> bytes:
    """Compress bytes by zstd, by Python itself or by PyArrow."""
    if _ZSTD is not None:
        return bytes(_ZSTD.compress(content))
    return bytes(_import_pyarrow().Codec("zstd").compress(content, asbytes=True))


def _import_pyarrow() -> Any:
    """Import PyArrow, which reads and writes zstd.

    Raises:
        DataError: it is not installed.
    """
    try:
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError:
        raise DataError(
            "zstd is read and written by PyArrow before Python 3.14; install heedful[parquet], or use another "
            "compression"
        ) from None


@dataclass(frozen=True)
class Compression:
    """A way to compress files.

    Attributes:
        name: for messages.
        suffix: of file names.
        print_command: the program that prints a decompressed file.
        magic: the first bytes of a compressed file.
        open_stream: opens the decompressed bytes of an open file as a stream.
        compress: compresses bytes as a whole file; such files may also follow each other in one file.
    """

    name: str
    suffix: str
    print_command: str
    magic: bytes
    open_stream: Callable[[BinaryIO], _ByteStream]
    compress: Callable[[bytes], bytes]


COMPRESSIONS: Final = (
    Compression("gzip", ".gz", "zcat", b"\x1f\x8b", _open_gzip, _compress_gzip),
    Compression("bzip2", ".bz2", "bzcat", b"BZh", bz2.BZ2File, bz2.compress),
    Compression("xz", ".xz", "xzcat", b"\xfd7zXZ\x00", lzma.LZMAFile, lzma.compress),
    Compression("zstd", ".zst", "zstdcat", b"\x28\xb5\x2f\xfd", _open_zstd, _compress_zstd),
)
_BY_SUFFIX: Final[Mapping[str, Compression]] = {each.suffix: each for each in COMPRESSIONS}
_MAGIC_BYTES: Final = max(len(each.magic) for each in COMPRESSIONS)
_BLOCK_BYTES, _READ_BYTES, _MAX_CONTENT_BYTES = 2**24, 2**20, 2**30
_DAMAGE_ERRORS: Final = (EOFError, zlib.error, lzma.LZMAError, *(() if _ZSTD is None else (_ZSTD.ZstdError,)))
"""Errors of damaged files; bzip2, gzip and PyArrow raise an `OSError` without a number instead."""


def find_compression(path: Path) -> Compression | None:
    """Return how a file is compressed, whatever its name; None if it is not."""
    with path.open("rb") as file:
        return detect_compression(file.read(_MAGIC_BYTES))


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed, whatever its name."""
    return find_compression(path) is not None


def strip_compression_suffix(name: str) -> str:
    """Return the name of a file without the suffix of its compression, such as `.gz`, if it has one."""
    stem, dot, suffix = name.rpartition(".")
    return stem if f"{dot}{suffix}".lower() in _BY_SUFFIX else name


def write_compressed(source: BinaryIO, target: BinaryIO, *, name: str) -> None:
    """Copy a file, compressed in the way that the suffix of the `name` of the target says, or as it is.

    Raises:
        DataError: a package for this way is missing.
    """
    compression = _BY_SUFFIX.get(Path(name).suffix.lower())
    while block := source.read(_BLOCK_BYTES):
        target.write(block if compression is None else compression.compress(block))


@contextmanager
def open_decompressed(path: Path) -> Iterator[_ByteStream]:
    """Open a file as a stream of its bytes, decompressed if it is compressed.

    Raises:
        DataError: when the file is opened or while it is read, if it cannot be read, is damaged, or is not compressed
            as its suffix says.
    """
    name = "compressed"
    try:
        with path.open("rb") as file:
            compression, declared = detect_compression(file.peek(_MAGIC_BYTES)), _BY_SUFFIX.get(path.suffix.lower())
            if declared is not None and compression is not declared:
                raise DataError(
                    f"{path}: not a {declared.name} file in spite of its name; compress it again or drop the "
                    f"{path.suffix}"
                )
            if compression is None:
                yield file
            else:
                name = compression.name
                with _open_stream(compression, file, path=path) as stream:
                    yield stream
    except _DAMAGE_ERRORS as error:
        raise _build_damage_error(path, name, error) from None
    except OSError as error:
        if error.errno is None:  # not an error of the system
            raise _build_damage_error(path, name, error) from None
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path and its rights") from None


def read_decompressed(path: Path) -> bytes:
    """Read all bytes of a file, decompressed; see `open_decompressed`.

    Raises:
        DataError: also if a compressed file has more than 1 GiB of content, because a few bytes can stand for many.
    """
    with open_decompressed(path) as stream:
        if not is_compressed(path):
            return stream.read()
        content = io.BytesIO()
        while block := stream.read(_READ_BYTES):
            content.write(block)
            if content.tell() > _MAX_CONTENT_BYTES:
                raise DataError(
                    f"{path}: has more than {_MAX_CONTENT_BYTES:,} bytes when unpacked; unpack and split it"
                )
        return content.getvalue()


def detect_compression(beginning: bytes) -> Compression | None:
    """Return how a file with these first bytes is compressed; None if it is not."""
    return next((each for each in COMPRESSIONS if beginning.startswith(each.magic)), None)


def _open_stream(compression: Compression, file: BinaryIO, *, path: Path) -> _ByteStream:
    """Open the decompressed bytes of an open file; name the file if a package is missing."""
    try:
        return compression.open_stream(file)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _build_damage_error(path: Path, name: str, error: Exception) -> DataError:
    return DataError(f"{path}: damaged {name} file ({error}); fetch or compress it again")
