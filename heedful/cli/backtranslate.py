"""`heedful backtranslate`: parallel text made from monolingual text by a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, TYPE_CHECKING, Final

from heedful.cli.arguments import DeviceOptions, OutputPath, PositionalPath, require_minimum
from heedful.cli.options import DirectionOptions, SearchOptions
from heedful.cli.output import log, wrap_write_errors
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.data.context import SourceSentence
    from heedful.generation.search import SearchStrategy
    from heedful.tasks.search_factory import LengthLimits
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
    """file with a sentence on each line, plain or gzipped"""
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
