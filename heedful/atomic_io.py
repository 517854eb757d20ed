"""Atomic writes of files and folders, and the manifest of a run folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
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
    find_leftovers,
    is_plain_name,
    open_regular,
    parse_json,
    read_bytes,
    read_json,
    resolve_inside,
    walk_folder,
)
from heedful.lazy_tensors import LazyTensors, StoredTensors, write_tensors
from heedful.memory_limits import get_memory_limit

Stored = TypeVar("Stored", bound=BaseModel)

FORMAT = 1
_FULL_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT)
MANIFEST = "manifest.json"
MODEL_FILE = "model.safetensors"
"""File name of the weights of the finished model."""
_MAX_HEADER = 2**25
"""Largest header of a safetensors file in bytes: 32 MiB, enough for 200,000 tensors."""
_MAX_TENSORS = 100_000
"""Largest number of tensors in one file, twice that of the largest published models."""
_MAX_FILES = 100_000
"""Largest number of files in one manifest."""


@dataclass(frozen=True)
class RunManifest:
    """Content of a run folder: the sha256 of each complete file, and the checkpoints.

    A file that is not listed here is ignored: it was left by an interrupted save.

    Attributes:
        files: sha256 by path inside the folder.
        checkpoints: steps whose weights are kept, in order.
        last: the step that training can continue from.
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
        """Return the manifest with one more file, or a newer version of it; `digest` is its sha256."""
        return replace(self, files={**self.files, name: digest})

    def without_files(self, *names: str) -> RunManifest:
        """Return the manifest without these files."""
        return replace(self, files={n: d for n, d in self.files.items() if n not in names})


def read_manifest(folder: Path) -> RunManifest:
    """Read the manifest of a run folder.

    Raises:
        RunError: the folder does not exist, is not a run, or was written by another version of heedful.
    """
    check_path_name(folder)
    if folder.suffix == ".toml" and folder.is_file():
        raise RunError(
            f"{folder}: is a recipe and not a run; give the folder of its run, or train with: heedful train "
            f"{quote(str(folder))}"
        )
    if folder.is_file():
        raise RunError(f"{folder}: is a file and not a run folder; give the folder of a trained run")
    if not folder.is_dir():
        raise RunError(f"{folder}: no such run folder; check the path, or train first with: heedful train recipe.toml")
    path = folder / MANIFEST
    try:
        content = read_json(path)
        version = content["format"]
        if version == FORMAT:
            return _parse_manifest(content)
    except FileNotFoundError:
        if (folder / MODEL_FILE).is_file():
            raise RunError(
                f"{folder}: contains {MODEL_FILE}, but neither {MANIFEST}, as a run does, nor a valid config.json with "
                "model_type, as a Hugging Face folder does; restore it from a copy"
            ) from None
        raise RunError(
            f"{folder}: contains no {MANIFEST}, so it is not a finished or resumable run; train it first"
        ) from None
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again") from None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: is damaged ({error}); restore it from a copy or train again") from None
    raise RunError(
        f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; install the version that wrote it"
    )


def _parse_manifest(content: Mapping[str, Any]) -> RunManifest:
    """Build the manifest of a run from the parsed JSON of its file; raise `ValueError` if a step, a flag or a digest is
    invalid.
    """
    manifest = RunManifest(**{**content, "checkpoints": tuple(content["checkpoints"])})
    steps = [step for step in (*manifest.checkpoints, manifest.last, manifest.best) if step is not None]
    if not all(type(step) is int and step >= 0 for step in steps):
        raise ValueError("a step is not a number")
    if type(manifest.finished) is not bool:
        raise ValueError("finished is neither true nor false")
    check_digests(manifest.files)
    return manifest


