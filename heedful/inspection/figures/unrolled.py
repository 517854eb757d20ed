"""A picture of a model unrolled over its tokens, with the steps in which it can be computed."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from heedful.errors import DataError
from heedful.inspection.figures.sheet import Box, Chosen, faint, length, sheet, words
from heedful.inspection.record import Record
from heedful.inspection.unrolled import Diagram, Link, Node, unrolled

_WIDE, _HIGH = 62.0, 58.0
BOX = 34.0, 24.0
_LONGEST = 8
_LOOKS = {
    "up": 'class="faint" stroke-opacity="0.55"',
    "carry": 'class="hue0" stroke-width="2"',
    "start": 'class="hue1" stroke-width="2"',
    "across": 'class="hue2" stroke-width="2"',
    "fed": 'class="hue3" stroke-width="1.5"',
}
MEANING = {
    "up": "from the level below",
    "carry": "the state of its neighbour",
    "start": "where the source ended",
    "across": "attention to the whole of the source, in each box with a dot",
    "fed": "what left the top at the token before",
}


@dataclass(frozen=True)
class Laid:
    """A diagram whose parts have their places; lengths in pixels.

    Attributes:
        diagram: what is drawn.
        spots: centre of each node.
        courses: kind and path of each line; the links of an attention to a memory share one line for each row.
        looking: numbers of the nodes that attend to a memory.
        names: x, y, side ("start" or "end") and text of each row's name.
        width: of all of it.
        height: likewise.
    """

    diagram: Diagram
    spots: tuple[tuple[float, float], ...]
    courses: tuple[tuple[str, str], ...]
    looking: tuple[int, ...]
    names: tuple[tuple[float, float, str, str], ...]
    width: float
    height: float

    @property
    def note(self) -> str:
        """What the numbers mean."""
        cut = f". Of {', '.join(self.diagram.cut)} the first tokens" if self.diagram.cut else ""
        return (
            "Numbers: the step in which a box can be computed, if all that need not wait is computed at once; "
            f"{self.diagram.steps} steps in all{cut}."
        )


def laid(diagram: Diagram) -> Laid:
    """Tokens below, levels above them; the first text to the left, names of its rows beside it."""
    first = min((column for column, _, _ in diagram.rows), default=0)
    left = max((length(name) for column, _, name in diagram.rows if column == first), default=0.0) + 14
    right = max((length(name) for column, _, name in diagram.rows if column != first), default=0.0) + 14
    top = max((node.row for node in diagram.nodes), default=0)
    base = 26 + _HIGH * top + BOX[1] / 2
    spots = tuple((left + _WIDE * node.column + BOX[0] / 2, base - _HIGH * node.row) for node in diagram.nodes)
    courses = [(link.kind, _course(link, spots)) for link in diagram.links if link.kind != "across"]
    return Laid(
        diagram,
        spots,
        (*courses, *(("across", course) for course in _looks(diagram, spots))),
        tuple(dict.fromkeys(link.end for link in diagram.links if link.kind == "across")),
        tuple(_names(diagram, spots, first)),
        max((x for x, _ in spots), default=0.0) + BOX[0] / 2 + right,
        base + 16,
    )


def unrolled_model(record: Record, _chosen: Chosen) -> str:
    """The model of a record over the tokens that it read."""
    diagram = unrolled_record(record)
    if diagram is None:
        raise DataError("this record says nothing of the levels of its model, so it cannot be unrolled")
    return diagram_svg(diagram, title=record.model)


def unrolled_record(record: Record) -> Diagram | None:
    """The diagram of a record's model; None where its levels, or their tokens, are not known."""
    texts = {axis.name: axis.tokens for axis in record.axes}
    known = [level for level in record.levels if texts.get(level.axis)]
    return unrolled(known, texts) if known else None


def diagram_svg(diagram: Diagram, *, title: str) -> str:
    """The picture as an SVG file: a box for each node with its step, lines from what it needs."""
    drawn = laid(diagram)
    parts = [f'<path {_LOOKS[kind]} fill="none" stroke="currentColor" d="{course}"/>' for kind, course in drawn.courses]
    for number, (node, (x, y)) in enumerate(zip(diagram.nodes, drawn.spots, strict=True)):
        parts += _box(node, x, y, share=node.step / max(1, diagram.steps), looks=number in drawn.looking)
    parts += [words(name, x, y + 4, anchor=anchor) for x, y, anchor, name in drawn.names]
    kinds = [kind for kind in MEANING if any(link.kind == kind for link in diagram.links)]
    legend = [part for row, kind in enumerate(kinds) for part in _entry(kind, drawn.height + 22 + 18 * row)]
    bottom = drawn.height + 28 + 18 * len(kinds)
    box = Box(
        (*parts, *legend, faint(drawn.note, 0, bottom)),
        max(drawn.width, length(drawn.note, 11, longest=300)),
        bottom + 6,
    )
    return sheet(box, title=title)


