"""Reading and translating of lines in `heedful translate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.cli.line_commands import check_number_of_outputs, read_recipe_of_task
from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.cli.translate_options import TranslateOptions
    from heedful.data.context import SourceSentence
    from heedful.recipes.generation import GenerationConfig
    from heedful.tasks.translation.markup_translation import MarkupLineFormat
    from heedful.tasks.translation.translations import Translation, TranslationInput, TranslationLineFormat
    from heedful.tasks.translation.translator import Translator


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
