"""Records on disk: one safetensors file each, the arrays as tensors and everything else as JSON in its header."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from heedful.errors import RunError
from heedful.inspection.record import (
    Alternative,
    Answer,
    Axis,
    Branch,
    Embedded,
    Encoding,
    Map,
    Option,
    Record,
    Walk,
    Written,
)
from heedful.store import replacing

FORMAT = 1

_KEY = "heedful.record"
_PARTS: dict[type, dict[str, type]] = {
    Record: {
        "axes": Axis,
        "maps": Map,
        "embedded": Embedded,
        "written": Written,
        "answers": Answer,
        "tree": Branch,
        "encodings": Encoding,
    },
    Map: {"walk": Walk},
    Written: {"alternatives": Alternative},
    Answer: {"options": Option},
}
"""Which fields of a record hold other parts of it."""


def save_record(record: Record, path: str | Path) -> None:
    """Writes a record as one file, whole or not at all.

    Raises:
        TrainingError: the file cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    content = {"format": FORMAT, "record": _plain(record, "", arrays)}
    with replacing(Path(path)) as beside:
        beside.touch()
        mode = beside.stat().st_mode
        save_file(arrays, beside, metadata={_KEY: json.dumps(content, ensure_ascii=False)})
        beside.chmod(mode)  # safetensors lets nobody but the owner read


def load_record(path: str | Path) -> Record:
    """A record that `save_record` wrote.

    Raises:
        RunError: there is no such file, it is damaged, or it is no record.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get(_KEY)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror or error}); name a record's file") from None
    except SafetensorError as error:
        raise RunError(f"{path}: is no record, or was damaged ({error}); save it again") from None
    if header is None:
        raise RunError(f"{path}: holds tensors but no record; name a file that `heedful inspect --save` wrote")
    try:
        content = json.loads(header)
        version = content["format"]
        if version == FORMAT:
            record: Record = _built(Record, content["record"], arrays)
            return record
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: the record in it cannot be read ({error}); save it again") from None
    raise RunError(
        f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; install the one that wrote it"
    )


def _plain(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """Only what JSON knows; arrays move into `arrays`, under the name that is left in their place."""
    if isinstance(value, np.ndarray):
        arrays[place] = np.ascontiguousarray(value)
        return {"array": place}
    if is_dataclass(value):
        inside = f"{place}." if place else ""
        return {each.name: _plain(getattr(value, each.name), inside + each.name, arrays) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(each, f"{place}.{number}", arrays) for number, each in enumerate(value)]
    return value


def _built(cls: Any, content: Any, arrays: dict[str, np.ndarray]) -> Any:
    return cls(**{name: _value(_PARTS.get(cls, {}).get(name), each, arrays) for name, each in content.items()})


def _value(part: type | None, content: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(content, list):
        return tuple(_value(part, each, arrays) for each in content)
    if isinstance(content, dict) and content.keys() == {"array"}:
        return arrays[content["array"]]
    return content if part is None or content is None else _built(part, content, arrays)