def write_run_files(folder: Path, contents: Mapping[str, Any]) -> None:
    """Write JSON files that a finished model needs, given by name, and add them to the run's manifest.

    The manifest does not list them while they are written, so that the run can be opened after a kill.

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
    """Raise `ValueError` unless `files` has the form of a manifest: a dictionary from paths inside the folder to
    digests, of limited size.
    """
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise ValueError("files without digests")
    if len(files) > _MAX_FILES:
        raise ValueError(f"{len(files):,} files")
    if (invalid_name := next((name for name in files if not is_plain_name(name)), None)) is not None:
        raise ValueError(f"{ascii(invalid_name)[:80]} is not the name of a file in this folder")


def read_checked_json(path: Path, model: type[Stored]) -> Stored:
    """Read a JSON file and return it as an instance of the pydantic class `model`.

    Raises:
        RunError: it cannot be read, is damaged, or was written by another version.
    """
    try:
        content = read_bytes(path)
        parse_json(content)  # bounds what the model takes
        return model.model_validate_json(content)
    except (OSError, ValidationError, ValueError):
        raise RunError(f"{path}: is damaged or of another version; restore it, or train again") from None


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Replace the manifest of a folder atomically."""
    write_json(folder / MANIFEST, asdict(manifest))


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically: a reader sees the old or the new content."""
    with atomic_replace(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """Provide a temporary path to write to; it replaces `path` durably if the block succeeds.

    It is in a folder of its own, because some writers, such as that of safetensors, create temporary files beside
    theirs. What a kill leaves there is removed by the next write of `path`.

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
    """Return the temporary folder that `atomic_replace` uses for a file; it may remain after a kill."""
    return path.with_name(f".{path.name}.writing")


def make_folder(folder: Path) -> None:
    """Create a folder and its parents durably; do nothing if it exists."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_file(path: Path) -> None:
    """Flush a file and its name to disk; do nothing if it does not exist. Raise `TrainingError` if this fails."""
    try:
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TrainingError(_describe_write_error(path, error)) from error


@contextmanager
def atomic_folder(
    folder: Path, *, purpose: str, replaceable_marker: str | None = None, resumable_marker: str | None = None
) -> Iterator[Path]:
    """Provide a temporary folder to write to; it becomes `folder` if the block succeeds, else it is removed. A folder
    with files is replaced only if it contains a file named `replaceable_marker`; `purpose` ends the message otherwise.

    With `resumable_marker`, a temporary folder that contains a file of this name is kept if the block fails, or the
    process is killed, and given to the next block, if no other process writes there.

    Args:
        folder: does not exist yet, is empty, or contains `replaceable_marker`.
        purpose: what the user would do with another folder, for messages.
        replaceable_marker: name of a file that marks a folder as replaceable.
        resumable_marker: name of a file that marks a temporary folder in which writing may continue.

    Raises:
        RunError: it contains other files, or cannot be written.
    """
    target = folder.resolve()
    temporary, stack = target.with_name(f".{target.name}.{os.getpid()}"), ExitStack()
    try:
        if (
            folder.exists()
            and any(folder.iterdir())
            and not (replaceable_marker and (folder / replaceable_marker).exists())
        ):
            content = f"contains files but no {replaceable_marker}" if replaceable_marker else "is not empty"
            raise RunError(f"{folder}: {content}; choose a new folder to {purpose}")
        for leftover in find_leftovers(target):
            shutil.rmtree(leftover, ignore_errors=True)
        unfinished = target.with_name(f".{target.name}.unfinished")
        if resumable_marker and (lock := _lock_folder(unfinished)) is not None:
            stack.callback(os.close, lock)
            temporary = unfinished
        else:
            temporary.mkdir(parents=True)
        try:
            yield temporary
            for path in walk_folder(temporary):
                if path.is_file():
                    with path.open("rb+") as file:
                        os.fsync(file.fileno())
                elif path.is_dir():
                    sync_folder(path)
            sync_folder(temporary)
            older = target.with_name(f".{target.name}.{os.getpid()}.old")
            if target.exists():
                target.rename(older)
            temporary.rename(target)
            sync_folder(target.parent)
            shutil.rmtree(older, ignore_errors=True)
        finally:
            if not (resumable_marker and (temporary / resumable_marker).exists()):
                shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or error
        remedy = "free some space" if error.errno in _FULL_DISK_ERRORS else "choose another folder"
        raise RunError(f"{folder}: cannot be written ({reason}); {remedy}") from None
    finally:
        stack.close()


def _lock_folder(folder: Path) -> int | None:
    """Create a folder if it is missing, and lock it until the returned handle is closed or this process ends; None if
    another process has locked it, or this system cannot lock folders.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        with suppress(OSError):  # it is not empty, and another process works in it
            folder.rmdir()
        return None
    return handle


