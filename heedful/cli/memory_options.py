"""Options for translation memories, which are searched before the model translates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from heedful.cli.option_parser import OptionInfo
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.localisation.documents import DocumentLanguages
    from heedful.localisation.translation_memory import TranslationMemory


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """Approved translations, and the minimum similarity at which they are shown."""

    memory: Annotated[tuple[Path, ...], OptionInfo(metavar="FILE")] = ()
    """files of approved translations (TMX, XLIFF, PO, TSV, CSV, JSONL, or two of plain text), the most trusted first:
    exact matches are not translated again, and similar texts are shown with their translations"""
    match: float = 0.75
    """with --memory: minimum similarity of matches that are shown, from 0 to 1"""

    def __post_init__(self) -> None:
        if not 0 <= self.match <= 1:
            raise RecipeError(f"--match: {self.match:g}; must be from 0 to 1")
        if self.match != type(self).match and not self.memory:
            raise RecipeError("--match: belongs to a translation memory; name one with --memory")
        if any(str(path) == "-" for path in self.memory):
            raise RecipeError("--memory -: a memory is read more than once; save it to a file first")

    def read_memory(self, languages: DocumentLanguages) -> TranslationMemory | None:
        """Read the translation memory for these languages, as far as they are known; None if no file was given."""
        if not self.memory:
            return None
        from heedful.tasks.translation.memory_lookup import load_translation_memory

        return load_translation_memory(self.memory, languages=languages, min_similarity=self.match)
