"""`heedful filter` and `heedful split`: remove pairs from parallel text that harm training, and split off validation
and test parts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from heedful.cli.arguments import (
    DeviceOptions,
    OptionalFloat,
    OptionalInt,
    OptionalPage,
    OptionalPath,
    OptionalText,
    OutputPath,
    PositionalPaths,
    parse_arguments,
    require_minimum,
)
from heedful.cli.option_parser import OptionInfo
from heedful.cli.output import log, require_named_files, require_unused_paths, wrap_write_errors
from heedful.errors import DataError, RecipeError
from heedful.memory_limits import count_cores

if TYPE_CHECKING:
    from heedful.data.detect.checks import TextCheck
    from heedful.data.detect.format import PartWriter
    from heedful.data.detect.languages import LanguageInfo
    from heedful.data.detect.parallel import DetectedParallelText
    from heedful.tasks.translation.corpus_filter import FilterResult, PairScorer

RuleName: TypeAlias = Literal[
    "empty", "garbled", "html", "copied", "long", "unequal", "language", "repeated", "numbers"
]

_OPTIONAL_RULES: Final = ("html", "numbers")
_FILTER_PROGRAM: Final = "heedful filter"


@dataclass(frozen=True, kw_only=True)
class FilterArguments:
    """Remove pairs from parallel text that harm training: copies, repetitions, other languages, sides that do not
    match.

    Give two files whose lines are translations of each other, or one table. The kept pairs are written in the same
    format. The reasons for removing the others are counted, and can be written (--rejected) and shown (--report).

        heedful filter train.en train.de -o clean
    """

    files: PositionalPaths
    """text, TSV, CSV or JSONL, plain or compressed; the source first"""
    output: OutputPath
    """folder for the kept pairs"""
    columns: Annotated[tuple[str, ...], OptionInfo(metavar="NAME")] = ()
    """columns of a table, by name or counted from 0: source and target"""
    languages: Annotated[tuple[str, ...], OptionInfo(metavar="CODE")] = ()
    """of source and target, such as en de; detected from file names or content by default"""
    skip: Annotated[tuple[RuleName, ...], OptionInfo(metavar="RULE")] = ()
    """rules that are not applied, of empty, garbled, copied, long, unequal, language, repeated"""
    also: Annotated[tuple[RuleName, ...], OptionInfo(metavar="RULE")] = ()
    """additional rules: html (elements and entities), numbers (numbers that only one side has)"""
    longest: int = 200
    """for rule long: approximate maximum number of tokens of the longer side"""
    ratio: float = 4.0
    """for rule unequal: maximum deviation from the usual ratio of lengths"""
    documents: bool = False
    """for two files: keep lines that are empty in both, since they end documents"""
    models: Annotated[tuple[Path, ...], OptionInfo(metavar="RUN")] = ()
    """two runs, from source to target and back: pairs get a score by how well both models agree on them"""
    keep: OptionalFloat = None
    """with --models: share of the pairs to keep, those with the best scores"""
    least: OptionalFloat = None
    """with --models: lowest score to keep, from 0 to 1"""
    rejected: OptionalPath = None
    """TSV file for the removed pairs: reason, score, place, source, target"""
    report: OptionalPage = None
    """page with counts, examples of each reason, and scores"""
    processes: OptionalInt = None
    """largest number of processes that judge pairs, on Linux; the number of cores by default, and one for small
    texts"""
    overwrite: bool = False
    """replace existing files"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise RecipeError(f"--longest: {self.longest}; must be at least 1")
        require_minimum(self, processes=1)
        if not 1 < self.ratio < float("inf"):
            raise RecipeError(f"--ratio: {self.ratio:g}; must be above 1")
        if len(self.languages) not in (0, 2):
            raise RecipeError("--languages: takes two codes, that of the source and that of the target")
        if len(self.models) not in (0, 2):
            raise RecipeError("--models: takes two runs, one from source to target and one back")
        if bool(self.models) != (self.keep is not None or self.least is not None):
            raise RecipeError(
                "--models, --keep, --least: models give scores, and --keep or --least sets which scores are kept; "
                "give both"
            )
        for name, value in (("keep", self.keep), ("least", self.least)):
            if value is not None and not 0 < value <= 1:
                raise RecipeError(f"--{name}: {value:g}; must be above 0, and at most 1")


