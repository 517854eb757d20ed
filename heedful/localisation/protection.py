"""Segments as plain text for a model, and translations as segments again, with every code where it belongs.

Markup is cut out of the text that a model reads; values (`%s`, numbers, addresses) stand in it, or are cut out too.
What was cut out is put back by what the model looked at (`placed`): a pair goes around the words that looked at what
it enclosed, what stands alone between the words that looked at its neighbours. Whatever came out is compared with the
source (`kept`), so no way of putting back has to be trusted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, final

from heedful.characters import without_invisible
from heedful.localisation.placeholder_rules import ESCAPE, NUMBER
from heedful.localisation.placeholders import key, scanned
from heedful.localisation.segments import BREAK, Code, Node, Pair, Segment, flat, nested

_ESCAPED_LINES: Final = ("\\n", "\\r", "\\r\\n")
_LETTER: Final = re.compile(r"[^\W\d_]")
_ENDS_LINE: Final = re.compile(r"[.!?:;\u3002\uff01\uff1f]\s*$")
_BEGINS_LINE: Final = re.compile(r"\s*(?:[-*\u2022\u2013]\s|\d+[.)]\s)")


@final
@dataclass(frozen=True)
class Held:
    """What was cut out of a text, and where it stood.

    Attributes:
        opening: the code, or the one that begins a pair.
        start: of what a pair enclosed, in the text that is left.
        stop: its end; `start` of what stands alone.
        closing: the end of a pair.
        inside: what was cut out of what it encloses.
        before: the letter before it as a reader sees it, a space for any white space, nothing at the beginning.
        after: the letter behind it, likewise.
    """

    opening: Code
    start: int
    stop: int
    closing: Code | None = None
    inside: tuple[Held, ...] = ()
    before: str = ""
    after: str = ""


@final
@dataclass(frozen=True)
class Protected:
    """A text that a model can read, and the parts that were taken out of it, in their order."""

    text: str
    parts: tuple[Held, ...]

    @property
    def has_words(self) -> bool:
        """Whether anything can be translated."""
        return bool(_LETTER.search(self.text))


def protect(segment: Segment | str, *, values: bool = True) -> Protected:
    """A segment without its markup, and without values too unless these may stand in the text.

    White space becomes single spaces, with none at the ends.
    """
    nodes = nested(scanned((segment,) if isinstance(segment, str) else segment))
    cutter = _Cutter(values=values)
    parts = cutter.cut(nodes, before="", after="")
    text = cutter.text.rstrip()
    return Protected(text, tuple(_within(part, len(text)) for part in parts))


def _within(part: Held, size: int) -> Held:
    inside = tuple(_within(each, size) for each in part.inside)
    return Held(
        part.opening, min(part.start, size), min(part.stop, size), part.closing, inside, part.before, part.after
    )


@dataclass
class _Cutter:
    """Writes the text that is left, from the beginning to the end."""

    values: bool
    size: int = 0
    _written: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What was written."""
        return "".join(self._written)

    def cut(self, nodes: Sequence[Node], *, before: str, after: str) -> tuple[Held, ...]:
        """What was cut out of nodes that stand between two letters."""
        parts = []
        for number, node in enumerate(nodes):
            left = _last(nodes[number - 1]) if number else before
            right = _first(nodes[number + 1]) if number + 1 < len(nodes) else after
            if isinstance(node, Pair):
                start = self.size
                inside = self.cut(node.inside, before=left, after=right)
                parts.append(Held(node.opening, start, self.size, node.closing, inside, left, right))
            elif isinstance(node, str) or (node.value and self.values):
                self._write(node if isinstance(node, str) else node.value)
            else:
                if node.name == BREAK or (left.isalnum() and right.isalnum()):
                    self._write(" ")
                parts.append(Held(node, self.size, self.size, before=left, after=right))
        return tuple(parts)

    def _write(self, text: str) -> None:
        single = re.sub(r"\s+", " ", without_invisible(text))
        single = single.lstrip() if not self._written or self._written[-1].endswith(" ") else single
        if single:
            self._written.append(single)
            self.size += len(single)


def _first(node: Node) -> str:
    """The letter with which a node begins for a reader."""
    if isinstance(node, Pair):
        return _first(node.inside[0]) if node.inside else ""
    shown = node if isinstance(node, str) else (" " if node.name == BREAK else node.value)
    return " " if shown[:1].isspace() else shown[:1]


def _last(node: Node) -> str:
    if isinstance(node, Pair):
        return _last(node.inside[-1]) if node.inside else ""
    shown = node if isinstance(node, str) else (" " if node.name == BREAK else node.value)
    return " " if shown[-1:].isspace() else shown[-1:]


def kept(source: Segment, target: Segment) -> bool:
    """Whether a translation has exactly the codes of its source, and pairs that are still pairs.

    Numbers must not be lost; more of them may come, since languages differ in which they write out.
    """
    strange = _counted(target) - _counted(source)
    if lacking(source, target) or any(name != NUMBER for name, _ in strange):
        return False
    return _pairs(source) == _pairs(target)


