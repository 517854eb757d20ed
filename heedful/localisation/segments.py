"""Text with inline markup: what is to be translated, and what has to stay as it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

Role = Literal["open", "close", "alone"]
BREAK: Final = "break"
"""The name of a code that ends a line inside a sentence."""


@final
@dataclass(frozen=True)
class Code:
    """What stands in a text and is no words of its language: a tag, a placeholder, a number, an address.

    Attributes:
        raw: as it is written in its file.
        role: whether it begins a pair, ends one, or stands alone.
        name: what a pair has in common; of one that stands alone, what it is.
        value: what a reader of the finished text sees in its place, which a model may read and copy; empty for markup.
        spelled: whether it was found in a text, and is written as text is; else it is markup of the file.
    """

    raw: str
    role: Role = "alone"
    name: str = ""
    value: str = ""
    spelled: bool = False


Segment: TypeAlias = tuple[str | Code, ...]
"""Texts without escapes, and the codes between them."""


@final
@dataclass(frozen=True)
class Pair:
    """A code that opens, one that closes it, and what they enclose."""

    opening: Code
    inside: tuple[Node, ...]
    closing: Code


Node: TypeAlias = "str | Code | Pair"


def nested(segment: Iterable[str | Code]) -> tuple[Node, ...]:
    """The same with pairs as pairs; a code that opens or closes none stands alone."""
    stack: list[tuple[Code | None, list[Node]]] = [(None, [])]
    for part in segment:
        if isinstance(part, str) or part.role == "alone":
            stack[-1][1].append(part)
        elif part.role == "open":
            stack.append((part, []))
        else:
            _close(stack, part)
    while len(stack) > 1:
        _spill(stack)
    return tuple(stack[0][1])


def _close(stack: list[tuple[Code | None, list[Node]]], part: Code) -> None:
    if not any(opening is not None and opening.name == part.name for opening, _ in stack):
        stack[-1][1].append(part)
        return
    while (opening := stack[-1][0]) is not None and opening.name != part.name:
        _spill(stack)
    opening, inside = stack.pop()
    assert opening is not None
    stack[-1][1].append(Pair(opening, tuple(inside), part))


def _spill(stack: list[tuple[Code | None, list[Node]]]) -> None:
    """What an opening code that is never closed seemed to enclose goes to where it stands."""
    opening, inside = stack.pop()
    assert opening is not None
    stack[-1][1].extend([opening, *inside])


def flat(nodes: Iterable[Node]) -> Segment:
    """Pairs as they stand in a row; texts side by side become one, empty ones none."""
    found: list[str | Code] = []
    for part in _flat(nodes):
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        elif part != "":
            found.append(part)
    return tuple(found)


def _flat(nodes: Iterable[Node]) -> Iterator[str | Code]:
    for node in nodes:
        if isinstance(node, Pair):
            yield node.opening
            yield from _flat(node.inside)
            yield node.closing
        else:
            yield node


def codes(segment: Sequence[str | Code]) -> list[Code]:
    """The codes of a segment, in order."""
    return [part for part in segment if isinstance(part, Code)]
