"""Text with inline markup: what is to be translated, and what has to stay as it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, TypeAlias, final

CodeRole = Literal["open", "close", "alone"]
MAX_DEPTH: Final = 100
"""Pairs inside each other."""
BREAK_NAME: Final = "break"
"""The name of a code that ends a line inside a sentence."""


@final
@dataclass(frozen=True, slots=True)
class InlineCode:
    """What stands in a text and is no words of its language: a tag, a placeholder, a number, an address.

    Attributes:
        raw: as it is written in its file.
        role: whether it begins a pair, ends one, or stands alone.
        name: what a pair has in common; of one that stands alone, what it is.
        value: what a reader of the finished text sees in its place, which a model may read and copy; empty for markup.
        in_text: whether it was found in a text, and is written as text is; else it is markup of the file.
    """

    raw: str
    role: CodeRole = "alone"
    name: str = ""
    value: str = ""
    in_text: bool = False


Segment: TypeAlias = tuple[str | InlineCode, ...]
"""Texts without escapes, and the codes between them."""


@final
@dataclass(frozen=True)
class CodePair:
    """A code that opens, one that closes it, and what they enclose."""

    opening: InlineCode
    inside: tuple[SegmentNode, ...]
    closing: InlineCode


SegmentNode: TypeAlias = "str | InlineCode | CodePair"


def nest_pairs(segment: Iterable[str | InlineCode]) -> tuple[SegmentNode, ...]:
    """The same with pairs as pairs; a code that opens or closes none stands alone.

    So do pairs that have too many others around them, since what reads nodes goes into each of them.
    """
    builder = _PairStack()
    for part in segment:
        if isinstance(part, str) or part.role == "alone":
            builder.nodes.append(part)
        elif part.role == "open":
            builder.open_pair(part)
        else:
            builder.close_pair(part)
    return tuple(builder.finish())


class _PairStack:
    """Pairs that have begun, from the outside to the inside, each with what it encloses so far."""

    def __init__(self) -> None:
        self.nodes: list[SegmentNode] = []
        """where what comes next stands"""
        self._levels: list[tuple[InlineCode, list[SegmentNode]]] = []  # what opens, and the nodes around it
        self._names = Counter[str]()
        self._too_deep = Counter[str]()

    def open_pair(self, code: InlineCode) -> None:
        if len(self._levels) >= MAX_DEPTH:
            self._too_deep[code.name] += 1
            self.nodes.append(code)
            return
        self._levels.append((code, self.nodes))
        self._names[code.name] += 1
        self.nodes = []

    def close_pair(self, code: InlineCode) -> None:
        """Closes the innermost pair of this name; what began inside of it and is not closed stands alone."""
        if self._too_deep[code.name] or not self._names[code.name]:
            self._too_deep[code.name] -= bool(self._too_deep[code.name])
            self.nodes.append(code)
            return
        index = next(level for level in reversed(range(len(self._levels))) if self._levels[level][0].name == code.name)
        inside = self._close_levels(index + 1)
        opening, self.nodes = self._levels.pop()
        self._names[code.name] -= 1
        self.nodes.append(CodePair(opening, tuple(inside), code))

    def finish(self) -> list[SegmentNode]:
        """All nodes, at the end."""
        return self._close_levels(0)

    def _close_levels(self, first: int) -> list[SegmentNode]:
        """The nodes at a level, where all that began behind it turns out to stand alone."""
        levels = self._levels[first:]
        del self._levels[first:]
        if not levels:
            return self.nodes
        result = levels[0][1]
        for (opening, _), inside in zip(levels, [*(nodes for _, nodes in levels[1:]), self.nodes], strict=True):
            self._names[opening.name] -= 1
            result.append(opening)
            result += inside
        return result


def flatten_nodes(nodes: Iterable[SegmentNode]) -> Segment:
    """Pairs as they stand in a row; texts side by side become one, empty ones none."""
    result: list[str | InlineCode] = []
    for are_texts, parts in groupby(_iter_parts(nodes), key=lambda part: isinstance(part, str)):
        if not are_texts:
            result += parts
        elif text := "".join(part for part in parts if isinstance(part, str)):
            result.append(text)
    return tuple(result)


def _iter_parts(nodes: Iterable[SegmentNode]) -> Iterator[str | InlineCode]:
    for node in nodes:
        if isinstance(node, CodePair):
            yield node.opening
            yield from _iter_parts(node.inside)
            yield node.closing
        else:
            yield node


def list_codes(segment: Sequence[str | InlineCode]) -> list[InlineCode]:
    """The codes of a segment, in order."""
    return [part for part in segment if isinstance(part, InlineCode)]
