"""Read training pairs from translators' files (TMX, PO, XLIFF): only confirmed translations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import final

from heedful.data.readers import ExampleReader, SentencePair
from heedful.localisation.files import read_document
from heedful.localisation.placeholders import to_plain_text


@final
class ConfirmedTranslations(ExampleReader[SentencePair]):
    """The finished translations of a TMX, PO or XLIFF file, with the same cleaning as when such a file is translated.

    Units without a translation, with one that needs review (fuzzy, or machine translation), and units that must not be
    translated are skipped. Markup and accelerator marks are removed, placeholder values stay, white space becomes
    single spaces.

    Args:
        path: the file, plain or gzipped.
        source_language: of a TMX: the source language.
        target_language: of a TMX: the target language.
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
