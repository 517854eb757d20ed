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

from heedful.atomic_io import atomic_folder, compute_digest
from heedful.data.context import prepend_context
from heedful.data.factors import FACTORS_SIDE, EncodedText, SourceEncoder
from heedful.data.readers import SentencePair
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RunError
from heedful.files import read_json

CHARACTERS_PER_TOKEN = 64
"""A text with more characters than this for each id it may have is too long, without being cut first."""

Example = TypeVar("Example")

_FILE_FORMAT = 2
_DESCRIPTION_FILE = "corpus.json"
_START_DTYPE = np.dtype("<i8")
_DIGESTS_FILE, _DIGEST_DTYPE = "digests", np.dtype("<u8")
_TEXTS_KEY = "texts"


@dataclass(frozen=True)
class EncodingReport:
    """What became of the examples: `kept`, dropped as `empty` on a side, dropped as `too_long` on a side."""

    kept: int
    empty: int
    too_long: int

    @classmethod
    def from_reports(cls, reports: Iterable[EncodingReport]) -> EncodingReport:
        """Of several texts together."""
        kept, empty, too_long = zip(*((report.kept, report.empty, report.too_long) for report in reports), strict=True)
        return cls(sum(kept), sum(empty), sum(too_long))


@dataclass(frozen=True)
class ArraySpec:
    """What a side of arrays holds: of each example any number of items of one type and shape.

    Attributes:
        dtype: as numpy writes it, such as "<f4".
        shape: of an item; none for single numbers.
    """

    dtype: str
    shape: tuple[int, ...] = ()