def run_filter(argv: Sequence[str]) -> int:
    """Run `heedful filter`, which removes harmful pairs from parallel text, and return its exit code."""
    args = parse_arguments(FilterArguments, argv, program=_FILTER_PROGRAM)
    corpus = _detect_corpus(args)
    if args.documents:
        _require_lines(corpus)
    part = corpus.present_parts[0]
    languages = _detect_languages(args, corpus)
    from heedful.cli.progress import CountingProgress
    from heedful.compression import is_compressed
    from heedful.tasks.translation.corpus_filter import ScoreThreshold, build_filter_page, filter_pairs

    saver = corpus.build_writer(args.output, part, compress=is_compressed(corpus.get_first_file(part)))
    outputs = [*saver.paths, *(path for path in (args.rejected, args.report) if path is not None)]
    require_unused_paths(outputs, sources=args.files, overwrite=args.overwrite, remedy="choose another place")
    with wrap_write_errors(args.output, "--output"):
        args.output.mkdir(parents=True, exist_ok=True)
    rules = _build_rules(args, languages)
    log(f"read as: {corpus.learning_description}")
    log(f"rules: {', '.join(rule.name for rule in rules)}")

    def iter_pairs() -> Iterator[tuple[str, str]]:
        """Yield source and target of each pair."""
        for example in corpus.read_examples(part):
            source, target = example.texts
            yield source, target

    score = _build_score(args)
    with CountingProgress("pairs judged") as on_progress:
        verdicts = filter_pairs(
            iter_pairs,
            rules,
            score=score,
            threshold=ScoreThreshold(args.keep, args.least or 0.0),
            on_progress=on_progress,
            processes=args.processes or count_cores(),
        )
    if not verdicts.num_kept:
        raise DataError(
            f"no pair is kept of {corpus.learning_description}; see why, and leave out a rule with "
            f"--skip:\n{verdicts.to_table().format_text()}"
        )
    _write_pairs(args, corpus, saver, verdicts)
    if args.report is not None:
        located_pairs = (
            (corpus.format_location(part, pair_example), (pair_example.texts[0], pair_example.texts[1]))
            for pair_example in corpus.read_examples(part)
        )
        text = build_filter_page(
            verdicts, located_pairs, title=f"Kept pairs of {' and '.join(map(str, corpus.files[part]))}"
        )
        with wrap_write_errors(args.report, "--report"):
            args.report.write_text(text, encoding="utf-8")
    print(verdicts.to_table().format_text(), end="")
    print(f"written: {' '.join(map(str, saver.paths))}")
    print(f"next: {shlex.join(['heedful', 'new', *map(str, saver.paths)])}")
    return 0


def _detect_corpus(args: FilterArguments) -> DetectedParallelText:
    """Detect the parallel corpus in the files; `RecipeError` if they are several parts, such as train and test, since
    only training data are filtered.
    """
    from heedful.data.detect.parallel import DetectedParallelText
    from heedful.data.detect.registry import sniff_file
    from heedful.recipes.recipe_writer import propose_datasets

    require_named_files(args.files)
    corpus = propose_datasets([sniff_file(file) for file in args.files], task="translation", columns=args.columns)[
        0
    ].dataset
    assert isinstance(corpus, DetectedParallelText), "nothing else is translated"
    if len(corpus.present_parts) > 1:
        raise RecipeError(
            f"{', '.join(map(str, args.files))}: are {' and '.join(corpus.present_parts)}, but validation and test "
            "data must not be filtered; give only the files for training"
        )
    return corpus


def _require_lines(corpus: DetectedParallelText) -> None:
    """Raise `RecipeError` if the corpus is a table, whose documents are named in a column, and not two files."""
    from heedful.data.detect.parallel import DetectedLineFiles

    if not isinstance(corpus, DetectedLineFiles):
        raise RecipeError(
            "--documents: keeps empty lines of two files; a table keeps its column of documents without this option: "
            "leave it out"
        )


