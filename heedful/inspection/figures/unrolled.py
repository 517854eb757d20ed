"""Figures of models unrolled over their tokens, with the step in which each value can be computed."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from heedful.errors import DataError
from heedful.inspection.figures.sheet import MapSelection, SvgBox, draw_note, draw_text, estimate_length, render_sheet
from heedful.inspection.record import InspectionRecord
from heedful.inspection.unrolled import DiagramLink, DiagramNode, ModelDiagram, unroll_model

_COLUMN_DISTANCE, _ROW_DISTANCE = 62.0, 58.0
BOX_SIZE = 34.0, 24.0
_LONGEST = 8
_LINE_ATTRIBUTES = {
    "up": 'class="faint" stroke-opacity="0.55"',
    "carry": 'class="hue0" stroke-width="2"',
    "start": 'class="hue1" stroke-width="2"',
    "across": 'class="hue2" stroke-width="2"',
    "fed": 'class="hue3" stroke-width="1.5"',
}
LINK_MEANINGS = {
    "up": "from the level below",
    "carry": "the state of the adjacent position",
    "start": "where the source ended",
    "across": "attention to the whole source, in each box with a dot",
    "fed": "the output of the top level at the token before",
}


@dataclass(frozen=True)
class DiagramLayout:
    """A diagram with the positions of its parts; lengths in pixels.

    Attributes:
        diagram: the diagram.
        centres: of each node.
        courses: kind and SVG path of each line; the links of an attention to a memory share one line per row.
        looking: numbers of the nodes that attend to a memory.
        names: x, y, text anchor ("start" or "end") and text of each row's name.
        width: of the whole diagram.
        height: of the whole diagram.
    """

    diagram: ModelDiagram
    centres: tuple[tuple[float, float], ...]
    courses: tuple[tuple[str, str], ...]
    looking: tuple[int, ...]
    names: tuple[tuple[float, float, str, str], ...]
    width: float
    height: float

    @property
    def note(self) -> str:
        """Explanation of the step numbers."""
        cut = f". Of {', '.join(self.diagram.cut)} the first tokens" if self.diagram.cut else ""
        return (
            "Numbers: the earliest step in which a box can be computed, if everything that need not wait is computed "
            f"at once; {self.diagram.num_steps} steps in all{cut}."
        )


def lay_out_diagram(diagram: ModelDiagram) -> DiagramLayout:
    """Compute the layout of a diagram: tokens below, levels above them, texts side by side with their row names."""
    first_column = min((column for column, _, _ in diagram.rows), default=0)
    left = max((estimate_length(name) for column, _, name in diagram.rows if column == first_column), default=0.0) + 14
    right = max((estimate_length(name) for column, _, name in diagram.rows if column != first_column), default=0.0) + 14
    top = max((node.row for node in diagram.nodes), default=0)
    base = 26 + _ROW_DISTANCE * top + BOX_SIZE[1] / 2
    spots = tuple(
        (left + _COLUMN_DISTANCE * node.column + BOX_SIZE[0] / 2, base - _ROW_DISTANCE * node.row)
        for node in diagram.nodes
    )
    courses = [(link.kind, _build_link_path(link, spots)) for link in diagram.links if link.kind != "across"]
    return DiagramLayout(
        diagram,
        spots,
        (*courses, *(("across", course) for course in _iter_attention_paths(diagram, spots))),
        tuple(dict.fromkeys(link.end for link in diagram.links if link.kind == "across")),
        tuple(_iter_row_names(diagram, spots, first_column)),
        max((x for x, _ in spots), default=0.0) + BOX_SIZE[0] / 2 + right,
        base + 16,
    )


def draw_unrolled_model(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw the model of a record as SVG, unrolled over the tokens that it read; `DataError` without its levels."""
    diagram = unroll_record(record)
    if diagram is None:
        raise DataError("this record does not contain the levels of its model, so it cannot be unrolled")
    return draw_diagram_svg(diagram, title=record.model)


def unroll_record(record: InspectionRecord) -> ModelDiagram | None:
    """Return the diagram of a record's model; None if its levels, or their tokens, are unknown."""
    texts = {axis.name: axis.tokens for axis in record.axes}
    known_levels = [level for level in record.levels if texts.get(level.axis)]
    return unroll_model(known_levels, texts) if known_levels else None


def draw_diagram_svg(diagram: ModelDiagram, *, title: str) -> str:
    """Draw a diagram as an SVG file: a box with its step for each node, and lines from what it needs."""
    layout = lay_out_diagram(diagram)
    parts = [
        f'<path {_LINE_ATTRIBUTES[kind]} fill="none" stroke="currentColor" d="{course}"/>'
        for kind, course in layout.courses
    ]
    for number, (node, (x, y)) in enumerate(zip(diagram.nodes, layout.centres, strict=True)):
        parts += _draw_node(node, x, y, opacity=node.step / max(1, diagram.num_steps), attends=number in layout.looking)
    parts += [draw_text(name, x, y + 4, anchor=anchor) for x, y, anchor, name in layout.names]
    kinds = [kind for kind in LINK_MEANINGS if any(link.kind == kind for link in diagram.links)]
    legend = [
        part for row, kind in enumerate(kinds) for part in _draw_legend_entry(kind, layout.height + 22 + 18 * row)
    ]
    bottom = layout.height + 28 + 18 * len(kinds)
    box = SvgBox(
        (*parts, *legend, draw_note(layout.note, 0, bottom)),
        max(layout.width, estimate_length(layout.note, 11, longest=300)),
        bottom + 6,
    )
    return render_sheet(box, title=title)


