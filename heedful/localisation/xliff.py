"""XLIFF 1.2 and 2.x (OASIS), the exchange format of tools for translators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar, Final, final
from xml.sax.saxutils import quoteattr

from heedful.errors import DataError
from heedful.localisation.documents import Edit, Languages, State, TextDocument, Unit
from heedful.localisation.encodings import Content
from heedful.localisation.inline import XLIFF_1, XLIFF_2, Inline, is_filled, written
from heedful.localisation.memory import NO_MATCHES, Match
from heedful.localisation.segments import Segment
from heedful.localisation.tags import Element, elements, escaped, read_xml, root

_REVIEW: Final = "needs-review-translation"
_UNSURE: Final = frozenset(
    f"new needs-translation needs-l10n needs-adaptation needs-review-l10n needs-review-adaptation {_REVIEW}".split()
)
"""States of a target of XLIFF 1.2 that nobody has confirmed."""
_MACHINE: Final = "heedful:machine"
"""The `subState` of a segment of XLIFF 2 that was filled: its states have no word for what is to be reviewed."""
_TAKEN: Final = "heedful:memory"
"""That of one whose translation was taken from a memory."""
_MATCHES: Final = "urn:oasis:names:tc:xliff:matches:2.0"
"""The module of XLIFF 2 for what is similar (section 5.1, Translation Candidates)."""


@final
@dataclass(frozen=True)
class _Place:
    """A source and its target, and the elements that say what is known of them.

    Attributes:
        unit: the element whose attributes are its own: `trans-unit`, or `segment`.
        source: what is translated.
        target: its translation, if there is one.
        behind: where a target goes that is not there yet.
    """

    unit: Element
    source: Element
    target: Element | None
    behind: int


class Xliff(TextDocument):
    """Units with source and target, and inline codes that both have.

    Abstract: the versions differ in where a segment stands and in how its state is told.
    """

    inline: ClassVar[Inline]
    attributes: ClassVar[tuple[str, str]]
    """The names of those that say the languages of source and target."""

    def __init__(self, content: Content, path: Path) -> None:
        super().__init__(content, path)
        self._notes: dict[int, tuple[str, ...]] = {}
        self._places = list(self._find(content.text))
        self._units = list(map(self._unit, self._places))

    @classmethod
    def read(cls, path: Path) -> Xliff:
        """A file of either version; `DataError` where it is none."""
        content = read_xml(path)
        version = root(content.text, "xliff", path=path).get("version") or ""
        if version.startswith("2."):
            return Xliff2(content, path)
        if version in ("1.0", "1.1", "1.2"):
            return Xliff1(content, path)
        raise DataError(f"{path}: XLIFF of version {version!r}; have it written as 1.2 or 2.0, which are read")

    @property
    def units(self) -> Sequence[Unit]:
        """Segments."""
        return self._units

    def filled(self, targets: Mapping[int, Segment], matches: Mapping[int, Match] = NO_MATCHES) -> bytes:
        """Filled segments are marked as to be reviewed, and what is similar stands beside them."""
        edits: list[Edit] = []
        for number, target in targets.items():
            taken = number in matches and matches[number].taken is not None
            edits += self._fill(self._places[number], written(target), taken=taken)
        similar = {number: match for number, match in matches.items() if match.taken is None}
        return self.edited([*edits, *self._beside(similar)])

    @property
    def languages(self) -> Languages:
        """Those that are said of the first segment."""
        first = next(iter(self._places), None)
        if first is None:
            return Languages()
        return Languages(*(first.unit.inherited(name) or None for name in self.attributes))

    @abstractmethod
    def _find(self, text: str) -> Iterator[_Place]: ...

    @abstractmethod
    def _state(self, place: _Place) -> State: ...

    @abstractmethod
    def _fill(self, place: _Place, raw: str, *, taken: bool) -> Iterator[Edit]: ...

    @abstractmethod
    def _beside(self, matches: Mapping[int, Match]) -> Iterator[Edit]:
        """What is shown of similar texts, but nothing that is there already."""

    def _unit(self, place: _Place) -> Unit:
        text, target = self.content.text, None
        if place.target is not None:
            target = self.inline.segment(place.target, text)
        there = target is not None and is_filled(target)
        return Unit(
            self.inline.segment(place.source, text),
            target if there else None,
            self._state(place) if there else "untranslated",
            self.at(place.unit.start),
            place.unit.inherited("id") or "",
            self._notes_of(place.unit),
            (place.unit.inherited("translate") or "yes") != "no",
        )

    def _notes_of(self, unit: Element) -> tuple[str, ...]:
        """Those of a unit, which all of its segments share, so that they are looked for once."""
        around = unit.parent
        owner = unit if unit.name == "trans-unit" or around is None else around
        if owner.start not in self._notes:
            self._notes[owner.start] = tuple(note.text.strip() for note in _notes(owner))
        return self._notes[owner.start]

    def _new(self, place: _Place, raw: str, attributes: str) -> Edit:
        """A target behind the source, on a line of its own where the source has one."""
        prefix, gap = _prefix(place), self._gap(place)
        return Edit(place.behind, place.behind, f"{gap}<{prefix}target{attributes}>{raw}</{prefix}target>")

    def _gap(self, place: _Place) -> str:
        """The white space before a source."""
        before = self.content.text[place.unit.inside : place.source.start]
        return before[len(before.rstrip()) :]

    def _over(self, target: Element, raw: str) -> Iterator[Edit]:
        """What a target holds becomes something else."""
        if not target.is_single:
            yield Edit(target.inside, target.inside_stop, raw)
            return
        slash = self.content.text.rindex("/", target.start, target.stop)
        yield Edit(slash, target.stop, f">{raw}</{target.tag}>")

    def _set(self, element: Element, name: str, value: str) -> Edit:
        """An attribute, new or with another value."""
        if (there := element.attributes.get(name)) is not None:
            return Edit(there.start, there.stop, value)
        behind = element.start + 1 + len(element.tag)
        return Edit(behind, behind, f' {name}="{value}"')


@final
class Xliff1(Xliff):
    """Version 1.2: a `trans-unit` each; one that is segmented keeps its `mrk` elements."""

    inline = XLIFF_1
    attributes = ("source-language", "target-language")

    def _find(self, text: str) -> Iterator[_Place]:
        for unit in elements(text, ("trans-unit",)):
            source = unit.find("source")
            if source is None:
                raise DataError(f"{self.at(unit.start)}: a trans-unit without a source; mend it")
            segmented = unit.find("seg-source")
            yield _Place(unit, segmented or source, unit.find("target"), (segmented or source).stop)

    def _state(self, place: _Place) -> State:
        assert place.target is not None
        if place.unit.get("approved") == "yes":
            return "translated"
        state = place.target.get("state")
        return "review" if state in _UNSURE or (place.unit.get("approved") == "no" and state is None) else "translated"

    def _fill(self, place: _Place, raw: str, *, taken: bool) -> Iterator[Edit]:
        if place.unit.get("approved") == "yes":
            yield self._set(place.unit, "approved", "no")
        state, qualifier = ("translated", "exact-match") if taken else (_REVIEW, "mt-suggestion")
        if place.target is None:
            yield self._new(place, raw, f' state="{state}"' + f' state-qualifier="{qualifier}"' * taken)
            return
        yield self._set(place.target, "state", state)
        if taken or place.target.get("state-qualifier") is not None:
            yield self._set(place.target, "state-qualifier", qualifier)
        yield from self._over(place.target, raw)

    def _beside(self, matches: Mapping[int, Match]) -> Iterator[Edit]:
        for number, match in matches.items():
            place = self._places[number]
            prefix, behind = _prefix(place), place.target.stop if place.target else place.behind
            pair = _pair(match, prefix)
            if pair in self.content.text[place.unit.start : place.unit.stop]:
                continue
            said = f'match-quality="{match.percent}%" origin={quoteattr(match.approved.origin)}'
            alternative = f"<{prefix}alt-trans {said}>{pair}</{prefix}alt-trans>"
            yield Edit(behind, behind, f"{self._gap(place)}{alternative}")


@final
class Xliff2(Xliff):
    """Version 2: the segments of a `unit`; what is `ignorable` is none."""

    inline = XLIFF_2
    attributes = ("srcLang", "trgLang")

    def _find(self, text: str) -> Iterator[_Place]:
        for unit in elements(text, ("unit",)):
            for segment in unit.all("segment"):
                source = segment.find("source")
                if source is None:
                    raise DataError(f"{self.at(segment.start)}: a segment without a source; mend it")
                yield _Place(segment, source, segment.find("target"), source.stop)

    def _state(self, place: _Place) -> State:
        machine = place.unit.get("subState") == _MACHINE
        return "review" if machine or place.unit.get("state") == "initial" else "translated"

    def _fill(self, place: _Place, raw: str, *, taken: bool) -> Iterator[Edit]:
        yield self._set(place.unit, "state", "translated")
        yield self._set(place.unit, "subState", _TAKEN if taken else _MACHINE)
        if place.target is None:
            yield self._new(place, raw, "")
        else:
            yield from self._over(place.target, raw)

    def _beside(self, matches: Mapping[int, Match]) -> Iterator[Edit]:
        """Candidates stand before all segments of a unit, and name theirs."""
        units: dict[int, list[tuple[_Place, Match]]] = {}
        for number, match in matches.items():
            unit = self._places[number].unit.parent
            assert unit is not None, "segments were found in units"
            units.setdefault(unit.start, []).append((self._places[number], match))
        for own in units.values():
            yield from self._candidates(own)

    def _candidates(self, own: Sequence[tuple[_Place, Match]]) -> Iterator[Edit]:
        """Those of one unit; segments without a name get one."""
        unit = own[0][0].unit.parent
        assert unit is not None
        whole, written = self.content.text[unit.start : unit.stop], ""
        there = next((each for each in unit.all("matches") if not each.is_single), None)
        tag = there.tag.removesuffix("matches") if there else "mtc:"
        names = (name for number in count(1) if f'"{(name := f"heedful-{number}")}"' not in whole)
        for place, match in own:
            prefix = _prefix(place)
            pair = _pair(match, prefix)
            if pair in whole:
                continue
            name = place.unit.get("id") or next(names)
            if place.unit.get("id") != name:
                yield self._set(place.unit, "id", name)
            said = f'ref="#{name}" similarity="{match.percent}" origin={quoteattr(match.approved.origin)}'
            written += f"{self._gap(place)}<{tag}match {said}>{pair}</{tag}match>"
        if not written:
            return
        if there is not None:
            yield Edit(there.inside_stop, there.inside_stop, written)
            return
        first = own[0][0]
        before = self.content.text[unit.inside : first.unit.start]
        gap = before[len(before.rstrip()) :]
        yield Edit(unit.inside, unit.inside, f'{gap}<mtc:matches xmlns:mtc="{_MATCHES}">{written}{gap}</mtc:matches>')


def _prefix(place: _Place) -> str:
    """What stands before the names of elements, as in `x:`."""
    return place.source.tag.removesuffix("source")


def _pair(match: Match, prefix: str) -> str:
    """A similar text and its translation, as elements."""
    source, target = escaped(match.source), escaped(match.target)
    return f"<{prefix}source>{source}</{prefix}source><{prefix}target>{target}</{prefix}target>"


def _notes(owner: Element) -> Iterator[Element]:
    """Those of a unit, in both versions."""
    yield from owner.all("note")
    for notes in owner.all("notes"):
        yield from notes.all("note")
