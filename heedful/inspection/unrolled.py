"""A model unrolled over its tokens: what is computed where, of what, and in which order it can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from itertools import pairwise
from math import isqrt
from typing import Literal

from torch import nn

from heedful.blocks.levels import Direction, Level, levels_of
from heedful.inspection.capture import Side

MOST, LEAST, _LINKS = 12, 4, 2000
"""Tokens of a text that are drawn, at most and at least, and links that are enough if every token sees all others."""

Kind = Literal["up", "carry", "start", "across", "fed"]


@dataclass(frozen=True)
class Node:
    """Something that is computed for one token.

    Attributes:
        column: its place from left to right.
        row: from 0, the tokens, upwards.
        name: of a token; empty for others.
        step: when it can be computed at the earliest, if all that does not wait for each other is computed at once.
        about: what it is, in words.
    """

    column: int
    row: int
    name: str
    step: int
    about: str


@dataclass(frozen=True)
class Link:
    """That the node `end` needs the node `start`."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True)
class Diagram:
    """All nodes and links of an unrolled model.

    Attributes:
        nodes: with their places.
        links: between them.
        rows: column of the first node of a row of a side, row, and what the row is called.
        cut: axes of which only the first tokens are here.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    rows: tuple[tuple[int, int, str], ...]
    cut: tuple[str, ...]

    @property
    def steps(self) -> int:
        """How many there are one after the other."""
        return max((node.step for node in self.nodes), default=0)


def levels(sides: Mapping[nn.Module, Side]) -> tuple[Level, ...]:
    """The levels of the parts of a model that read tokens, each with its side and its axis."""
    return tuple(
        replace(level, side=side.name, axis=side.axis) for part, side in sides.items() for level in levels_of(part)
    )


def unrolled(levels: Sequence[Level], texts: Mapping[str, Sequence[str]]) -> Diagram:
    """The diagram of a model over its texts.

    Args:
        levels: of encoders, then of decoders, each from the lowest to the highest.
        texts: tokens of each axis that they read.
    """
    drawing = _Drawing()
    most = max(LEAST, min(MOST, isqrt(_LINKS // max(1, len(levels)))))
    for side, axis in dict.fromkeys((level.side, level.axis) for level in levels):
        own = [level for level in levels if (level.side, level.axis) == (side, axis)]
        drawing.side(side, axis, own, texts[axis][:most])
    cut = tuple(axis for axis in dict.fromkeys(level.axis for level in levels) if len(texts[axis]) > most)
    steps = drawing.steps()
    nodes = tuple(replace(node, step=step) for node, step in zip(drawing.nodes, steps, strict=True))
    return Diagram(nodes, tuple(dict.fromkeys(drawing.links)), tuple(drawing.rows), cut)


_ARROWS: dict[Direction, str] = {"forward": " →", "backward": " ←"}


@dataclass
class _Side:
    """Rows of nodes that were drawn of one side: those of its top, those of each level; each with its direction."""

    top: list[list[int]]
    levels: list[list[tuple[Direction | None, list[int]]]] = field(default_factory=list)
    summed: tuple[Direction, ...] = ()

    def ends(self, level: int) -> list[int]:
        """The nodes where a level ends; all of it where it carries nothing."""
        last = {"forward": slice(-1, None), "backward": slice(1)}
        return [
            node
            for direction, row in self.levels[level]
            for node in (row if direction is None else row[last[direction]])
            if level >= 0 or direction is None or direction in self.summed
        ]


@dataclass
class _Drawing:
    """Nodes and links so far."""

    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    rows: list[tuple[int, int, str]] = field(default_factory=list)
    encoders: dict[str, _Side] = field(default_factory=dict)
    columns: int = 0

    def side(self, side: str, axis: str, levels: Sequence[Level], tokens: Sequence[str]) -> None:
        """All levels over one text."""
        first, self.columns = self.columns, self.columns + len(tokens) + 1
        drawn = _Side(
            [[self._node(first + place, 0, token, f"{token} ({place})") for place, token in enumerate(tokens)]]
        )
        fed: list[list[int]] = []
        height = 0
        for number, level in enumerate(levels):
            found: list[tuple[Direction | None, list[int]]] = []
            for direction in level.carries or (None,):
                height += 1
                name = level.name + (_ARROWS[direction] if direction else "")
                self.rows.append((first, height, name))
                row = [self._node(first + place, height, "", f"{name}, {side} level {number + 1}, at {token} ({place})")
                       for place, token in enumerate(tokens)]  # fmt: skip
                self._below(level, drawn.top, row)
                self._state(level, number, row, direction)
                found.append((direction, row))
                fed += [row] if level.fed else []
            self._across(level, found)
            drawn.top = [row for _, row in found]
            drawn.levels.append(found)
            drawn.summed = level.ends
        for row in fed:
            for above in drawn.top:
                self._link(zip(above[:-1], row[1:], strict=True), "fed")
        if side == "encoder":
            self.encoders[axis] = drawn

    def steps(self) -> list[int]:
        """The earliest step of each node: the longest way from the tokens."""
        needs: dict[int, list[int]] = {number: [] for number in range(len(self.nodes))}
        for link in self.links:
            needs[link.end].append(link.start)
        found = [0] * len(self.nodes)
        for number in TopologicalSorter(needs).static_order():
            found[number] = max((found[each] + 1 for each in needs[number]), default=0)
        return found

    def _node(self, column: int, row: int, name: str, about: str) -> int:
        self.nodes.append(Node(column, row, name, 0, about))
        return len(self.nodes) - 1

    def _link(self, ends: Iterable[tuple[int, int]], kind: Kind) -> None:
        self.links += [Link(start, end, kind) for start, end in ends]

    def _below(self, level: Level, below: Sequence[Sequence[int]], row: Sequence[int]) -> None:
        for place, node in enumerate(row):
            for lower in below:
                self._link(((lower[seen], node) for seen in _seen(level, place, len(row))), "up")

    def _state(self, level: Level, number: int, row: Sequence[int], direction: Direction | None) -> None:
        """What comes from the token before, and at the first one from the source."""
        order = list(row) if direction != "backward" else list(row)[::-1]
        if direction is not None:
            self._link(pairwise(order), "carry")
        if level.starts != "nothing":
            self._link(((end, order[0]) for end in self._ends(level, number)), "start")
        if level.context:
            self._link(((end, node) for node in row for end in self._ends(level, -1)), "start")

    def _ends(self, level: Level, number: int) -> Iterator[int]:
        for source in self.encoders.values():
            yield from source.ends(number if level.starts == "layer" and number < len(source.levels) else -1)

    def _across(self, level: Level, rows: Sequence[tuple[Direction | None, list[int]]]) -> None:
        for memory in level.across:
            source = self.encoders.get(memory)
            for _, row in rows:
                for looked_at in source.top if source else ():
                    self._link(((key, node) for node in row for key in looked_at), "across")


def _seen(level: Level, place: int, count: int) -> Iterator[int]:
    """Places of the level below that one of this level sees."""
    for other in range(count):
        before, after = place - other, other - place
        near = (level.before is None or before <= level.before) and (level.after is None or after <= level.after)
        if near and before % level.every == 0:
            yield other
