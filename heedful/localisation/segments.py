"""Text with inline markup: what is to be translated, and what has to stay as it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, TypeAlias, final

Role = Literal["open", "close", "alone"]
DEEPEST: Final = 100
"""Pairs inside each other."""
BREAK: Final = "break"
"""The name of a code that ends a line inside a sentence."""


@final
@dataclass(frozen=True, slots=True)
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
    """The same with pairs as pairs; a code that opens or closes none stands alone.

    So do pairs that have too many others around them, since what reads nodes goes into each of them.
    """
    open_ = _Open()
    for part in segment:
        if isinstance(part, str) or part.role == "alone":
            open_.nodes.append(part)
        elif part.role == "open":
            open_.begin(part)
        else:
            open_.end(part)
    return tuple(open_.rest())


class _Open:
    """Pairs that have begun, from the outside to the inside, each with what it encloses so far."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        """where what comes next stands"""
        self._levels: list[tuple[Code, list[Node]]] = []  # what opens, and the nodes around it
        self._names = Counter[str]()
        self._too_deep = Counter[str]()

    def begin(self, code: Code) -> None:
        if len(self._levels) >= DEEPEST:
            self._too_deep[code.name] += 1
            self.nodes.append(code)
            return
        self._levels.append((code, self.nodes))
        self._names[code.name] += 1
        self.nodes = []

    def end(self, code: Code) -> None:
        """Closes the innermost pair of this name; what began inside of it and is not closed stands alone."""
        if self._too_deep[code.name] or not self._names[code.name]:
            self._too_deep[code.name] -= bool(self._too_deep[code.name])
            self.nodes.append(code)
            return
        number = next(n for n in reversed(range(len(self._levels))) if self._levels[n][0].name == code.name)
        inside = self._unclosed(number + 1)
        opening, self.nodes = self._levels.pop()
        self._names[code.name] -= 1
        self.nodes.append(Pair(opening, tuple(inside), code))

    def rest(self) -> list[Node]:
        """All nodes, at the end."""
        return self._unclosed(0)

    def _unclosed(self, first: int) -> list[Node]:
        """The nodes at a level, where all that began behind it turns out to stand alone."""
        levels = self._levels[first:]
        del self._levels[first:]
        if not levels:
            return self.nodes
        found = levels[0][1]
        for (opening, _), inside in zip(levels, [*(nodes for _, nodes in levels[1:]), self.nodes], strict=True):
            self._names[opening.name] -= 1
            found.append(opening)
            found += inside
        return found


def flat(nodes: Iterable[Node]) -> Segment:
    """Pairs as they stand in a row; texts side by side become one, empty ones none."""
    found: list[str | Code] = []
    for are_texts, parts in groupby(_flat(nodes), key=lambda part: isinstance(part, str)):
        if not are_texts:
            found += parts
        elif text := "".join(part for part in parts if isinstance(part, str)):
            found.append(text)
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
