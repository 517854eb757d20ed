"""A folder of passages that can be searched: their text, their words for BM25, and their vectors.

    INDEX/manifest.json     what counts, with the sha256 of each file; replaced in one instant
    INDEX/2/passages.jsonl  {"id": ..., "text": ..., "title": ...}
    INDEX/2/offsets.npy     where each line begins
    INDEX/2/vectors.npy     one row for each passage, of length 1; only where there is a model
    INDEX/2/bm25/           as bm25s keeps it

Each time it is built, the number goes up, and the folder before is deleted once the new one is complete.
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

from heedful.errors import DataError, RunError, TrainingError
from heedful.files import parse_json, read_json, read_text, require_inside, require_name
from heedful.retrieval.arrays import mapped_array
from heedful.retrieval.collection import Passage
from heedful.retrieval.words import FILES as WORDS_FILES
from heedful.retrieval.words import WordsIndex, bm25s, terms
from heedful.store import (
    MANIFEST,
    digest,
    make_folder,
    reason,
    require_digests,
    sync_folder,
    write_json,
    writing_folder,
)
from heedful.tasks.embedder import Embeds
from heedful.tasks.faces import chunked

FORMAT: Final = 1
PASSAGES: Final = "passages.jsonl"
OFFSETS: Final = "offsets.npy"
VECTORS: Final = "vectors.npy"
WORDS: Final = "bm25"
_LOCK: Final = ".lock"
_CHUNK: Final = 256

Say = Callable[[str], None]
Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class IndexManifest:
    """What an index holds.

    Attributes:
        build: the folder that counts.
        passages: how many.
        model: the folder of the encoder; None where there are no vectors.
        dimensions: of a vector; 0 where there are none.
        cut: passages that are longer than the encoder reads; of these, the vector knows the beginning only.
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
    """What an index holds; `RunError` where there is none, or another version of heedful wrote it."""
    path = folder / MANIFEST
    require_name(folder)
    if not folder.is_dir():
        raise RunError(f"{folder}: no such index; check the path, or build it first with: heedful index")
    try:
        content: dict[str, Any] = read_json(path)
        version = content["index"]
        if version == FORMAT:
            return _manifest(content)
    except (FileNotFoundError, KeyError):
        raise RunError(f"{folder}: holds no index of passages; build it first with: heedful index") from None
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path}: is damaged ({reason(error)}); build the index again with --rebuild") from None
    raise RunError(f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; build the index again")


def verify_index(folder: Path, manifest: IndexManifest) -> None:
    """Compares all files of an index with its manifest; `RunError` where one is missing or not as it was saved."""
    for name, saved in manifest.files.items():
        path = folder / name
        try:
            found = digest(require_inside(folder, name))
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}); build the index again with --rebuild") from None
        if found != saved:
            raise RunError(
                f"{path}: is not the file that was saved (its sha256 differs); build the index again with --rebuild"
            )


def unit_vectors(vectors: Float[np.ndarray, "N d_model"]) -> Float[np.ndarray, "N d_model"]:
    """As an index keeps them: in single precision, of length 1; zeros stay zeros."""
    exact: np.ndarray = vectors.astype(np.float32)
    units: np.ndarray = exact / np.linalg.norm(exact, axis=1, keepdims=True).clip(1e-12)
    return units


def build_index(
    folder: Path,
    passages: Iterable[tuple[str, Passage]],
    *,
    encoder: Embeds | None = None,
    model: Path | None = None,
    rebuild: bool = False,
    tick: Tick | None = None,
    say: Say | None = None,
) -> IndexManifest:
    """Writes an index; one that is there counts until the new one is complete.

    Args:
        folder: of the index.
        passages: each with its place, for messages.
        encoder: makes the vectors; BM25 alone unless given.
        model: where the encoder comes from, so that queries can be read by it too.
        rebuild: whether an index that is there may be replaced.
        tick: told how many passages have vectors so far, and how many will.
        say: told of each step.

    Raises:
        RunError: the folder holds something else, an index without `rebuild`, or another process builds it.
        DataError: a passage is empty or its id occurs twice; there is no passage.
        MissingExtraError: bm25s is not installed.
        TrainingError: there is no room.
    """
    bm25s()
    say = say or (lambda _: None)
    with _claimed(folder, rebuild=rebuild):
        inside = folder / str(
            1 + max((int(each.name) for each in folder.iterdir() if each.name.isdecimal()), default=0)
        )
        try:
            inside.mkdir()
            count, words = _write_passages(inside, passages)
            say(f"{count:,} passages")
            words.save(inside / WORDS)
            dimensions, cut = 0, 0
            if encoder is not None:
                dimensions, cut = _write_vectors(inside, encoder, tick=tick)
            kept = [path for path in sorted(inside.rglob("*")) if path.is_file()]
            files = {path.relative_to(folder).as_posix(): _durable(path) for path in kept}
            for each in (inside / WORDS, inside, folder):
                sync_folder(each)
            where = None if model is None or encoder is None else str(model.resolve())
            manifest = IndexManifest(inside.name, count, where, dimensions, cut, files)
            write_json(folder / MANIFEST, asdict(manifest))
        except OSError as error:
            raise TrainingError(f"{inside}: cannot be written ({error.strerror or error}); make room for it") from error
        finally:
            _sweep(folder)
    return manifest


