"""Messages for errors of the machine or the installation, which are not bugs of heedful."""

from __future__ import annotations

import errno
import os
import re
from typing import Final

_REMEDIES: Final = {
    errno.ENAMETOOLONG: "shorten the name",
    errno.ELOOP: "the links there form a loop; correct them, or give the file itself",
    errno.ENOSPC: "free some space, and start the same command again",
    errno.EDQUOT: "free some space, and start the same command again",
    errno.EROFS: "choose a place with write permission",
    errno.EACCES: "check its permissions, or choose another place",
    errno.EPERM: "check its permissions, or choose another place",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file",
    errno.EIO: "check the disk or the connection to it",
    errno.ESTALE: "check the disk or the connection to it",
}
"""What to do about file errors of the operating system."""
_OUT_OF_MEMORY: Final = re.compile(
    r"can't allocate memory|cannot allocate memory|out of memory|not enough memory|bad_alloc"
    r"|storage size calculation overflowed|numel: integer multiplication overflow",
    re.IGNORECASE,
)
"""Messages of PyTorch for too little memory, or for sizes that no machine can have."""
_REQUESTED_SIZE: Final = re.compile(r"tried to allocate ([\d.,]+ ?\w+)")
_MAX_SHOWN: Final = 200
"""Number of characters of a path in a message."""
_MEMORY_REMEDY: Final = "use less (a smaller model, batch or beam, shorter texts), or a larger machine"
_REQUIRED_PACKAGES: Final = frozenset(
    (
        "filelock",
        "jaxtyping",
        "numpy",
        "pydantic",
        "pydantic_core",
        "rich",
        "sacrebleu",
        "safetensors",
        "sentencepiece",
        "torch",
    )
)
"""Packages that heedful needs."""


def explain_error(error: BaseException) -> str | None:
    """Return the message for an error of the machine or of the installation; None if it may be a bug of heedful.

    Such errors are missing memory, files that the system does not open, and packages that are missing or damaged.
    """
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error))):
        size = _REQUESTED_SIZE.search(str(error))
        return f"not enough memory{f' ({size[1]} requested at once)' if size else ''}; {_MEMORY_REMEDY}"
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # of Path.resolve until Python 3.12
        path = str(error).partition("'")[2].rstrip("'")
        return f"{_shorten_path(path)}: {os.strerror(errno.ELOOP)}; {_REMEDIES[errno.ELOOP]}"
    if isinstance(error, OSError) and error.errno in _REMEDIES:
        path = f"{_shorten_path(os.fsdecode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
        return f"{path}{error.strerror}; {_REMEDIES[error.errno]}"
    if isinstance(error, ImportError):
        return _explain_import(error)
    return None


def _explain_import(error: ImportError) -> str | None:
    """Return the message for a required package that cannot be imported; None for other packages."""
    package = (error.name or "").partition(".")[0]
    if package not in _REQUIRED_PACKAGES:
        return None
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return f"{package} is not installed, but heedful needs it; install it with: pip install heedful"
    reason = str(error).partition("\n")[0]
    return f"{package} cannot be imported ({reason}); install it again with: pip install --force-reinstall {package}"


def _shorten_path(text: str) -> str:
    """Shorten a long text in the middle for messages."""
    half = _MAX_SHOWN // 2
    return text if len(text) <= _MAX_SHOWN else f"{text[:half]}...{text[-half:]}"
