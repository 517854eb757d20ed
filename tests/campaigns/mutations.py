"""Random changes of JSON, bytes, arrays, tensors and files."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2,
    7,
    2**31,
    2**40,
    10**11,
    2**62,
    2**63,
    2**64,
    10**400,
    -(2**63),
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\0",
    "\ud800",
    "../../etc/passwd",
    "/dev/zero",
    "a" * 300,
    "é",
    [],
    [[]],
    {},
    {"a": 1},
    [1, "a", None],
    [0] * 1000,
    {"array": "nowhere"},
)


def iter_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in JSON, first that of the whole."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from iter_paths(each, (*path, key))


def mutate_json(value: Any, draw: random.Random) -> Any:
    """Return JSON with one value changed, deleted or repeated."""
    value = json.loads(json.dumps(value))
    every = list(iter_paths(value))
    by_depth: dict[int, list[tuple[Any, ...]]] = {}
    for path in every:
        by_depth.setdefault(len(path), []).append(path)
    path = draw.choice(by_depth[draw.choice(list(by_depth))])
    other = draw.choice(VALUES)
    if not path:
        return other
    *above, last = path
    holder = value
    for key in above:
        holder = holder[key]
    match draw.randrange(8):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, dict):
            holder[draw.choice(("x", "", "a" * 300, "array"))] = holder.pop(last)
        case 2 if isinstance(holder, list):
            holder += [holder[last]] * 50
        case 3 if isinstance(holder[last], int) and not isinstance(holder[last], bool):
            holder[last] += draw.choice((-1, 1, 1000, 10**9))
        case 4 if isinstance(holder[last], str):
            holder[last] = draw.choice((holder[last] * 50, holder[last][1:], holder[last] + "\udfff"))
        case _:
            holder[last] = other
    return value


def mutate_bytes(content: bytes, draw: random.Random) -> bytes:
    """Return bytes with some changed, removed at the end or appended."""
    raw = bytearray(content)
    match draw.randrange(6):
        case 0:
            return bytes(raw[: draw.randrange(len(raw) + 1)])
        case 1:
            return bytes(raw) + draw.randbytes(draw.randrange(64))
        case 2 if len(raw) > 8:
            at = draw.randrange(len(raw) - 8)
            raw[at : at + 8] = struct.pack("<q", draw.choice((-1, 0, 2**31, 2**62, -(2**63))))
        case 3 if len(raw) > 4:
            at = draw.randrange(len(raw) - 4)
            raw[at : at + 4] = draw.randbytes(4)
        case _:
            for _ in range(draw.choice((1, 1, 2, 16))):
                if raw:
                    raw[draw.randrange(len(raw))] = draw.randrange(256)
    return bytes(raw)


def mutate_npy(content: bytes, draw: random.Random) -> bytes:
    """Return a .npy file with another header or other numbers."""
    if draw.random() < 0.3:
        return mutate_bytes(content, draw)
    length = struct.unpack("<H", content[8:10])[0]
    header, numbers = content[10 : 10 + length].decode("latin-1"), content[10 + length :]
    kind = draw.choice(("<f4", "<i8", "|O", "<U9", "|V1000000", "<f8", "|b1", ">i4", "<M8[s]", "V"))
    shape = draw.choice(("()", "(0,)", "(1,)", "(-1,)", "(1000000000000,)", "(3, 8)", "(4611686018427387904, 8)", "x"))
    old = json.loads(
        "{"
        + header.strip()
        .replace("'", '"')
        .replace("False", "false")
        .replace("(", '"(')
        .replace(")", ')"')
        .strip("{}, ")
        .replace("true", "true")
        + "}"
    )
    match draw.randrange(4):
        case 0:
            old["descr"] = kind
        case 1:
            old["shape"] = shape
        case 2:
            old["fortran_order"] = True
        case 3:
            numbers = (
                b"".join(
                    struct.pack("<q", draw.choice((-1, 2**31, 0, 2**62, 10**11))) for _ in range(len(numbers) // 8)
                )
                + numbers[: len(numbers) % 8]
            )
    text = draw.choice(("{}", "{}", "{}", "(" * 5000 + "{}", "[" * 200 + "{}")).format(
        f"{{'descr': {old['descr']!r}, 'fortran_order': {old['fortran_order']}, 'shape': {old['shape']}, }}"
    )
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return content[:8] + struct.pack("<H", len(text)) + text.encode("latin-1") + numbers


def update_digests(folder: Path) -> None:
    """Update the digests in the manifest of a folder."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in manifest["files"]:
        if (folder / name).is_file() and (folder / name).stat().st_size < 2**26:
            with suppress(OSError):
                manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def mutate_file(path: Path, draw: random.Random) -> None:
    """Mutate a file, depending on its format."""
    content = path.read_bytes()
    if path.suffix == ".npy":
        path.write_bytes(mutate_npy(content, draw))
    elif path.suffix == ".safetensors" and draw.random() < 0.8:
        path.write_bytes(mutate_safetensors(content, draw))
    elif content[:1] in b"{[" and draw.random() < 0.85:
        lines = content.splitlines() if path.suffix == ".jsonl" else [content]
        at = draw.randrange(len(lines))
        lines[at] = json.dumps(mutate_json(json.loads(lines[at]), draw)).encode()
        path.write_bytes(b"\n".join(lines))
    else:
        path.write_bytes(mutate_bytes(content, draw))


def mutate_safetensors(content: bytes, draw: random.Random) -> bytes:
    """Return a safetensors file with another header."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    inner = header.get("__metadata__", {}).get("heedful.record")
    if inner is not None and draw.random() < 0.8:
        header["__metadata__"]["heedful.record"] = json.dumps(mutate_json(json.loads(inner), draw))
    else:
        header = mutate_json(header, draw)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]
