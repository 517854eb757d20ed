"""Encoded text as memory-mapped arrays in a folder.

A corpus is written once, example by example in constant memory, into a folder beside its own that is renamed when
everything is on the disk: an interrupted write leaves no corpus, and the older one, if any, as it was. An example
has a sequence on each side: the ids of source and target of a translation, words and their tags, or a document alone;
or arrays of one shape, such as the features of a picture's regions. The folder holds for each side what all examples
have, one after the other, and where each begins; `corpus.json` says how to read them, and by which sha256 a changed
byte is noticed. Where examples are texts there is a digest of each besides, by which those that occur twice are found.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, SupportsIndex, TypeVar, final

import numpy as np
from jaxtyping import Bool, Int, Integer, Shaped, UInt64

from heedful.data.context import led
from heedful.data.factors import FACTORS, Encoded, Reading
from heedful.data.readers import Pair
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RunError
from heedful.files import read_json
from heedful.store import digest, whole_folder

CHARACTERS_PER_TOKEN = 64
"""A text with more characters than this for each id it may have is too long, without being cut first."""

Example = TypeVar("Example")

_FORMAT = 2
_DESCRIPTION = "corpus.json"
_START = np.dtype("<i8")
_DIGESTS, _DIGEST = "digests", np.dtype("<u8")
_TEXTS = "texts"


@dataclass(frozen=True)
class Report:
    """What became of the examples: `kept`, dropped as `empty` on a side, dropped as `too_long` on a side."""

    kept: int
    empty: int
    too_long: int

    @classmethod
    def total(cls, reports: Iterable[Report]) -> Report:
        """Of several texts together."""
        kept, empty, too_long = zip(*((each.kept, each.empty, each.too_long) for each in reports), strict=True)
        return cls(sum(kept), sum(empty), sum(too_long))


@dataclass(frozen=True)
class Items:
    """What a side of arrays holds: of each example any number of items of one type and shape.

    Attributes:
        dtype: as numpy writes it, such as "<f4".
        shape: of an item; none for single numbers.
    """

    dtype: str
    shape: tuple[int, ...] = ()


@final
class Side:
    """One side of a corpus: the ids of each example, or its arrays; `stream` is all of them one after the other.

    Args:
        stream: ids or items.
        starts: where each example begins in it.
        stops: where it ends.
    """

    def __init__(
        self, stream: Shaped[np.ndarray, "items ..."], starts: Int[np.ndarray, " N"], stops: Int[np.ndarray, " N"]
    ) -> None:
        self.stream = stream
        self.starts = starts
        self.stops = stops

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: SupportsIndex) -> Shaped[np.ndarray, "T ..."]:
        return self.stream[self.starts[row] : self.stops[row]]

    @property
    def lengths(self) -> Int[np.ndarray, " N"]:
        """Ids, or items, in each example."""
        return np.asarray(self.stops - self.starts)

    def picked(self, rows: Integer[np.ndarray, " B"]) -> Side:
        """Some of the examples, as often as they are named; nothing is copied."""
        return Side(self.stream, self.starts[rows], self.stops[rows])

    def padded(self, rows: Integer[np.ndarray, " B"], *, pad_to: int = 1) -> Int[np.ndarray, "B T"]:
        """The ids of some examples, -1 behind them; T is the longest, up to a multiple of `pad_to`.

        No rows give B = 0 and T = `pad_to`.
        """
        real, places = self._places(rows, pad_to=pad_to)
        block = np.full(real.shape, -1, dtype=np.int64)
        block[real] = self.stream[places]
        return block

    def block(
        self, rows: Integer[np.ndarray, " B"], *, pad_to: int = 1
    ) -> tuple[Shaped[np.ndarray, "B T ..."], Int[np.ndarray, "B T"]]:
        """The arrays of some examples, zeros behind them, and the number of each item, -1 where there is none."""
        real, places = self._places(rows, pad_to=pad_to)
        block = np.zeros((*real.shape, *self.stream.shape[1:]), dtype=self.stream.dtype)
        block[real] = self.stream[places]
        return block, np.where(real, np.arange(real.shape[1]), -1)

    def _places(
        self, rows: Integer[np.ndarray, " B"], *, pad_to: int
    ) -> tuple[Bool[np.ndarray, "B T"], Int[np.ndarray, " real"]]:
        """Where there is an item of the rows side by side, and which item of the stream each of those is."""
        starts = np.asarray(self.starts[rows])
        lengths = np.asarray(self.stops[rows]) - starts
        width = -(-int(lengths.max(initial=1)) // pad_to) * pad_to
        columns = np.arange(width)
        real = columns < lengths[:, None]
        return real, (starts[:, None] + columns)[real]


@dataclass(frozen=True)
class Encoding(Generic[Example]):
    """How examples become ids or arrays.

    Attributes:
        sizes: of each side, by its name; ids are below it. What the items of a side of arrays are.
        encode: the ids or items of an example on each side; none where there is nothing to read, None where they would
            be too many.
        identity: texts and numbers that two examples share only if they are the same; None where nobody asks for
            examples that occur twice, such as pictures.
    """

    sizes: Mapping[str, int | Items]
    encode: Callable[[Example], Sequence[Sequence[Any] | np.ndarray | None]]
    identity: Callable[[Example], object] | None = None


@final
@dataclass(frozen=True, eq=False)
class Corpus:
    """Encoded examples on disk; `write_corpus` makes one.

    Attributes:
        folder: where it lies.
        report: what was kept and dropped when it was written.
        sides: the ids or arrays of all examples, by the side's name.
        digests: a number for each example, equal for those that are the same; None where there are none, as in corpora
            of older versions.
        texts: what was kept and dropped of each text that it was made of; they stand one after the other.
    """

    folder: Path
    report: Report
    sides: Mapping[str, Side]
    digests: UInt64[np.ndarray, " N"] | None = None
    texts: tuple[Report, ...] = ()

    @classmethod
    def open(cls, folder: Path, *, fingerprint: str | None = None) -> Corpus:
        """The corpus in a folder; `RunError` where it is missing, damaged or of another fingerprint.

        Every byte is read once, so that none that was changed is learned from.
        """
        try:
            record: dict[str, Any] = read_json(folder / _DESCRIPTION)
            version = record["format"]
        except OSError as error:
            raise RunError(f"{folder}: no finished corpus ({error.strerror}); encode the text again") from None
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{folder / _DESCRIPTION}: damaged; encode the text again") from None
        if version != _FORMAT:
            raise RunError(
                f"{folder}: corpus format {version!r}, but this heedful reads {_FORMAT}; encode the text anew"
            )
        if fingerprint is not None and record.get("fingerprint") != fingerprint:
            raise RunError(f"{folder}: made from other text or by other tokenizers; encode the text again")
        try:
            report = Report(**record["report"])
            sides = {name: _map(folder, name, count=report.kept, **side) for name, side in record["sides"].items()}
            if not sides:
                raise ValueError("without sides")
            digests = _map_digests(folder, record[_DIGESTS], count=report.kept) if _DIGESTS in record else None
            texts = tuple(Report(**each) for each in record.get(_TEXTS, [record["report"]]))
            if Report.total(texts) != report:
                raise ValueError("texts that are not all of it")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{folder}: damaged corpus ({error}); encode the text again") from None
        return cls(folder, report, sides, digests, texts)

    def __len__(self) -> int:
        return self.report.kept

    def __getitem__(self, side: str) -> Side:
        return self.sides[side]

    @property
    def lengths(self) -> Int[np.ndarray, "N sides"]:
        """Ids of each example on each side."""
        return np.stack([side.lengths for side in self.sides.values()], axis=1)

    def repeated(self, other: Corpus) -> int:
        """How many of the examples occur in another corpus too; 0 where that is not known."""
        if self.digests is None or other.digests is None:
            return 0
        return int(np.isin(self.digests, other.digests).sum())


def pair_encoding(source: Tokenizer, target: Tokenizer, *, max_length: int) -> Encoding[Pair]:
    """Both sides of parallel text, each with its end, at most `max_length` ids together; before a source stand its tags
    and, as far as there is room, what it follows.
    """
    opened = cache(source.opened)

    def side(text: str, tokenizer: Tokenizer, before: Sequence[str] = ()) -> list[int] | None:
        if len(text) > CHARACTERS_PER_TOKEN * max_length:
            return None
        ids = tokenizer.encode(text)
        if not ids:
            return []
        if len(ids) >= max_length:
            return None
        whole = led(Reading(tokenizer, {}), Encoded(ids), before, longest=max_length - 1)
        return [*whole.ids, tokenizer.special.eos]

    return Encoding(
        {"source": source.size, "target": target.size},
        lambda pair: (side(pair.source, opened(pair.tags), pair.before), side(pair.target, target)),
        identity=lambda pair: (pair.source, pair.target),
    )


def factored_encoding(pairs: Encoding[Pair], reading: Reading, *, max_length: int) -> Encoding[Pair]:
    """An encoding of parallel text with one more side, the factors of source pieces; the end of a source has none.

    Args:
        pairs: gives the other sides, the source first, of pairs without labels.
        reading: of sources.
        max_length: of a source, as of `pairs`.
    """
    count, opened = len(reading.factors), cache(reading.opened)

    def encode(pair: Pair) -> Sequence[Sequence[Any] | np.ndarray | None]:
        try:
            plain = [reading.plain(text) for text in (pair.source, *pair.before)]
            sides = pairs.encode(pair._replace(source=plain[0], before=tuple(plain[1:])))
            if not sides[0]:
                return (*sides, None)
            own = opened(pair.tags)
            numbers = led(own, own.encode(pair.source), pair.before, longest=max_length - 1).factors
        except DataError as error:
            raise DataError(f"{pair.place}: {error}") from None
        assert numbers is not None, "there is no factor"
        return (*sides, np.concatenate([numbers, np.zeros((1, count), numbers.dtype)]))

    sizes = {**pairs.sizes, FACTORS: Items("<u2", (count,))}
    return Encoding(sizes, encode, identity=pairs.identity)


def write_corpus(
    folder: Path,
    examples: Iterable[Example],
    *,
    encoding: Encoding[Example],
    fingerprint: str = "",
    more: Sequence[Iterable[Example]] = (),
) -> Corpus:
    """Encodes examples into a folder, in place of the corpus that may be there.

    Examples with an empty side, and those with a side that is too long, are dropped and counted.

    Args:
        folder: where the corpus goes; missing, empty, or with an older corpus in it.
        examples: what to encode, read once.
        encoding: how.
        fingerprint: what the corpus depends on, for `Corpus.open` to compare.
        more: further texts, which stand behind the first; `Corpus.texts` says where each ends.

    Raises:
        DataError: an example cannot be read, or none is left.
        RunError: the folder holds something else or cannot be written.
    """
    with whole_folder(folder, use="write the corpus to", instead_of=_DESCRIPTION) as beside:
        with ExitStack() as files:
            growing = {name: _Growing(files, beside / name, size=size) for name, size in encoding.sizes.items()}
            digests = None if encoding.identity is None else _Digests(files, beside / _DIGESTS, of=encoding.identity)
            texts = []
            for text in (examples, *more):
                texts.append(_encode(text, encoding.encode, list(growing.values()), digests))
                _require_some(texts[-1])
        sides = {name: side.about() for name, side in growing.items()}
        report = asdict(Report.total(texts))
        about = {"format": _FORMAT, "fingerprint": fingerprint, "report": report, "sides": sides}
        if more:
            about[_TEXTS] = [asdict(each) for each in texts]
        if digests is not None:
            about[_DIGESTS] = digests.sum.hexdigest()
        (beside / _DESCRIPTION).write_text(json.dumps(about, indent=1))
    return Corpus.open(folder)


def fingerprint(paths: Iterable[Path], *more: str) -> str:
    """A sha256 of what some files hold and of some texts, in this order; the names of files do not count."""
    total = hashlib.sha256()
    for path in paths:
        try:
            total.update(bytes.fromhex(digest(path)))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    total.update(b"|")
    for text in more:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()


class _Growing:
    """The two growing files of one side."""

    def __init__(self, files: ExitStack, stem: Path, *, size: int | Items) -> None:
        plain = Items("<u2" if size <= 2**16 else "<u4") if isinstance(size, int) else size
        self._dtype, self._shape = np.dtype(plain.dtype), plain.shape
        self._tokens = 0
        self._sums = {name: hashlib.sha256() for name in ("ids", "starts")}
        self._files = {
            name: files.enter_context(stem.with_suffix(f".{name}").open("wb", buffering=2**20)) for name in self._sums
        }
        self._write("starts", np.array(0, dtype=_START))

    def add(self, items: Sequence[Any] | np.ndarray) -> None:
        self._tokens += len(items)
        self._write("ids", np.asarray(items, dtype=self._dtype).reshape(len(items), *self._shape))
        self._write("starts", np.array(self._tokens, dtype=_START))

    def about(self) -> dict[str, Any]:
        shape = {"shape": list(self._shape)} if self._shape else {}
        sums = {name: each.hexdigest() for name, each in self._sums.items()}
        return {"dtype": self._dtype.str, "tokens": self._tokens, **shape, "sha256": sums}

    def _write(self, name: str, array: np.ndarray) -> None:
        content = array.tobytes()
        self._sums[name].update(content)
        self._files[name].write(content)


class _Digests(Generic[Example]):
    """The growing file of what tells examples from each other."""

    def __init__(self, files: ExitStack, path: Path, *, of: Callable[[Example], object]) -> None:
        self._of = of
        self._file = files.enter_context(path.open("wb", buffering=2**20))
        self.sum = hashlib.sha256()

    def add(self, example: Example) -> None:
        text = repr(self._of(example)).encode("utf-8", "surrogatepass")
        content = hashlib.blake2b(text, digest_size=_DIGEST.itemsize).digest()
        self.sum.update(content)
        self._file.write(content)


def _encode(
    examples: Iterable[Example],
    encode: Callable[[Example], Sequence[Sequence[Any] | np.ndarray | None]],
    sides: Sequence[_Growing],
    digests: _Digests[Example] | None,
) -> Report:
    kept = empty = too_long = 0
    for example in examples:
        encoded = encode(example)
        if any(items is not None and len(items) == 0 for items in encoded):
            empty += 1
        elif any(items is None for items in encoded):
            too_long += 1
        else:
            kept += 1
            for items, side in zip(encoded, sides, strict=True):
                side.add([] if items is None else items)
            if digests is not None:
                digests.add(example)
    return Report(kept, empty, too_long)


def _require_some(report: Report) -> None:
    read = report.kept + report.empty + report.too_long
    if read == 0:
        raise DataError("there is not a single example; check the files")
    if report.kept == 0:
        raise DataError(
            f"none of {read} examples can be used: {report.empty} with an empty side, {report.too_long} with a side "
            "that is too long; check the files or allow longer ones (data.max_length)"
        )


def _map(
    folder: Path,
    side: str,
    *,
    count: int,
    dtype: str,
    tokens: int,
    shape: Sequence[int] = (),
    sha256: Mapping[str, str] | None = None,
) -> Side:
    for name, expected in (sha256 or {}).items():  # older versions wrote none
        if digest(folder / f"{side}.{name}") != expected:
            raise ValueError(f"{side}.{name} is not what was written")
    ids = _array(folder / f"{side}.ids", dtype=np.dtype(dtype), count=tokens, shape=shape)
    starts = _array(folder / f"{side}.starts", dtype=_START, count=count + 1)
    if starts[0] != 0 or starts[-1] != tokens or np.diff(starts).min(initial=1) < 1:
        raise ValueError(f"{side}.starts does not fit {side}.ids")
    return Side(ids, starts[:-1], starts[1:])


def _map_digests(folder: Path, expected: str, *, count: int) -> UInt64[np.ndarray, " N"]:
    if digest(folder / _DIGESTS) != expected:
        raise ValueError(f"{_DIGESTS} is not what was written")
    return _array(folder / _DIGESTS, dtype=_DIGEST, count=count)


def _array(path: Path, *, dtype: np.dtype[Any], count: int, shape: Sequence[int] = ()) -> np.ndarray:
    found, needed = path.stat().st_size, count * dtype.itemsize * math.prod(shape)
    if found != needed:
        raise ValueError(f"{path.name} has {found} bytes instead of {needed}")
    # A plain view of the mapping: indexing a np.memmap costs several times as much.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count, *shape)))
