"""TMX 1.4, translation memories with many languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final, Self, final

from heedful.errors import DataError
from heedful.language_tags import find_nearest_tag, is_same_variety
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
    TMX_INLINE,
    XmlElement,
    find_root,
    has_content,
    iter_elements,
    read_xml_file,
    to_xml,
)

_MACHINE_CREATOR: Final = "heedful"
"""`creationid` of a variant that heedful translated."""
_MEMORY_CREATOR: Final = "heedful-memory"
"""`creationid` of a variant that was taken from a translation memory."""


@final
@dataclass(frozen=True)
class _TmxUnit:
    """A unit element with its source variant, and its target variant if there is one."""

    unit: XmlElement
    source: XmlElement
    target: XmlElement | None


@final
class TmxDocument(TextDocument):
    """The units of a translation memory that have a source language, for one target language.

    A language is given as `en` or `en-GB`. One without a region also matches any region, and one with a region also
    matches none; an exact match is preferred, then the nearest (`find_nearest_tag`). Scripts must be the same, given or
    likely: `zh-TW` does not match `zh`, which is `zh-Hans`.

    Args:
        source: source language.
        target: target language.
    """

    def __init__(self, content: TextContent, path: Path, *, source: str, target: str) -> None:
        super().__init__(content, path)
        self._languages = (source, target)

    @classmethod
    def from_file(cls, path: Path, *, source: str, target: str) -> Self:
        """Read a memory from a file for a source and a target language; raise DataError if it is not valid, or has no
        unit in the source language.
        """
        content = read_xml_file(path)
        find_root(content.text, "tmx", path=path)
        document = cls(content, path, source=source, target=target)
        if next(iter(document), None) is None:
            available = ", ".join(list_languages(content.text)) or "none"
            raise DataError(f"{path}: has no unit in {source!r} (available: {available}); name one of these languages")
        return document

    @cached_property
    def units(self) -> Sequence[TranslationUnit]:
        """Units in order."""
        return list(map(self._build_unit, self._tmx_units))

    def __iter__(self) -> Iterator[TranslationUnit]:
        """Yield the units one by one without keeping them, so a memory may be long."""
        return map(self._build_unit, self._iter_tmx_units())

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the memory with new variants, given by unit number and marked as created by heedful or by a
        translation memory; similar matches are not stored.
        """
        edits: list[TextEdit] = []
        for number, target in targets.items():
            from_memory = number in matches and matches[number].exact_target is not None
            creator = _MEMORY_CREATOR if from_memory else _MACHINE_CREATOR
            edits += self._fill_unit(self._tmx_units[number], to_xml(target), creator=creator)
        return self.apply_edits(edits)

    @property
    def languages(self) -> DocumentLanguages:
        """The requested languages."""
        return DocumentLanguages(*self._languages)

    @cached_property
    def _tmx_units(self) -> Sequence[_TmxUnit]:
        """Unit elements that have a variant in the source language."""
        return list(self._iter_tmx_units())

    def _iter_tmx_units(self) -> Iterator[_TmxUnit]:
        """Yield the unit elements that have a variant in the source language."""
        for unit in iter_elements(self.content.text, ("tu",)):
            variants = [variant for variant in unit.iter_children("tuv") if variant.find_child("seg") is not None]
            source = _choose_variant(variants, self._languages[0])
            if source is not None:
                other_variants = [variant for variant in variants if variant is not source]
                yield _TmxUnit(unit, source, _choose_variant(other_variants, self._languages[1]))

    def _build_unit(self, tmx_unit: _TmxUnit) -> TranslationUnit:
        """Build the unit of a `tu` element and its two variants; a target that heedful created is to be reviewed."""
        text = self.content.text
        target = None if tmx_unit.target is None else TMX_INLINE.to_segment(_get_seg(tmx_unit.target), text)
        has_target = target is not None and has_content(target)
        state: UnitState = "translated" if has_target else "untranslated"
        if (
            has_target
            and tmx_unit.target is not None
            and tmx_unit.target.get_attribute("creationid") == _MACHINE_CREATOR
        ):
            state = "review"
        return TranslationUnit(
            TMX_INLINE.to_segment(_get_seg(tmx_unit.source), text),
            target if has_target else None,
            state,
            self.format_location(tmx_unit.unit.start),
            tmx_unit.unit.get_attribute("tuid") or "",
            tuple(
                note.text.strip()
                for note in (*tmx_unit.unit.iter_children("note"), *tmx_unit.source.iter_children("note"))
            ),
        )

    def _fill_unit(self, tmx_unit: _TmxUnit, raw: str, *, creator: str) -> Iterator[TextEdit]:
        """Yield the edits that set the target of a unit to `raw`, which is XML, and the name of its creator."""
        text, last = self.content.text, list(tmx_unit.unit.iter_children("tuv"))[-1]
        if tmx_unit.target is None:
            before = text[tmx_unit.unit.inside : last.start]
            gap = before[len(before.rstrip()) :]
            prefix = last.tag.removesuffix("tuv")
            attribute = "lang" if "lang" in last.attributes else "xml:lang"
            yield TextEdit(
                last.stop,
                last.stop,
                f'{gap}<{prefix}tuv {attribute}="{self._languages[1]}" creationid="{creator}">'
                f"<{prefix}seg>{raw}</{prefix}seg></{prefix}tuv>",
            )
            return
        creation_id = tmx_unit.target.attributes.get("creationid")
        tag_end = tmx_unit.target.start + 1 + len(tmx_unit.target.tag)
        yield (
            TextEdit(creation_id.start, creation_id.stop, creator)
            if creation_id
            else TextEdit(tag_end, tag_end, f' creationid="{creator}"')
        )
        seg = _get_seg(tmx_unit.target)
        if seg.is_single:
            yield TextEdit(text.rindex("/", seg.start, seg.stop), seg.stop, f">{raw}</{seg.tag}>")
        else:
            yield TextEdit(seg.inside, seg.inside_stop, raw)


def _get_seg(variant: XmlElement) -> XmlElement:
    seg = variant.find_child("seg")
    assert seg is not None, "variants without a segment were left out"
    return seg


def _choose_variant(variants: Sequence[XmlElement], language: str) -> XmlElement | None:
    """Return the variant whose language is nearest, among those with the same script and no other region; None if
    there is none.
    """
    candidates = [variant for variant in variants if is_same_variety(_get_language(variant), language)]
    exact = next((variant for variant in candidates if _get_language(variant).lower() == language.lower()), None)
    if exact is not None:
        return exact
    nearest = find_nearest_tag(language, map(_get_language, candidates))
    return next((variant for variant in candidates if _get_language(variant) == nearest), None)


def _get_language(variant: XmlElement) -> str:
    """Return the language of a variant, empty if it has none."""
    return (variant.get_attribute("xml:lang") or variant.get_attribute("lang") or "").strip()


def list_languages(text: str, *, max_units: int = 1000) -> list[str]:
    """List the languages of the first units of a TMX, most frequent first; `text` is that of the file."""
    counts: Counter[str] = Counter()
    for unit in islice(iter_elements(text, ("tu",)), max_units):
        counts.update(dict.fromkeys(map(_get_language, unit.iter_children("tuv")), 1))
    return [language for language, _ in counts.most_common() if language]
