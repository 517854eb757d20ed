"""Pairs in a row of codes: what is never closed, never opened, or too deep stands alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from heedful.localisation.documents import TextContent
from heedful.localisation.html_document import HtmlDocument
from heedful.localisation.protection import has_same_codes, protect_codes, split_at_codes, split_into_frames
from heedful.localisation.segments import (
    MAX_DEPTH,
    CodePair,
    CodeRole,
    InlineCode,
    Segment,
    SegmentNode,
    flatten_nodes,
    nest_pairs,
)


def tag(name: str, role: CodeRole) -> InlineCode:
    return InlineCode(f"<{'/' * (role == 'close')}{name}>", role, name)


def longhand(segment: Sequence[str | InlineCode]) -> tuple[SegmentNode, ...]:
    """Each code that closes, from left to right, makes a pair with the last one of its name that is open."""
    nodes: list[SegmentNode] = []
    for part in segment:
        closes = isinstance(part, InlineCode) and part.role == "close"
        places = [n for n, node in enumerate(nodes) if closes and _opens(node) == part.name]  # type: ignore[union-attr]
        if not places:
            nodes.append(part)
            continue
        opening = nodes[places[-1]]
        assert isinstance(opening, InlineCode)
        assert isinstance(part, InlineCode)
        nodes[places[-1] :] = [CodePair(opening, tuple(nodes[places[-1] + 1 :]), part)]
    return tuple(nodes)


def _opens(node: SegmentNode) -> str | None:
    return node.name if isinstance(node, InlineCode) and node.role == "open" else None


def test_pairs_are_those_of_a_longhand_reading() -> None:
    chance = random.Random(8)
    parts = [tag(name, role) for name in "abc" for role in ("open", "open", "close")]  # type: ignore[arg-type]
    for _ in range(500):
        segment = tuple(chance.choice([*parts, InlineCode("<x/>"), "t"]) for _ in range(chance.randint(0, 14)))
        assert nest_pairs(segment) == longhand(segment)
        assert flatten_nodes(nest_pairs(segment)) == flatten_nodes(segment)


def test_ends_without_a_beginning_are_looked_at_once() -> None:
    """Twice as many codes cost twice as much, counted in comparisons of names."""

    def compared(count: int) -> int:
        seen = 0

        class Name(str):
            __hash__ = str.__hash__

            def __eq__(self, other: object) -> bool:
                nonlocal seen
                seen += 1
                return str.__eq__(self, other)

        opening = [InlineCode("<a>", "open", Name("a"))] * count
        nest_pairs([*opening, *(InlineCode("</x>", "close", Name(f"x{n % 7}")) for n in range(count))])
        return seen

    assert compared(400) < 3 * compared(200) + 100


def test_many_codes_that_are_never_closed_are_read() -> None:
    segment: Segment = tuple(part for n in range(20_000) for part in (tag(f"x{n}", "open"), "a "))
    assert len(nest_pairs(segment)) == 40_000
    assert flatten_nodes(nest_pairs(segment)) == segment


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH + 1, 600, 2000])
def test_pairs_inside_each_other_are_read_however_deep(depth: int) -> None:
    segment = (*[tag("b", "open")] * depth, "text here", *[tag("b", "close")] * depth)
    assert flatten_nodes(nest_pairs(segment)) == segment
    assert protect_codes(segment).text == "text here"
    assert has_same_codes(segment, segment)
    (frame,) = split_into_frames(segment, split=lambda text: [text])
    assert frame.wrap_core(frame.core) == segment
    assert len(split_at_codes(segment)) == 2 * depth + 1
    page = HtmlDocument(TextContent("<b>" * depth + "text" + "</b>" * depth), Path("page"))
    (unit,) = page.units
    assert page.fill_targets({0: unit.source}).decode() == page.content.text


def deep(node: SegmentNode) -> Iterator[int]:
    yield 0
    if isinstance(node, CodePair):
        yield from (1 + each for inner in node.inside for each in deep(inner))


def test_no_pair_is_deeper_than_what_reads_it_can_go() -> None:
    segment = (*[tag("b", "open")] * 500, "t", *[tag("b", "close")] * 500)
    assert max(each for node in nest_pairs(segment) for each in deep(node)) == MAX_DEPTH
