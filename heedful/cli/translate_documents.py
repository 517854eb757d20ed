"""Filling of localization files in `heedful translate`: options, checks, and output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from heedful.cli.file_names import FILE_SUFFIXES, require_folders, require_text_suffix
from heedful.cli.output import escape_control_characters, log, write_bytes_to_stdout
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.cli.translate import TranslateArguments
    from heedful.localisation.documents import DocumentLanguages, TranslatableDocument
    from heedful.localisation.translation_memory import TranslationMemory
    from heedful.tasks.translation.markup_translation import MarkupTranslator

_MAX_SHOWN_UNITS: Final = 5
"""Number of untranslated units that are listed."""


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """What is read and what is translated again in a localization file."""

    retranslate: Literal["nothing", "review", "all"] = "nothing"
    """for a file: which existing translations are replaced: none, those to be reviewed (fuzzy ones), or all"""
    source_language: str | None = None
    """for a TMX file, also as --memory: source language, as in en or en-GB"""
    target_language: str | None = None
    """for a TMX file, also as --memory: target language"""

    def require_none(self, *, memory: bool) -> None:
        """Raise `RecipeError` if an option was given that needs a localization file, or a memory."""
        for name in ("source_language", "target_language"):
            if getattr(self, name) is not None and not memory:
                raise RecipeError(f"--{name.replace('_', '-')}: is for a TMX file; give one after the run")
        if self.retranslate != "nothing":
            raise RecipeError("--retranslate: is for a file that has translations; give one after the run")

    def read_document(self, path: Path) -> TranslatableDocument:
        """Read the document in a file."""
        from heedful.localisation.files import read_document

        return read_document(path, source=self.source_language, target=self.target_language)

    def get_languages(self, document: TranslatableDocument | None, *, to: str | None) -> DocumentLanguages:
        """Return the known languages of the text; `to` is the requested target language."""
        from heedful.localisation.documents import DocumentLanguages

        named_languages = document.languages if document else DocumentLanguages()
        return DocumentLanguages(
            self.source_language or named_languages.source, self.target_language or to or named_languages.target
        )

    def fill_document(
        self,
        document: TranslatableDocument,
        protector: MarkupTranslator,
        *,
        memory: TranslationMemory | None = None,
        output: Path | None = None,
    ) -> int:
        """Write the document with its gaps filled, and report the result on standard error; return the exit code."""
        from heedful.atomic_io import write_atomic
        from heedful.tasks.translation.document_translation import translate_document

        result = translate_document(document, protector, retranslate=self.retranslate, memory=memory)
        if output is None:
            write_bytes_to_stdout(result.content)
        else:
            write_atomic(output, result.content)
        for line in result.describe_result:
            log(line)
        for unit in result.untranslated[:_MAX_SHOWN_UNITS]:
            log(f"  {escape_control_characters(unit)}")
        if len(result.untranslated) > _MAX_SHOWN_UNITS:
            log(f"  and {len(result.untranslated) - _MAX_SHOWN_UNITS:,} more")
        return 0


def require_run_folders(args: TranslateArguments, documents_given: Sequence[Path]) -> None:
    """Raise an error for files among the run folders that cannot be filled, and for unsuitable names of the output.

    Raises:
        RecipeError: one is such a file; the message names the supported formats and how lines are given.
    """
    from heedful.localisation.files import DOCUMENT_SUFFIXES

    formats = f"files that are filled end with {', '.join(sorted(DOCUMENT_SUFFIXES))}"
    lines = "text with a sentence on each line is read with --input FILE (JSON lines with --input-format jsonl too)"
    require_folders([path for path in args.runs if path not in documents_given], input_hint=f"{formats}; {lines}")
    if args.output is None or documents_given:
        return
    if args.output.suffix.lower() in DOCUMENT_SUFFIXES:
        raise RecipeError(
            f"--output: {args.output} ends like a file to be filled, but lines are written; choose another name, or "
            f"give the {args.output.suffix} file to be filled after the run"
        )
    require_text_suffix(args.output, option="--output")


def _require_same_format(path: Path, output: Path) -> None:
    """Raise an error if the suffix of the output is that of another format than the file's."""
    from heedful.localisation.files import same_format

    suffix = output.suffix.lower()
    if suffix[1:] in FILE_SUFFIXES and not same_format(path, output):
        raise RecipeError(
            f"--output: {output} ends with {suffix}, but {path} is written in its own format; choose a name that ends "
            f"with {path.suffix}"
        )


def find_documents(args: TranslateArguments) -> list[Path]:
    """Return the files to be filled, recognized by name."""
    from heedful.localisation.files import is_document_path

    document_paths = [path for path in args.runs if is_document_path(path) and not path.is_dir()]
    return [*document_paths, *([args.input] if args.input is not None and is_document_path(args.input) else [])]


def check_documents(args: TranslateArguments, document_paths: Sequence[Path]) -> None:
    """Raise `RecipeError` for options that do not fit a file to be filled, or this file."""
    from heedful.localisation.files import BINARY_SUFFIXES

    path = document_paths[0]
    if len(document_paths) > 1:
        raise RecipeError(f"{document_paths[1]}: only one file is filled at a time; run the command for each file")
    if args.text or (args.input is not None and args.input != path):
        raise RecipeError(f"{path}: is a file to be filled, but other text is given too; give one of them")
    if args.format == "jsonl":
        raise RecipeError(f"--format jsonl: {path} is written in its own format; leave the option out")
    if len(args.runs) == len(document_paths) and args.input is None:
        raise RecipeError(f"heedful translate: needs a run before {path}; write heedful translate RUN {path}")
    if args.output is None and path.suffix.lower() in BINARY_SUFFIXES and sys.stdout.isatty():
        raise RecipeError(f"{path}: its format cannot be shown in a terminal; give an output file with -o")
    if args.output is not None:
        _require_same_format(path, args.output)
    if args.output is not None and args.output.exists() and path.exists() and args.output.samefile(path):
        raise RecipeError(f"--output: {path} is read as well; choose another file")
    given_languages = args.filling.source_language or args.filling.target_language
    if given_languages and path.suffix.lower() != ".tmx" and not args.remembering.memory:
        raise RecipeError(f"--source-language, --target-language: {path} names its languages itself; leave them out")
