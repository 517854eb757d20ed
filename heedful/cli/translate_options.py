"""Options of `heedful translate`, and checks of the files that it fills."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from heedful.cli.arguments import PositionalPaths, TextsOrPositionals
from heedful.cli.file_names import FILE_SUFFIXES, require_folders, require_text_suffix
from heedful.cli.line_commands import ModelLineOptions
from heedful.cli.option_parser import OptionInfo
from heedful.cli.options import DirectionOptions, MemoryOptions, SearchOptions
from heedful.cli.output import escape_control_characters, log, write_bytes_to_stdout
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.localisation.documents import DocumentLanguages, TranslatableDocument
    from heedful.localisation.translation_memory import TranslationMemory
    from heedful.tasks.translation.markup_translation import MarkupTranslator


_MAX_SHOWN_UNITS: Final = 5
"""Number of untranslated units that are listed."""


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """What is read and what is translated again in a localization file."""

    retranslate: Literal["nothing", "review", "all"] = "nothing"
    """existing translations of a localization file that are replaced: none, those to be reviewed (fuzzy ones), or
    all"""
    source_language: str | None = None
    """source language of a TMX file, also of one given with --memory, as in en or en-GB"""
    target_language: str | None = None
    """target language of a TMX file, also of one given with --memory"""

    def require_none(self, *, memory: bool) -> None:
        """Raise `RecipeError` if an option was given that needs a localization file; a memory also allows languages."""
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
        """Return source and target language of the text, as far as they are known, from the options and the document;
        `to` is the requested target language.
        """
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
        """Write the document with its gaps filled by the translator `protector` and the memory, to `output` or standard
        output, and report the result on standard error; return the exit code.
        """
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


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(ModelLineOptions):
    """Options of `heedful translate`; abstract."""

    runs: PositionalPaths
    """run folders, several of which form an ensemble; and a PO, XLIFF, TMX, SRT, HTML, DOCX or ODT file to fill"""
    text: TextsOrPositionals = ()
    """sentences to translate instead of a file; they may also follow the runs, without the option"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with scores"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """number of translations of each sentence; as text, each is a line of number, text and score, separated by tabs"""
    prefix: str | None = None
    """beginning of every translation; its last word may be incomplete, unless a space follows it"""
    prefixes: Path | None = None
    """file with the beginning of each translation, line by line"""
    constrain: tuple[str, ...] = ()
    """terms that every translation must contain, one or several; needs a beam"""
    glossary: Path | None = None
    """TSV file of source term, tab, target term: a translation must contain the target terms of all source terms in its
    sentence"""
    annotate: Literal["nothing", "append", "replace"] = "nothing"
    """write the glossary's terms into the sentences, after their sources or in their place, instead of forcing them;
    for models trained on text from `heedful annotate`"""
    input_format: Literal["text", "jsonl"] = "text"
    """lines that are sentences, or JSON objects with source and, optionally, constraints (a list of terms) and
    prefix"""
    factors: Path | None = None
    """file with a label for each word of a sentence, line by line, for models that read labels (kind = "given")"""
    align: bool = False
    """add the attention of each token to the JSON (mean over heads, last decoder layer)"""
    replace_unknown: bool = False
    """replace unknown tokens by the source word with the highest attention"""
    mbr: int | None = None
    """draw this many samples and choose the one that is most similar to all (minimum Bayes risk); with a beam, its
    hypotheses are compared, weighted by their scores"""
    utility: Literal["chrf", "bleu"] = "chrf"
    """similarity measure of --mbr, for each sentence"""
    seed: int = 1
    """random seed of sampling"""
    protect: bool = False
    """keep placeholders (%s, {name}, tags, addresses, numbers) unchanged; always done in files"""
    filling: DocumentOptions = field(default_factory=DocumentOptions)
    remembering: MemoryOptions = field(default_factory=MemoryOptions)
    batch_tokens: int = 4096
    """source tokens in a batch, padding included"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    ray: Annotated[tuple[Path, ...], OptionInfo(metavar="FILE")] = ()
    """files of lines, plain or gzipped, that are translated by processes of a Ray cluster, each into a file of the same
    name in the folder of --output; interrupted files are continued"""
    workers: int | None = None
    """with --ray: number of processes, each with its own model and --threads; if not given, as many as fit on the CPUs
    of the cluster"""
    file_options = ("input", "prefixes", "glossary", "factors")

    def require_output(self, output: Path) -> None:
        """Accept any name here; whether it fits depends on the input file (`check_documents`)."""


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
