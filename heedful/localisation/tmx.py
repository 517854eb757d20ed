"""TMX 1.4, translation memories of many languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Self, final

from heedful.errors import DataError
from heedful.language_tags import is_same_variety, nearest_tag
from heedful.localisation.documents import Edit, Languages, State, TextDocument, Unit
from heedful.localisation.encodings import Content
from heedful.localisation.inline import TMX, is_filled, written
from heedful.localisation.memory import NO_MATCHES, Match
from heedful.localisation.segments import Segment
from heedful.localisation.tags import Element, elements, read_xml, root

_MACHINE: Final = "heedful"
"""Who is said to have made a variant that was filled (`creationid`)."""
_TAKEN: Final = "heedful-memory"
"""Who is said to have made one that was taken from a memory."""


@final
@dataclass(frozen=True)
class _Place:
    """A unit, what it says in the language of the source, and in that of the target if it does."""

    unit: Element
    source: Element
    target: Element | None


@final
class Tmx(TextDocument):
    """The units of a memory that say something in one language, for another one.

    A language is asked for as `en` or `en-GB`. One without a region is also found with any, one with a region also
    without; the exact one goes first, then the nearest (`nearest_tag`). Scripts must be the same, as they are said or
    likely: `zh-TW` is not found for `zh`, which is `zh-Hans`.

    Args:
        source: the language that is read.
        target: the language that is written.
    """

    def __init__(self, content: Content, path: Path, *, source: str, target: str) -> None:
        super().__init__(content, path)
        self._languages = (source, target)

    @classmethod
    def read(cls, path: Path, *, source: str, target: str) -> Self:
        """The file; `DataError` where it is none, or has nothing in the language of the source."""
        content = read_xml(path)
        root(content.text, "tmx", path=path)
        found = cls(content, path, source=source, target=target)
        if next(iter(found), None) is None:
            there = ", ".join(languages(content.text)) or "none"
            raise DataError(f"{path}: has no unit in {source!r} (there: {there}); name one of these languages")
        return found

    @cached_property
    def units(self) -> Sequence[Unit]:
        """Units in their order."""
        return list(map(self._unit, self._places))

    def __iter__(self) -> Iterator[Unit]:
        """The units as they are found; none is kept, so a memory may be long."""
        return map(self._unit, self._find())

    def filled(self, targets: Mapping[int, Segment], matches: Mapping[int, Match] = NO_MATCHES) -> bytes:
        """Filled variants say that heedful made them, or took them from a memory; what is similar has no place."""
        edits: list[Edit] = []
        for number, target in targets.items():
            taken = number in matches and matches[number].taken is not None
            maker = _TAKEN if taken else _MACHINE
            edits += self._fill(self._places[number], written(target), maker=maker)
        return self.edited(edits)

    @property
    def languages(self) -> Languages:
        """Those that were asked for."""
        return Languages(*self._languages)

    @cached_property
    def _places(self) -> Sequence[_Place]:
        return list(self._find())

    def _find(self) -> Iterator[_Place]:
        for unit in elements(self.content.text, ("tu",)):
            variants = [variant for variant in unit.all("tuv") if variant.find("seg") is not None]
            source = _chosen(variants, self._languages[0])
            if source is not None:
                others = [variant for variant in variants if variant is not source]
                yield _Place(unit, source, _chosen(others, self._languages[1]))

    def _unit(self, place: _Place) -> Unit:
        text = self.content.text
        target = None if place.target is None else TMX.segment(_seg(place.target), text)
        there = target is not None and is_filled(target)
        state: State = "translated" if there else "untranslated"
        if there and place.target is not None and place.target.get("creationid") == _MACHINE:
            state = "review"
        return Unit(
            TMX.segment(_seg(place.source), text),
            target if there else None,
            state,
            self.at(place.unit.start),
            place.unit.get("tuid") or "",
            tuple(note.text.strip() for note in (*place.unit.all("note"), *place.source.all("note"))),
        )

    def _fill(self, place: _Place, raw: str, *, maker: str) -> Iterator[Edit]:
        text, last = self.content.text, list(place.unit.all("tuv"))[-1]
        if place.target is None:
            before = text[place.unit.inside : last.start]
            gap = before[len(before.rstrip()) :]
            prefix = last.tag.removesuffix("tuv")
            attribute = "lang" if "lang" in last.attributes else "xml:lang"
            yield Edit(
                last.stop,
                last.stop,
                f'{gap}<{prefix}tuv {attribute}="{self._languages[1]}" creationid="{maker}">'
                f"<{prefix}seg>{raw}</{prefix}seg></{prefix}tuv>",
            )
            return
        there = place.target.attributes.get("creationid")
        behind = place.target.start + 1 + len(place.target.tag)
        yield (Edit(there.start, there.stop, maker) if there else Edit(behind, behind, f' creationid="{maker}"'))
        seg = _seg(place.target)
        if seg.is_single:
            yield Edit(text.rindex("/", seg.start, seg.stop), seg.stop, f">{raw}</{seg.tag}>")
        else:
            yield Edit(seg.inside, seg.inside_stop, raw)


def _seg(variant: Element) -> Element:
    found = variant.find("seg")
    assert found is not None, "variants without a segment were left out"
    return found


def _chosen(variants: Sequence[Element], language: str) -> Element | None:
    """The variant that is nearest to a language, of those in the same script whose regions do not differ."""
    alike = [variant for variant in variants if is_same_variety(_said(variant), language)]
    exact = next((variant for variant in alike if _said(variant).lower() == language.lower()), None)
    if exact is not None:
        return exact
    nearest = nearest_tag(language, map(_said, alike))
    return next((variant for variant in alike if _said(variant) == nearest), None)


def _said(variant: Element) -> str:
    return (variant.get("xml:lang") or variant.get("lang") or "").strip()


def languages(text: str, *, most: int = 1000) -> list[str]:
    """The languages of the first units, those of most units first."""
    found: Counter[str] = Counter()
    for number, unit in enumerate(elements(text, ("tu",))):
        said = (variant.get("xml:lang") or variant.get("lang") or "" for variant in unit.all("tuv"))
        found.update(dict.fromkeys(said, 1))
        if number >= most:
            break
    return [language for language, _ in found.most_common() if language]
