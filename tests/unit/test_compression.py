"""Files compressed by gzip, bzip2, xz and zstd are read like plain ones, and damaged ones are refused."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from heedful.compression import (
    COMPRESSIONS,
    find_compression,
    open_decompressed,
    read_decompressed,
    strip_compression_suffix,
    write_compressed,
)
from heedful.data.detect.sniff import PlainLinesShape, sniff_text
from heedful.data.readers import read_lines
from heedful.errors import DataError


def compress_zstd(content: bytes) -> bytes:
    """Compress bytes with zstd by PyArrow."""
    pyarrow = pytest.importorskip("pyarrow")
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": compress_zstd,
}
CONTENT = "".join(f"Zeile {number}: {'äöü' * (number % 7)}\n" for number in range(20_000)).encode()
"""More than a block of each format."""


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_are_read_as_streams_and_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text.de{suffix}"
    path.write_bytes(COMPRESS[suffix](CONTENT))
    found = find_compression(path)
    assert found is not None
    assert found.suffix == suffix
    assert read_decompressed(path) == CONTENT
    assert list(read_lines(path)) == CONTENT.decode().splitlines()
    with open_decompressed(path) as stream:
        assert stream.readline() == b"Zeile 0: \n"
    assert isinstance(sniff_text(path), PlainLinesShape)


@pytest.mark.parametrize("suffix", ["", *COMPRESS])
def test_written_files_are_compressed_as_their_names_say(tmp_path: Path, suffix: str) -> None:
    plain, path = tmp_path / "plain", tmp_path / f"text{suffix}"
    plain.write_bytes(CONTENT)
    with plain.open("rb") as source, path.open("wb") as target:
        write_compressed(source, target, name=path.name)
    assert read_decompressed(path) == CONTENT
    assert (find_compression(path) is None) == (not suffix)
    assert not suffix or path.stat().st_size < len(CONTENT) / 4


@pytest.mark.parametrize("suffix", COMPRESS)
def test_parts_that_follow_each_other_are_one_file(tmp_path: Path, suffix: str) -> None:
    """As `cat` and compressors with several threads write them."""
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](CONTENT[:1000]) + COMPRESS[suffix](CONTENT[1000:]))
    assert read_decompressed(path) == CONTENT


@pytest.mark.parametrize("suffix", COMPRESS)
def test_files_with_another_name_are_recognised(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(COMPRESS[suffix](CONTENT))
    assert read_decompressed(path) == CONTENT
    wrong = tmp_path / f"text.txt{suffix}"
    wrong.write_bytes(CONTENT)
    with pytest.raises(
        DataError, match=rf"text\.txt\{suffix}: not a \w+ file in spite of its name; .* drop the \{suffix}"
    ):
        list(read_lines(wrong))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_files_are_refused(tmp_path: Path, suffix: str) -> None:
    """A cut is always found. A changed byte may be harmless, as in a name or a time, and else it is found."""
    path, draw = tmp_path / f"text{suffix}", random.Random(7)
    compressed = COMPRESS[suffix](CONTENT)
    for size in (len(compressed) // 2, len(compressed) - 1, 12):
        path.write_bytes(compressed[:size])
        with pytest.raises(DataError, match=rf"text\{suffix}: damaged \w+ file \(.*\); fetch or compress it again"):
            list(read_lines(path))
    num_refused = 0
    for _ in range(30):
        changed = bytearray(compressed)
        changed[draw.randrange(6, len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        try:
            content = read_decompressed(path)
        except DataError as error:
            assert "damaged" in str(error)
            num_refused += 1
        else:
            assert suffix == ".zst" or content == CONTENT  # PyArrow writes zstd without a checksum
    assert num_refused > 0


@pytest.mark.parametrize("suffix", COMPRESS)
def test_few_bytes_do_not_become_many(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is smaller here, so that the test takes little memory."""
    monkeypatch.setattr("heedful.compression._MAX_CONTENT_BYTES", 2**21)
    path = tmp_path / f"zeros{suffix}"
    path.write_bytes(COMPRESS[suffix](bytes(2**21)))
    assert len(read_decompressed(path)) == 2**21
    path.write_bytes(COMPRESS[suffix](bytes(2**21 + 1)))
    with pytest.raises(DataError, match=rf"zeros\{suffix}: has more than 2,097,152 bytes when unpacked"):
        read_decompressed(path)
    (tmp_path / "plain").write_bytes(bytes(2**21 + 1))
    assert len(read_decompressed(tmp_path / "plain")) == 2**21 + 1


def test_errors_of_the_caller_are_not_errors_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(CONTENT))
    with pytest.raises(DataError, match=r"^mine$"), open_decompressed(path):
        raise DataError("mine")


def test_zstd_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.zst"
    path.write_bytes(compress_zstd(CONTENT))
    monkeypatch.setattr("heedful.compression._ZSTD", None)

    def refuse(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(
        DataError, match=r"text\.zst: zstd is read and written by PyArrow .* install heedful\[parquet\], or use"
    ):
        list(read_lines(path))


def test_names_lose_the_suffix_of_compression_only() -> None:
    names = {"a.tsv.gz": "a.tsv", "a.JSONL.XZ": "a.JSONL", "a.txt": "a.txt", "gz": "gz", "a.gz.bz2": "a.gz", "": ""}
    assert {name: strip_compression_suffix(name) for name in names} == names
    assert {each.suffix for each in COMPRESSIONS} == set(COMPRESS)
