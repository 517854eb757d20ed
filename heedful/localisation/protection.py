"""Conversion of segments to plain text for a model, and checks that translations contain every code.

Markup is cut out of the text that a model reads; values (`%s`, numbers, addresses) stay in it, or are cut out too. The
parts are put back by attention weights (`insert_parts`): a pair goes around the words that attended to what it
enclosed, a single code between the words that attended to its neighbours. The result is compared with the source
(`has_same_codes`), so no method of putting codes back has to be trusted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, final

from heedful.characters import remove_invisible
from heedful.localisation.placeholders import ESCAPE_NAME, NUMBER_NAME, get_code_key, scan_placeholders
from heedful.localisation.segments import (
    BREAK_NAME,
    CodePair,
    InlineCode,
    Segment,
    SegmentNode,
    flatten_nodes,
    nest_pairs,
)

_ESCAPED_LINES: Final = ("\\n", "\\r", "\\r\\n")
_LETTER: Final = re.compile(r"[^\W\d_]")
_ENDS_LINE: Final = re.compile(r"[.!?:;\u3002\uff01\uff1f]\s*$")
_BEGINS_LINE: Final = re.compile(r"\s*(?:[-*\u2022\u2013]\s|\d+[.)]\s)")


@final
@dataclass(frozen=True)
class ExtractedPart:
    """A code or pair that was cut out of a text, and its position.

    Attributes:
        opening: the code, or the opening code of a pair.
        start: where the enclosed text of a pair begins, in the remaining text.
        stop: where it ends; `start` for a single code.
        closing: the closing code of a pair.
        inside: parts that were cut out of the enclosed text.
        before: the visible letter before it, a space for any white space, empty at the beginning.
        after: the visible letter after it, likewise.
    """

    opening: InlineCode
    start: int
    stop: int
    closing: InlineCode | None = None
    inside: tuple[ExtractedPart, ...] = ()
    before: str = ""
    after: str = ""


@final
@dataclass(frozen=True)
class ProtectedText:
    """A text that a model can read, and the parts that were cut out of it, in order."""

    text: str
    parts: tuple[ExtractedPart, ...]

    @property
    def has_words(self) -> bool:
        """Whether the text contains a letter, so that it can be translated."""
        return bool(_LETTER.search(self.text))


def protect_codes(segment: Segment | str, *, values: bool = True) -> ProtectedText:
    """Cut the markup out of a segment, and also its values (such as numbers and addresses) unless `values` is true,
    which leaves them in the text.

    White space becomes single spaces, with none at the ends.
    """
    nodes = nest_pairs(scan_placeholders((segment,) if isinstance(segment, str) else segment))
    extractor = _CodeExtractor(values=values)
    parts = extractor.extract(nodes, before="", after="")
    text = extractor.text.rstrip()
    return ProtectedText(text, tuple(_clip_part(part, len(text)) for part in parts))


def _clip_part(part: ExtractedPart, length: int) -> ExtractedPart:
    """Return a part with its positions limited to the length of the text."""
    inside = tuple(_clip_part(child, length) for child in part.inside)
    return ExtractedPart(
        part.opening, min(part.start, length), min(part.stop, length), part.closing, inside, part.before, part.after
    )


@dataclass
class _CodeExtractor:
    """Builds the remaining text from left to right while codes are cut out."""

    values: bool
    size: int = 0
    _written: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Remaining text so far."""
        return "".join(self._written)

    def extract(self, nodes: Sequence[SegmentNode], *, before: str, after: str) -> tuple[ExtractedPart, ...]:
        """Append the text of nodes and return the parts that were cut out; `before` and `after` are the letters
        around the nodes.
        """
        parts = []
        for number, node in enumerate(nodes):
            previous_letter = _last_letter(nodes[number - 1]) if number else before
            next_letter = _first_letter(nodes[number + 1]) if number + 1 < len(nodes) else after
            if isinstance(node, CodePair):
                start = self.size
                inside = self.extract(node.inside, before=previous_letter, after=next_letter)
                parts.append(
                    ExtractedPart(node.opening, start, self.size, node.closing, inside, previous_letter, next_letter)
                )
            elif isinstance(node, str) or (node.value and self.values):
                self._append_text(node if isinstance(node, str) else node.value)
            else:
                if node.name == BREAK_NAME or (previous_letter.isalnum() and next_letter.isalnum()):
                    self._append_text(" ")
                parts.append(ExtractedPart(node, self.size, self.size, before=previous_letter, after=next_letter))
        return tuple(parts)

    def _append_text(self, text: str) -> None:
        """Append text with white space reduced to single spaces."""
        normalized = re.sub(r"\s+", " ", remove_invisible(text))
        normalized = normalized.lstrip() if not self._written or self._written[-1].endswith(" ") else normalized
        if normalized:
            self._written.append(normalized)
            self.size += len(normalized)


def _first_letter(node: SegmentNode) -> str:
    """Return the first visible letter of a node, a space for white space; empty if nothing of it is visible."""
    if isinstance(node, CodePair):
        return _first_letter(node.inside[0]) if node.inside else ""
    visible = node if isinstance(node, str) else (" " if node.name == BREAK_NAME else node.value)
    return " " if visible[:1].isspace() else visible[:1]


def _last_letter(node: SegmentNode) -> str:
    """Return the last visible letter of a node, a space for white space; empty if nothing of it is visible."""
    if isinstance(node, CodePair):
        return _last_letter(node.inside[-1]) if node.inside else ""
    visible = node if isinstance(node, str) else (" " if node.name == BREAK_NAME else node.value)
    return " " if visible[-1:].isspace() else visible[-1:]


def has_same_codes(source: Segment, target: Segment) -> bool:
    """Return whether a translation has exactly the codes of its source, with the same pairs.

    No number may be missing; there may be more, because languages differ in which numbers they write in digits.
    """
    added = _count_codes(target) - _count_codes(source)
    if count_missing_codes(source, target) or any(name != NUMBER_NAME for name, _ in added):
        return False
    return _count_pairs(source) == _count_pairs(target)


def count_missing_codes(source: Segment, target: Segment) -> int:
    """Count the codes of a source that its translation does not have."""
    return (_count_codes(source) - _count_codes(target)).total()


def _count_codes(segment: Segment) -> Counter[tuple[str, str]]:
    """Count the codes of a segment by kind (`NUMBER_NAME`, or empty for all others) and key (`get_code_key`); soft line
    breaks are ignored.
    """
    return Counter(
        (NUMBER_NAME if code.name == NUMBER_NAME else "", get_code_key(code))
        for code in scan_placeholders(segment)
        if isinstance(code, InlineCode) and code.name != BREAK_NAME
    )


def _count_pairs(segment: Segment) -> Counter[tuple[str, str]]:
    """Count the pairs of a segment by the raw text of their opening and closing code."""
    counts: Counter[tuple[str, str]] = Counter()
    stack = list(nest_pairs(scan_placeholders(segment)))
    while stack:
        node = stack.pop()
        if isinstance(node, CodePair):
            counts[node.opening.raw, node.closing.raw] += 1
            stack += node.inside
    return counts


@final
@dataclass(frozen=True)
class FramedSegment:
    """The core of a segment that is translated by itself, and the unchanged parts before and after it."""

    before: Segment
    core: Segment
    after: Segment

    def wrap_core(self, core: Segment) -> Segment:
        """Return a segment with another core in the same frame."""
        return flatten_nodes([*self.before, *core, *self.after])


def split_into_frames(segment: Segment, *, split: Callable[[str], Sequence[str]]) -> list[FramedSegment]:
    """Split a segment into lines and sentences, each separated from the white space and markup around it; `split` finds
    the sentences of a text.

    Args:
        segment: of any length.
        split: returns the sentences of a text, in order and without the white space between them.
    """
    return [_strip_frame(nodes) for nodes in _split_nodes(nest_pairs(scan_placeholders(segment)), split)]


def _split_nodes(nodes: Sequence[SegmentNode], split: Callable[[str], Sequence[str]]) -> list[list[SegmentNode]]:
    """Split nodes into lines and sentences; `split` finds the sentences of a text."""
    chunks: list[list[SegmentNode]] = [[]]
    for number, node in enumerate(nodes):
        if isinstance(node, str):
            first, *rest = _split_sentences(node, split)
            chunks[-1].append(first)
            chunks += [[sentence] for sentence in rest]
        elif isinstance(node, InlineCode) and _is_line_end(node) and _is_hard_break(nodes, number):
            chunks += [[node], []]
        else:
            chunks[-1].append(node)
    return [chunk for chunk in chunks if chunk]


def _split_sentences(text: str, split: Callable[[str], Sequence[str]]) -> list[str]:
    """Split a text into its sentences, each with the white space after it."""
    position, starts = 0, []
    for sentence in split(text):
        starts.append(text.index(sentence, position))
        position = starts[-1] + len(sentence)
    return [text[start:stop] for start, stop in pairwise([0, *starts[1:], len(text)])]


def _is_line_end(code: InlineCode) -> bool:
    """Return whether a code is a line break or a tab, or an escape of one."""
    return code.name == BREAK_NAME or (code.name == ESCAPE_NAME and code.raw in (*_ESCAPED_LINES, "\\t"))


def _is_hard_break(nodes: Sequence[SegmentNode], index: int) -> bool:
    """Return whether a line break (at `index`) ends a sentence or paragraph, by the nodes beside it; a tab always."""
    node = nodes[index]
    if isinstance(node, InlineCode) and "\n" not in node.raw and node.raw not in _ESCAPED_LINES:
        return True
    before = nodes[index - 1] if index else ""
    after = nodes[index + 1] if index + 1 < len(nodes) else ""
    if any(isinstance(node, InlineCode) and _is_line_end(node) for node in (before, after)):
        return True
    ends = isinstance(before, str) and (not before or _ENDS_LINE.search(before))
    return bool(ends or (isinstance(after, str) and (not after or _BEGINS_LINE.match(after))))


def _strip_frame(nodes: Sequence[SegmentNode]) -> FramedSegment:
    """Separate the nodes of a line or sentence into the core, and the white space and markup before and after it."""
    first, last = 0, len(nodes)
    while first < last and _is_frame_node(nodes[first]):
        first += 1
    while last > first and _is_frame_node(nodes[last - 1]):
        last -= 1
    before, core, after = list(nodes[:first]), list(nodes[first:last]), list(nodes[last:])
    if len(core) == 1 and isinstance(core[0], CodePair):
        inner = _strip_frame(core[0].inside)
        return FramedSegment(
            flatten_nodes([*before, core[0].opening, *inner.before]),
            inner.core,
            flatten_nodes([*inner.after, core[0].closing, *after]),
        )
    if core and isinstance(core[0], str) and (start := len(core[0]) - len(core[0].lstrip())):
        before.append(core[0][:start])
        core[0] = core[0][start:]
    if core and isinstance(core[-1], str) and (stop := len(core[-1].rstrip())) < len(core[-1]):
        after.insert(0, core[-1][stop:])
        core[-1] = core[-1][:stop]
    return FramedSegment(flatten_nodes(before), flatten_nodes(core), flatten_nodes(after))


def _is_frame_node(node: SegmentNode) -> bool:
    """Return whether a node at an end is white space or markup, which does not depend on the words."""
    return not node.strip() if isinstance(node, str) else isinstance(node, InlineCode) and not node.value


@final
@dataclass(frozen=True)
class TextPiece:
    """A text between codes, and the white space around it."""

    before: str
    text: str
    after: str = field(default="")


def split_at_codes(segment: Segment) -> list[TextPiece | InlineCode]:
    """Split a segment at all its codes, for translation without information on where codes belong."""
    result: list[TextPiece | InlineCode] = []
    for part in scan_placeholders(segment):
        if isinstance(part, InlineCode):
            result.append(part)
            continue
        text = part.strip()
        start = part.index(text)
        result.append(TextPiece(part[:start], text, part[start + len(text) :]))
    return result