def _manifest(content: Mapping[str, Any]) -> IndexManifest:
    found = IndexManifest(**content)
    require_digests(found.files)
    if not all(type(each) is int and each >= 0 for each in (found.passages, found.dimensions, found.cut)):
        raise ValueError("a count is not a number")
    if not isinstance(found.build, str) or not isinstance(found.model, str | None) or not found.passages:
        raise ValueError("a folder without a name, or no passage")
    wanted = [PASSAGES, OFFSETS, *([VECTORS] if found.dimensions else []), *(f"{WORDS}/{name}" for name in WORDS_FILES)]
    if not found.build.isdecimal() or not all(f"{found.build}/{name}" in found.files for name in wanted):
        raise ValueError("files are missing")
    return found


@contextmanager
def _claimed(folder: Path, *, rebuild: bool) -> Iterator[None]:
    """Makes the folder, or takes it up, and keeps other processes from building there."""
    require_name(folder)
    unfinished = writing_folder(folder / MANIFEST).name
    try:
        there = (folder / MANIFEST).exists()
        inside = list(folder.iterdir()) if folder.exists() else []
        if there and '"checkpoints"' in read_text(folder / MANIFEST, errors="replace"):
            raise RunError(f"{folder}: is a run and no index; choose another folder")
        ours = (_LOCK, unfinished)  # a kill may leave the second
        if not there and any(path.name not in ours and not path.name.isdecimal() for path in inside):
            raise RunError(f"{folder}: is not empty and holds no index; choose another folder")
        if there and not rebuild:
            raise RunError(f"{folder}: is an index already; replace it with --rebuild, or choose another folder")
        make_folder(folder)
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise RunError(f"{folder}: another process builds this index; wait for its end") from None
    except OSError as error:
        raise RunError(f"{folder}: cannot be an index ({error.strerror}); choose another folder") from None
    try:
        yield
    finally:
        lock.release()


def _write_passages(folder: Path, passages: Iterable[tuple[str, Passage]]) -> tuple[int, WordsIndex]:
    offsets, seen = [0], dict[str, str]()

    def written() -> Iterator[list[str]]:
        with (folder / PASSAGES).open("wb") as out:
            for place, passage in passages:
                if not passage.text.strip():
                    raise DataError(f"{place}: the passage is empty; mend or delete it")
                if (before := seen.setdefault(passage.id, place)) != place:
                    raise DataError(f"{place}: the id {passage.id!r} is that of {before} too; give each its own")
                content = {name: value for name, value in asdict(passage).items() if value or name != "title"}
                line = json.dumps(content, ensure_ascii=False).encode() + b"\n"
                out.write(line)
                offsets.append(offsets[-1] + len(line))
                yield [term.text for term in terms(passage.whole)]

    words = WordsIndex.of(written())
    np.save(folder / OFFSETS, np.array(offsets, dtype=np.int64))
    return len(offsets) - 1, words


def _write_vectors(folder: Path, encoder: Embeds, *, tick: Tick | None) -> tuple[int, int]:
    """Dimensions, and how many passages were cut."""
    cut: list[int] = []
    out: np.memmap[Any, Any] | None = None
    count, done = len(mapped_array(folder / OFFSETS, dtype="int64", shape=(None,))) - 1, 0
    with (folder / PASSAGES).open(encoding="utf-8", newline="\n") as texts:
        for lines in chunked(texts, _CHUNK):
            wholes = [Passage(**parse_json(line)).whole for line in lines]
            found = unit_vectors(encoder.embed(wholes, first=done + 1, cut=cut.append))
            if out is None:
                shape = (count, found.shape[1])
                out = np.lib.format.open_memmap(folder / VECTORS, mode="w+", dtype=np.float32, shape=shape)
            out[done : done + len(found)] = found
            done += len(found)
            if tick is not None:
                tick(done, count)
    assert out is not None, "an index has a passage"
    out.flush()
    return int(out.shape[1]), len(cut)


def _durable(path: Path) -> str:
    """The sha256 of a file that will outlive a loss of power."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return digest(path)


def _sweep(folder: Path) -> None:
    """Deletes what no manifest counts: the index before, or what was begun and not finished."""
    shutil.rmtree(writing_folder(folder / MANIFEST), ignore_errors=True)
    with suppress(OSError, RunError):
        kept = read_index_manifest(folder).build if (folder / MANIFEST).exists() else None
        for each in folder.iterdir():
            if each.is_dir() and each.name.isdecimal() and each.name != kept:
                shutil.rmtree(each, ignore_errors=True)
