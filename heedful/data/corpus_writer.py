"""The files of a corpus while they are written: chunks of encoded examples, appended to files that continue after a
kill at the place where they were last saved.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, final

import numpy as np

from heedful.atomic_io import write_atomic
from heedful.files import read_json

Example = TypeVar("Example")

UNFINISHED_FILE: Final = "unfinished.json"
"""File in the folder of a corpus that is being written: what was saved, and up to where."""
DIGEST_DTYPE: Final = np.dtype("<u8")
_FORMAT: Final = 1
_BLOCK_BYTES: Final = 2**20


@dataclass(frozen=True)
class EncodedSide:
    """The items of all examples of a chunk on one side, one after the other, as bytes, and their number in each
    example.
    """

    items: bytes
    lengths: np.ndarray


@dataclass(frozen=True)
class EncodedChunk:
    """Encoded examples that follow each other.

    Attributes:
        kept: number of examples that are kept.
        empty: number of examples with an empty side, which are dropped.
        too_long: number of examples with a side that is too long, which are dropped.
        sides: the sides of the kept examples.
        digests: a digest of each kept example, as bytes; empty if there are none.
    """

    kept: int
    empty: int
    too_long: int
    sides: Sequence[EncodedSide]
    digests: bytes


@final
@dataclass(frozen=True)
class ChunkEncoder(Generic[Example]):
    """Encodes chunks of examples; the result depends on the examples alone.

    Attributes:
        encode: returns the items of an example on each side; empty or None if it is to be dropped.
        dtypes: type of the items on each side.
        identity_key: returns what the digest of an example is made of; None for no digests.
    """

    encode: Callable[[Example], Sequence[Sequence[Any] | np.ndarray | None]]
    dtypes: Sequence[np.dtype[Any]]
    identity_key: Callable[[Example], object] | None

    def __call__(self, examples: Iterable[Example]) -> EncodedChunk:
        """Encode the examples of a chunk."""
        empty = too_long = 0
        items: list[list[bytes]] = [[] for _ in self.dtypes]
        lengths: list[list[int]] = [[] for _ in self.dtypes]
        digests = []
        for example in examples:
            encoded = self.encode(example)
            if any(side is not None and len(side) == 0 for side in encoded):
                empty += 1
                continue
            if any(side is None for side in encoded):
                too_long += 1
                continue
            for index, (side, dtype) in enumerate(zip(encoded, self.dtypes, strict=True)):
                assert side is not None, "an example without a side is too long"
                items[index].append(np.asarray(side, dtype=dtype).tobytes())
                lengths[index].append(len(side))
            if self.identity_key is not None:
                digests.append(_compute_digest(self.identity_key(example)))
        sides = [
            EncodedSide(b"".join(side), np.array(sizes, dtype=np.int64))
            for side, sizes in zip(items, lengths, strict=True)
        ]
        return EncodedChunk(len(lengths[0]), empty, too_long, sides, b"".join(digests))


def _compute_digest(key: object) -> bytes:
    """Return the digest of what makes an example the same as another one."""
    text = repr(key).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=DIGEST_DTYPE.itemsize).digest()


@final
class GrowingFiles:
    """Files of one folder to which bytes are appended, with their checksums.

    What was saved with a state is there again when the files are opened with the same key after a kill. If nothing is
    continued, everything in the folder is removed.

    Args:
        stack: closes the files.
        folder: the folder.
        names: names of the files.
        key: identifies what is written; nothing is continued if it is empty or another one.
    """

    def __init__(self, stack: ExitStack, folder: Path, names: Sequence[str], *, key: str) -> None:
        self._folder, self._key = folder, key
        self.names = tuple(names)
        self.state: Mapping[str, Any] | None = None
        """the state that was saved; None if the files are new"""
        saved = _restore_saved_files(folder, names, key=key) if key else None
        if saved is None:
            _clear_folder(folder)
            self._checksums = {name: hashlib.sha256() for name in names}
        else:
            self.state, self._checksums = saved
        self._files = {
            name: stack.enter_context((folder / name).open("wb" if saved is None else "ab", buffering=_BLOCK_BYTES))
            for name in names
        }

    def append(self, name: str, content: bytes) -> None:
        """Append bytes to a file."""
        self._checksums[name].update(content)
        self._files[name].write(content)

    def get_checksum(self, name: str) -> str:
        """Return the sha256 of a file."""
        return self._checksums[name].hexdigest()

    def save(self, state: Mapping[str, Any]) -> None:
        """Save the files to disk, with a state in the form of JSON."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        files = {name: [file.tell(), self.get_checksum(name)] for name, file in self._files.items()}
        record = {"format": _FORMAT, "key": self._key, "files": files, "state": state}
        write_atomic(self._folder / UNFINISHED_FILE, json.dumps(record).encode())

    def finish(self) -> None:
        """Remove the saved state, because all files are complete."""
        (self._folder / UNFINISHED_FILE).unlink(missing_ok=True)


def _clear_folder(folder: Path) -> None:
    """Remove everything in a folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _restore_saved_files(
    folder: Path, names: Sequence[str], *, key: str
) -> tuple[Mapping[str, Any], dict[str, Any]] | None:
    """Return the state that was saved in a folder with a key, and the checksums of its files so far, after their later
    bytes are cut off; None if no state was saved, or a file differs from what was saved.
    """
    try:
        record = read_json(folder / UNFINISHED_FILE)
        if record["format"] != _FORMAT or record["key"] != key or record["files"].keys() != {*names}:
            return None
        checksums = {}
        for name, (size, digest) in record["files"].items():
            checksums[name] = _hash_beginning(folder / name, size)
            if checksums[name].hexdigest() != digest:
                return None
        for name, (size, _) in record["files"].items():
            os.truncate(folder / name, size)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record["state"], checksums


def _hash_beginning(path: Path, size: int) -> Any:
    """Return the sha256 of the first `size` bytes of a file."""
    checksum = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(size, _BLOCK_BYTES))):
            checksum.update(block)
            size -= len(block)
    return checksum