def _detect_languages(args: FilterArguments, corpus: DetectedParallelText) -> tuple[LanguageInfo, LanguageInfo]:
    """Return the languages of source and target: as given, or from the file names of the corpus, or the language of
    most texts.
    """
    from heedful.data.detect.languages import LanguageInfo, guess_language, parse_language_code

    given_languages = [parse_language_code(code) for code in args.languages]
    for code, language in zip(args.languages, given_languages, strict=True):
        if not language:
            raise RecipeError(f"--languages: {code!r} is not the code of a known language; leave the option out")
    if not given_languages:
        texts = [
            text.texts for _, text in zip(range(1000), corpus.read_examples(corpus.present_parts[0]), strict=False)
        ]
        languages_of_names = corpus.languages or (LanguageInfo(), LanguageInfo())
        given_languages = [
            language_of_name or guess_language(text[index] for text in texts)
            for index, language_of_name in enumerate(languages_of_names)
        ]
    first, second = given_languages
    return first, second


def _build_rules(args: FilterArguments, languages: tuple[LanguageInfo, LanguageInfo]) -> Sequence[TextCheck[Any]]:
    """Build the rules in order: cheap ones first and repetitions last, so that only pairs that passed the others count
    as repeated. `languages` are those of source and target.
    """
    from heedful.data.detect import checks, pair_checks

    all_rules: Sequence[TextCheck[Any]] = (
        checks.EmptyTextCheck(),
        checks.GARBLED_TEXT,
        checks.HTML_REMAINS,
        pair_checks.CopyCheck(),
        pair_checks.LengthCheck(args.longest),
        pair_checks.LengthRatioCheck(args.ratio),
        pair_checks.NumberCheck(),
        pair_checks.PairLanguageCheck(*languages),
        pair_checks.RepeatedPairCheck(),
    )
    disabled = {*args.skip, *(name for name in _OPTIONAL_RULES if name not in args.also)}
    if not any(languages):
        log("note: neither language could be identified, so the rule language removes nothing; give both (--languages)")
    return [rule for rule in all_rules if rule.name not in disabled]


def _build_score(args: FilterArguments) -> PairScorer | None:
    """Build the function that scores pairs by the agreement of two models; None without models."""
    if not args.models:
        return None
    from heedful.runs.device import tune_malloc
    from heedful.tasks.translation.corpus_filter import dual_agreement
    from heedful.tasks.translation.translator import Translator

    tune_malloc()
    models = [args.computing.load_predictor(Translator, model, use="translates") for model in args.models]
    for model, path in zip(models, args.models, strict=True):
        if model.languages and not args.languages:
            raise RecipeError(
                f"--models: {path} writes {', '.join(model.languages)}; name both languages (--languages)"
            )
    source, target = args.languages or (None, None)
    forward, backward = (
        model.towards(language if model.languages else None)
        for model, language in zip(models, (target, source), strict=True)
    )
    return partial(dual_agreement, forward, backward)


def _write_pairs(
    args: FilterArguments, corpus: DetectedParallelText, saver: PartWriter, verdicts: FilterResult
) -> None:
    """Write the kept pairs of the corpus in their format with `saver`, and the removed pairs as a table; `verdicts`
    says which are kept, and why not.
    """
    from heedful.data.detect.format import LinePartWriter
    from heedful.tasks.translation.corpus_filter import KEPT_NUMBER

    part = corpus.present_parts[0]
    with ExitStack() as stack, wrap_write_errors(args.output, "--output"):
        stack.enter_context(saver)
        rejected_saver = None if args.rejected is None else stack.enter_context(LinePartWriter(args.rejected))
        for index, (number, example) in enumerate(
            zip(verdicts.reason_numbers, corpus.read_examples(part), strict=True)
        ):
            if number == KEPT_NUMBER or (args.documents and not any(map(str.strip, example.texts))):
                saver.write_example(example.raw)
            elif rejected_saver is not None:
                texts = (" ".join(text.split()) for text in example.texts)
                reason, score = verdicts.reasons[number].name, verdicts.format_score(index)
                rejected_saver.write_example("\t".join([reason, score, corpus.format_location(part, example), *texts]))


