"""Mutations of files that know a little of their formats: JSON, XML, tables, TOML, zip files, and bytes."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence

from campaigns.mutations import VALUES, mutate_bytes, mutate_json, mutate_npy, mutate_safetensors
from campaigns.reader_targets import change_member

_PARTS = re.compile(rb"<[^<>]{0,200}>|\"[^\"\n]{0,200}\"|[\w.+-]+|\r?\n|[ \t]+|.", re.DOTALL)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_INSERTED = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\r",
    b"\x0b\x0c\x1c\x85",
    "\u2028".encode(),
    "\u202e".encode(),
    "\U0001f600".encode(),
    b"<",
    b">",
    b"&",
    b"&#0;",
    b"&#xD800;",
    b"&#99999999999;",
    b"&a;",
    b"<![CDATA[",
    b"]]>",
    b"<!--",
    b"-->",
    b'<!DOCTYPE a [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]>',
    b"<?xml version='1.1' encoding='utf-7'?>",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"'",
    b'"""',
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"%s%n%d",
    b"{0}{a!r}",
    b"{n, plural, one {#} other {#}}",
    b"..",
    b"../../etc/passwd",
    b"\t\t\t",
    b"#",
    b"=",
    b"nan",
    b"inf",
    b"-inf",
    b"true",
    b"null",
    b"1e400",
    b"-1",
    b"9" * 30,
    b"9" * 5000,
    b"00:00:00,000 --> 99:99:99,999",
    b"nplurals=2; plural=(n*n*n*n*n)/0;",
    b"nplurals=99999999999; plural=n;",
)
_NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"65536",
    b"2147483648",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"1e999",
    b"0.0",
)
_NESTINGS = (
    (b"[", b"]"),
    (b"{", b"}"),
    (b'{"a":', b"}"),
    (b"<g id='1'>", b"</g>"),
    (b"(", b")"),
    (b"<div>", b"</div>"),
)


_UNITS = (
    *(bytes([sign]) for sign in b"9a !<&({[\"'\\\t=%#_:/?;,@|~$^*+-.\n\r"),
    *(
        text.encode()
        for text in ("<!--", "a.", "a ", "1 ", "a=", "<a ", "</a>", "\u2026", "\u3002", "\ufeff", "\u0301", "\u061f")
    ),
)
"""What is repeated many times."""


def mutate_sample(samples: Sequence[bytes], draw: random.Random, *, name: str) -> bytes:
    """Return a mutation of one of the samples of a format; `name` is the name of the file."""
    content = draw.choice(samples)
    chance = draw.random()
    if chance < 0.01:
        return content
    if chance < 0.03:
        return draw.randbytes(draw.choice((0, 1, 10, 1000)))
    if chance < 0.05:
        other = draw.choice(samples)
        return content[: draw.randrange(len(content) + 1)] + other[draw.randrange(len(other) + 1) :]
    if content[:2] == b"PK" and draw.random() < 0.8:
        change = mutate_npy if name.endswith(".npz") else mutate_text
        return change_member(content, lambda member: change(member, draw), choose=draw.choice)
    if name.endswith(".safetensors") and draw.random() < 0.7:
        return mutate_safetensors(content, draw)
    if _is_binary(content):
        return mutate_bytes(content, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        content = mutate_structure(content, draw)
    return content


def make_repetitive_text(content: bytes, draw: random.Random) -> bytes:
    """Return a few bytes, often a part of `content`, repeated many times, and maybe bytes after them that prevent a
    match. They show where the time of a parser grows with the square of a length.
    """
    place = draw.randrange(len(content) + 1)
    units = (
        content[place : place + draw.randrange(1, 12)],
        draw.choice(_UNITS),
        draw.choice(_UNITS) + draw.choice(_UNITS),
    )
    unit = draw.choice(units) or b" "
    size = draw.choice((3_000, 20_000, 100_000))
    return draw.choice((b"", *_UNITS)) + unit * (size // len(unit)) + draw.choice((b"", b"x", b"\n"))


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:2000] or content[:4] in (b"\x89PNG", b"OggS", b"fLaC")


def mutate_structure(content: bytes, draw: random.Random) -> bytes:
    """Mutate JSON by its values, other text by its parts."""
    stripped = content.strip()
    if stripped[:1] in (b"{", b"[") and draw.random() < 0.6:
        try:
            if b"\n" in stripped and b"}\n{" in stripped:
                lines = stripped.split(b"\n")
                place = draw.randrange(len(lines))
                lines[place] = _dump(mutate_json(json.loads(lines[place]), draw))
                return b"\n".join(lines)
            return _dump(mutate_json(json.loads(stripped), draw))
        except (ValueError, RecursionError):
            pass
    return mutate_text(content, draw)


def _dump(value: object) -> bytes:
    return json.dumps(value).encode()


def mutate_text(content: bytes, draw: random.Random) -> bytes:
    """Delete, repeat, swap, replace or insert parts of a text, such as tags, words and numbers."""
    parts = _PARTS.findall(content)
    if not parts:
        return draw.choice(_INSERTED)
    place, other = draw.randrange(len(parts)), draw.randrange(len(parts))
    match draw.randrange(14):
        case 0:
            del parts[place : place + draw.choice((1, 1, 2, 5, 50))]
        case 1:
            parts[place:place] = parts[place : place + draw.choice((1, 3, 20))]
        case 2:
            parts[place], parts[other] = parts[other], parts[place]
        case 3:
            parts[place] = parts[other]
        case 4 | 5:
            parts[place:place] = [draw.choice(_INSERTED)]
        case 6:
            parts[place] = draw.choice(_INSERTED)
        case 7:
            parts[place] *= draw.choice((2, 100, 3000))
        case 8:
            begin, end = draw.choice(_NESTINGS)
            depth = draw.choice((3, 70, 400, 3000))
            parts[place] = begin * depth + parts[place] + end * draw.choice((depth, depth, depth - 1))
        case 9:
            numbers = [n for n, part in enumerate(parts) if _NUMBER.fullmatch(part)]
            if numbers:
                parts[draw.choice(numbers)] = draw.choice(_NUMBERS)
        case 10:
            value = draw.choice(VALUES)
            parts[place] = json.dumps(value).encode() if draw.random() < 0.5 else str(value).encode(errors="replace")
        case 11:
            return b"".join(parts).replace(b"\n", draw.choice((b"\r\n", b"\r", b"\n\n", b"", b"\x0b")))
        case 12:
            parts[place:place] = [make_repetitive_text(b"".join(parts), draw)]
        case _:
            return mutate_bytes(content, draw)
    return b"".join(parts)