def write_atomic(path: Path, content: bytes) -> None:
    """Write the bytes `content` to a file atomically, safe for several processes at once.

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
        remedy = "free some space" if error.errno in _FULL_DISK_ERRORS else "choose another file"
        raise RunError(f"{path}: cannot be written ({reason}); {remedy}") from None


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Save tensors as safetensors, and return the sha256 of the file; lazy tensors are read and written one by one."""
    with atomic_replace(path) as temporary:
        if isinstance(tensors, LazyTensors):
            write_tensors(temporary, tensors)
        else:
            temporary.touch()
            mode = temporary.stat().st_mode
            save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, temporary)
            temporary.chmod(mode)  # safetensors allows only the owner to read
    return compute_digest(path)


def load_tensors(folder: Path, name: str, *, manifest: RunManifest) -> dict[str, Tensor]:
    """Load the tensors of the file `name` in a run folder, if its digest matches the manifest.

    Raises:
        RunError: the file is missing, truncated or changed.
    """
    with _convert_read_errors(folder / name):
        if name in manifest.files:
            check_memory(resolve_inside(folder, name))  # before all of it is read for its digest
        verify_file(folder, name, manifest=manifest)
        return read_tensors(folder / name)


def open_tensors(folder: Path, name: str, *, manifest: RunManifest) -> StoredTensors:
    """Open the file `name` in a run folder, if its digest matches the manifest, for reading one tensor at a time.

    Raises:
        RunError: the file is missing, truncated or changed.
    """
    with _convert_read_errors(folder / name):
        verify_file(folder, name, manifest=manifest, fits_memory=False)
        read_header(folder / name)
        return StoredTensors(folder / name)


@contextmanager
def _convert_read_errors(path: Path) -> Iterator[None]:
    """Convert the errors of reading a file of tensors into a `RunError`."""
    try:
        yield
    except (OSError, SafetensorError, ValueError, OverflowError) as error:
        raise RunError(
            f"{path}: cannot be read ({describe_error(error)}); restore it from a copy or train again"
        ) from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file after checking its header.

    Raises:
        OSError: it does not exist, or is not a regular file.
        ValueError: its header is too large or invalid.
        SafetensorError: it is damaged.
    """
    check_memory(path)
    read_header(path)
    return load_file(path)


def check_memory(path: Path) -> None:
    """Raise `ValueError` if a file of weights is larger than the memory that the process can use."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
    limit = get_memory_limit()
    if limit is not None and size > limit:
        raise ValueError(f"it has {size:,} bytes, and this machine has {limit:,} bytes of memory")


