"""What `heedful translate` does with a translators' file: its options, what fits beside them, how it is filled."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from heedful.cli.arguments import MaybeText
from heedful.cli.file_names import FILE_ENDINGS, require_folders, require_text_name
from heedful.cli.output import say, shown, write_bytes
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.cli.translate import Arguments
    from heedful.localisation.documents import Document, Languages
    from heedful.localisation.memory import TranslationMemory
    from heedful.tasks.translation.protecting import Protecting

_SHOWN: Final = 5
"""Units that were not translated, of which places are told."""


@dataclass(frozen=True, kw_only=True)
class FillingOptions:
    """Of a translators' file: what is read, and what is made anew."""

    retranslate: Literal["nothing", "review", "all"] = "nothing"
    """of a file: which translations are made anew: none, those to be reviewed (fuzzy ones), or all"""
    source_language: MaybeText = None
    """of a TMX file, also as --memory: the language that is read, as in en or en-GB"""
    target_language: MaybeText = None
    """of a TMX file, also as --memory: the language that is written"""

    def require_none(self, *, memory: bool) -> None:
        """`RecipeError` where something was given, and there is no file, or memory, that it could be said of."""
        for name in ("source_language", "target_language"):
            if getattr(self, name) is not None and not memory:
                raise RecipeError(f"--{name.replace('_', '-')}: belongs to a TMX file; name one behind the run")
        if self.retranslate != "nothing":
            raise RecipeError("--retranslate: belongs to a file that has translations; name one behind the run")

    def read(self, path: Path) -> Document:
        """The document in a file."""
        from heedful.localisation.files import read_document

        return read_document(path, source=self.source_language, target=self.target_language)

    def languages(self, document: Document | None, *, to: str | None) -> Languages:
        """What is known of the languages of what is translated; `to` is the one that was asked for."""
        from heedful.localisation.documents import Languages

        said = document.languages if document else Languages()
        return Languages(self.source_language or said.source, self.target_language or to or said.target)

    def fill(
        self,
        document: Document,
        protecting: Protecting,
        *,
        memory: TranslationMemory | None = None,
        output: Path | None = None,
    ) -> int:
        """Writes the document with its gaps filled, and says on standard error what became of it; the exit code."""
        from heedful.store import write_whole
        from heedful.tasks.translation.filling import fill

        filled = fill(document, protecting, retranslate=self.retranslate, memory=memory)
        if output is None:
            write_bytes(filled.content)
        else:
            write_whole(output, filled.content)
        for line in filled.told:
            say(line)
        for place in filled.left[:_SHOWN]:
            say(f"  {shown(place)}")
        if len(filled.left) > _SHOWN:
            say(f"  and {len(filled.left) - _SHOWN:,} more")
        return 0


def require_known(given: Arguments, found: Sequence[Path]) -> None:
    """Refuse files among the run folders that are none of the formats that are filled, and outputs that fit no lines.

    Raises:
        RecipeError: one is such a file; the message names the formats, and how lines are given.
    """
    from heedful.localisation.files import ENDINGS

    formats = f"files that are filled end with {', '.join(sorted(ENDINGS))}"
    lines = "text with a sentence on each line is read with --input FILE (JSON lines with --input-format jsonl too)"
    require_folders([path for path in given.runs if path not in found], read=f"{formats}; {lines}")
    if given.output is None or found:
        return
    if given.output.suffix.lower() in ENDINGS:
        raise RecipeError(
            f"--output: {given.output} ends like a file that is filled, and lines are written; choose another name, or "
            f"name the {given.output.suffix} file to be filled behind the run"
        )
    require_text_name(given.output, option="--output")


def _require_same_format(path: Path, output: Path) -> None:
    """Refuse an output whose name says another format than that of the file, in which it is written."""
    from heedful.localisation.files import same_format

    ending = output.suffix.lower()
    if ending[1:] in FILE_ENDINGS and not same_format(path, output):
        raise RecipeError(
            f"--output: {output} ends with {ending}, and {path} is written in its own format; choose a name that ends "
            f"with {path.suffix}"
        )


def documents(given: Arguments) -> list[Path]:
    """The files to be filled, by their names."""
    from heedful.localisation.files import is_document

    named = [path for path in given.runs if is_document(path) and not path.is_dir()]
    return [*named, *([given.input] if given.input is not None and is_document(given.input) else [])]


def check(given: Arguments, found: Sequence[Path]) -> None:
    """`RecipeError` where something else was given that does not go with a file, or with this one."""
    from heedful.localisation.files import BINARY

    path = found[0]
    if len(found) > 1:
        raise RecipeError(f"{found[1]}: one file is filled at a time; call the command for each")
    if given.text or (given.input is not None and given.input != path):
        raise RecipeError(f"{path}: is a file to be filled, and there is other text too; give one of them")
    if given.format == "jsonl":
        raise RecipeError(f"--format jsonl: {path} is written in its own format; leave the option away")
    if len(given.runs) == len(found) and given.input is None:
        raise RecipeError(f"heedful translate: needs a run before {path}; write heedful translate RUN {path}")
    if given.output is None and path.suffix.lower() in BINARY and sys.stdout.isatty():
        raise RecipeError(f"{path}: is no text that a terminal could show; name a file for it with -o")
    if given.output is not None:
        _require_same_format(path, given.output)
    if given.output is not None and given.output.exists() and path.exists() and given.output.samefile(path):
        raise RecipeError(f"--output: {path} is read as well; choose another file")
    named = given.filling.source_language or given.filling.target_language
    if named and path.suffix.lower() != ".tmx" and not given.remembering.memory:
        raise RecipeError(f"--source-language, --target-language: {path} says its languages itself; leave them away")
