"""Encoded text as memory-mapped arrays in a folder.

A corpus is written once, example by example in constant memory, into a temporary folder that is renamed when everything
is on disk: an interrupted write leaves no corpus, and an older corpus stays as it was. An example has one sequence on
each side: the ids of source and target of a translation, words and their tags, or a document alone; or arrays of one
shape, such as the features of a picture's regions. For each side the folder holds the items of all examples, one after
the other, and where each example begins; `corpus.json` describes the files and holds the sha256 by which a changed byte
is noticed. For text examples there is also a digest of each example, by which duplicates are found.
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
"""A text with more characters than this for each allowed id is too long; it is rejected without being tokenized."""

Example = TypeVar("Example")

_FILE_FORMAT = 2
_DESCRIPTION_FILE = "corpus.json"
_START_DTYPE = np.dtype("<i8")
_DIGESTS_FILE, _DIGEST_DTYPE = "digests", np.dtype("<u8")
_TEXTS_KEY = "texts"


@dataclass(frozen=True)
class EncodingReport:
    """Counts of examples that were `kept`, dropped because a side was `empty`, or dropped because a side was
    `too_long`.
    """

    kept: int
    empty: int
    too_long: int

    @classmethod
    def from_reports(cls, reports: Iterable[EncodingReport]) -> EncodingReport:
        """Sum the reports of several texts."""
        kept, empty, too_long = zip(*((report.kept, report.empty, report.too_long) for report in reports), strict=True)
        return cls(sum(kept), sum(empty), sum(too_long))


@dataclass(frozen=True)
class ArraySpec:
    """Type and shape of the items on a side that holds arrays; an example may have any number of items.

    Attributes:
        dtype: numpy's name of the type, such as "<f4".
        shape: shape of one item; empty for single numbers.
    """

    dtype: str
    shape: tuple[int, ...] = ()


@final
class CorpusSide:
    """One side of a corpus: the ids or arrays of each example; `stream` holds those of all examples, one after the
    other.

    Args:
        stream: ids or items of all examples.
        starts: index in `stream` where each example begins.
        stops: index in `stream` where each example ends.
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
        """Number of ids or items in each example."""
        return np.asarray(self.stops - self.starts)

    def select_rows(self, rows: Integer[np.ndarray, " B"]) -> CorpusSide:
        """Return a side with the given examples, repeated as often as they are named; nothing is copied."""
        return CorpusSide(self.stream, self.starts[rows], self.stops[rows])

    def collate_ids(self, rows: Integer[np.ndarray, " B"], *, pad_to: int = 1) -> Int[np.ndarray, "B T"]:
        """Return the ids of the examples in `rows`, padded with -1 on the right; T is the longest length, rounded up to
        a multiple of `pad_to`.

        An empty `rows` gives B = 0 and T = `pad_to`.
        """
        is_item, indices = self._locate_items(rows, pad_to=pad_to)
        block = np.full(is_item.shape, -1, dtype=np.int64)
        block[is_item] = self.stream[indices]
        return block

    def collate_arrays(
        self, rows: Integer[np.ndarray, " B"], *, pad_to: int = 1
    ) -> tuple[Shaped[np.ndarray, "B T ..."], Int[np.ndarray, "B T"]]:
        """Return the arrays of the examples in `rows`, padded with zeros on the right to a multiple of `pad_to`, and
        the position of each item, -1 for padding.
        """
        is_item, indices = self._locate_items(rows, pad_to=pad_to)
        block = np.zeros((*is_item.shape, *self.stream.shape[1:]), dtype=self.stream.dtype)
        block[is_item] = self.stream[indices]
        return block, np.where(is_item, np.arange(is_item.shape[1]), -1)

    def _locate_items(
        self, rows: Integer[np.ndarray, " B"], *, pad_to: int
    ) -> tuple[Bool[np.ndarray, "B T"], Int[np.ndarray, " real"]]:
        """Return a [B, T] mask of the real items in a padded batch of the examples in `rows`, and the index in `stream`
        of each real item; T is a multiple of `pad_to`.
        """
        starts = np.asarray(self.starts[rows])
        lengths = np.asarray(self.stops[rows]) - starts
        width = -(-int(lengths.max(initial=1)) // pad_to) * pad_to
        columns = np.arange(width)
        is_item = columns < lengths[:, None]
        return is_item, (starts[:, None] + columns)[is_item]


@dataclass(frozen=True)
class ExampleEncoder(Generic[Example]):
    """Converts examples into the ids or arrays of each side of a corpus.

    Attributes:
        side_sizes: for each side by name, the vocabulary size, or the array type of its items.
        encode: returns the ids or items of an example on each side; empty if there is nothing to read, None if there
            would be too many.
        identity_key: returns a value that two examples share only if they are the same; None if duplicates are not
            looked for, as with pictures.
    """

    side_sizes: Mapping[str, int | ArraySpec]
    encode: Callable[[Example], Sequence[Sequence[Any] | np.ndarray | None]]
    identity_key: Callable[[Example], object] | None = None


@final
@dataclass(frozen=True, eq=False)
class Corpus:
    """Encoded examples on disk; `write_corpus` creates one.

    Attributes:
        folder: the folder of the corpus.
        report: numbers of kept and dropped examples.
        sides: the ids or arrays of all examples, by name of the side.
        digests: one number for each example, equal for equal examples; None if there are none, as in corpora of older
            versions.
        text_reports: numbers of kept and dropped examples of each text in the corpus; the texts follow one another.
    """

    folder: Path
    report: EncodingReport
    sides: Mapping[str, CorpusSide]
    digests: UInt64[np.ndarray, " N"] | None = None
    text_reports: tuple[EncodingReport, ...] = ()

    @classmethod
    def open(cls, folder: Path, *, fingerprint: str | None = None) -> Corpus:
        """Open the corpus in a folder; raise `RunError` if it is missing, damaged or has another fingerprint.

        Every byte is read once, so that no changed byte is used for training.
        """
        try:
            record: dict[str, Any] = read_json(folder / _DESCRIPTION_FILE)
            version = record["format"]
        except OSError as error:
            raise RunError(f"{folder}: is not a finished corpus ({error.strerror}); encode the text again") from None
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{folder / _DESCRIPTION_FILE}: damaged; encode the text again") from None
        if version != _FILE_FORMAT:
            raise RunError(
                f"{folder}: corpus format {version!r}, but this heedful reads {_FILE_FORMAT}; encode the text again"
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
                raise ValueError("counts of its texts do not add up")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{folder}: damaged corpus ({error}); encode the text again") from None
        return cls(folder, report, sides, digests, text_reports)

    def __len__(self) -> int:
        return self.report.kept

    def __getitem__(self, side: str) -> CorpusSide:
        return self.sides[side]

    @property
    def lengths(self) -> Int[np.ndarray, "N sides"]:
        """Number of ids of each example on each side."""
        return np.stack([side.lengths for side in self.sides.values()], axis=1)

    def count_shared_examples(self, other: Corpus) -> int:
        """Count the examples of this corpus that also occur in another one; 0 if there are no digests."""
        if self.digests is None or other.digests is None:
            return 0
        return int(np.isin(self.digests, other.digests).sum())


def build_pair_encoder(source: Tokenizer, target: Tokenizer, *, max_length: int) -> ExampleEncoder[SentencePair]:
    """Build the encoder of parallel text with a tokenizer for each side: the ids of a text and its end id, at most
    `max_length` ids on a side; tags precede the source, and so does its context as far as there is room.
    """
    get_tagged_tokenizer = cache(source.with_tags)

    def encode_side(text: str, tokenizer: Tokenizer, context: Sequence[str] = ()) -> list[int] | None:
        """Encode one side with its end id; empty if there is no text, None if it is too long."""
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
    """Build an encoder of parallel text with one more side: the factors of the source pieces; the end id has factor 0.

    Args:
        pair_encoder: encodes the other sides, the source first, of pairs without labels.
        source_encoder: encodes sources with factors.
        max_length: largest number of ids of a source, the same as of `pair_encoder`.
    """
    num_factors, get_tagged_encoder = len(source_encoder.factors), cache(source_encoder.with_tags)

    def encode(pair: SentencePair) -> Sequence[Sequence[Any] | np.ndarray | None]:
        """Encode a pair and the factors of its source."""
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
        assert factors is not None, "the factors are missing"
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
    """Encode the examples of one text, and of `more_texts`, into a folder, replacing a corpus that is already there;
    `fingerprint` identifies what the corpus depends on.

    Examples with an empty side, and examples with a side that is too long, are dropped and counted.

    Args:
        folder: folder of the corpus; missing, empty, or with an older corpus in it.
        examples: the examples to encode, read once.
        encoder: converts each example to ids or arrays.
        fingerprint: identifies what the corpus depends on; `Corpus.open` compares it.
        more_texts: further texts, stored after the first; `Corpus.text_reports` has the size of each.

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
    """Compute the sha256 of the contents of the files at `paths` and of the strings `texts`, in this order; the names
    of the files do not count.
    """
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
    """Writes the two files of one side of a corpus: its items and the start of each example."""

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
        """Append the items of one example."""
        self._num_items += len(items)
        self._append_array("ids", np.asarray(items, dtype=self._dtype).reshape(len(items), *self._shape))
        self._append_array("starts", np.array(self._num_items, dtype=_START_DTYPE))

    def to_json(self) -> dict[str, Any]:
        """Return the description of this side for `corpus.json`."""
        shape = {"shape": list(self._shape)} if self._shape else {}
        sums = {name: sha256.hexdigest() for name, sha256 in self._checksums.items()}
        return {"dtype": self._dtype.str, "tokens": self._num_items, **shape, "sha256": sums}

    def _append_array(self, name: str, array: np.ndarray) -> None:
        """Append an array to the file `name`, "ids" or "starts", and to its checksum."""
        content = array.tobytes()
        self._checksums[name].update(content)
        self._files[name].write(content)


class _DigestWriter(Generic[Example]):
    """Writes a digest of each example, by which duplicates are found."""

    def __init__(self, files: ExitStack, path: Path, *, identity_key: Callable[[Example], object]) -> None:
        self._identity_key = identity_key
        self._file = files.enter_context(path.open("wb", buffering=2**20))
        self.checksum = hashlib.sha256()

    def add_example(self, example: Example) -> None:
        """Append the digest of one example."""
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
    """Encode all examples of one text, and append those to keep with a writer for each result of `encode`; return how
    many were kept and dropped. `digest_writer` is None if no digests are stored.
    """
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
    """Raise `DataError` if, by its report, a text has no examples or none was kept."""
    num_read = report.kept + report.empty + report.too_long
    if num_read == 0:
        raise DataError("there are no examples; check the files")
    if report.kept == 0:
        raise DataError(
            f"none of {num_read} examples can be used: {report.empty} with an empty side, {report.too_long} with a "
            "side that is too long; check the files or allow longer ones (data.max_length)"
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
    """Memory-map one side of a corpus of `count` examples after checking its sha256; raise `ValueError` if its files do
    not fit together. `tokens` is its number of ids or items, `dtype` and `shape` are those of one.

    The keywords are those of `corpus.json`.
    """
    for name, expected in (sha256 or {}).items():  # older versions did not write these digests
        if compute_digest(folder / f"{side}.{name}") != expected:
            raise ValueError(f"{side}.{name} has changed since it was written")
    ids = _map_array(folder / f"{side}.ids", dtype=np.dtype(dtype), count=tokens, shape=shape)
    starts = _map_array(folder / f"{side}.starts", dtype=_START_DTYPE, count=count + 1)
    if starts[0] != 0 or starts[-1] != tokens or np.diff(starts).min(initial=1) < 1:
        raise ValueError(f"{side}.starts does not fit {side}.ids")
    return CorpusSide(ids, starts[:-1], starts[1:])


def _map_digests(folder: Path, expected: str, *, count: int) -> UInt64[np.ndarray, " N"]:
    """Memory-map the digests of a corpus of `count` examples; raise `ValueError` if the sha256 of their file is not
    `expected`.
    """
    if compute_digest(folder / _DIGESTS_FILE) != expected:
        raise ValueError(f"{_DIGESTS_FILE} has changed since it was written")
    return _map_array(folder / _DIGESTS_FILE, dtype=_DIGEST_DTYPE, count=count)


def _map_array(path: Path, *, dtype: np.dtype[Any], count: int, shape: Sequence[int] = ()) -> np.ndarray:
    """Memory-map a file as an array of `count` items of the given dtype and shape; raise `ValueError` if its size is
    wrong.
    """
    size, needed = path.stat().st_size, count * dtype.itemsize * math.prod(shape)
    if size != needed:
        raise ValueError(f"{path.name} has {size} bytes instead of {needed}")
    # A plain view of the mapping: indexing a np.memmap costs several times as much.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count, *shape)))
