"""Files that are either as they were or as they should be, and a manifest that knows which are complete."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from heedful.errors import RunError, TrainingError
from heedful.files import (
    check_path_name,
    is_plain_name,
    open_regular,
    parse_json,
    read_bytes,
    read_json,
    resolve_inside,
)
from heedful.memory_limits import get_memory_limit

Stored = TypeVar("Stored", bound=BaseModel)

FORMAT = 1
MANIFEST = "manifest.json"
MODEL_FILE = "model.safetensors"
"""Weights of the finished model."""
_MAX_HEADER = 2**25
"""Bytes in which a file of tensors says what it holds: 32 MiB, enough for 200,000 of them."""
_MAX_TENSORS = 100_000
"""In one file; the largest models that are published have half as many in all of theirs."""
_MAX_FILES = 100_000
"""That one manifest names."""


@dataclass(frozen=True)
class RunManifest:
    """What a run folder holds: the sha256 of each complete file, and which checkpoint is which.

    A file that is not named here does not count: it is what an interrupted save left.

    Attributes:
        files: sha256 by path inside the folder.
        checkpoints: steps whose weights are kept, in order.
        last: the step that training can go on from.
        best: the step with the best value of the monitored metric.
        finished: whether training reached its end.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    checkpoints: tuple[int, ...] = ()
    last: int | None = None
    best: int | None = None
    finished: bool = False
    format: int = FORMAT

    def with_file(self, name: str, digest: str) -> RunManifest:
        """With one more file, or a newer version of it."""
        return replace(self, files={**self.files, name: digest})

    def without_files(self, *names: str) -> RunManifest:
        """Without these files."""
        return replace(self, files={n: d for n, d in self.files.items() if n not in names})


def read_manifest(folder: Path) -> RunManifest:
    """The manifest of a run folder.

    Raises:
        RunError: there is no such folder, it is no run, or another version of heedful wrote it.
    """
    check_path_name(folder)
    if folder.suffix == ".toml" and folder.is_file():
        raise RunError(
            f"{folder}: is a recipe and no run; name the folder that it made, or train with: heedful train "
            f"{quote(str(folder))}"
        )
    if folder.is_file():
        raise RunError(f"{folder}: is a file and no run folder; name the folder that training made")
    if not folder.is_dir():
        raise RunError(f"{folder}: no such run folder; check the path, or train first with: heedful train recipe.toml")
    path = folder / MANIFEST
    try:
        content = read_json(path)
        version = content["format"]
        if version == FORMAT:
            return _parse_manifest(content)
    except FileNotFoundError:
        raise RunError(
            f"{folder}: holds no {MANIFEST}, so it is no finished or resumable run; train it first"
        ) from None
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again") from None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: is damaged ({error}); restore it from a copy or train again") from None
    raise RunError(
        f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; install the version that wrote it"
    )


def _parse_manifest(content: Mapping[str, Any]) -> RunManifest:
    manifest = RunManifest(**{**content, "checkpoints": tuple(content["checkpoints"])})
    steps = [step for step in (*manifest.checkpoints, manifest.last, manifest.best) if step is not None]
    if not all(type(step) is int and step >= 0 for step in steps):
        raise ValueError("a step is not a number")
    if type(manifest.finished) is not bool:
        raise ValueError("finished is neither true nor false")
    check_digests(manifest.files)
    return manifest


def write_run_files(folder: Path, contents: Mapping[str, Any]) -> None:
    """Writes JSON files that decide what a finished model answers, and puts them into the run's manifest.

    The manifest names none of them while they are written, so that a kill in between leaves a run that can be opened.

    Args:
        folder: of the run.
        contents: by the names of the files inside it.
    """
    if not contents:
        return
    manifest = read_manifest(folder)
    if manifest.files.keys() & contents.keys():
        manifest = manifest.without_files(*contents)
        write_manifest(folder, manifest)
    for name, content in contents.items():
        write_json(folder / name, content)
        manifest = manifest.with_file(name, compute_digest(folder / name))
    write_manifest(folder, manifest)


def check_digests(files: Any) -> None:
    """A `ValueError` where these are not the files of a manifest: plain names with digests."""
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise ValueError("files without digests")
    if len(files) > _MAX_FILES:
        raise ValueError(f"{len(files):,} files")
    if (invalid_name := next((name for name in files if not is_plain_name(name)), None)) is not None:
        raise ValueError(f"{ascii(invalid_name)[:80]} is not the name of a file in this folder")