def _iter_row_names(
    diagram: ModelDiagram, centres: tuple[tuple[float, float], ...], first_column: int
) -> Iterator[tuple[float, float, str, str]]:
    """Yield x, y, text anchor and text of each row's name: on the left for rows of the side that begins at
    `first_column`, on the right for others. `centres` are those of the nodes.
    """
    sides = sorted({column for column, _, _ in diagram.rows})
    for column, row, name in diagram.rows:
        ends = [
            spot
            for node, spot in zip(diagram.nodes, centres, strict=True)
            if node.row == row and bisect(sides, node.column) == bisect(sides, column)
        ]
        if column == first_column:
            yield min(x for x, _ in ends) - BOX_SIZE[0] / 2 - 10, ends[0][1], "end", name
        else:
            yield max(x for x, _ in ends) + BOX_SIZE[0] / 2 + 10, ends[0][1], "start", name


def _draw_node(node: DiagramNode, x: float, y: float, *, opacity: float, attends: bool) -> list[str]:
    """Draw the box of a node with its step, or the text of a token; x and y are its centre. `opacity` is that of the
    box, and a node that attends to a memory has a dot.
    """
    if not node.row:
        return [draw_text(node.name, x, y + 5, anchor="middle", longest=_LONGEST)]
    position_attributes = (
        f'x="{x - BOX_SIZE[0] / 2:.1f}" y="{y - BOX_SIZE[1] / 2:.1f}" width="{BOX_SIZE[0]}" height="{BOX_SIZE[1]}" '
        'rx="6"'
    )
    dot = f'<circle class="hue2" fill="currentColor" cx="{x - 9:.1f}" cy="{y - 6:.1f}" r="3"/>'
    return [
        f'<rect class="paper" {position_attributes}/>',
        f'<rect class="hue0" fill="currentColor" stroke="currentColor" fill-opacity="{0.06 + 0.44 * opacity:.2f}" '
        f"{position_attributes}/>",
        draw_text(f"{node.step}", x, y + 4, font=12, anchor="middle"),
        *([dot] if attends else []),
    ]


def _draw_legend_entry(kind: str, y: float) -> tuple[str, str]:
    return f'<path {_LINE_ATTRIBUTES[kind]} stroke="currentColor" d="M0 {y - 4:.1f}h26"/>', draw_note(
        LINK_MEANINGS[kind], 34, y
    )


def _build_link_path(link: DiagramLink, centres: tuple[tuple[float, float], ...]) -> str:
    """Return the SVG path of a link between two nodes, from the centres of all nodes."""
    (x, y), (to_x, to_y) = centres[link.start], centres[link.end]
    wide, high = BOX_SIZE[0] / 2, BOX_SIZE[1] / 2
    if link.kind == "up":
        return f"M{x:.1f} {y - high:.1f}L{to_x:.1f} {to_y + high:.1f}"
    side = wide if to_x > x else -wide
    if link.kind == "carry":
        return f"M{x + side:.1f} {y:.1f}H{to_x - side:.1f}"
    if link.kind == "start" and abs(to_x - x) > 1.5 * _COLUMN_DISTANCE:  # above what lies between
        over = min(y, to_y) - 0.75 * _ROW_DISTANCE
        return f"M{x:.1f} {y - high:.1f}C{x:.1f} {over:.1f} {to_x - 40:.1f} {over:.1f} {to_x - wide:.1f} {to_y - 4:.1f}"
    middle = (x + to_x) / 2
    return f"M{x + side:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x - side:.1f} {to_y:.1f}"


def _iter_attention_paths(diagram: ModelDiagram, centres: tuple[tuple[float, float], ...]) -> Iterator[str]:
    """Yield the SVG path of a line above each memory, and of one from its end to each row that attends to it. `centres`
    are those of the nodes.
    """
    sides = sorted({column for column, _, _ in diagram.rows})
    memories: dict[int, list[int]] = {}
    rows: dict[tuple[int, float], list[float]] = {}
    for link in diagram.links:
        if link.kind == "across":
            memory = bisect(sides, diagram.nodes[link.start].column)
            memories.setdefault(memory, []).append(link.start)
            rows.setdefault((memory, centres[link.end][1]), []).append(centres[link.end][0])
    ends: dict[int, tuple[float, float]] = {}
    for memory, nodes in memories.items():
        columns, above = [centres[node][0] for node in nodes], min(centres[node][1] for node in nodes) - 19
        ends[memory] = max(columns) + BOX_SIZE[0] / 2, above
        yield f"M{min(columns) - BOX_SIZE[0] / 2:.1f} {above:.1f}H{ends[memory][0]:.1f}"
    for (memory, y), columns in rows.items():
        begin, above = ends[memory]
        end = min(columns) - BOX_SIZE[0] / 2
        middle = (begin + end) / 2
        yield f"M{begin:.1f} {above:.1f}C{middle:.1f} {above:.1f} {middle:.1f} {y - 6:.1f} {end:.1f} {y - 6:.1f}"
