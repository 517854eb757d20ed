"""`heedful translate`: text in, translations out, in the same order."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, PositionalPaths, TextsBehind, parse, require_least
from heedful.cli.lines import STANDARD_INPUT, FileOptions
from heedful.cli.options import SearchOptions
from heedful.cli.output import say, shown
from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.localisation.documents import Document
    from heedful.tasks.translation.protecting import ProtectedLines
    from heedful.tasks.translation.translations import Sentence, Translation, TranslationLines

_SHOWN: Final = 5
"""Units that were not translated, of which places are told."""


@dataclass(frozen=True, kw_only=True)
class Arguments(FileOptions):
    """Translate sentences, one a line, with one model or with several as an ensemble.

    Or a translators' file, whose gaps are filled: heedful translate RUN file.po -o file.de.po
    """

    runs: PositionalPaths
    """run folders, of which several translate together; and, to be filled, a PO, XLIFF, TMX, SRT or HTML file"""
    text: TextsBehind = ()
    """sentences to translate instead of a file; they may also stand behind the runs, without the option"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with scores"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """translations of each sentence; as text they come as lines of: number, text, score, between tabs"""
    prefix: MaybeText = None
    """how every translation must begin"""
    prefixes: MaybePath = None
    """file with the beginning of each translation, line by line"""
    constrain: tuple[str, ...] = ()
    """terms that every translation must hold, one or several; a beam looks for them"""
    glossary: MaybePath = None
    """TSV file of source term, tab, target term: a translation must hold those whose source stands in its sentence"""
    annotate: Literal["nothing", "append", "replace"] = "nothing"
    """write the glossary's terms into the sentences, behind their sources or in their place, instead of forcing them;
    for models that learned from text that `heedful annotate` made"""
    input_format: Literal["text", "jsonl"] = "text"
    """lines that are sentences, or JSON objects with source and, if wanted, constraints (a list of terms) and prefix"""
    align: bool = False
    """add what each token looked at to the JSON (mean over heads, last decoder layer)"""
    replace_unknown: bool = False
    """put the source's word in the place of what the model has no piece for, by attention"""
    mbr: MaybeInt = None
    """draw so many samples, and take that which is most like all of them (minimum Bayes risk)"""
    utility: Literal["chrf", "bleu"] = "chrf"
    """what that is measured by, sentence by sentence"""
    seed: int = 1
    """of sampling"""
    protect: bool = False
    """keep placeholders (%s, {name}, tags, addresses, numbers) whatever the model does; always done in files"""
    retranslate: Literal["nothing", "review", "all"] = "nothing"
    """of a file: which translations are made anew: none, those to be reviewed (fuzzy ones), or all"""
    source_language: MaybeText = None
    """of a TMX file: the language that is read, as in en or en-GB"""
    target_language: MaybeText = None
    """of a TMX file: the language that is written"""
    batch_tokens: int = 4096
    """source tokens translated at one time, padding included"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""
    files = ("input", "prefixes", "glossary")


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful translate")
    documents = _documents(given)
    _check(given, documents)
    runs = [path for path in given.runs if path not in documents]

    from heedful.runs.device import keep_pages
    from heedful.tasks.searches import build_length, build_search
    from heedful.tasks.translation.face import Translator

    keep_pages()
    document = _read(documents[0], given) if documents else None
    inputs = None if document else _inputs(given)
    translator = given.computing.load(Translator, *runs, use="translates", step=given.step)
    if given.annotate != "nothing":
        from heedful.tasks.translation.annotation import Marks

        Marks().require_known(translator.source)
    searching = given.searching
    if given.mbr is not None:  # what is drawn stands for what the model means; a recipe's own way is for the best
        searching = replace(searching, search=searching.search or "sampling")
    config = searching.config(translator.generation)
    search = build_search(config, translator.target, n_best=given.mbr or given.n_best, seed=given.seed)
    with _progress(shown=not given.typed) as tick:
        lines = replace(
            translator.lines(),
            search=search,
            length=build_length(config),
            several=given.n_best > 1,
            batch_tokens=given.batch_tokens,
            align=given.align,
            unknown=given.replace_unknown,
            choose=_choice(given),
            tick=tick,
        )
        if document is not None:
            return _fill(document, lines, given)
        assert inputs is not None
        if given.protect:
            return given.answer(_protected(lines, given), inputs, as_json=given.format == "jsonl")
        return given.answer(lines, inputs, as_json=given.format == "jsonl")


def _choice(given: Arguments) -> Callable[[Translation], Translation] | None:
    """How candidates are ranked anew."""
    if given.mbr is None:
        return None
    from heedful.metrics.utility import ChrF, SentenceBLEU
    from heedful.tasks.translation.least_risk import least_risk

    return partial(least_risk, utility=ChrF() if given.utility == "chrf" else SentenceBLEU(), keep=given.n_best)


def _documents(given: Arguments) -> list[Path]:
    """The files to be filled, by their names."""
    from heedful.localisation.files import is_document

    named = [path for path in given.runs if is_document(path) and not path.is_dir()]
    return [*named, *([given.input] if given.input is not None and is_document(given.input) else [])]


def _check(given: Arguments, documents: Sequence[Path]) -> None:
    if given.prefixes == STANDARD_INPUT and not given.text and given.input in (None, STANDARD_INPUT):
        raise RecipeError("--prefixes: standard input cannot hold the sentences too; name a file with --input")
    if given.prefix is not None and given.prefixes is not None:
        raise RecipeError("--prefix and --prefixes: give one of them")
    if given.align and given.format != "jsonl":
        raise RecipeError("--align: only JSON has room for alignments; add --format jsonl")
    require_least(given, n_best=1, batch_tokens=1, mbr=1)
    _check_terms(given)
    if given.protect or documents:
        _check_protected(given, "--protect" if not documents else str(documents[0]))
    if documents:
        _check_document(given, documents)
        return
    for name in ("source_language", "target_language"):
        if getattr(given, name) is not None:
            raise RecipeError(f"--{name.replace('_', '-')}: belongs to a TMX file; name one behind the run")
    if given.retranslate != "nothing":
        raise RecipeError("--retranslate: belongs to a file that has translations; name one behind the run")


def _check_terms(given: Arguments) -> None:
    """What translations must hold, and what is drawn."""
    if given.input_format == "jsonl" and given.text:
        raise RecipeError("--input-format: sentences on the command line are text; leave it out, or give --input")
    if "" in given.constrain:
        raise RecipeError("--constrain: a term is empty; leave it out")
    if given.annotate != "nothing" and given.glossary is None:
        raise RecipeError(f"--annotate {given.annotate}: needs terms; name their file with --glossary")
    forced = given.glossary is not None and given.annotate == "nothing"
    if given.mbr is not None and (given.constrain or forced or given.input_format == "jsonl"):
        raise RecipeError("--mbr: samples hold no terms that they must; leave it out, or the constraints")
    if given.mbr is not None and given.mbr < given.n_best:
        raise RecipeError(f"--n-best: {given.n_best} of {given.mbr} samples; give at most --mbr")


def _check_protected(given: Arguments, place: str) -> None:
    """What has no meaning where translations are put together."""
    several = {"n_best": given.n_best > 1, "align": given.align, "replace_unknown": given.replace_unknown}
    begun = {"prefix": given.prefix is not None, "prefixes": given.prefixes is not None}
    held = {"constrain": bool(given.constrain), "input_format": given.input_format == "jsonl"}
    for name, is_given in {**several, **begun, **held}.items():
        if is_given:
            raise RecipeError(f"--{name.replace('_', '-')}: cannot be together with {place}; leave one of them away")


def _check_document(given: Arguments, documents: Sequence[Path]) -> None:
    path = documents[0]
    if len(documents) > 1:
        raise RecipeError(f"{documents[1]}: one file is filled at a time; call the command for each")
    if given.text or (given.input is not None and given.input != path):
        raise RecipeError(f"{path}: is a file to be filled, and there is other text too; give one of them")
    if given.format == "jsonl":
        raise RecipeError(f"--format jsonl: {path} is written in its own format; leave the option away")
    if len(given.runs) == len(documents) and given.input is None:
        raise RecipeError(f"heedful translate: needs a run before {path}; write heedful translate RUN {path}")
    if given.output is not None and given.output.exists() and path.exists() and given.output.samefile(path):
        raise RecipeError(f"--output: {path} is read as well; choose another file")
    if path.suffix.lower() != ".tmx" and (given.source_language or given.target_language):
        raise RecipeError(f"--source-language, --target-language: {path} says its languages itself; leave them away")


def _read(path: Path, given: Arguments) -> Document:
    from heedful.localisation.files import read_document

    return read_document(path, source=given.source_language, target=given.target_language)


def _protected(lines: TranslationLines, given: Arguments) -> ProtectedLines:
    from heedful.tasks.translation.protecting import ProtectedLines, Protecting
    from heedful.tasks.translation.translations import Sentence

    add = _adding_terms(given)

    def translate(texts: Sequence[str]) -> list[Translation]:
        return [found for _, found in lines.answers([add(Sentence(text)) for text in texts], first=1)]

    return ProtectedLines(Protecting(lines.translator, translate))


def _fill(document: Document, lines: TranslationLines, given: Arguments) -> int:
    """Writes the document with its gaps filled, and says on standard error what became of it."""
    from heedful.store import write_whole
    from heedful.tasks.translation.filling import fill

    filled = fill(document, _protected(lines, given).protecting, retranslate=given.retranslate)
    if given.output is None:
        sys.stdout.buffer.write(filled.content)
        sys.stdout.flush()
    else:
        write_whole(given.output, filled.content)
    for line in filled.told:
        say(line)
    for place in filled.left[:_SHOWN]:
        say(f"  {shown(place)}")
    if len(filled.left) > _SHOWN:
        say(f"  and {len(filled.left) - _SHOWN:,} more")
    return 0


def _inputs(given: Arguments) -> Iterator[Sentence]:
    """Sentences, how their translations must begin, and what they must hold; files are looked for at once."""
    from heedful.data.readers import read_lines
    from heedful.tasks.translation.translations import Sentence, read_sentences

    lines = iter(given.text) if given.text else given.read()
    sentences = read_sentences(lines, name=given.place) if given.input_format == "jsonl" else map(Sentence, lines)
    if given.prefixes is not None:
        sentences = _paired(sentences, read_lines(given.prefixes), name=given.prefixes)
    elif given.prefix is not None:
        sentences = (replace(each, prefix=given.prefix) for each in sentences)
    return map(_adding_terms(given), sentences)


def _adding_terms(given: Arguments) -> Callable[[Sentence], Sentence]:
    """Adds to a sentence what its translation must hold, by the options."""
    from heedful.tasks.translation.annotation import Annotation
    from heedful.tasks.translation.glossary import Glossary, Term

    glossary = None if given.glossary is None else Glossary.read(given.glossary)
    always = tuple(map(Term, given.constrain))

    def add(sentence: Sentence) -> Sentence:
        if glossary is not None and given.annotate != "nothing":
            annotated = Annotation(glossary, given.annotate).sentence(sentence.text)
            return replace(sentence, text=annotated, constraints=(*always, *sentence.constraints))
        found = glossary.terms(sentence.text) if glossary is not None else ()
        return replace(sentence, constraints=(*always, *sentence.constraints, *found))

    return add


def _paired(sentences: Iterator[Sentence], beginnings: Iterator[str], *, name: Path) -> Iterator[Sentence]:
    for sentence in sentences:
        beginning = next(beginnings, None)
        if beginning is None:
            raise DataError(f"{name}: has fewer lines than there are sentences; give one line for each")
        yield replace(sentence, prefix=beginning)
    if next(beginnings, None) is not None:
        raise DataError(f"{name}: has more lines than there are sentences; give one line for each")


@contextmanager
def _progress(*, shown: bool) -> Iterator[Callable[[int], None] | None]:
    """A count of sentences on a terminal's standard error."""
    if not shown or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} sentences{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=None, speed="")
        began, done = time.perf_counter(), 0

        def tick(count: int) -> None:
            nonlocal done
            done += count
            bar.update(task, completed=done, speed=f", {done / (time.perf_counter() - began):.1f}/s")

        yield tick