def read_checked_json(path: Path, model: type[Stored]) -> Stored:
    """What a JSON file holds, checked.

    Raises:
        RunError: it cannot be read, is damaged, or another version wrote it.
    """
    try:
        content = read_bytes(path)
        parse_json(content)  # bounds what the model takes
        return model.model_validate_json(content)
    except (OSError, ValidationError, ValueError):
        raise RunError(f"{path}: is damaged or of another version; restore it, or train again") from None


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Makes a state of the folder the valid one, in one instant."""
    write_json(folder / MANIFEST, asdict(manifest))


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file so that a reader sees the old or the new one, never a part."""
    with atomic_replace(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """A place to write to, in a folder beside `path`; it becomes `path`, durably, when the block ends well.

    It is a folder of its own because some writers, such as that of safetensors, put a file with a name of chance beside
    theirs. What a kill leaves of it is removed by who writes `path` again.

    Raises:
        TrainingError: the disk is full or the folder cannot be written; `path` stays as it was.
    """
    folder = get_writing_folder(path)
    temporary = folder / path.name
    try:
        make_folder(path.parent)
        folder.mkdir(exist_ok=True)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except (OSError, SafetensorError) as error:
        raise TrainingError(_describe_write_error(path, error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def get_writing_folder(path: Path) -> Path:
    """The folder beside a file in which `atomic_replace` writes it, and which a kill may leave."""
    return path.with_name(f".{path.name}.writing")


def make_folder(folder: Path) -> None:
    """A folder, and those above it, which outlive a loss of power; nothing where it is there."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_file(path: Path) -> None:
    """Makes what was written to a file, and its name, outlive a loss of power; nothing where there is no such file."""
    try:
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TrainingError(_describe_write_error(path, error)) from error


@contextmanager
def atomic_folder(folder: Path, *, purpose: str, replaceable_marker: str | None = None) -> Iterator[Path]:
    """A new folder to write to, beside `folder`, which it becomes when the block ends well; else nothing is left.

    Args:
        folder: which is not there yet, or empty, or holds `replaceable_marker`.
        purpose: what a user would do with another one, in words.
        replaceable_marker: the file that tells a folder that may be replaced.

    Raises:
        RunError: it holds something, or cannot be written.
    """
    target = folder.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if (
            folder.exists()
            and any(folder.iterdir())
            and not (replaceable_marker and (folder / replaceable_marker).exists())
        ):
            content = f"holds files but no {replaceable_marker}" if replaceable_marker else "is not empty"
            raise RunError(f"{folder}: {content}; choose a new folder to {purpose}")
        for leftover in find_leftovers(target):
            shutil.rmtree(leftover, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            for path in temporary.rglob("*"):
                if path.is_file():
                    with path.open("rb+") as file:
                        os.fsync(file.fileno())
                elif path.is_dir():
                    sync_folder(path)
            sync_folder(temporary)
            older = temporary.with_name(f"{temporary.name}.old")
            if target.exists():
                target.rename(older)
            temporary.rename(target)
            sync_folder(target.parent)
            shutil.rmtree(older, ignore_errors=True)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"{folder}: cannot be written ({reason}); free space or choose another folder") from None


def find_leftovers(path: Path) -> Iterator[Path]:
    """What killed processes were writing beside a file or folder, each under its own number; and what this one was."""
    for leftover in path.parent.glob(f".{path.name}.*"):
        process_id = leftover.name.removeprefix(f".{path.name}.").removesuffix(".old")
        if process_id.isdecimal() and (int(process_id) == os.getpid() or not _is_alive(int(process_id))):
            yield leftover


def write_atomic(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all, also where several processes do so at once.

    Raises:
        RunError: it cannot be written; `path` stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    for leftover in find_leftovers(path):
        leftover.unlink(missing_ok=True)
    try:
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"{path}: cannot be written ({reason}); free space or write elsewhere") from None


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Saves tensors as safetensors and returns the file's sha256."""
    with atomic_replace(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, temporary)
        temporary.chmod(mode)  # safetensors lets nobody but the owner read
    return compute_digest(path)


def load_tensors(folder: Path, name: str, *, manifest: RunManifest) -> dict[str, Tensor]:
    """Tensors of a file whose content is what the manifest says.

    Raises:
        RunError: the file is missing, truncated or changed.
    """
    try:
        if name in manifest.files:
            check_memory(resolve_inside(folder, name))  # before all of it is read for its digest
        verify_file(folder, name, manifest=manifest)
        return read_tensors(folder / name)
    except (OSError, SafetensorError, ValueError, OverflowError) as error:
        raise RunError(
            f"{folder / name}: cannot be read ({describe_error(error)}); restore it from a copy or train again"
        ) from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, whose header is judged first.

    Raises:
        OSError: it is not there, or is no regular file.
        ValueError: its header is too large, or not one.
        SafetensorError: it is damaged.
    """
    check_memory(path)
    read_header(path)
    return load_file(path)


def check_memory(path: Path) -> None:
    """A `ValueError` where a regular file of weights is larger than the memory that the process can have."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
    limit = get_memory_limit()
    if limit is not None and size > limit:
        raise ValueError(f"it has {size:,} bytes, and this machine has {limit:,} bytes of memory")


def read_header(path: Path) -> dict[str, Any]:
    """What a safetensors file says of its tensors, by their names, and under `__metadata__`.

    Raises:
        OSError: it is not there, or is no regular file.
        ValueError: it says nothing, names too many tensors, or the header is longer than the file or 32 MiB.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError("its header is longer than the file")
        if length > _MAX_HEADER:
            raise ValueError(f"its header has {length:,} bytes, and {_MAX_HEADER:,} are the most")
        header = parse_json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    if len(header) > _MAX_TENSORS:
        raise ValueError(f"it names {len(header):,} tensors, and {_MAX_TENSORS:,} are the most")
    return header


def describe_error(error: Exception) -> str:
    """What is wrong, without the number of the system's error."""
    return str(getattr(error, "strerror", None) or error)


def verify_file(folder: Path, name: str, *, manifest: RunManifest) -> None:
    """Compares a file with the manifest; safetensors itself would load a flipped bit.

    Raises:
        RunError: the file is missing or not the one that was saved.
    """
    path = folder / name
    if name not in manifest.files:
        raise RunError(f"{path}: is not part of this run's manifest; restore the folder from a copy or train again")
    try:
        actual = compute_digest(resolve_inside(folder, name))
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again") from None
    if actual != manifest.files[name]:
        raise RunError(
            f"{path}: is not the file that was saved (its sha256 differs); restore it from a copy or train again"
        )


def compute_digest(path: Path) -> str:
    """The sha256 of a regular file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe_write_error(path: Path, error: OSError | SafetensorError) -> str:
    if isinstance(error, OSError):
        error_number = error.errno
    else:
        match = re.search(r"\(os error (\d+)\)", str(error))  # what Rust says of the system's error
        error_number = int(match[1]) if match else None
    if error_number in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{path}: the disk is full; make room and start the same command again, what was saved before is untouched"
        )
    if error_number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path}: cannot be written ({os.strerror(error_number)}); choose another place for it"
    return f"{path}: cannot be written ({error}); what was saved before is untouched"


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder outlive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load_parameters(
    model: nn.Module, weights: Mapping[str, Tensor], *, location: str, provided: Mapping[str, Tensor] | None = None
) -> None:
    """Gives a model all its parameters, but for those that somebody gives it `provided`, which only have to fit.

    Raises:
        RunError: these are not its own; the message names `location`.
    """
    parameters = dict(model.named_parameters())
    weights, not_copied = {**weights, **(provided or {})}, provided or {}
    if mismatched := sorted(weights.keys() ^ parameters.keys()):
        raise RunError(f"{location}: does not fit the model of config.json (differs in {', '.join(mismatched[:3])})")
    with torch.no_grad():
        for key, parameter in parameters.items():
            if parameter.shape != weights[key].shape:
                raise RunError(
                    f"{location}: {key} has shape {tuple(weights[key].shape)}, config.json asks for "
                    f"{tuple(parameter.shape)}"
                )
            if key in not_copied:
                continue
            if not weights[key].is_floating_point():
                raise RunError(f"{location}: {key} holds {weights[key].dtype}, which are no weights; take another copy")
            parameter.copy_(weights[key])
