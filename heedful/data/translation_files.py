"""Pairs to learn from in the files of translators: what they hold that somebody has confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import final

from heedful.data.readers import ExampleReader, SentencePair
from heedful.localisation.files import read_document
from heedful.localisation.placeholders import to_plain_text


@final
class ConfirmedTranslations(ExampleReader[SentencePair]):
    """The finished translations of a TMX, PO or XLIFF, as a model reads them when such a file is translated.

    Left out is what has no translation or one that waits for review (fuzzy, or made by a machine), and what must not be
    translated. Markup and the marks of accelerators are cut out, values stay, white space becomes single spaces.

    Args:
        path: the file, plain or gzipped.
        source_language: of a TMX: the language that is read.
        target_language: likewise: the one that is written.
    """

    def __init__(self, path: Path, *, source_language: str | None = None, target_language: str | None = None) -> None:
        super().__init__(path)
        self._languages = (source_language, target_language)

    def __iter__(self) -> Iterator[SentencePair]:
        source, target = self._languages
        for unit in read_document(self.paths[0], source=source, target=target):
            if unit.state != "translated" or unit.target is None or not unit.translatable:
                continue
            pair = SentencePair(to_plain_text(unit.source), to_plain_text(unit.target), unit.location)
            if pair.source and pair.target:
                yield pair
