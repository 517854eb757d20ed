"""`heedful backtranslate`, `annotate`, `calibrate`, `score` and `align`: make parallel text for training, and judge
and align translations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal

from heedful.cli.arguments import DeviceOptions, OutputPath, PositionalPath, PositionalPaths, require_minimum
from heedful.cli.line_commands import write_answers
from heedful.cli.option_types import require_folders
from heedful.cli.options import DirectionOptions, ParallelTextOptions, SearchOptions
from heedful.cli.output import log, open_output, wrap_write_errors
from heedful.errors import DataError, RecipeError, RunError

if TYPE_CHECKING:
    from heedful.data.context import SourceSentence
    from heedful.data.readers import ExampleReader, SentencePair
    from heedful.generation.search import SearchStrategy
    from heedful.metrics.error_rates import GoldAlignment
    from heedful.tasks.search_factory import LengthLimits
    from heedful.tasks.translation.recipe import TranslationDataConfig
    from heedful.tasks.translation.translator import Translator

_CHUNK_SIZE: Final = 1024
"""Number of sentences after which the output is saved."""


@dataclass(frozen=True, kw_only=True)
class BacktranslateArguments:
    """Make parallel text from text in the target language; a model of the opposite direction writes the sources.

    To improve translation from English to German, a run from German to English writes the English for more German text
    (Sennrich et al. 2016):

        heedful backtranslate runs/de-en more.de -o made.tsv

    Each output line has the text of the model, a tab, and the line of the file. Empty lines are left out, unless they
    end documents (--documents). An interrupted output is continued.
    """

    run: PositionalPath
    """run folder of the opposite direction: it reads the target language"""
    text: PositionalPath
    """file with a sentence on each line, plain or compressed"""
    output: OutputPath
    """TSV file for the pairs; an existing one is continued"""
    tag: str = ""
    """word before each generated source, such as <bt>, so that a model can tell it from real text"""
    documents: bool = False
    """keep empty lines, which end documents, for models that use data.context"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)
    searching: SearchOptions = field(default_factory=SearchOptions)
    seed: int = 1
    """random seed of sampling"""
    batch_tokens: int = 4096
    """source tokens in a batch, padding included"""
    overwrite: bool = False
    """start again if the output exists"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def __post_init__(self) -> None:
        require_minimum(self, batch_tokens=1)
        if self.tag and len(self.tag.split()) != 1:
            raise RecipeError(f"--tag: {self.tag!r} is not one word; give one without white space, such as <bt>")
        if self.output.exists() and self.text.exists() and self.output.samefile(self.text):
            raise RecipeError(f"--output: {self.output} is read as well; choose another file")

    def execute(self) -> int:
        """Run the command; return the exit code."""
        sentences = _read_sentences(self)
        num_sentences = sum(1 for _ in sentences)  # a file that is missing or broken shows before a model is loaded
        num_done, num_bytes = (0, 0) if self.overwrite else _count_done(self)

        from heedful.cli.progress import CountingProgress
        from heedful.runs.device import tune_malloc
        from heedful.tasks.search_factory import build_length_limits, build_search
        from heedful.tasks.translation.translator import Translator

        tune_malloc()
        translator = self.direction.apply_to(self.computing.load_predictor(Translator, self.run, use="translates"))
        config = self.searching.apply_to(translator.generation)
        if num_done:
            log(f"{self.output}: {num_done:,} of {num_sentences:,} pairs exist already; continuing after them")
        pair_writer = _PairWriter(
            translator, build_search(config, translator.target, seed=self.seed), build_length_limits(config), self
        )
        with wrap_write_errors(self.output, "--output"), self.output.open("r+b" if num_bytes else "wb") as file:
            file.seek(num_bytes)
            file.truncate()
            with CountingProgress("sentences") as on_progress:
                remaining = islice(_read_with_context(self, translator), num_done, None)
                while batch := list(islice(remaining, _CHUNK_SIZE)):
                    pair_writer.write(batch, file, start=num_done + 1)
                    num_done += len(batch)
                    on_progress(num_done, num_sentences)
        print(f"written: {self.output}, {num_done:,} pairs")
        return 0


@dataclass(frozen=True)
class _PairWriter:
    """Writes the pairs of sentences and their back-translations."""

    translator: Translator
    search: SearchStrategy
    length: LengthLimits
    args: BacktranslateArguments

    def write(self, sentences: Sequence[SourceSentence], file: IO[bytes], *, start: int) -> None:
        """Translate the sentences, append the pairs to the file and flush it; `start` is the number of the first
        sentence, which seeds the sampling.
        """
        from heedful.tasks.predictor import escape_cell

        translations = self.translator.translate(
            sentences, search=self.search, length=self.length, batch_tokens=self.args.batch_tokens, first=start
        )
        tag = f"{self.args.tag} " if self.args.tag else ""
        sources = (
            f"{tag}{escape_cell(translation.text)}" if translation.text else "" for translation in translations
        )  # training leaves empty ones out
        lines = (
            f"{source}\t{escape_cell(translation.source)}\n"
            for source, translation in zip(sources, translations, strict=True)
        )
        file.write("".join(lines).encode())
        file.flush()


def _read_sentences(args: BacktranslateArguments) -> Iterator[str]:
    """Return the lines to translate: all lines if they form documents, otherwise those that are not empty."""
    from heedful.data.readers import read_lines

    lines = read_lines(args.text)
    return ("" if not line.strip() else line for line in lines if args.documents or line.strip())


def _read_with_context(args: BacktranslateArguments, translator: Translator) -> Iterator[SourceSentence]:
    """Return the lines to translate, each with as many earlier lines as the model of the translator reads; empty lines
    end documents even if they are left out.
    """
    from heedful.data.context import get_text
    from heedful.data.readers import read_lines

    readable = translator.following("" if not line.strip() else line for line in read_lines(args.text))
    return (sentence for sentence in readable if args.documents or get_text(sentence))


def _count_done(args: BacktranslateArguments) -> tuple[int, int]:
    """Count the complete pairs in the output and their bytes; an unfinished last line is not counted.

    Raises:
        RecipeError: the output has other content.
    """
    if not args.output.exists():
        return 0, 0
    from heedful.tasks.predictor import escape_cell

    tag = f"{args.tag} ".encode() if args.tag else b""
    sentences, count, size = _read_sentences(args), 0, 0
    with args.output.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            expected = next(sentences, None)
            target = line.removesuffix(b"\n").partition(b"\t")[2]
            if expected is None or target != escape_cell(expected).encode() or not line.startswith((tag, b"\t")):
                raise RecipeError(
                    f"{args.output}:{count + 1}: was not written by this command from {args.text}; choose another "
                    "--output, or add --overwrite"
                )
            count, size = count + 1, size + len(line)
    return count, size


_ANNOTATION_STREAM: Final = 0x7465726D
"""Separates these random numbers from others that depend on the same seed."""


@dataclass(frozen=True, kw_only=True)
class AnnotateArguments:
    """Write the terms of a glossary into the sources of parallel text, so that a model learns to use them.

    If a source term occurs in a sentence and its target in the translation, perhaps with another ending, the target is
    written after it, between marks (Dinu et al. 2019). A model trained on this text uses terms that it has never seen:

        heedful translate RUN --glossary terms.tsv --annotate append
    """

    files: PositionalPaths
    """TSV (source, tab, target) or JSONL (fields source and target), or two files line by line, the source first"""
    glossary: Path
    """TSV file of source term, tab, target term"""
    output: OutputPath
    """TSV file for all pairs, with and without terms"""
    share: float = 0.1
    """share of the pairs with terms that are annotated; the others stay unchanged, to be translated without terms"""
    way: Literal["append", "replace"] = "append"
    """write a term after its source, or in its place"""
    seed: int = 1
    """seed of this choice"""
    overwrite: bool = False
    """replace an existing output"""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise RecipeError(f"--share: {self.share:g}; must be above 0, and at most 1")
        if self.seed < 0:
            raise RecipeError(f"--seed: {self.seed}; must be at least 0")
        if len(self.files) > 2:
            raise RecipeError(f"{self.files[2]}: pairs are in one file or in two; give at most two files")
        for file in (*self.files, self.glossary):
            if self.output.exists() and file.exists() and self.output.samefile(file):
                raise RecipeError(f"--output: {self.output} is read as well; choose another file")
        if self.output.exists() and not self.overwrite:
            raise RecipeError(f"{self.output}: already exists; choose another --output, or add --overwrite")

    def execute(self) -> int:
        """Run the command; return the exit code."""
        from heedful.data.detect.format import LinePartWriter
        from heedful.data.random_numbers import SeededRandom
        from heedful.tasks.predictor import escape_cell
        from heedful.tasks.translation.glossary import TermAnnotator, TermGlossary

        first_file, *other_files = self.files
        reader = (
            ParallelTextOptions(source=first_file, target=other_files[0])
            if other_files
            else ParallelTextOptions(data=first_file)
        ).build_reader()
        annotation = TermAnnotator(TermGlossary.from_file(self.glossary), self.way)
        pairs = num_with_terms = num_annotated = 0
        with wrap_write_errors(self.output, "--output"), LinePartWriter(self.output) as saver:
            for pairs, pair in enumerate(reader, 1):
                source = annotation.annotate_source(pair.source, pair.target)
                if source != pair.source:
                    num_with_terms += 1
                    is_annotated = SeededRandom(self.seed, _ANNOTATION_STREAM, pairs).next_float() < self.share
                    num_annotated += is_annotated
                    source = source if is_annotated else pair.source
                saver.write_example(f"{escape_cell(source)}\t{escape_cell(pair.target)}")
            if not pairs:
                raise DataError(f"{first_file}: contains no pair; check the file")
        print(
            f"written: {self.output}, {pairs:,} pairs; {num_with_terms:,} have terms, and {num_annotated:,} were "
            "annotated"
        )
        return 0


@dataclass(frozen=True)
class CalibrateArguments:
    """Translate text with known translations, and learn from it to estimate the quality of other translations.

    The result is stored in the run: heedful translate RUN --format jsonl then reports the confidence of each
    translation, which is the mean chrF (0 to 1) of translations with a similar score. Without text options the run's
    validation set is used; text of the kind that is to be translated is better.
    """

    run: PositionalPath
    """run folder"""
    text: ParallelTextOptions
    sentences: int = 1000
    """maximum number of sentences of the text"""
    batch_tokens: int = 4096
    """source tokens in a batch, padding included"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def __post_init__(self) -> None:
        require_minimum(self, sentences=1, batch_tokens=1)

    def execute(self) -> int:
        """Run the command; return the exit code."""
        reader = self.text.build_reader_if_given()

        from heedful.atomic_io import MODEL_FILE, read_manifest, write_run_files
        from heedful.runs.device import tune_malloc
        from heedful.runs.load import open_run, require_task
        from heedful.tasks.translation.calibration import calibrate
        from heedful.tasks.translation.quality_estimation import CONFIDENCE_FILE
        from heedful.tasks.translation.translator import Translator

        run_opened = open_run(self.run)
        require_task(run_opened, "translation")
        weights = read_manifest(self.run).files.get(MODEL_FILE)
        if weights is None:
            raise RunError(
                f"{self.run}: its training is not finished, so its model will still change; finish training first"
            )
        paths, pairs = _read_pairs(run_opened.recipe.data, reader)
        if len(pairs) > self.sentences:  # spread over the text, because it may be sorted
            pairs = [pairs[index * len(pairs) // self.sentences] for index in range(self.sentences)]
        tune_malloc()
        translator = self.computing.load_predictor(Translator, self.run, use="translates")
        log(f"translating {len(pairs):,} sentences of {' and '.join(map(str, paths))}")
        calibration = calibrate(translator, pairs, weights=weights, batch_tokens=self.batch_tokens)
        with wrap_write_errors(self.run / CONFIDENCE_FILE, "run"):
            write_run_files(self.run, {CONFIDENCE_FILE: calibration.confidence.model_dump()})
        print(calibration.to_table().format_text(), end="")
        print(f"written: {self.run / CONFIDENCE_FILE}")
        return 0


def _read_pairs(
    data: TranslationDataConfig, reader: ExampleReader[SentencePair] | None
) -> tuple[Sequence[Path], list[SentencePair]]:
    """Read the complete pairs of the given text, or of the validation text of a recipe; return its files and the pairs.
    Raise `DataError` if a file cannot be read.
    """
    from heedful.data.context import add_context

    if reader is not None:
        given = add_context(reader, max_sentences=data.context_size)
        return reader.paths, [pair for pair in given if pair.source and pair.target]
    try:
        text = data.reader("validation")  # whose sentences have their context
        return text.paths, [pair for pair in text if pair.source and pair.target]
    except DataError as error:
        raise DataError(
            f"data.validation: {error}; or give another text with --source and --target, or --data"
        ) from None


@dataclass(frozen=True)
class ScoreArguments:
    """Compute log-probabilities of given translations under a model, in nats, one line for each pair."""

    runs: PositionalPaths
    """run folders; several form an ensemble"""
    text: ParallelTextOptions
    format: Literal["text", "jsonl"] = "text"
    """log-probability and number of tokens, separated by a tab, or JSON with those of each token"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Score the pairs; return the exit code."""
        require_folders(
            self.runs, input_hint="pairs are read with --data FILE (TSV or JSONL), or with --source and --target"
        )
        reader = self.text.build_reader()

        from heedful.tasks.translation.translations import ScoreLineFormat

        translator = _load_translator(self, *self.runs)
        pairs = _iter_pairs(reader, translator)
        return write_answers(ScoreLineFormat(translator), pairs, as_json=self.format == "jsonl")


@dataclass(frozen=True)
class AlignArguments:
    """Align the words of given translations by the attention of the model: a line of source-target pairs for each."""

    run: PositionalPath
    """run folder"""
    text: ParallelTextOptions
    output: Path | None = None
    """file for the alignments; standard output if not given"""
    gold: Path | None = None
    """gold alignments, line by line, 0-0 for sure links and 0p0 for possible ones: prints the error rate"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Align the pairs; return the exit code."""
        reader = self.text.build_reader()

        from heedful.metrics.error_rates import alignment_error_rate
        from heedful.tasks.predictor import UnreadableInput, answer_readable
        from heedful.tasks.translation.translations import format_pharaoh

        gold_links = self._read_gold()
        translator = _load_translator(self, self.run)
        pairs = list(_iter_pairs(reader, translator))
        unread = translator.unread(pairs)
        results = answer_readable(pairs, unread, translator.link)
        for result in unread.values():
            log(f"heedful: {result.message}")
        links = [result for result in results if not isinstance(result, UnreadableInput)]
        error_rate = None
        if gold_links is not None and (links or not unread):
            if len(gold_links) == len(pairs):
                gold_links = [result for index, result in enumerate(gold_links) if index not in unread]
            error_rate = alignment_error_rate(links, gold_links)
        with open_output(self.output) as out:
            lines = ("" if isinstance(result, UnreadableInput) else format_pharaoh(result) for result in results)
            out.write("".join(f"{line}\n" for line in lines))
            out.flush()
        if error_rate is not None:
            log(f"alignment error rate {error_rate:.3f} over {len(links):,} sentences")
        return 2 if unread else 0

    def _read_gold(self) -> list[GoldAlignment] | None:
        """Read the gold alignment of each line; None if no file was given."""
        from heedful.data.readers import read_lines
        from heedful.metrics.error_rates import GoldAlignment

        if self.gold is None:
            return None
        lines = enumerate(read_lines(self.gold), 1)
        return [GoldAlignment.parse(line, location=f"{self.gold}:{number}") for number, line in lines]


def _load_translator(args: ScoreArguments | AlignArguments, *runs: Path) -> Translator:
    """Load the model, with the target language of the options."""
    from heedful.tasks.translation.translator import Translator

    return args.text.direction.apply_to(
        args.computing.load_predictor(Translator, *runs, use="translates", step=args.step)
    )


def _iter_pairs(reader: ExampleReader[SentencePair], translator: Translator) -> Iterator[tuple[SourceSentence, str]]:
    """Yield the pairs of the reader, with as many earlier sentences before each source as the translator reads."""
    from heedful.data.context import add_context, get_source_with_context

    for pair in add_context(reader, max_sentences=translator.context):
        yield get_source_with_context(pair), pair.target