@final
class CorpusSide:
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

    def select_rows(self, rows: Integer[np.ndarray, " B"]) -> CorpusSide:
        """Some of the examples, as often as they are named; nothing is copied."""
        return CorpusSide(self.stream, self.starts[rows], self.stops[rows])

    def collate_ids(self, rows: Integer[np.ndarray, " B"], *, pad_to: int = 1) -> Int[np.ndarray, "B T"]:
        """The ids of some examples, -1 behind them; T is the longest, up to a multiple of `pad_to`.

        No rows give B = 0 and T = `pad_to`.
        """
        is_item, indices = self._locate_items(rows, pad_to=pad_to)
        block = np.full(is_item.shape, -1, dtype=np.int64)
        block[is_item] = self.stream[indices]
        return block

    def collate_arrays(
        self, rows: Integer[np.ndarray, " B"], *, pad_to: int = 1
    ) -> tuple[Shaped[np.ndarray, "B T ..."], Int[np.ndarray, "B T"]]:
        """The arrays of some examples, zeros behind them, and the number of each item, -1 where there is none."""
        is_item, indices = self._locate_items(rows, pad_to=pad_to)
        block = np.zeros((*is_item.shape, *self.stream.shape[1:]), dtype=self.stream.dtype)
        block[is_item] = self.stream[indices]
        return block, np.where(is_item, np.arange(is_item.shape[1]), -1)

    def _locate_items(
        self, rows: Integer[np.ndarray, " B"], *, pad_to: int
    ) -> tuple[Bool[np.ndarray, "B T"], Int[np.ndarray, " real"]]:
        """Where there is an item of the rows side by side, and which item of the stream each of those is."""
        starts = np.asarray(self.starts[rows])
        lengths = np.asarray(self.stops[rows]) - starts
        width = -(-int(lengths.max(initial=1)) // pad_to) * pad_to
        columns = np.arange(width)
        is_item = columns < lengths[:, None]
        return is_item, (starts[:, None] + columns)[is_item]


@dataclass(frozen=True)
class ExampleEncoder(Generic[Example]):
    """How examples become ids or arrays.

    Attributes:
        side_sizes: of each side, by its name; ids are below it. What the items of a side of arrays are.
        encode: the ids or items of an example on each side; none where there is nothing to read, None where they would
            be too many.
        identity_key: texts and numbers that two examples share only if they are the same; None where nobody asks for
            examples that occur twice, such as pictures.
    """

    side_sizes: Mapping[str, int | ArraySpec]
    encode: Callable[[Example], Sequence[Sequence[Any] | np.ndarray | None]]
    identity_key: Callable[[Example], object] | None = None


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
        text_reports: what was kept and dropped of each text that it was made of; they stand one after the other.
    """

    folder: Path
    report: EncodingReport
    sides: Mapping[str, CorpusSide]
    digests: UInt64[np.ndarray, " N"] | None = None
    text_reports: tuple[EncodingReport, ...] = ()

    @classmethod
    def open(cls, folder: Path, *, fingerprint: str | None = None) -> Corpus:
        """The corpus in a folder; `RunError` where it is missing, damaged or of another fingerprint.

        Every byte is read once, so that none that was changed is learned from.
        """
        try:
            record: dict[str, Any] = read_json(folder / _DESCRIPTION_FILE)
            version = record["format"]
        except OSError as error:
            raise RunError(f"{folder}: no finished corpus ({error.strerror}); encode the text again") from None
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{folder / _DESCRIPTION_FILE}: damaged; encode the text again") from None
        if version != _FILE_FORMAT:
            raise RunError(
                f"{folder}: corpus format {version!r}, but this heedful reads {_FILE_FORMAT}; encode the text anew"
            )
        if fingerprint is not None and record.get("fingerprint") != fingerprint:
            raise RunError(f"{folder}: made from other text or by other tokenizers; encode the text again")
        try:
            report = EncodingReport(**record["report"])
            sides = {name: _map_side(folder, name, count=report.kept, **side) for name, side in record["sides"].items()}
            if not sides:
                raise ValueError("without sides")
            digests = (
                _map_digests(folder, record[_DIGESTS_FILE], count=report.kept) if _DIGESTS_FILE in record else None
            )
            text_reports = tuple(
                EncodingReport(**report_record) for report_record in record.get(_TEXTS_KEY, [record["report"]])
            )
            if EncodingReport.from_reports(text_reports) != report:
                raise ValueError("texts that are not all of it")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{folder}: damaged corpus ({error}); encode the text again") from None
        return cls(folder, report, sides, digests, text_reports)

    def __len__(self) -> int:
        return self.report.kept

    def __getitem__(self, side: str) -> CorpusSide:
        return self.sides[side]

    @property
    def lengths(self) -> Int[np.ndarray, "N sides"]:
        """Ids of each example on each side."""
        return np.stack([side.lengths for side in self.sides.values()], axis=1)

    def count_shared_examples(self, other: Corpus) -> int:
        """How many of the examples occur in another corpus too; 0 where that is not known."""
        if self.digests is None or other.digests is None:
            return 0
        return int(np.isin(self.digests, other.digests).sum())


def build_pair_encoder(source: Tokenizer, target: Tokenizer, *, max_length: int) -> ExampleEncoder[SentencePair]:
    """Both sides of parallel text, each with its end, at most `max_length` ids together; before a source stand its tags
    and, as far as there is room, what it follows.
    """
    get_tagged_tokenizer = cache(source.with_tags)

    def encode_side(text: str, tokenizer: Tokenizer, context: Sequence[str] = ()) -> list[int] | None:
        if len(text) > CHARACTERS_PER_TOKEN * max_length:
            return None
        ids = tokenizer.encode(text)
        if not ids:
            return []
        if len(ids) >= max_length:
            return None
        encoded = prepend_context(SourceEncoder(tokenizer, {}), EncodedText(ids), context, max_pieces=max_length - 1)
        return [*encoded.ids, tokenizer.special.eos]

    return ExampleEncoder(
        {"source": source.size, "target": target.size},
        lambda pair: (
            encode_side(pair.source, get_tagged_tokenizer(pair.tags), pair.context),
            encode_side(pair.target, target),
        ),
        identity_key=lambda pair: (pair.source, pair.target),
    )


def build_factored_encoder(
    pair_encoder: ExampleEncoder[SentencePair], source_encoder: SourceEncoder, *, max_length: int
) -> ExampleEncoder[SentencePair]:
    """An encoding of parallel text with one more side, the factors of source pieces; the end of a source has none.

    Args:
        pair_encoder: gives the other sides, the source first, of pairs without labels.
        source_encoder: of sources.
        max_length: of a source, as of `pair_encoder`.
    """
    num_factors, get_tagged_encoder = len(source_encoder.factors), cache(source_encoder.with_tags)

    def encode(pair: SentencePair) -> Sequence[Sequence[Any] | np.ndarray | None]:
        try:
            plain_texts = [source_encoder.strip_labels(text) for text in (pair.source, *pair.context)]
            sides = pair_encoder.encode(pair._replace(source=plain_texts[0], context=tuple(plain_texts[1:])))
            if not sides[0]:
                return (*sides, None)
            tagged_encoder = get_tagged_encoder(pair.tags)
            factors = prepend_context(
                tagged_encoder, tagged_encoder.encode(pair.source), pair.context, max_pieces=max_length - 1
            ).factors
        except DataError as error:
            raise DataError(f"{pair.location}: {error}") from None
        assert factors is not None, "there is no factor"
        return (*sides, np.concatenate([factors, np.zeros((1, num_factors), factors.dtype)]))

    sizes = {**pair_encoder.side_sizes, FACTORS_SIDE: ArraySpec("<u2", (num_factors,))}
    return ExampleEncoder(sizes, encode, identity_key=pair_encoder.identity_key)


def write_corpus(
    folder: Path,
    examples: Iterable[Example],
    *,
    encoder: ExampleEncoder[Example],
    fingerprint: str = "",
    more_texts: Sequence[Iterable[Example]] = (),
) -> Corpus:
    """Encodes examples into a folder, in place of the corpus that may be there.

    Examples with an empty side, and those with a side that is too long, are dropped and counted.

    Args:
        folder: where the corpus goes; missing, empty, or with an older corpus in it.
        examples: what to encode, read once.
        encoder: how.
        fingerprint: what the corpus depends on, for `Corpus.open` to compare.
        more_texts: further texts, which stand behind the first; `Corpus.text_reports` says where each ends.

    Raises:
        DataError: an example cannot be read, or none is left.
        RunError: the folder holds something else or cannot be written.
    """
    with atomic_folder(folder, purpose="write the corpus to", replaceable_marker=_DESCRIPTION_FILE) as temporary:
        with ExitStack() as files:
            side_writers = {
                name: _SideWriter(files, temporary / name, size_or_spec=size)
                for name, size in encoder.side_sizes.items()
            }
            digest_writer = (
                None
                if encoder.identity_key is None
                else _DigestWriter(files, temporary / _DIGESTS_FILE, identity_key=encoder.identity_key)
            )
            reports = []
            for text in (examples, *more_texts):
                reports.append(_encode_examples(text, encoder.encode, list(side_writers.values()), digest_writer))
                _require_examples(reports[-1])
        sides = {name: writer.to_json() for name, writer in side_writers.items()}
        report = asdict(EncodingReport.from_reports(reports))
        description = {"format": _FILE_FORMAT, "fingerprint": fingerprint, "report": report, "sides": sides}
        if more_texts:
            description[_TEXTS_KEY] = [asdict(text_report) for text_report in reports]
        if digest_writer is not None:
            description[_DIGESTS_FILE] = digest_writer.checksum.hexdigest()
        (temporary / _DESCRIPTION_FILE).write_text(json.dumps(description, indent=1))
    return Corpus.open(folder)


def compute_fingerprint(paths: Iterable[Path], *texts: str) -> str:
    """A sha256 of what some files hold and of some texts, in this order; the names of files do not count."""
    sha256 = hashlib.sha256()
    for path in paths:
        try:
            sha256.update(bytes.fromhex(compute_digest(path)))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    sha256.update(b"|")
    for text in texts:
        sha256.update(hashlib.sha256(text.encode()).digest())
    return sha256.hexdigest()


class _SideWriter:
    """The two growing files of one side."""

    def __init__(self, files: ExitStack, stem: Path, *, size_or_spec: int | ArraySpec) -> None:
        spec = ArraySpec("<u2" if size_or_spec <= 2**16 else "<u4") if isinstance(size_or_spec, int) else size_or_spec
        self._dtype, self._shape = np.dtype(spec.dtype), spec.shape
        self._num_items = 0
        self._checksums = {name: hashlib.sha256() for name in ("ids", "starts")}
        self._files = {
            name: files.enter_context(stem.with_suffix(f".{name}").open("wb", buffering=2**20))
            for name in self._checksums
        }
        self._append_array("starts", np.array(0, dtype=_START_DTYPE))

    def add_items(self, items: Sequence[Any] | np.ndarray) -> None:
        self._num_items += len(items)
        self._append_array("ids", np.asarray(items, dtype=self._dtype).reshape(len(items), *self._shape))
        self._append_array("starts", np.array(self._num_items, dtype=_START_DTYPE))

    def to_json(self) -> dict[str, Any]:
        shape = {"shape": list(self._shape)} if self._shape else {}
        sums = {name: sha256.hexdigest() for name, sha256 in self._checksums.items()}
        return {"dtype": self._dtype.str, "tokens": self._num_items, **shape, "sha256": sums}

    def _append_array(self, name: str, array: np.ndarray) -> None:
        content = array.tobytes()
        self._checksums[name].update(content)
        self._files[name].write(content)


class _DigestWriter(Generic[Example]):
    """The growing file of what tells examples from each other."""

    def __init__(self, files: ExitStack, path: Path, *, identity_key: Callable[[Example], object]) -> None:
        self._identity_key = identity_key
        self._file = files.enter_context(path.open("wb", buffering=2**20))
        self.checksum = hashlib.sha256()

    def add_example(self, example: Example) -> None:
        text = repr(self._identity_key(example)).encode("utf-8", "surrogatepass")
        content = hashlib.blake2b(text, digest_size=_DIGEST_DTYPE.itemsize).digest()
        self.checksum.update(content)
        self._file.write(content)


def _encode_examples(
    examples: Iterable[Example],
    encode: Callable[[Example], Sequence[Sequence[Any] | np.ndarray | None]],
    side_writers: Sequence[_SideWriter],
    digest_writer: _DigestWriter[Example] | None,
) -> EncodingReport:
    kept = empty = too_long = 0
    for example in examples:
        encoded = encode(example)
        if any(items is not None and len(items) == 0 for items in encoded):
            empty += 1
        elif any(items is None for items in encoded):
            too_long += 1
        else:
            kept += 1
            for items, writer in zip(encoded, side_writers, strict=True):
                writer.add_items([] if items is None else items)
            if digest_writer is not None:
                digest_writer.add_example(example)
    return EncodingReport(kept, empty, too_long)


def _require_examples(report: EncodingReport) -> None:
    num_read = report.kept + report.empty + report.too_long
    if num_read == 0:
        raise DataError("there is not a single example; check the files")
    if report.kept == 0:
        raise DataError(
            f"none of {num_read} examples can be used: {report.empty} with an empty side, {report.too_long} with a side "
            "that is too long; check the files or allow longer ones (data.max_length)"
        )


def _map_side(
    folder: Path,
    side: str,
    *,
    count: int,
    dtype: str,
    tokens: int,
    shape: Sequence[int] = (),
    sha256: Mapping[str, str] | None = None,
) -> CorpusSide:
    for name, expected in (sha256 or {}).items():  # older versions wrote none
        if compute_digest(folder / f"{side}.{name}") != expected:
            raise ValueError(f"{side}.{name} is not what was written")
    ids = _map_array(folder / f"{side}.ids", dtype=np.dtype(dtype), count=tokens, shape=shape)
    starts = _map_array(folder / f"{side}.starts", dtype=_START_DTYPE, count=count + 1)
    if starts[0] != 0 or starts[-1] != tokens or np.diff(starts).min(initial=1) < 1:
        raise ValueError(f"{side}.starts does not fit {side}.ids")
    return CorpusSide(ids, starts[:-1], starts[1:])


def _map_digests(folder: Path, expected: str, *, count: int) -> UInt64[np.ndarray, " N"]:
    if compute_digest(folder / _DIGESTS_FILE) != expected:
        raise ValueError(f"{_DIGESTS_FILE} is not what was written")
    return _map_array(folder / _DIGESTS_FILE, dtype=_DIGEST_DTYPE, count=count)


def _map_array(path: Path, *, dtype: np.dtype[Any], count: int, shape: Sequence[int] = ()) -> np.ndarray:
    size, needed = path.stat().st_size, count * dtype.itemsize * math.prod(shape)
    if size != needed:
        raise ValueError(f"{path.name} has {size} bytes instead of {needed}")
    # A plain view of the mapping: indexing a np.memmap costs several times as much.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count, *shape)))
