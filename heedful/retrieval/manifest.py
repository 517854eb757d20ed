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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from heedful.errors import RunError
from heedful.store import MANIFEST, digest

FORMAT: Final = 1
PASSAGES: Final = "passages.jsonl"
OFFSETS: Final = "offsets.npy"
VECTORS: Final = "vectors.npy"
WORDS: Final = "bm25"


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
    """What an index holds.

    Raises:
        RunError: there is no such folder, it is no index, or another version of heedful wrote it.
    """
    path = folder / MANIFEST
    if not folder.is_dir():
        raise RunError(f"{folder}: no such index; check the path, or build it first with: heedful index")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = content["index"]
        if version == FORMAT:
            return _manifest(content)
    except (FileNotFoundError, KeyError):
        raise RunError(f"{folder}: holds no index of passages; build it first with: heedful index") from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise RunError(f"{path}: is damaged ({error}); build the index again with --rebuild") from None
    raise RunError(f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; build the index again")


def _manifest(content: Mapping[str, Any]) -> IndexManifest:
    found = IndexManifest(**content)
    if not isinstance(found.files, dict) or not all(isinstance(each, str) for each in found.files.values()):
        raise ValueError("files without digests")
    if not all(isinstance(each, int) for each in (found.passages, found.dimensions, found.cut)):
        raise ValueError("a count is no number")
    wanted = [PASSAGES, OFFSETS, *([VECTORS] if found.dimensions else [])]
    if not found.build.isdecimal() or not all(f"{found.build}/{name}" in found.files for name in wanted):
        raise ValueError("files are missing")
    return found


def verify_index(folder: Path, manifest: IndexManifest) -> None:
    """Compares all files of an index with its manifest.

    Raises:
        RunError: one is missing or not the one that was saved.
    """
    for name, saved in manifest.files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise RunError(f"{folder / MANIFEST}: names {name!r} outside of the index; build the index again")
        try:
            found = digest(path)
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


def mapped_array(path: Path) -> np.ndarray:
    """An array of an index, read only where it is looked at."""
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped
