"""XLIFF 1.2 and 2.x (OASIS), the exchange format of translation tools."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar, Final, final
from xml.sax.saxutils import quoteattr

from heedful.errors import DataError
from heedful.localisation.documents import (
    DocumentLanguages,
    TextContent,
    TextDocument,
    TextEdit,
    TranslationUnit,
    UnitState,
)
from heedful.localisation.segments import Segment
from heedful.localisation.translation_memory import NO_MATCHES, MemoryMatch
from heedful.localisation.xml_elements import (
    XLIFF_1_INLINE,
    XLIFF_2_INLINE,
    InlineElements,
    XmlElement,
    escape_xml,
    find_root,
    has_content,
    iter_elements,
    read_xml_file,
    to_xml,
)

_REVIEW_STATE: Final = "needs-review-translation"
_UNCONFIRMED_STATES: Final = frozenset(
    {
        "new",
        "needs-translation",
        "needs-l10n",
        "needs-adaptation",
        "needs-review-l10n",
        "needs-review-adaptation",
        _REVIEW_STATE,
    }
)
"""Target states of XLIFF 1.2 that are not confirmed."""
_MACHINE_SUBSTATE: Final = "heedful:machine"
"""`subState` of an XLIFF 2 segment that heedful translated; its states cannot express that a review is needed."""
_MEMORY_SUBSTATE: Final = "heedful:memory"
"""`subState` of an XLIFF 2 segment whose translation was taken from a translation memory."""
_MATCHES_NAMESPACE: Final = "urn:oasis:names:tc:xliff:matches:2.0"
"""Namespace of XLIFF 2's module for similar translations (section 5.1, Translation Candidates)."""


@final
@dataclass(frozen=True)
class _XliffUnit:
    """A source and its target, with the elements that hold their attributes.

    Attributes:
        unit: the element with the attributes: `trans-unit`, or `segment`.
        source: source element.
        target: target element, if there is one.
        insert_at: offset for a new target.
    """

    unit: XmlElement
    source: XmlElement
    target: XmlElement | None
    insert_at: int


class XliffDocument(TextDocument):
    """Abstract base of XLIFF documents: units with source, target and inline codes.

    The versions differ in where a segment stands and in how its state is written.
    """

    inline: ClassVar[InlineElements]
    language_attributes: ClassVar[tuple[str, str]]
    """Names of the attributes with source and target language."""

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(content, path)
        self._notes: dict[int, tuple[str, ...]] = {}
        self._xliff_units = list(self._find_units(content.text))
        self._units = list(map(self._build_unit, self._xliff_units))

    @classmethod
    def from_file(cls, path: Path) -> XliffDocument:
        """Read a file of either version; raise DataError if it is not XLIFF."""
        content = read_xml_file(path)
        version = find_root(content.text, "xliff", path=path).get_attribute("version") or ""
        if version.startswith("2."):
            return Xliff2Document(content, path)
        if version in ("1.0", "1.1", "1.2"):
            return Xliff1Document(content, path)
        raise DataError(f"{path}: is XLIFF of version {version!r}; export it as 1.2 or 2.0, which can be read")

    @property
    def units(self) -> Sequence[TranslationUnit]:
        """Segments in order."""
        return self._units

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the file with new targets, marked for review, and similar matches beside their segments, both given by
        unit number.
        """
        edits: list[TextEdit] = []
        for number, target in targets.items():
            from_memory = number in matches and matches[number].exact_target is not None
            edits += self._fill_unit(self._xliff_units[number], to_xml(target), from_memory=from_memory)
        similar = {number: match for number, match in matches.items() if match.exact_target is None}
        return self.apply_edits([*edits, *self._add_matches(similar)])

    @property
    def languages(self) -> DocumentLanguages:
        """Languages that the first segment declares."""
        first = next(iter(self._xliff_units), None)
        if first is None:
            return DocumentLanguages()
        return DocumentLanguages(*(first.unit.get_inherited(name) or None for name in self.language_attributes))

    @abstractmethod
    def _find_units(self, text: str) -> Iterator[_XliffUnit]: ...

    @abstractmethod
    def _get_state(self, xliff_unit: _XliffUnit) -> UnitState: ...

    @abstractmethod
    def _fill_unit(self, xliff_unit: _XliffUnit, raw: str, *, from_memory: bool) -> Iterator[TextEdit]: ...

    @abstractmethod
    def _add_matches(self, matches: Mapping[int, MemoryMatch]) -> Iterator[TextEdit]:
        """Yield the edits that add similar translations, given by unit number, unless they are in the file."""

    def _build_unit(self, xliff_unit: _XliffUnit) -> TranslationUnit:
        """Build the unit of a source and its target, with state, location, id and notes; an empty target counts as
        none.
        """
        text, target = self.content.text, None
        if xliff_unit.target is not None:
            target = self.inline.to_segment(xliff_unit.target, text)
        has_target = target is not None and has_content(target)
        return TranslationUnit(
            self.inline.to_segment(xliff_unit.source, text),
            target if has_target else None,
            self._get_state(xliff_unit) if has_target else "untranslated",
            self.format_location(xliff_unit.unit.start),
            xliff_unit.unit.get_inherited("id") or "",
            self._get_notes(xliff_unit.unit),
            (xliff_unit.unit.get_inherited("translate") or "yes") != "no",
        )

    def _get_notes(self, unit: XmlElement) -> tuple[str, ...]:
        """Return the notes of a unit; they are cached, because its segments share them."""
        parent = unit.parent
        owner = unit if unit.name == "trans-unit" or parent is None else parent
        if owner.start not in self._notes:
            self._notes[owner.start] = tuple(note.text.strip() for note in _iter_notes(owner))
        return self._notes[owner.start]

    def _insert_target(self, xliff_unit: _XliffUnit, raw: str, attributes: str) -> TextEdit:
        """Return the edit that inserts a target after the source, on its own line if the source has one. `raw` is its
        content and `attributes` those of its tag, both as XML.
        """
        prefix, gap = _get_prefix(xliff_unit), self._get_indent(xliff_unit)
        return TextEdit(
            xliff_unit.insert_at, xliff_unit.insert_at, f"{gap}<{prefix}target{attributes}>{raw}</{prefix}target>"
        )

    def _get_indent(self, xliff_unit: _XliffUnit) -> str:
        """Return the white space before a source."""
        before = self.content.text[xliff_unit.unit.inside : xliff_unit.source.start]
        return before[len(before.rstrip()) :]

    def _replace_content(self, target: XmlElement, raw: str) -> Iterator[TextEdit]:
        """Yield the edit that replaces the content of a target element by `raw`, which is XML."""
        if not target.is_single:
            yield TextEdit(target.inside, target.inside_stop, raw)
            return
        slash = self.content.text.rindex("/", target.start, target.stop)
        yield TextEdit(slash, target.stop, f">{raw}</{target.tag}>")

    def _set_attribute(self, element: XmlElement, name: str, value: str) -> TextEdit:
        """Return the edit that gives an attribute of an element this value, or adds the attribute."""
        if (attribute := element.attributes.get(name)) is not None:
            return TextEdit(attribute.start, attribute.stop, value)
        tag_end = element.start + 1 + len(element.tag)
        return TextEdit(tag_end, tag_end, f' {name}="{value}"')


@final
class Xliff1Document(XliffDocument):
    """XLIFF 1.2: one unit for each `trans-unit`; a segmented one keeps its `mrk` elements."""

    inline = XLIFF_1_INLINE
    language_attributes = ("source-language", "target-language")

    def _find_units(self, text: str) -> Iterator[_XliffUnit]:
        """Yield the `trans-unit` elements in the text of a file; raise DataError if one has no source."""
        for unit in iter_elements(text, ("trans-unit",)):
            source = unit.find_child("source")
            if source is None:
                raise DataError(f"{self.format_location(unit.start)}: a trans-unit without a source; correct it")
            segmented = unit.find_child("seg-source")
            yield _XliffUnit(unit, segmented or source, unit.find_child("target"), (segmented or source).stop)

    def _get_state(self, xliff_unit: _XliffUnit) -> UnitState:
        """Return the state of a target, "review" or "translated", from `approved` of its unit and its own `state`."""
        assert xliff_unit.target is not None
        if xliff_unit.unit.get_attribute("approved") == "yes":
            return "translated"
        state = xliff_unit.target.get_attribute("state")
        return (
            "review"
            if state in _UNCONFIRMED_STATES or (xliff_unit.unit.get_attribute("approved") == "no" and state is None)
            else "translated"
        )

    def _fill_unit(self, xliff_unit: _XliffUnit, raw: str, *, from_memory: bool) -> Iterator[TextEdit]:
        """Yield the edits that set the target of a `trans-unit` to `raw`, which is XML, and its state: translated if it
        comes from a translation memory (`from_memory`), else in need of review.
        """
        if xliff_unit.unit.get_attribute("approved") == "yes":
            yield self._set_attribute(xliff_unit.unit, "approved", "no")
        state, qualifier = ("translated", "exact-match") if from_memory else (_REVIEW_STATE, "mt-suggestion")
        if xliff_unit.target is None:
            yield self._insert_target(
                xliff_unit, raw, f' state="{state}"' + f' state-qualifier="{qualifier}"' * from_memory
            )
            return
        yield self._set_attribute(xliff_unit.target, "state", state)
        if from_memory or xliff_unit.target.get_attribute("state-qualifier") is not None:
            yield self._set_attribute(xliff_unit.target, "state-qualifier", qualifier)
        yield from self._replace_content(xliff_unit.target, raw)

    def _add_matches(self, matches: Mapping[int, MemoryMatch]) -> Iterator[TextEdit]:
        """Yield the edits that add an `alt-trans` element for each similar translation that is not in the file yet;
        `matches` are given by unit number.
        """
        for number, match in matches.items():
            xliff_unit = self._xliff_units[number]
            prefix, offset = (
                _get_prefix(xliff_unit),
                xliff_unit.target.stop if xliff_unit.target else xliff_unit.insert_at,
            )
            pair = _to_xml_pair(match, prefix)
            if pair in self.content.text[xliff_unit.unit.start : xliff_unit.unit.stop]:
                continue
            attributes = f'match-quality="{match.percent}%" origin={quoteattr(match.entry.origin)}'
            alternative = f"<{prefix}alt-trans {attributes}>{pair}</{prefix}alt-trans>"
            yield TextEdit(offset, offset, f"{self._get_indent(xliff_unit)}{alternative}")


@final
class Xliff2Document(XliffDocument):
    """XLIFF 2: one unit for each segment of a `unit`; `ignorable` elements are skipped."""

    inline = XLIFF_2_INLINE
    language_attributes = ("srcLang", "trgLang")

    def _find_units(self, text: str) -> Iterator[_XliffUnit]:
        """Yield the `segment` elements of all units in the text of a file; raise DataError if one has no source."""
        for unit in iter_elements(text, ("unit",)):
            for segment in unit.iter_children("segment"):
                source = segment.find_child("source")
                if source is None:
                    raise DataError(f"{self.format_location(segment.start)}: a segment without a source; correct it")
                yield _XliffUnit(segment, source, segment.find_child("target"), source.stop)

    def _get_state(self, xliff_unit: _XliffUnit) -> UnitState:
        """Return the state of a target, "review" or "translated", from `state` and `subState` of its segment."""
        machine = xliff_unit.unit.get_attribute("subState") == _MACHINE_SUBSTATE
        return "review" if machine or xliff_unit.unit.get_attribute("state") == "initial" else "translated"

    def _fill_unit(self, xliff_unit: _XliffUnit, raw: str, *, from_memory: bool) -> Iterator[TextEdit]:
        """Yield the edits that set the target of a segment to `raw`, which is XML, and its state; `from_memory` says
        whether it comes from a translation memory.
        """
        yield self._set_attribute(xliff_unit.unit, "state", "translated")
        yield self._set_attribute(xliff_unit.unit, "subState", _MEMORY_SUBSTATE if from_memory else _MACHINE_SUBSTATE)
        if xliff_unit.target is None:
            yield self._insert_target(xliff_unit, raw, "")
        else:
            yield from self._replace_content(xliff_unit.target, raw)

    def _add_matches(self, matches: Mapping[int, MemoryMatch]) -> Iterator[TextEdit]:
        """Yield the edits that add translation candidates before the segments of each unit, with references to them;
        `matches` are given by unit number.
        """
        units: dict[int, list[tuple[_XliffUnit, MemoryMatch]]] = {}
        for number, match in matches.items():
            unit = self._xliff_units[number].unit.parent
            assert unit is not None, "segments were found in units"
            units.setdefault(unit.start, []).append((self._xliff_units[number], match))
        for unit_matches in units.values():
            yield from self._add_candidates(unit_matches)

    def _add_candidates(self, unit_matches: Sequence[tuple[_XliffUnit, MemoryMatch]]) -> Iterator[TextEdit]:
        """Yield the edits that add candidates to one unit, given its segments with their matches; segments without an
        id get one.
        """
        unit = unit_matches[0][0].unit.parent
        assert unit is not None
        unit_text, new_matches = self.content.text[unit.start : unit.stop], ""
        matches_element = next((element for element in unit.iter_children("matches") if not element.is_single), None)
        tag = matches_element.tag.removesuffix("matches") if matches_element else "mtc:"
        names = (name for number in count(1) if f'"{(name := f"heedful-{number}")}"' not in unit_text)
        for xliff_unit, match in unit_matches:
            prefix = _get_prefix(xliff_unit)
            pair = _to_xml_pair(match, prefix)
            if pair in unit_text:
                continue
            name = xliff_unit.unit.get_attribute("id") or next(names)
            if xliff_unit.unit.get_attribute("id") != name:
                yield self._set_attribute(xliff_unit.unit, "id", name)
            attributes = f'ref="#{name}" similarity="{match.percent}" origin={quoteattr(match.entry.origin)}'
            new_matches += f"{self._get_indent(xliff_unit)}<{tag}match {attributes}>{pair}</{tag}match>"
        if not new_matches:
            return
        if matches_element is not None:
            yield TextEdit(matches_element.inside_stop, matches_element.inside_stop, new_matches)
            return
        first = unit_matches[0][0]
        before = self.content.text[unit.inside : first.unit.start]
        gap = before[len(before.rstrip()) :]
        yield TextEdit(
            unit.inside,
            unit.inside,
            f'{gap}<mtc:matches xmlns:mtc="{_MATCHES_NAMESPACE}">{new_matches}{gap}</mtc:matches>',
        )


def _get_prefix(xliff_unit: _XliffUnit) -> str:
    """Return the namespace prefix of the elements, as in `x:`."""
    return xliff_unit.source.tag.removesuffix("source")


def _to_xml_pair(match: MemoryMatch, prefix: str) -> str:
    """Write the text of a similar match and its translation as source and target elements with a namespace prefix."""
    source, target = escape_xml(match.source_text), escape_xml(match.target_text)
    return f"<{prefix}source>{source}</{prefix}source><{prefix}target>{target}</{prefix}target>"


def _iter_notes(owner: XmlElement) -> Iterator[XmlElement]:
    """Yield the note elements of a unit, in both versions."""
    yield from owner.iter_children("note")
    for notes in owner.iter_children("notes"):
        yield from notes.iter_children("note")
