"""Encoded parallel text as memory-mapped arrays in a folder.

A corpus is written once, pair by pair in constant memory, into a folder beside its own that is renamed when
everything is on the disk: an interrupted write leaves no corpus, and the older one, if any, as it was. The
folder holds for each side the ids of all sentences one after the other, each ended by `EOS`, and where each
begins; `corpus.json` says how to read them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, SupportsIndex, final

import numpy as np
from jaxtyping import Int, Integer

from heedful.data.readers import Pair
from heedful.data.tokenizers import EOS, PAD, Tokenizer
from heedful.errors import DataError, RunError

CHARACTERS_PER_TOKEN = 64
"""A text with more characters than this for each id it may have is too long, without being cut first."""

_FORMAT = 1
_DESCRIPTION = "corpus.json"
_START = np.dtype("<i8")
_BETWEEN_TICKS = 1000


@dataclass(frozen=True)
class Report:
    """What became of the pairs: `kept`, dropped as `empty` on a side, dropped as `too_long` on a side."""

    kept: int
    empty: int
    too_long: int


@final
class Sentences:
    """One side of a corpus: the ids of each sentence, `EOS` included."""

    def __init__(self, ids: Integer[np.ndarray, " tokens"], starts: Int[np.ndarray, " bounds"]) -> None:
        self._ids = ids
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, row: SupportsIndex) -> Integer[np.ndarray, " T"]:
        number = range(len(self))[row]
        return self._ids[self._starts[number] : self._starts[number + 1]]

    @property
    def lengths(self) -> Int[np.ndarray, " N"]:
        """Ids in each sentence."""
        return np.diff(self._starts)

    def padded(self, rows: Integer[np.ndarray, " B"], *, pad_to: int = 1) -> Int[np.ndarray, "B T"]:
        """The ids of some sentences, `PAD` behind them; T is the longest, up to a multiple of `pad_to`.

        No rows give B = 0 and T = `pad_to`.
        """
        starts = np.asarray(self._starts[rows])
        lengths = np.asarray(self._starts[np.asarray(rows) + 1]) - starts
        width = -(-int(lengths.max(initial=1)) // pad_to) * pad_to
        columns = np.arange(width)
        real = columns < lengths[:, None]
        block = np.full(real.shape, PAD, dtype=np.int64)
        block[real] = self._ids[(starts[:, None] + columns)[real]]
        return block


@final
class Corpus:
    """Pairs of encoded sentences on disk; `write_corpus` makes one.

    Attributes:
        folder: where it lies.
        report: what was kept and dropped when it was written.
        source: the ids of the source sentences.
        target: the ids of the target sentences.
    """

    def __init__(self, folder: Path, *, report: Report, source: Sentences, target: Sentences) -> None:
        self.folder = folder
        self.report = report
        self.source = source
        self.target = target

    @classmethod
    def open(cls, folder: Path, *, fingerprint: str | None = None) -> Corpus:
        """The corpus in a folder; `RunError` where it is missing, damaged or of another fingerprint."""
        try:
            record: dict[str, Any] = json.loads((folder / _DESCRIPTION).read_bytes())
            version = record["format"]
        except OSError as error:
            raise RunError(f"{folder}: no finished corpus ({error.strerror}); encode the text again") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise RunError(f"{folder / _DESCRIPTION}: damaged; encode the text again") from None
        if version != _FORMAT:
            raise RunError(
                f"{folder}: corpus format {version!r}, but this heedful reads {_FORMAT}; encode the text anew"
            )
        if fingerprint is not None and record.get("fingerprint") != fingerprint:
            raise RunError(f"{folder}: made from other text or by other tokenizers; encode the text again")
        try:
            report = Report(**record["report"])
            source = _map(folder, "source", pairs=report.kept, **record["source"])
            target = _map(folder, "target", pairs=report.kept, **record["target"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{folder}: damaged corpus ({error}); encode the text again") from None
        return cls(folder, report=report, source=source, target=target)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, row: SupportsIndex) -> tuple[Integer[np.ndarray, " S"], Integer[np.ndarray, " T"]]:
        return self.source[row], self.target[row]

    def __iter__(self) -> Iterator[tuple[Integer[np.ndarray, " S"], Integer[np.ndarray, " T"]]]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> Int[np.ndarray, "N 2"]:
        """Source and target ids of each pair, `EOS` included."""
        return np.stack([self.source.lengths, self.target.lengths], axis=1)


def write_corpus(
    folder: Path,
    pairs: Iterable[Pair],
    *,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_length: int,
    fingerprint: str = "",
    tick: Callable[[int], None] | None = None,
) -> Corpus:
    """Encodes pairs into a folder, in place of the corpus that may be there.

    Args:
        folder: where the corpus goes; missing, empty, or with an older corpus in it.
        pairs: what to encode, read once.
        source_tokenizer: cuts the source sides.
        target_tokenizer: cuts the target sides.
        max_length: the most ids a side may have, `EOS` included. Longer pairs are dropped and counted, and so
            are pairs with a side of which no id is left.
        fingerprint: what the corpus depends on, for `Corpus.open` to compare.
        tick: is told now and then, and at the end, how many pairs have been read.

    Raises:
        DataError: a pair cannot be read, or none is left.
        RunError: the folder holds something else or cannot be written.
    """
    whole = folder.resolve()
    beside = whole.with_name(f".{whole.name}.{os.getpid()}")
    try:
        if folder.exists() and not (folder / _DESCRIPTION).exists() and any(folder.iterdir()):
            raise RunError(f"{folder}: holds files but no corpus; choose a folder that is empty or new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        try:
            with ExitStack() as files:
                source = _Side(files, beside / "source", source_tokenizer, max_length=max_length)
                target = _Side(files, beside / "target", target_tokenizer, max_length=max_length)
                report = _encode(pairs, source=source, target=target, tick=tick)
                _require_some(report, max_length=max_length)
                sides = {"source": source.finish(), "target": target.finish()}
                about = {"format": _FORMAT, "fingerprint": fingerprint, "report": asdict(report), **sides}
                description = files.enter_context((beside / _DESCRIPTION).open("wb"))
                description.write(json.dumps(about, indent=1).encode())
                _sync(description)
            _replace(whole, beside)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"{folder}: cannot be written ({reason}); free space or write elsewhere") from None
    return Corpus.open(folder)


def fingerprint(paths: Iterable[Path], *more: str) -> str:
    """A sha256 of what some files hold and of some texts, in this order; the names of files do not count."""
    total = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    total.update(b"|")
    for text in more:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()


class _Side:
    """The two growing files of one side."""

    def __init__(self, files: ExitStack, stem: Path, tokenizer: Tokenizer, *, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._dtype = np.dtype("<u2" if tokenizer.size <= 2**16 else "<u4")
        self._tokens = 0
        self._ids = files.enter_context(stem.with_suffix(".ids").open("wb", buffering=2**20))
        self._starts = files.enter_context(stem.with_suffix(".starts").open("wb", buffering=2**20))
        self._starts.write(np.array(0, dtype=_START).tobytes())

    def encode(self, text: str) -> list[int] | None:
        """The ids and `EOS`; none where there is nothing to read, None where they are too many."""
        if len(text) > CHARACTERS_PER_TOKEN * self._max_length:
            return None
        ids = self._tokenizer.encode(text)
        if not ids:
            return []
        return [*ids, EOS] if len(ids) < self._max_length else None

    def add(self, ids: list[int]) -> None:
        self._tokens += len(ids)
        self._ids.write(np.array(ids, dtype=self._dtype).tobytes())
        self._starts.write(np.array(self._tokens, dtype=_START).tobytes())

    def finish(self) -> dict[str, str | int]:
        _sync(self._ids)
        _sync(self._starts)
        return {"dtype": self._dtype.str, "tokens": self._tokens}


def _encode(pairs: Iterable[Pair], *, source: _Side, target: _Side, tick: Callable[[int], None] | None) -> Report:
    kept = empty = too_long = read = 0
    for read, pair in enumerate(pairs, 1):
        first, second = source.encode(pair.source), target.encode(pair.target)
        if first == [] or second == []:
            empty += 1
        elif first is None or second is None:
            too_long += 1
        else:
            kept += 1
            source.add(first)
            target.add(second)
        if tick is not None and read % _BETWEEN_TICKS == 0:
            tick(read)
    if tick is not None:
        tick(read)
    return Report(kept, empty, too_long)


def _require_some(report: Report, *, max_length: int) -> None:
    read = report.kept + report.empty + report.too_long
    if read == 0:
        raise DataError("there is not a single pair of sentences; check the files")
    if report.kept == 0:
        raise DataError(
            f"none of {read} pairs can be used: {report.empty} with an empty side, {report.too_long} with "
            f"more than {max_length} tokens on a side; check the files or allow longer sentences"
        )


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _replace(folder: Path, newer: Path) -> None:
    older = newer.with_name(newer.name + ".old")
    if folder.exists():
        folder.rename(older)
    newer.rename(folder)
    shutil.rmtree(older, ignore_errors=True)


def _map(folder: Path, side: str, *, pairs: int, dtype: str, tokens: int) -> Sentences:
    ids = _array(folder / f"{side}.ids", dtype=np.dtype(dtype), count=tokens)
    starts = _array(folder / f"{side}.starts", dtype=_START, count=pairs + 1)
    if starts[0] != 0 or starts[-1] != tokens or np.diff(starts).min(initial=1) < 1:
        raise ValueError(f"{side}.starts does not fit {side}.ids")
    return Sentences(ids, starts)


def _array(path: Path, *, dtype: np.dtype[Any], count: int) -> np.ndarray:
    found, needed = path.stat().st_size, count * dtype.itemsize
    if found != needed:
        raise ValueError(f"{path.name} has {found} bytes instead of {needed}")
    # A plain view of the mapping: indexing a np.memmap costs several times as much.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,)))
