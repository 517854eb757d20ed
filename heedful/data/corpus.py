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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Generic, SupportsIndex, TypeVar, final

import numpy as np
from jaxtyping import Bool, Int, Integer, Shaped, UInt64

from heedful.atomic_io import atomic_folder, compute_digest
from heedful.data.chunk_workers import ChunkWorkers
from heedful.data.context import prepend_context
from heedful.data.corpus_writer import DIGEST_DTYPE, UNFINISHED_FILE, ChunkEncoder, EncodedChunk, GrowingFiles
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
_DIGESTS_FILE, _KINDS = "digests", ("ids", "starts")
_TEXTS_KEY = "texts"
_SECONDS_BETWEEN_SAVES = 20.0
"""Seconds after which what was encoded is saved, so that a kill loses no more."""
_ROWS_AT_ONCE = 2**20
"""Number of examples whose numbers are held in memory at a time while all are looked at."""
_CHUNK_OF_ONE_PROCESS = 32
"""Number of examples that one process encodes before it writes them."""


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
        count_characters: returns the size of an example, if several processes may encode, in chunks of limited size;
            None if encoding computes with torch, or needs much memory for an example.
    """

    side_sizes: Mapping[str, int | ArraySpec]
    encode: Callable[[Example], Sequence[Sequence[Any] | np.ndarray | None]]
    identity_key: Callable[[Example], object] | None = None
    count_characters: Callable[[Example], int] | None = None


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
        """Number of ids of each example on each side, in 32 bits."""
        lengths = np.empty((len(self), len(self.sides)), dtype=np.int32)
        for column, side in enumerate(self.sides.values()):
            for start in range(0, len(self), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                lengths[rows, column] = side.stops[rows] - side.starts[rows]
        return lengths

    def count_shared_examples(self, other: Corpus) -> int:
        """Count the examples of this corpus that also occur in another one; 0 if there are no digests."""
        if self.digests is None or other.digests is None:
            return 0
        own_digests, row_numbers = np.unique(self.digests, return_inverse=True)
        is_shared = np.zeros(len(own_digests), dtype=bool)
        for start in range(0, len(other.digests), _ROWS_AT_ONCE):
            digests = other.digests[start : start + _ROWS_AT_ONCE]
            is_shared |= np.isin(own_digests, digests, kind="sort")  # a table of such numbers overflows in numpy 2.0
        return int(is_shared[row_numbers].sum())


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
        count_characters=lambda pair: len(pair.source) + len(pair.target) + sum(map(len, pair.context)),
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
    return replace(pair_encoder, side_sizes=sizes, encode=encode)


def write_corpus(
    folder: Path,
    examples: Iterable[Example],
    *,
    encoder: ExampleEncoder[Example],
    fingerprint: str = "",
    more_texts: Sequence[Iterable[Example]] = (),
    processes: int = 1,
    on_progress: Callable[[int, int], None] = lambda _, __: None,
) -> Corpus:
    """Encode the examples of one text, and of `more_texts`, into a folder, replacing a corpus that is already there;
    `fingerprint` identifies what the corpus depends on.

    Examples with an empty side, and examples with a side that is too long, are dropped and counted. The bytes do not
    depend on the number of processes. If there is a fingerprint, what was written is saved from time to time in a
    folder beside this one, and the next call with the same fingerprint continues there.

    Args:
        folder: folder of the corpus; missing, empty, or with an older corpus in it.
        examples: the examples to encode, read once.
        encoder: converts each example to ids or arrays.
        fingerprint: identifies what the corpus depends on; `Corpus.open` compares it.
        more_texts: further texts, stored after the first; `Corpus.text_reports` has the size of each.
        processes: largest number of processes that encode, if the encoder allows several.
        on_progress: called with the number of examples encoded so far, and of those that an earlier call encoded.

    Raises:
        DataError: an example cannot be read, or none is left.
        RunError: the folder holds something else or cannot be written, or a process was killed.
    """
    with atomic_folder(
        folder,
        purpose="write the corpus to",
        replaceable_marker=_DESCRIPTION_FILE,
        resumable_marker=UNFINISHED_FILE if fingerprint else None,
    ) as temporary:
        try:
            description = _write_examples(
                temporary,
                (examples, *more_texts),
                encoder,
                fingerprint=fingerprint,
                processes=processes,
                on_progress=on_progress,
            )
        except DataError:  # which correcting the text changes, so that nothing can be continued
            (temporary / UNFINISHED_FILE).unlink(missing_ok=True)
            raise
        (temporary / _DESCRIPTION_FILE).write_text(json.dumps(description, indent=1))
    return Corpus.open(folder)


def _write_examples(
    folder: Path,
    texts: Sequence[Iterable[Example]],
    encoder: ExampleEncoder[Example],
    *,
    fingerprint: str,
    processes: int,
    on_progress: Callable[[int, int], None],
) -> Mapping[str, Any]:
    """Encode the examples of all texts into the files of a corpus, and return its description."""
    specs = {name: _to_array_spec(size) for name, size in encoder.side_sizes.items()}
    workers = _build_workers(encoder, specs, processes)
    names = [f"{name}.{kind}" for name in specs for kind in _KINDS]
    with ExitStack() as stack:
        files = GrowingFiles(
            stack, folder, [*names, *([] if encoder.identity_key is None else [_DIGESTS_FILE])], key=fingerprint
        )
        if files.state is None:
            progress = _WritingProgress(dict.fromkeys(specs, 0))
            for name in specs:
                files.append(f"{name}.starts", np.array(0, dtype=_START_DTYPE).tobytes())
        else:
            progress = _WritingProgress(**files.state)
        num_earlier, last_save = progress.num_read, time.monotonic()
        if num_earlier:
            on_progress(num_earlier, num_earlier)
        for text in texts[progress.num_finished :]:
            for _, chunk in workers.map(islice(text, sum(progress.counts[-1]), None)):
                _append_chunk(files, chunk, progress)
                on_progress(progress.num_read, num_earlier)
                if fingerprint and time.monotonic() - last_save > _SECONDS_BETWEEN_SAVES:
                    files.save(asdict(progress))
                    last_save = time.monotonic()
            _require_examples(EncodingReport(*progress.counts[-1]))
            progress.counts.append([0, 0, 0])
        files.finish()
        return _describe_files(files, progress, specs, fingerprint=fingerprint)


def _build_workers(
    encoder: ExampleEncoder[Example], specs: Mapping[str, ArraySpec], processes: int
) -> ChunkWorkers[Example, EncodedChunk]:
    """Build what encodes chunks of examples, by several processes if the encoder allows it."""
    encode_chunk = ChunkEncoder(encoder.encode, [np.dtype(spec.dtype) for spec in specs.values()], encoder.identity_key)
    if encoder.count_characters is None:
        return ChunkWorkers(encode_chunk, chunk_examples=1)
    if processes == 1:
        return ChunkWorkers(encode_chunk, chunk_examples=_CHUNK_OF_ONE_PROCESS)
    return ChunkWorkers(encode_chunk, processes, encoder.count_characters)


def _describe_files(
    files: GrowingFiles, progress: _WritingProgress, specs: Mapping[str, ArraySpec], *, fingerprint: str
) -> Mapping[str, Any]:
    """Return the description of a corpus, in the form of `corpus.json`, after all of its texts were written."""
    reports = [EncodingReport(*counts) for counts in progress.counts[: progress.num_finished]]
    sides = {
        name: {
            "dtype": np.dtype(spec.dtype).str,
            "tokens": progress.num_items[name],
            **({"shape": list(spec.shape)} if spec.shape else {}),
            "sha256": {kind: files.get_checksum(f"{name}.{kind}") for kind in _KINDS},
        }
        for name, spec in specs.items()
    }
    description = {
        "format": _FILE_FORMAT,
        "fingerprint": fingerprint,
        "report": asdict(EncodingReport.from_reports(reports)),
        "sides": sides,
    }
    if len(reports) > 1:
        description[_TEXTS_KEY] = [asdict(text_report) for text_report in reports]
    if _DIGESTS_FILE in files.names:
        description[_DIGESTS_FILE] = files.get_checksum(_DIGESTS_FILE)
    return description


@dataclass
class _WritingProgress:
    """How far a corpus has been written.

    Attributes:
        num_items: number of items on each side, by name.
        counts: for each text that was begun, the numbers of examples that were kept, empty, and too long.
    """

    num_items: dict[str, int]
    counts: list[list[int]] = field(default_factory=lambda: [[0, 0, 0]])

    @property
    def num_finished(self) -> int:
        """Number of texts that are finished."""
        return len(self.counts) - 1

    @property
    def num_read(self) -> int:
        """Number of examples of all texts that were read."""
        return sum(map(sum, self.counts))


def _append_chunk(files: GrowingFiles, chunk: EncodedChunk, progress: _WritingProgress) -> None:
    """Append a chunk of encoded examples to the files of a corpus, and count them."""
    for name, side in zip(progress.num_items, chunk.sides, strict=True):
        files.append(f"{name}.ids", side.items)
        stops = progress.num_items[name] + np.cumsum(side.lengths, dtype=_START_DTYPE)
        files.append(f"{name}.starts", stops.astype(_START_DTYPE).tobytes())
        progress.num_items[name] += int(side.lengths.sum())
    if chunk.digests:
        files.append(_DIGESTS_FILE, chunk.digests)
    counts = progress.counts[-1]
    counts[:] = (counts[0] + chunk.kept, counts[1] + chunk.empty, counts[2] + chunk.too_long)


def _to_array_spec(size_or_spec: int | ArraySpec) -> ArraySpec:
    """Return the type of the items of a side, whose vocabulary size is given if they are ids."""
    if isinstance(size_or_spec, ArraySpec):
        return size_or_spec
    return ArraySpec("<u2" if size_or_spec <= 2**16 else "<u4")


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
    grows = all(
        np.diff(starts[first : first + _ROWS_AT_ONCE + 1]).min(initial=1) >= 1
        for first in range(0, count, _ROWS_AT_ONCE)
    )
    if starts[0] != 0 or starts[-1] != tokens or not grows:
        raise ValueError(f"{side}.starts does not fit {side}.ids")
    return CorpusSide(ids, starts[:-1], starts[1:])


def _map_digests(folder: Path, expected: str, *, count: int) -> UInt64[np.ndarray, " N"]:
    """Memory-map the digests of a corpus of `count` examples; raise `ValueError` if the sha256 of their file is not
    `expected`.
    """
    if compute_digest(folder / _DIGESTS_FILE) != expected:
        raise ValueError(f"{_DIGESTS_FILE} has changed since it was written")
    return _map_array(folder / _DIGESTS_FILE, dtype=DIGEST_DTYPE, count=count)


def _map_array(path: Path, *, dtype: np.dtype[Any], count: int, shape: Sequence[int] = ()) -> np.ndarray:
    """Memory-map a file as an array of `count` items of the given dtype and shape; raise `ValueError` if its size is
    wrong.
    """
    size, needed = path.stat().st_size, count * dtype.itemsize * math.prod(shape)
    if size != needed:
        raise ValueError(f"{path.name} has {size} bytes instead of {needed}")
    # A plain view of the mapping: indexing a np.memmap costs several times as much.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count, *shape)))