def _names(
    diagram: Diagram, spots: tuple[tuple[float, float], ...], first: int
) -> Iterator[tuple[float, float, str, str]]:
    sides = sorted({column for column, _, _ in diagram.rows})
    for column, row, name in diagram.rows:
        ends = [
            spot
            for node, spot in zip(diagram.nodes, spots, strict=True)
            if node.row == row and bisect(sides, node.column) == bisect(sides, column)
        ]
        if column == first:
            yield min(x for x, _ in ends) - BOX[0] / 2 - 10, ends[0][1], "end", name
        else:
            yield max(x for x, _ in ends) + BOX[0] / 2 + 10, ends[0][1], "start", name


def _box(node: Node, x: float, y: float, *, share: float, looks: bool) -> list[str]:
    if not node.row:
        return [words(node.name, x, y + 5, anchor="middle", longest=_LONGEST)]
    place = f'x="{x - BOX[0] / 2:.1f}" y="{y - BOX[1] / 2:.1f}" width="{BOX[0]}" height="{BOX[1]}" rx="6"'
    dot = f'<circle class="hue2" fill="currentColor" cx="{x - 9:.1f}" cy="{y - 6:.1f}" r="3"/>'
    return [
        f'<rect class="paper" {place}/>',
        f'<rect class="hue0" fill="currentColor" stroke="currentColor" fill-opacity="{0.06 + 0.44 * share:.2f}" '
        f"{place}/>",
        words(f"{node.step}", x, y + 4, font=12, anchor="middle"),
        *([dot] if looks else []),
    ]


def _entry(kind: str, y: float) -> tuple[str, str]:
    return f'<path {_LOOKS[kind]} stroke="currentColor" d="M0 {y - 4:.1f}h26"/>', faint(MEANING[kind], 34, y)


def _course(link: Link, spots: tuple[tuple[float, float], ...]) -> str:
    (x, y), (to_x, to_y) = spots[link.start], spots[link.end]
    wide, high = BOX[0] / 2, BOX[1] / 2
    if link.kind == "up":
        return f"M{x:.1f} {y - high:.1f}L{to_x:.1f} {to_y + high:.1f}"
    side = wide if to_x > x else -wide
    if link.kind == "carry":
        return f"M{x + side:.1f} {y:.1f}H{to_x - side:.1f}"
    if link.kind == "start" and abs(to_x - x) > 1.5 * _WIDE:  # above what lies between
        over = min(y, to_y) - 0.75 * _HIGH
        return f"M{x:.1f} {y - high:.1f}C{x:.1f} {over:.1f} {to_x - 40:.1f} {over:.1f} {to_x - wide:.1f} {to_y - 4:.1f}"
    middle = (x + to_x) / 2
    return f"M{x + side:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x - side:.1f} {to_y:.1f}"


def _looks(diagram: Diagram, spots: tuple[tuple[float, float], ...]) -> Iterator[str]:
    """A line above each memory, and from its end one to each row that attends to it."""
    sides = sorted({column for column, _, _ in diagram.rows})
    memories: dict[int, list[int]] = {}
    rows: dict[tuple[int, float], list[float]] = {}
    for link in diagram.links:
        if link.kind == "across":
            memory = bisect(sides, diagram.nodes[link.start].column)
            memories.setdefault(memory, []).append(link.start)
            rows.setdefault((memory, spots[link.end][1]), []).append(spots[link.end][0])
    ends: dict[int, tuple[float, float]] = {}
    for memory, nodes in memories.items():
        columns, above = [spots[node][0] for node in nodes], min(spots[node][1] for node in nodes) - 19
        ends[memory] = max(columns) + BOX[0] / 2, above
        yield f"M{min(columns) - BOX[0] / 2:.1f} {above:.1f}H{ends[memory][0]:.1f}"
    for (memory, y), columns in rows.items():
        begin, above = ends[memory]
        end = min(columns) - BOX[0] / 2
        middle = (begin + end) / 2
        yield f"M{begin:.1f} {above:.1f}C{middle:.1f} {above:.1f} {middle:.1f} {y - 6:.1f} {end:.1f} {y - 6:.1f}"