_MAX_EXAMPLES: Final = 50_000
"""Largest number of examples of a part; that many texts are kept in memory, and some more."""


@dataclass(frozen=True, kw_only=True)
class SplitArguments:
    """Split off validation and test parts; examples with the same text go to the same part.

    The choice depends only on the texts. Neither the order of the lines nor other texts matter. So if the data grow,
    the held-out texts stay held out, as far as the sizes of the parts allow.

        heedful split pairs.tsv -o parts --test 0
    """

    files: PositionalPaths
    """text, TSV, CSV, JSONL, CoNLL-U or SQuAD's JSON, plain or compressed; for translation two files, or one"""
    output: OutputPath
    """folder for the parts"""
    validation: int = 1000
    """maximum number of examples for validation"""
    test: int = 1000
    """maximum number of examples for test; 0 for none"""
    task: OptionalText = None
    """the task, if it is not the one that the files suggest"""
    columns: Annotated[tuple[str, ...], OptionInfo(metavar="NAME")] = ()
    """columns of a table, by name or counted from 0; see heedful new --help"""
    documents: bool = False
    """for two files: lines that are empty in both files end documents, which are not split"""
    document_column: OptionalText = None
    """column of a table, by name or counted from 0, that names the document of each pair; documents are not split"""
    overwrite: bool = False
    """replace existing parts"""

    def __post_init__(self) -> None:
        for name, minimum in (("validation", 1), ("test", 0)):
            if not minimum <= getattr(self, name) <= _MAX_EXAMPLES:
                raise RecipeError(f"--{name}: {getattr(self, name)}; must be from {minimum} to {_MAX_EXAMPLES:,}")


def run_split(argv: Sequence[str]) -> int:
    """Run `heedful split`, which splits off validation and test parts, and return its exit code."""
    args = parse_arguments(SplitArguments, argv, program="heedful split")
    from heedful.data.detect.file_names import DatasetPart
    from heedful.data.detect.hash_sample import DatasetSplitter, build_plan, write_parts
    from heedful.data.detect.registry import sniff_file
    from heedful.recipes.recipe_writer import keep_documents_whole, propose_datasets

    require_named_files(args.files)
    proposal = propose_datasets([sniff_file(file) for file in args.files], task=args.task, columns=args.columns)[0]
    dataset = keep_documents_whole(proposal, blank_lines=args.documents, column=args.document_column).dataset
    if dataset.present_parts != ("train",):
        raise RecipeError(
            f"{', '.join(map(str, args.files))}: are already parts, by their names "
            f"({', '.join(dataset.present_parts)}); give files that are not split"
        )
    log(f"read as: {proposal.task}, {dataset.learning_description}")
    sizes: dict[DatasetPart, int] = {"validation": args.validation}
    if args.test:
        sizes["test"] = args.test
    split_plan = build_plan(dataset, args.output, list(sizes))
    require_unused_paths(
        split_plan.paths, sources=args.files, overwrite=args.overwrite, remedy="choose another --output"
    )
    splitter, num_examples = DatasetSplitter(), 0
    for example in dataset.read_examples("train"):
        num_examples += not dataset.is_document_end(example)
        if dataset.is_usable(example) and not dataset.is_document_end(example):
            splitter.add_example(example.split_keys)
    if sum(sizes.values()) > num_examples // 2:
        raise DataError(
            f"{dataset.get_first_file('train')}: has {num_examples:,} {dataset.noun}, and "
            f"{' and '.join(f'{n:,}' for n in sizes.values())} "
            "would leave less than half for training; take fewer"
        )
    with wrap_write_errors(args.output, "--output"):
        args.output.mkdir(parents=True, exist_ok=True)
        counts = write_parts(split_plan, dataset, splitter, {"train": num_examples}, sizes=sizes)
    for part, saver in split_plan.writers.items():
        print(f"{part}: {counts[part]:,} {dataset.noun} in {' '.join(map(str, saver.paths))}")
    print(f"next: {shlex.join(['heedful', 'new', *map(str, split_plan.paths), *dataset.document_options])}")
    return 0
