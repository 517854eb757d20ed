"""Options of `heedful translate`, the files that it fills, and how its lines are read and translated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from heedful.cli.arguments import PositionalPaths, TextsOrPositionals
from heedful.cli.line_commands import FileSetOptions, check_number_of_outputs, read_recipe_of_task
from heedful.cli.option_types import FILE_SUFFIXES, require_folders, require_text_suffix
from heedful.cli.options import DirectionOptions, MemoryOptions, SearchOptions
from heedful.cli.output import escape_control_characters, log, write_bytes_to_stdout
from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.data.context import SourceSentence
    from heedful.localisation.documents import DocumentLanguages, TranslatableDocument
    from heedful.localisation.translation_memory import TranslationMemory
    from heedful.recipes.generation import GenerationConfig
    from heedful.tasks.translation.markup_translation import MarkupLineFormat, MarkupTranslator
    from heedful.tasks.translation.translations import Translation, TranslationInput, TranslationLineFormat
    from heedful.tasks.translation.translator import Translator

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
class TranslateOptions(FileSetOptions):
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


def build_translation_format(
    translator: Translator, args: TranslateOptions, *, on_progress: Callable[[int], None] | None = None
) -> TranslationLineFormat:
    """Build the line format that translates lines with the options; `on_progress` is called with numbers of translated
    lines.

    Args:
        translator: the model.
        args: the options of the command.
        on_progress: called with the number of translated lines.

    Raises:
        RecipeError: an option does not fit the model.
    """
    from heedful.tasks.search_factory import build_length_limits, build_search

    if args.annotate != "nothing":
        from heedful.tasks.translation.glossary import AnnotationMarks

        AnnotationMarks().require_known(translator.source)
    if args.factors is not None and not translator.source_encoder.given_names:
        raise RecipeError(f"--factors {args.factors}: this model reads no labels of words; leave it out")
    search_options = args.searching
    if args.mbr is not None:  # samples represent the model's distribution; the recipe's own search finds the best
        search_options = search_options.with_search("sampling")
    config = _add_minimum_risk(search_options.apply_to(translator.generation), args)
    return replace(
        translator.line_format(),
        search=build_search(config, translator.target, n_best=args.n_best, seed=args.seed),
        length=build_length_limits(config),
        all_candidates=args.n_best > 1,
        batch_tokens=args.batch_tokens,
        align=args.align,
        replaces_unknown=args.replace_unknown,
        on_progress=on_progress,
    )


def check_search(args: TranslateOptions, runs: Sequence[Path]) -> None:
    """Check the options of the search against the recipe of the first run, before the model is loaded.

    A Hugging Face folder has no recipe; its options are checked once the model is loaded.

    Raises:
        RecipeError: an option does not fit the kind of search.
        RunError: there is no such run.
    """
    recipe = read_recipe_of_task(runs[0], ("translation",)) if runs else None
    if (generation := getattr(recipe, "generation", None)) is None:
        return
    search_options = args.searching
    if args.mbr is not None:
        search_options = search_options.with_search("sampling")
    config = _add_minimum_risk(search_options.apply_to(generation), args)
    check_number_of_outputs(config, args.n_best, noun="translation")
    option = "--constrain" if args.constrain else "--glossary" if forces_terms(args) else None
    if option is not None and config.kind != "beam":
        hint = "" if args.constrain else "; a model that learned from annotated text takes --annotate append instead"
        raise RecipeError(
            f"{option}: terms need a beam, but this run's search is {config.kind}; add --search beam{hint}"
        )


def forces_terms(args: TranslateOptions) -> bool:
    """Whether translations must contain the terms of the glossary."""
    return args.glossary is not None and args.annotate == "nothing"


def _add_minimum_risk(config: GenerationConfig, args: TranslateOptions) -> GenerationConfig:
    """Return the generation config with minimum Bayes risk decoding if --mbr is given; it overrides that of the
    recipe.
    """
    if args.mbr is None:
        return config
    if config.kind == "greedy":
        raise RecipeError(f"--mbr {args.mbr}: greedy search finds one output; leave out --search greedy")
    return config.model_copy(
        update={"risk": args.utility, "candidates": args.mbr} | ({"coverage": 0.0} if config.kind == "beam" else {})
    )


def build_protected_format(line_format: TranslationLineFormat, args: TranslateOptions) -> MarkupLineFormat:
    """Build a line format that translates with `line_format` and keeps placeholders unchanged."""
    from heedful.data.context import get_context, get_text
    from heedful.tasks.translation.markup_translation import MarkupLineFormat, MarkupTranslator
    from heedful.tasks.translation.translations import TranslationInput

    add_terms = _build_term_adder(args)

    def translate(texts: Sequence[SourceSentence]) -> list[Translation]:
        """Translate texts without their placeholders."""
        sentences = [add_terms(TranslationInput(get_text(text), before=get_context(text))) for text in texts]
        return [translation for _, translation in line_format.answer_inputs(sentences, start=1)]

    return MarkupLineFormat(MarkupTranslator(line_format.translator, translate))


def read_input_sentences(args: TranslateOptions) -> Iterator[TranslationInput]:
    """Return the input sentences with their prefixes, terms and factors; files are opened at once."""
    from heedful.data.readers import read_lines
    from heedful.tasks.translation.translations import TranslationInput, read_translation_inputs

    lines = iter(args.text) if args.text else args.read_lines()
    sentences = (
        read_translation_inputs(lines, name=args.input_name)
        if args.input_format == "jsonl"
        else map(TranslationInput, lines)
    )
    if args.prefixes is not None:
        sentences = _add_prefixes(sentences, read_lines(args.prefixes), name=args.prefixes)
    elif args.prefix is not None:
        sentences = (replace(sentence, prefix=args.prefix) for sentence in sentences)
    # protected lines stay unchanged: their terms are added when the text is cut out
    with_terms = sentences if args.protect else map(_build_term_adder(args), sentences)
    return with_terms if args.factors is None else _add_factors(with_terms, args.factors)


def _add_factors(sentences: Iterator[TranslationInput], path: Path) -> Iterator[TranslationInput]:
    """Yield the sentences with the labels of their words, which are in the file `path` line by line."""
    from heedful.data.factors import attach_labels_from_file

    originals, texts = tee(sentences)
    for text, sentence in zip(
        attach_labels_from_file((sentence_copy.text for sentence_copy in texts), path, noun="sentences"),
        originals,
        strict=True,
    ):
        yield replace(sentence, text=text)


def _build_term_adder(args: TranslateOptions) -> Callable[[TranslationInput], TranslationInput]:
    """Build a function that adds to a sentence the terms of --constrain and of the glossary: as constraints, or for
    --annotate in its text.
    """
    from heedful.tasks.translation.glossary import TargetTerm, TermAnnotator, TermGlossary

    glossary = None if args.glossary is None else TermGlossary.from_file(args.glossary)
    fixed_terms = tuple(map(TargetTerm, args.constrain))

    def add_terms(sentence: TranslationInput) -> TranslationInput:
        """Add the required terms to one sentence."""
        if glossary is not None and args.annotate != "nothing":
            annotated = TermAnnotator(glossary, args.annotate).annotate_sentence(sentence.text)
            return replace(sentence, text=annotated, constraints=(*fixed_terms, *sentence.constraints))
        glossary_terms = glossary.find_terms(sentence.text) if glossary is not None else ()
        return replace(sentence, constraints=(*fixed_terms, *sentence.constraints, *glossary_terms))

    return add_terms


def _add_prefixes(
    sentences: Iterator[TranslationInput], prefixes: Iterator[str], *, name: Path
) -> Iterator[TranslationInput]:
    """Yield the sentences with their prefixes; `DataError` with the file's name if the numbers of lines differ."""
    for sentence in sentences:
        prefix = next(prefixes, None)
        if prefix is None:
            raise DataError(f"{name}: has fewer lines than there are sentences; give one line for each")
        yield replace(sentence, prefix=prefix)
    if next(prefixes, None) is not None:
        raise DataError(f"{name}: has more lines than there are sentences; give one line for each")
