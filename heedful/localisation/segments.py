"""Segments: texts with inline codes that must stay as they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, TypeAlias, final

CodeRole = Literal["open", "close", "alone"]
MAX_DEPTH: Final = 100
"""Maximum depth of nested pairs."""
BREAK_NAME: Final = "break"
"""Name of a code that breaks a line inside a sentence."""


@final
@dataclass(frozen=True, slots=True)
class InlineCode:
    """A part of a text that is not a word of its language: a tag, a placeholder, a number, an address.

    Attributes:
        raw: as it is written in its file.
        role: whether it opens a pair, closes one, or stands alone.
        name: what both codes of a pair share; otherwise the kind of code.
        value: what a reader of the finished text sees in its place, which a model may read and copy; empty for markup.
        in_text: whether it was found in plain text, and is written as text; otherwise it is markup of the file.
    """

    raw: str
    role: CodeRole = "alone"
    name: str = ""
    value: str = ""
    in_text: bool = False


Segment: TypeAlias = tuple[str | InlineCode, ...]
"""Unescaped texts and the codes between them."""


@final
@dataclass(frozen=True)
class CodePair:
    """An opening code, its closing code, and the nodes that they enclose."""

    opening: InlineCode
    inside: tuple[SegmentNode, ...]
    closing: InlineCode


SegmentNode: TypeAlias = "str | InlineCode | CodePair"


def nest_pairs(segment: Iterable[str | InlineCode]) -> tuple[SegmentNode, ...]:
    """Group matching opening and closing codes into pairs; codes without a partner stand alone.

    Pairs that are nested too deeply stand alone too, because nodes are processed recursively.
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
    """Stack of open pairs, from the outermost to the innermost, each with the nodes collected so far."""

    def __init__(self) -> None:
        self.nodes: list[SegmentNode] = []
        """where what comes next stands"""
        self._levels: list[tuple[InlineCode, list[SegmentNode]]] = []  # what opens, and the nodes around it
        self._names = Counter[str]()
        self._too_deep = Counter[str]()

    def open_pair(self, code: InlineCode) -> None:
        """Open a pair with this code; inside too many other pairs, the code stands alone instead."""
        if len(self._levels) >= MAX_DEPTH:
            self._too_deep[code.name] += 1
            self.nodes.append(code)
            return
        self._levels.append((code, self.nodes))
        self._names[code.name] += 1
        self.nodes = []

    def close_pair(self, code: InlineCode) -> None:
        """Close the innermost pair with the name of this code, which stands alone if there is none. Pairs inside that
        are still open become single codes.
        """
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
        """Return all nodes at the end of the segment."""
        return self._close_levels(0)

    def _close_levels(self, first: int) -> list[SegmentNode]:
        """Close all pairs from level `first` on, so that their codes stand alone; return the nodes at that level."""
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
    """Flatten pairs into a segment; adjacent texts are joined, and empty ones removed."""
    result: list[str | InlineCode] = []
    for are_texts, parts in groupby(_iter_parts(nodes), key=lambda part: isinstance(part, str)):
        if not are_texts:
            result += parts
        elif text := "".join(part for part in parts if isinstance(part, str)):
            result.append(text)
    return tuple(result)


def _iter_parts(nodes: Iterable[SegmentNode]) -> Iterator[str | InlineCode]:
    """Yield the texts and codes of nodes in order."""
    for node in nodes:
        if isinstance(node, CodePair):
            yield node.opening
            yield from _iter_parts(node.inside)
            yield node.closing
        else:
            yield node


def list_codes(segment: Sequence[str | InlineCode]) -> list[InlineCode]:
    """Return the codes of a segment, in order."""
    return [part for part in segment if isinstance(part, InlineCode)]