def lacking(source: Segment, target: Segment) -> int:
    """How many codes of a source its translation does not have."""
    return (_counted(source) - _counted(target)).total()


def _counted(segment: Segment) -> Counter[tuple[str, str]]:
    """Codes by what they are; soft ends of lines are nobody's loss but count as white space."""
    return Counter(
        (NUMBER if code.name == NUMBER else "", key(code))
        for code in scanned(segment)
        if isinstance(code, Code) and code.name != BREAK
    )


def _pairs(segment: Segment) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    waiting = list(nested(scanned(segment)))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Pair):
            found[node.opening.raw, node.closing.raw] += 1
            waiting += node.inside
    return found


@final
@dataclass(frozen=True)
class Framed:
    """A segment to be translated by itself, and what stands before and behind it as it is."""

    before: Segment
    core: Segment
    after: Segment

    def around(self, core: Segment) -> Segment:
        """Another core in the same frame."""
        return flat([*self.before, *core, *self.after])


def framed(segment: Segment, *, split: Callable[[str], Sequence[str]]) -> list[Framed]:
    """A segment in lines and sentences, each without the white space and markup around it.

    Args:
        segment: of any length.
        split: gives the sentences of a text, in order and without the white space between them.
    """
    return [_framed(chunk) for chunk in _chunks(nested(scanned(segment)), split)]


def _chunks(nodes: Sequence[Node], split: Callable[[str], Sequence[str]]) -> list[list[Node]]:
    chunks: list[list[Node]] = [[]]
    for number, node in enumerate(nodes):
        if isinstance(node, str):
            first, *others = _cut(node, split)
            chunks[-1].append(first)
            chunks += [[other] for other in others]
        elif isinstance(node, Code) and _ends_line(node) and _is_hard(nodes, number):
            chunks += [[node], []]
        else:
            chunks[-1].append(node)
    return [chunk for chunk in chunks if chunk]


def _cut(text: str, split: Callable[[str], Sequence[str]]) -> list[str]:
    """A text in its sentences, each with the white space behind it."""
    place, starts = 0, []
    for sentence in split(text):
        starts.append(text.index(sentence, place))
        place = starts[-1] + len(sentence)
    return [text[start:stop] for start, stop in pairwise([0, *starts[1:], len(text)])]


def _ends_line(code: Code) -> bool:
    """Whether it is the end of a line or a tab, or is written as an escape of one."""
    return code.name == BREAK or (code.name == ESCAPE and code.raw in (*_ESCAPED_LINES, "\\t"))


def _is_hard(nodes: Sequence[Node], number: int) -> bool:
    """Whether a line ends because what it says is over; a tab parts what does not belong together."""
    node = nodes[number]
    if isinstance(node, Code) and "\n" not in node.raw and node.raw not in _ESCAPED_LINES:
        return True
    before = nodes[number - 1] if number else ""
    after = nodes[number + 1] if number + 1 < len(nodes) else ""
    if any(isinstance(node, Code) and _ends_line(node) for node in (before, after)):
        return True
    ends = isinstance(before, str) and (not before or _ENDS_LINE.search(before))
    return bool(ends or (isinstance(after, str) and (not after or _BEGINS_LINE.match(after))))


def _framed(nodes: Sequence[Node]) -> Framed:
    first, last = 0, len(nodes)
    while first < last and _is_frame(nodes[first]):
        first += 1
    while last > first and _is_frame(nodes[last - 1]):
        last -= 1
    before, core, after = list(nodes[:first]), list(nodes[first:last]), list(nodes[last:])
    if len(core) == 1 and isinstance(core[0], Pair):
        inner = _framed(core[0].inside)
        return Framed(
            flat([*before, core[0].opening, *inner.before]), inner.core, flat([*inner.after, core[0].closing, *after])
        )
    if core and isinstance(core[0], str) and (start := len(core[0]) - len(core[0].lstrip())):
        before.append(core[0][:start])
        core[0] = core[0][start:]
    if core and isinstance(core[-1], str) and (stop := len(core[-1].rstrip())) < len(core[-1]):
        after.insert(0, core[-1][stop:])
        core[-1] = core[-1][:stop]
    return Framed(flat(before), flat(core), flat(after))


def _is_frame(node: Node) -> bool:
    """Whether something at an end stays there whatever the words become."""
    return not node.strip() if isinstance(node, str) else isinstance(node, Code) and not node.value


@final
@dataclass(frozen=True)
class Piece:
    """A text between codes, and the white space around it."""

    before: str
    text: str
    after: str = field(default="")


def pieces(segment: Segment) -> list[Piece | Code]:
    """A segment cut at all its codes: what is left to translate when nothing tells where a code belongs."""
    found: list[Piece | Code] = []
    for part in scanned(segment):
        if isinstance(part, Code):
            found.append(part)
            continue
        text = part.strip()
        start = part.index(text)
        found.append(Piece(part[:start], text, part[start + len(text) :]))
    return found
