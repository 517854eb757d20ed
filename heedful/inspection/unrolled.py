"""Unrolled diagrams of models: which value is computed where, from what, and in which step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from itertools import pairwise
from math import isqrt
from typing import Literal

from torch import nn

from heedful.blocks.layer_info import Direction, LayerInfo, iter_layers
from heedful.inspection.capture import ModelSide

MAX_TOKENS, MIN_TOKENS, _MAX_LINKS = 12, 4, 2000
"""Tokens of a text that are drawn, at most and at least, and links that are enough if every token sees all others."""

LinkKind = Literal["up", "carry", "start", "across", "fed"]


@dataclass(frozen=True)
class DiagramNode:
    """A value that is computed for one token.

    Attributes:
        column: position from left to right.
        row: from 0, the tokens, upwards.
        name: of a token; empty for other nodes.
        step: the earliest step in which it can be computed, if independent values are computed in parallel.
        about: description in words.
    """

    column: int
    row: int
    name: str
    step: int
    about: str


@dataclass(frozen=True)
class DiagramLink:
    """A dependency: the node `end` needs the node `start`."""

    start: int
    end: int
    kind: LinkKind


@dataclass(frozen=True)
class ModelDiagram:
    """Nodes and links of an unrolled model.

    Attributes:
        nodes: with their positions.
        links: between them.
        rows: column of the first node of a side's row, row number, and name of the row.
        cut: axes of which only the first tokens are shown.
    """

    nodes: tuple[DiagramNode, ...]
    links: tuple[DiagramLink, ...]
    rows: tuple[tuple[int, int, str], ...]
    cut: tuple[str, ...]

    @property
    def num_steps(self) -> int:
        """Number of sequential steps."""
        return max((node.step for node in self.nodes), default=0)


def collect_levels(sides: Mapping[nn.Module, ModelSide]) -> tuple[LayerInfo, ...]:
    """Return the levels of all encoders and decoders of a model, each with its side and axis."""
    return tuple(
        replace(level, side=side.name, axis=side.axis)
        for module, side in sides.items()
        for level in iter_layers(module)
    )


def unroll_model(levels: Sequence[LayerInfo], texts: Mapping[str, Sequence[str]]) -> ModelDiagram:
    """Build the diagram of a model over the first tokens of its texts. `levels` are those of the encoders, then of the
    decoders, from the lowest up; `texts` are the tokens by axis.

    Args:
        levels: of encoders, then of decoders, each from the lowest to the highest.
        texts: tokens of each axis that they read.
    """
    builder = _DiagramBuilder()
    max_tokens = max(MIN_TOKENS, min(MAX_TOKENS, isqrt(_MAX_LINKS // max(1, len(levels)))))
    for side, axis in dict.fromkeys((level.side, level.axis) for level in levels):
        side_levels = [level for level in levels if (level.side, level.axis) == (side, axis)]
        builder.add_side(side, axis, side_levels, texts[axis][:max_tokens])
    cut = tuple(axis for axis in dict.fromkeys(level.axis for level in levels) if len(texts[axis]) > max_tokens)
    steps = builder.compute_steps()
    nodes = tuple(replace(node, step=step) for node, step in zip(builder.nodes, steps, strict=True))
    return ModelDiagram(nodes, tuple(dict.fromkeys(builder.links)), tuple(builder.rows), cut)


_ARROWS: dict[Direction, str] = {"forward": " →", "backward": " ←"}


@dataclass
class _SideRows:
    """Drawn rows of nodes of one side: of its top, and of each level with their direction."""

    top: list[list[int]]
    levels: list[list[tuple[Direction | None, list[int]]]] = field(default_factory=list)
    end_directions: tuple[Direction, ...] = ()

    def get_end_nodes(self, level: int) -> list[int]:
        """Return the nodes with the final states of a level, an index; all its nodes if it carries no state. A negative
        index counts from the top, and then only the directions count that enter the summary of the source.
        """
        end_slices = {"forward": slice(-1, None), "backward": slice(1)}
        return [
            node
            for direction, row in self.levels[level]
            for node in (row if direction is None else row[end_slices[direction]])
            if level >= 0 or direction is None or direction in self.end_directions
        ]


@dataclass
class _DiagramBuilder:
    """Collects the nodes and links of a diagram."""

    nodes: list[DiagramNode] = field(default_factory=list)
    links: list[DiagramLink] = field(default_factory=list)
    rows: list[tuple[int, int, str]] = field(default_factory=list)
    encoders: dict[str, _SideRows] = field(default_factory=dict)
    columns: int = 0

    def add_side(self, side: str, axis: str, levels: Sequence[LayerInfo], tokens: Sequence[str]) -> None:
        """Add an encoder or decoder (`side`) over one text: a row of its tokens, then rows of nodes for each level.
        `axis` is the name of the text, which decoders refer to.
        """
        first_column, self.columns = self.columns, self.columns + len(tokens) + 1
        side_rows = _SideRows(
            [
                [
                    self._add_node(first_column + position, 0, token, f"{token} ({position})")
                    for position, token in enumerate(tokens)
                ]
            ]
        )
        fed: list[list[int]] = []
        height = 0
        for number, level in enumerate(levels):
            level_rows: list[tuple[Direction | None, list[int]]] = []
            for direction in level.carries or (None,):
                height += 1
                name = level.name + (_ARROWS[direction] if direction else "")
                self.rows.append((first_column, height, name))
                row = [
                    self._add_node(
                        first_column + position,
                        height,
                        "",
                        f"{name}, {side} level {number + 1}, at {token} ({position})",
                    )
                    for position, token in enumerate(tokens)
                ]
                self._link_below(level, side_rows.top, row)
                self._link_state(level, number, row, direction)
                level_rows.append((direction, row))
                fed += [row] if level.fed else []
            self._link_across(level, level_rows)
            side_rows.top = [row for _, row in level_rows]
            side_rows.levels.append(level_rows)
            side_rows.end_directions = level.ends
        for row in fed:
            for above in side_rows.top:
                self._add_links(zip(above[:-1], row[1:], strict=True), "fed")
        if side == "encoder":
            self.encoders[axis] = side_rows

    def compute_steps(self) -> list[int]:
        """Return the earliest step of each node: its longest path from the tokens."""
        dependencies: dict[int, list[int]] = {number: [] for number in range(len(self.nodes))}
        for link in self.links:
            dependencies[link.end].append(link.start)
        step_numbers = [0] * len(self.nodes)
        for number in TopologicalSorter(dependencies).static_order():
            step_numbers[number] = max((step_numbers[dependency] + 1 for dependency in dependencies[number]), default=0)
        return step_numbers

    def _add_node(self, column: int, row: int, name: str, about: str) -> int:
        """Add a node and return its number."""
        self.nodes.append(DiagramNode(column, row, name, 0, about))
        return len(self.nodes) - 1

    def _add_links(self, ends: Iterable[tuple[int, int]], kind: LinkKind) -> None:
        self.links += [DiagramLink(start, end, kind) for start, end in ends]

    def _link_below(self, level: LayerInfo, below: Sequence[Sequence[int]], row: Sequence[int]) -> None:
        """Link each node of a row to the nodes that it sees in the level below; `below` are that level's rows."""
        for position, node in enumerate(row):
            for lower in below:
                self._add_links(
                    (
                        (lower[position_below], node)
                        for position_below in _iter_visible_positions(level, position, len(row))
                    ),
                    "up",
                )

    def _link_state(self, level: LayerInfo, number: int, row: Sequence[int], direction: Direction | None) -> None:
        """Link each node of a row to the one before it in `direction`, if a state is carried, and the first one to the
        final states of the encoders, if the level starts from them; each node to these, if they enter at every token.
        `number` is the index of the level.
        """
        order = list(row) if direction != "backward" else list(row)[::-1]
        if direction is not None:
            self._add_links(pairwise(order), "carry")
        if level.starts != "nothing":
            self._add_links(((end, order[0]) for end in self._iter_source_ends(level, number)), "start")
        if level.context:
            self._add_links(((end, node) for node in row for end in self._iter_source_ends(level, -1)), "start")

    def _iter_source_ends(self, level: LayerInfo, number: int) -> Iterator[int]:
        """Yield the final nodes of the encoders that initialise a level: those of the encoder level with index `number`
        if the level starts from the same layer and there is one, else those of the top level.
        """
        for source in self.encoders.values():
            yield from source.get_end_nodes(number if level.starts == "layer" and number < len(source.levels) else -1)

    def _link_across(self, level: LayerInfo, rows: Sequence[tuple[Direction | None, list[int]]]) -> None:
        """Link each node of a level's rows to all top nodes of the encoders that the level attends to."""
        for memory in level.across:
            source = self.encoders.get(memory)
            for _, row in rows:
                for source_row in source.top if source else ():
                    self._add_links(((key, node) for node in row for key in source_row), "across")


def _iter_visible_positions(level: LayerInfo, position: int, count: int) -> Iterator[int]:
    """Yield the positions in the level below, from 0 to `count` - 1, that a position of this level sees."""
    for other in range(count):
        before, after = position - other, other - position
        near = (level.before is None or before <= level.before) and (level.after is None or after <= level.after)
        if near and before % level.every == 0:
            yield other
