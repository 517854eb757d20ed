"""`heedful backtranslate`: parallel text of text in one language, whose other side a model writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import tyro

from heedful.cli.arguments import Computing, PositionalPath, parse, require_least
from heedful.cli.directions import DirectionOptions
from heedful.cli.options import SearchOptions
from heedful.cli.output import say, writing
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.data.context import Readable
    from heedful.generation.search import Search
    from heedful.tasks.searches import Length
    from heedful.tasks.translation.face import Translator

_CHUNK: Final = 1024
"""Sentences between two times that what is there is saved."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Make parallel text of text in the target language, whose sources a model of the opposite direction writes.

    To translate from English to German better, a run from German to English writes the English of more German text
    (Sennrich et al. 2016): heedful backtranslate runs/de-en more.de -o made.tsv. Each line of the output is what the
    model wrote, a tab, and the line of the file; empty lines are left out, unless they end documents (--documents).
    What was interrupted goes on.
    """

    run: PositionalPath
    """run folder of the opposite direction: it reads what is to be the target"""
    text: PositionalPath
    """file with a sentence on each line, plain or gzipped"""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="PATH")]
    """TSV file for the pairs; one that is there already is gone on with"""
    tag: str = ""
    """word before each source that was written, such as <bt>, so that a model can tell it from real text"""
    documents: bool = False
    """keep empty lines, which end documents, for models that learn from data.context"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)
    searching: SearchOptions = field(default_factory=SearchOptions)
    seed: int = 1
    """of sampling"""
    batch_tokens: int = 4096
    """source tokens translated at one time, padding included"""
    overwrite: bool = False
    """begin anew where the output is there already"""
    computing: Computing = field(default_factory=Computing)

    def __post_init__(self) -> None:
        require_least(self, batch_tokens=1)
        if self.tag and len(self.tag.split()) != 1:
            raise RecipeError(f"--tag: {self.tag!r} is not one word; give one without white space, such as <bt>")
        if self.output.exists() and self.text.exists() and self.output.samefile(self.text):
            raise RecipeError(f"--output: {self.output} is read as well; choose another file")


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful backtranslate")
    sentences = _sentences(given)
    whole = sum(1 for _ in sentences)  # a file that is missing or broken shows before a model is loaded
    done, size = (0, 0) if given.overwrite else _done(given)

    from heedful.cli.progress import Counting
    from heedful.runs.device import keep_pages
    from heedful.tasks.searches import build_length, build_search
    from heedful.tasks.translation.face import Translator

    keep_pages()
    translator = given.direction.of(given.computing.load(Translator, given.run, use="translates"))
    config = given.searching.config(translator.generation)
    if done:
        say(f"{given.output}: {done:,} of {whole:,} pairs are there; going on behind them")
    writer = _Writer(translator, build_search(config, translator.target, seed=given.seed), build_length(config), given)
    with writing(given.output, "--output"), given.output.open("r+b" if size else "wb") as file:
        file.seek(size)
        file.truncate()
        with Counting("sentences") as tick:
            waiting = islice(_following(given, translator), done, None)
            while part := list(islice(waiting, _CHUNK)):
                writer.write(part, file, first=done + 1)
                done += len(part)
                tick(done, whole)
    print(f"written: {given.output}, {done:,} pairs")
    return 0


@dataclass(frozen=True)
class _Writer:
    """Writes the pairs of some sentences."""

    translator: Translator
    search: Search
    length: Length
    given: Arguments

    def write(self, sentences: Sequence[Readable], file: IO[bytes], *, first: int) -> None:
        """Adds them to the file, and saves it; `first` is the number of the first, and decides its chance."""
        from heedful.tasks.faces import cell

        found = self.translator.translate(
            sentences, search=self.search, length=self.length, batch_tokens=self.given.batch_tokens, first=first
        )
        tag = f"{self.given.tag} " if self.given.tag else ""
        sources = (f"{tag}{cell(each.text)}" if each.text else "" for each in found)  # training leaves empty ones out
        lines = (f"{source}\t{cell(each.source)}\n" for source, each in zip(sources, found, strict=True))
        file.write("".join(lines).encode())
        file.flush()


def _sentences(given: Arguments) -> Iterator[str]:
    """The lines that are written, which are all where they are documents, else those that are not empty."""
    from heedful.data.readers import read_lines

    lines = read_lines(given.text)
    return ("" if not line.strip() else line for line in lines if given.documents or line.strip())


def _following(given: Arguments, translator: Translator) -> Iterator[Readable]:
    """The same, with what the model reads before each; empty lines end documents, also those that are left out."""
    from heedful.data.context import text_of
    from heedful.data.readers import read_lines

    found = translator.following("" if not line.strip() else line for line in read_lines(given.text))
    return (each for each in found if given.documents or text_of(each))


def _done(given: Arguments) -> tuple[int, int]:
    """How many pairs the output has, and their bytes; a last line without an end is not counted.

    Raises:
        RecipeError: it holds something else.
    """
    if not given.output.exists():
        return 0, 0
    from heedful.tasks.faces import cell

    tag = f"{given.tag} ".encode() if given.tag else b""
    sentences, count, size = _sentences(given), 0, 0
    with given.output.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            expected = next(sentences, None)
            target = line.removesuffix(b"\n").partition(b"\t")[2]
            if expected is None or target != cell(expected).encode() or not line.startswith((tag, b"\t")):
                raise RecipeError(
                    f"{given.output}:{count + 1}: is not what this command writes of {given.text}; choose another "
                    "--output, or add --overwrite"
                )
            count, size = count + 1, size + len(line)
    return count, size
