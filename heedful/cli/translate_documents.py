"""Checks of `heedful translate` for localization files to fill."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.cli.file_names import FILE_SUFFIXES, require_folders, require_text_suffix
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.cli.translate_options import TranslateOptions


def require_run_folders(args: TranslateOptions, documents_given: Sequence[Path]) -> None:
    """Raise an error for files among the run folders that cannot be filled, and for unsuitable names of the output;
    `documents_given` are the files that can be filled.

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


def find_documents(args: TranslateOptions) -> list[Path]:
    """Return the files to be filled, recognized by name."""
    from heedful.localisation.files import is_document_path

    document_paths = [path for path in args.runs if is_document_path(path) and not path.is_dir()]
    return [*document_paths, *([args.input] if args.input is not None and is_document_path(args.input) else [])]


def check_documents(args: TranslateOptions, document_paths: Sequence[Path]) -> None:
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
