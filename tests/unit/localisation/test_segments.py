"""Pairs in a row of codes: what is never closed, never opened, or too deep stands alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from heedful.localisation.encodings import Content
from heedful.localisation.html import Html
from heedful.localisation.protection import framed, kept, pieces, protect
from heedful.localisation.segments import DEEPEST, Code, Node, Pair, Role, Segment, flat, nested


def tag(name: str, role: Role) -> Code:
    return Code(f"<{'/' * (role == 'close')}{name}>", role, name)


def longhand(segment: Sequence[str | Code]) -> tuple[Node, ...]:
    """Each code that closes, from left to right, makes a pair with the last one of its name that is open."""
    nodes: list[Node] = []
    for part in segment:
        closes = isinstance(part, Code) and part.role == "close"
        places = [n for n, node in enumerate(nodes) if closes and _opens(node) == part.name]  # type: ignore[union-attr]
        if not places:
            nodes.append(part)
            continue
        opening = nodes[places[-1]]
        assert isinstance(opening, Code)
        assert isinstance(part, Code)
        nodes[places[-1] :] = [Pair(opening, tuple(nodes[places[-1] + 1 :]), part)]
    return tuple(nodes)


def _opens(node: Node) -> str | None:
    return node.name if isinstance(node, Code) and node.role == "open" else None


def test_pairs_are_those_of_a_longhand_reading() -> None:
    chance = random.Random(8)
    parts = [tag(name, role) for name in "abc" for role in ("open", "open", "close")]  # type: ignore[arg-type]
    for _ in range(500):
        segment = tuple(chance.choice([*parts, Code("<x/>"), "t"]) for _ in range(chance.randint(0, 14)))
        assert nested(segment) == longhand(segment)
        assert flat(nested(segment)) == flat(segment)


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

        opening = [Code("<a>", "open", Name("a"))] * count
        nested([*opening, *(Code("</x>", "close", Name(f"x{n % 7}")) for n in range(count))])
        return seen

    assert compared(400) < 3 * compared(200) + 100


def test_many_codes_that_are_never_closed_are_read() -> None:
    segment: Segment = tuple(part for n in range(20_000) for part in (tag(f"x{n}", "open"), "a "))
    assert len(nested(segment)) == 40_000
    assert flat(nested(segment)) == segment


@pytest.mark.parametrize("depth", [DEEPEST - 1, DEEPEST + 1, 600, 2000])
def test_pairs_inside_each_other_are_read_however_deep(depth: int) -> None:
    segment = (*[tag("b", "open")] * depth, "text here", *[tag("b", "close")] * depth)
    assert flat(nested(segment)) == segment
    assert protect(segment).text == "text here"
    assert kept(segment, segment)
    (frame,) = framed(segment, split=lambda text: [text])
    assert frame.around(frame.core) == segment
    assert len(pieces(segment)) == 2 * depth + 1
    page = Html(Content("<b>" * depth + "text" + "</b>" * depth), Path("page"))
    (unit,) = page.units
    assert page.filled({0: unit.source}).decode() == page.content.text


def deep(node: Node) -> Iterator[int]:
    yield 0
    if isinstance(node, Pair):
        yield from (1 + each for inner in node.inside for each in deep(inner))


def test_no_pair_is_deeper_than_what_reads_it_can_go() -> None:
    segment = (*[tag("b", "open")] * 500, "t", *[tag("b", "close")] * 500)
    assert max(each for node in nested(segment) for each in deep(node)) == DEEPEST
