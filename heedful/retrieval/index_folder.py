"""Folder of an index: passages, their BM25 index, and their vectors.

    INDEX/manifest.json     the valid build, with the sha256 of each file; replaced atomically
    INDEX/2/passages.jsonl  {"id": ..., "text": ..., "title": ...}
    INDEX/2/offsets.npy     byte offset of each line
    INDEX/2/vectors.npy     one row for each passage, of length 1; only with a model
    INDEX/2/bm25/           written by bm25s

Each build has a new number, and the folder before is deleted once the new one is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from filelock import FileLock, Timeout
from jaxtyping import Float

from heedful.atomic_io import (
    MANIFEST,
    check_digests,
    compute_digest,
    describe_error,
    get_writing_folder,
    make_folder,
    sync_folder,
    write_json,
)
from heedful.errors import DataError, RunError, TrainingError
from heedful.files import check_path_name, parse_json, read_json, read_text, resolve_inside, walk_folder
from heedful.retrieval.bm25 import INDEX_FILES as WORDS_FILES
from heedful.retrieval.bm25 import BM25Index, extract_terms, import_bm25s, map_array
from heedful.retrieval.passages import SearchPassage
from heedful.tasks.embedder import TextEmbedder
from heedful.tasks.predictor import iter_chunks

FORMAT: Final = 1
PASSAGES: Final = "passages.jsonl"
OFFSETS: Final = "offsets.npy"
VECTORS: Final = "vectors.npy"
BM25_FOLDER: Final = "bm25"
_LOCK: Final = ".lock"
_VECTOR_BATCH: Final = 256

LogFunction = Callable[[str], None]
ProgressFunction = Callable[[int, int], None]


@dataclass(frozen=True)
class IndexManifest:
    """Content of an index folder.

    Attributes:
        build: name of the valid build folder.
        passages: number of passages.
        model: folder of the encoder; None without vectors.
        dimensions: size of a vector; 0 without vectors.
        cut: number of passages longer than the encoder reads, whose vector is that of their beginning.
        files: sha256 by path inside the index.
    """

    build: str
    passages: int
    model: str | None
    dimensions: int
    cut: int
    files: Mapping[str, str] = field(default_factory=dict)
    index: int = FORMAT


def read_index_manifest(folder: Path) -> IndexManifest:
    """Read the manifest of an index.

    Raises:
        RunError: there is no index, or another version of heedful wrote it.
    """
    path = folder / MANIFEST
    check_path_name(folder)
    if not folder.is_dir():
        raise RunError(f"{folder}: no such index; check the path, or build it first with: heedful index")
    try:
        content: dict[str, Any] = read_json(path)
        version = content["index"]
        if version == FORMAT:
            return _parse_manifest(content)
    except FileNotFoundError:
        raise RunError(
            f"{folder}: does not contain an index of passages, which has a {MANIFEST}; build it first with: heedful "
            "index"
        ) from None
    except KeyError:
        raise RunError(
            f"{folder}: does not contain an index of passages, because its {MANIFEST} is of something else; build it "
            "first with: heedful index"
        ) from None
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path}: is damaged ({describe_error(error)}); build the index again with --rebuild") from None
    raise RunError(f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; build the index again")


def verify_index(folder: Path, manifest: IndexManifest) -> None:
    """Compare the sha256 of all files of an index with its manifest.

    Raises:
        RunError: a file is missing or was changed.
    """
    disk_size = shutil.disk_usage(folder).total  # a file may have more bytes, all but a few of them holes
    for name, expected in manifest.files.items():
        path = folder / name
        try:
            actual = compute_digest(resolve_inside(folder, name), max_bytes=disk_size)
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}); build the index again with --rebuild") from None
        if actual != expected:
            raise RunError(
                f"{path}: is not the file that was saved (its sha256 differs from that in {MANIFEST}); build the index "
                "again with --rebuild"
            )


def normalize_vectors(vectors: Float[np.ndarray, "N d_model"]) -> Float[np.ndarray, "N d_model"]:
    """Convert vectors to single precision and length 1; zeros stay zeros."""
    singles: np.ndarray = vectors.astype(np.float32)
    units: np.ndarray = singles / np.linalg.norm(singles, axis=1, keepdims=True).clip(1e-12)
    return units


def build_index(
    folder: Path,
    passages: Iterable[tuple[str, SearchPassage]],
    *,
    encoder: TextEmbedder | None = None,
    model: Path | None = None,
    rebuild: bool = False,
    on_progress: ProgressFunction | None = None,
    log: LogFunction | None = None,
) -> IndexManifest:
    """Write an index of passages to a folder; an existing index needs `rebuild`, and stays valid until the new one is
    complete. Without an encoder, the index has BM25 only.

    Args:
        folder: of the index.
        passages: each with its location, for messages.
        encoder: makes the vectors; without it the index has BM25 only.
        model: folder of the encoder, so that queries can be encoded later.
        rebuild: whether an existing index may be replaced.
        on_progress: called with the number of passages that have vectors so far, and the total.
        log: called with a message for each step.

    Raises:
        RunError: the folder contains something else, an index without `rebuild`, or another process builds it.
        DataError: a passage is empty or its id occurs twice; there is no passage.
        MissingExtraError: bm25s is not installed.
        TrainingError: the disk is full.
    """
    import_bm25s()
    log = log or (lambda _: None)
    with _lock_folder(folder, rebuild=rebuild):
        build_folder = folder / str(
            1 + max((int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()), default=0)
        )
        try:
            build_folder.mkdir()
            num_passages, bm25_index = _write_passages(build_folder, passages)
            log(f"{num_passages:,} passage{'s' * (num_passages != 1)}")
            bm25_index.save(build_folder / BM25_FOLDER)
            dimensions, num_truncated = 0, 0
            if encoder is not None:
                dimensions, num_truncated = _write_vectors(build_folder, encoder, on_progress=on_progress)
            paths = [path for path in sorted(walk_folder(build_folder)) if path.is_file()]
            files = {path.relative_to(folder).as_posix(): _sync_and_digest(path) for path in paths}
            for entry in (build_folder / BM25_FOLDER, build_folder, folder):
                sync_folder(entry)
            model_folder = None if model is None or encoder is None else str(model.resolve())
            manifest = IndexManifest(build_folder.name, num_passages, model_folder, dimensions, num_truncated, files)
            write_json(folder / MANIFEST, asdict(manifest))
        except OSError as error:
            raise TrainingError(
                f"{build_folder}: cannot be written ({error.strerror or error}); free some space"
            ) from error
        finally:
            _delete_stale_builds(folder)
    return manifest


def _parse_manifest(content: Mapping[str, Any]) -> IndexManifest:
    """Build the manifest of an index from the parsed JSON of its file; raise `ValueError` if a value is invalid or a
    file is missing in it.
    """
    manifest = IndexManifest(**content)
    check_digests(manifest.files)
    if not all(type(count) is int and count >= 0 for count in (manifest.passages, manifest.dimensions, manifest.cut)):
        raise ValueError("a count is not a number")
    if not isinstance(manifest.build, str) or not isinstance(manifest.model, str | None) or not manifest.passages:
        raise ValueError("a folder without a name, or no passage")
    required = [
        PASSAGES,
        OFFSETS,
        *([VECTORS] if manifest.dimensions else []),
        *(f"{BM25_FOLDER}/{name}" for name in WORDS_FILES),
    ]
    if not manifest.build.isdecimal() or not all(f"{manifest.build}/{name}" in manifest.files for name in required):
        raise ValueError("files are missing")
    return manifest


@contextmanager
def _lock_folder(folder: Path, *, rebuild: bool) -> Iterator[None]:
    """Create or open the folder of an index, and lock it against other processes inside the block. Raise `RunError` if
    it holds something else, or an index and `rebuild` is False, or if it is locked.
    """
    check_path_name(folder)
    unfinished = get_writing_folder(folder / MANIFEST).name
    try:
        has_index = (folder / MANIFEST).exists()
        entries = list(folder.iterdir()) if folder.exists() else []
        if has_index and '"checkpoints"' in read_text(folder / MANIFEST, errors="replace"):
            raise RunError(f"{folder}: is a run, not an index; choose another folder")
        own_names = (_LOCK, unfinished)  # an interrupted build may leave the second
        if not has_index and any(path.name not in own_names and not path.name.isdecimal() for path in entries):
            raise RunError(f"{folder}: is not empty and does not contain an index; choose another folder")
        if has_index and not rebuild:
            raise RunError(f"{folder}: is already an index; replace it with --rebuild, or choose another folder")
        make_folder(folder)
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise RunError(f"{folder}: another process is building this index; wait until it has finished") from None
    except OSError as error:
        raise RunError(f"{folder}: cannot be an index ({error.strerror}); choose another folder") from None
    try:
        yield
    finally:
        lock.release()


def _write_passages(folder: Path, passages: Iterable[tuple[str, SearchPassage]]) -> tuple[int, BM25Index]:
    """Write passages, each given with its location for messages, and their offsets; return the number of passages and
    their BM25 index. Raise `DataError` if a passage is empty or its id occurs twice.
    """
    offsets, location_by_id = [0], dict[str, str]()

    def write_and_tokenize() -> Iterator[list[str]]:
        """Write each passage, and yield its terms."""
        with (folder / PASSAGES).open("wb") as out:
            for location, passage in passages:
                if not passage.text.strip():
                    raise DataError(f"{location}: the passage is empty; correct or delete it")
                if (first_location := location_by_id.setdefault(passage.id, location)) != location:
                    raise DataError(
                        f"{location}: the id {passage.id!r} is also used in {first_location}; give each passage its own"
                    )
                content = {name: value for name, value in asdict(passage).items() if value or name != "title"}
                line = json.dumps(content, ensure_ascii=False).encode() + b"\n"
                out.write(line)
                offsets.append(offsets[-1] + len(line))
                yield [term.text for term in extract_terms(passage.full_text)]

    bm25_index = BM25Index.from_passages(write_and_tokenize())
    np.save(folder / OFFSETS, np.array(offsets, dtype=np.int64))
    return len(offsets) - 1, bm25_index


def _write_vectors(folder: Path, encoder: TextEmbedder, *, on_progress: ProgressFunction | None) -> tuple[int, int]:
    """Encode the written passages and write their vectors; return the size of a vector and the number of passages that
    were truncated. `on_progress` gets the number of vectors so far, and the total.
    """
    truncated: list[int] = []
    out: np.memmap[Any, Any] | None = None
    count, num_done = len(map_array(folder / OFFSETS, dtypes="int64", shape=(None,))) - 1, 0
    with (folder / PASSAGES).open(encoding="utf-8", newline="\n") as texts:
        for lines in iter_chunks(texts, _VECTOR_BATCH):
            full_texts = [SearchPassage(**parse_json(line)).full_text for line in lines]
            vectors = normalize_vectors(encoder.embed(full_texts, first=num_done + 1, cut=truncated.append))
            if out is None:
                shape = (count, vectors.shape[1])
                out = np.lib.format.open_memmap(folder / VECTORS, mode="w+", dtype=np.float32, shape=shape)
            out[num_done : num_done + len(vectors)] = vectors
            num_done += len(vectors)
            if on_progress is not None:
                on_progress(num_done, count)
    assert out is not None, "an index has a passage"
    out.flush()
    return int(out.shape[1]), len(truncated)


def _sync_and_digest(path: Path) -> str:
    """Flush a file to disk and return its sha256."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return compute_digest(path)


def _delete_stale_builds(folder: Path) -> None:
    """Delete all builds but the valid one, and what an interrupted write of the manifest left; ignore errors."""
    shutil.rmtree(get_writing_folder(folder / MANIFEST), ignore_errors=True)
    with suppress(OSError, RunError):
        valid_build = read_index_manifest(folder).build if (folder / MANIFEST).exists() else None
        for entry in folder.iterdir():
            if entry.is_dir() and entry.name.isdecimal() and entry.name != valid_build:
                shutil.rmtree(entry, ignore_errors=True)