def read_header(path: Path) -> dict[str, Any]:
    """Read the header of a safetensors file: an entry for each tensor, and `__metadata__`.

    Raises:
        OSError: it does not exist, or is not a regular file.
        ValueError: it has no header, too many tensors, or a header longer than the file or 32 MiB.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError("its header is longer than the file")
        if length > _MAX_HEADER:
            raise ValueError(f"its header has {length:,} bytes; the maximum is {_MAX_HEADER:,}")
        header = parse_json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    if len(header) > _MAX_TENSORS:
        raise ValueError(f"it names {len(header):,} tensors; the maximum is {_MAX_TENSORS:,}")
    return header


def describe_error(error: Exception) -> str:
    """Return the message of an error, without the number of a system error."""
    return str(getattr(error, "strerror", None) or error)


def verify_file(folder: Path, name: str, *, manifest: RunManifest, fits_memory: bool = True) -> None:
    """Compare the sha256 of the file `name` in a folder with its digest in the manifest; safetensors itself would load
    a flipped bit. If `fits_memory`, refuse a file that is larger than the memory, such as one of holes, at once.

    Raises:
        RunError: the file is missing, too large or was changed.
    """
    path = folder / name
    if name not in manifest.files:
        raise RunError(f"{path}: is not part of this run's {MANIFEST}; restore the folder from a copy or train again")
    try:
        max_bytes = get_memory_limit() if fits_memory else None
        actual = compute_digest(resolve_inside(folder, name), max_bytes=max_bytes)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}), although {MANIFEST} lists it; restore it from a copy or train "
            "again"
        ) from None
    if actual != manifest.files[name]:
        raise RunError(
            f"{path}: is not the file that was saved (its sha256 differs from that in {MANIFEST}); restore it from a "
            "copy or train again"
        )


def compute_digest(path: Path, *, max_bytes: int | None = None) -> str:
    """Return the sha256 of a regular file; raises as `open_regular` does, before it reads a file of more bytes."""
    with open_regular(path, max_bytes=max_bytes) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe_write_error(path: Path, error: OSError | SafetensorError) -> str:
    """Return the message for a failed write of `path`: that the disk is full, that writing is not allowed, or the error
    itself.
    """
    if isinstance(error, OSError):
        error_number = error.errno
    else:
        match = re.search(r"\(os error (\d+)\)", str(error))  # how Rust writes an error of the system
        error_number = int(match[1]) if match else None
    if error_number in _FULL_DISK_ERRORS:
        return (
            f"{path}: the disk is full; free some space and start the same command again, files that were saved before "
            "are unchanged"
        )
    if error_number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path}: cannot be written ({os.strerror(error_number)}); choose another place for it"
    return f"{path}: cannot be written ({error}); files that were saved before are unchanged"


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load_parameters(
    model: nn.Module, weights: Mapping[str, Tensor], *, location: str, provided: Mapping[str, Tensor] | None = None
) -> None:
    """Give all parameters of a model their weights. Parameters in `provided` are set elsewhere; only their names and
    shapes are checked. Both together must have exactly the names of the model's parameters.

    A tensor of its own becomes the parameter's memory, so that a large model is in memory once; others are copied, such
    as those of a file that is mapped into memory.

    Raises:
        RunError: the weights do not fit the model; the message names `location`.
    """
    parameters = dict(model.named_parameters())
    weights, not_copied = {**weights, **(provided or {})}, provided or {}
    if mismatched := sorted(weights.keys() ^ parameters.keys()):
        raise RunError(
            f"{location}: does not fit the model of config.json (differs in {', '.join(mismatched[:3])}); restore it "
            "from a copy or train again"
        )
    with torch.no_grad():
        for key, parameter in parameters.items():
            if parameter.shape != weights[key].shape:
                raise RunError(
                    f"{location}: {key} has shape {tuple(weights[key].shape)}, but config.json needs "
                    f"{tuple(parameter.shape)}; restore it from a copy or train again"
                )
            if key in not_copied:
                continue
            if not weights[key].is_floating_point():
                raise RunError(f"{location}: {key} holds {weights[key].dtype}, which are not weights; use another copy")
            if _owns_memory(weights[key]) and weights[key].dtype == parameter.dtype and not parameter.is_cuda:
                parameter.data = weights[key]
            else:
                parameter.copy_(weights[key])


def _owns_memory(tensor: Tensor) -> bool:
    """Return whether a tensor on a CPU has memory that holds nothing else."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
