"""`heedful translate`: text in, translations out, in the same order."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from heedful.cli import filled
from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, PositionalPaths, TextsBehind, parse, require_least
from heedful.cli.directions import DirectionOptions
from heedful.cli.filled import FillingOptions
from heedful.cli.lines import STANDARD_INPUT, FileOptions
from heedful.cli.options import SearchOptions
from heedful.cli.remembering import MemoryOptions
from heedful.cli.translated import check_search, forces_terms, protected_lines, sentences_of, translation_lines
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Arguments(FileOptions):
    """Translate sentences, one a line, with one model or with several as an ensemble.

    Or a translators' file, whose gaps are filled: heedful translate RUN file.po -o file.de.po
    """

    runs: PositionalPaths
    """run folders, of which several translate together; and a PO, XLIFF, TMX, SRT, HTML, DOCX or ODT to be filled"""
    text: TextsBehind = ()
    """sentences to translate instead of a file; they may also stand behind the runs, without the option"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with scores"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """translations of each sentence; as text they come as lines of: number, text, score, between tabs"""
    prefix: MaybeText = None
    """how every translation must begin; its last word may be unfinished, unless a space stands behind it"""
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
    factors: MaybePath = None
    """file with a label for each word of a sentence, line by line, for models that read labels (kind = "given")"""
    align: bool = False
    """add what each token looked at to the JSON (mean over heads, last decoder layer)"""
    replace_unknown: bool = False
    """put the source's word in the place of what the model has no piece for, by attention"""
    mbr: MaybeInt = None
    """draw so many samples, and take that which is most like all of them (minimum Bayes risk); of a beam so many are
    found, and each counts by its score"""
    utility: Literal["chrf", "bleu"] = "chrf"
    """what that is measured by, sentence by sentence"""
    seed: int = 1
    """of sampling"""
    protect: bool = False
    """keep placeholders (%s, {name}, tags, addresses, numbers) whatever the model does; always done in files"""
    filling: FillingOptions = field(default_factory=FillingOptions)
    remembering: MemoryOptions = field(default_factory=MemoryOptions)
    batch_tokens: int = 4096
    """source tokens translated at one time, padding included"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""
    ray: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE ...", help_behavior_hint="")] = ()
    """files of lines, plain or gzipped, that processes of a Ray cluster translate, each into a file of its name in the
    folder of --output; what was interrupted goes on"""
    workers: MaybeInt = None
    """with --ray: processes, each with a model and --threads; as many as the cluster has CPUs for unless given"""
    files = ("input", "prefixes", "glossary", "factors")

    def require_output(self, output: Path) -> None:
        """Nothing yet: which names fit depends on whether a file is filled (`filled.check`)."""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful translate")
    documents = filled.documents(given)
    _check(given, documents)
    runs = [path for path in given.runs if path not in documents]
    if given.ray:
        from heedful.cli.scattered import scatter

        return scatter(given)

    from heedful.runs.device import keep_pages
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.translations import in_order

    keep_pages()
    check_search(given, runs)
    document = given.filling.read(documents[0]) if documents else None
    inputs = None if document else sentences_of(given)
    memory = given.remembering.read(given.filling.languages(document, to=given.direction.to))
    model = given.computing.load(Translator, *runs, use="translates", step=given.step)
    translator = given.direction.of(model, document=document)
    with _progress(shown=not given.typed) as tick:
        lines = translation_lines(translator, given, tick=tick)
        if document is not None:
            protecting = protected_lines(lines, given).protecting
            return given.filling.fill(document, protecting, memory=memory, output=given.output)
        assert inputs is not None
        inputs = in_order(inputs, translator)
        model_lines = protected_lines(lines, given) if given.protect else lines
        as_json = given.format == "jsonl"
        if memory is None:
            return given.answer(model_lines, inputs, as_json=as_json)
        from heedful.tasks.translation.remembering import RememberedLines

        remembered = RememberedLines(model_lines, memory, accelerators=given.protect)
        return given.answer(remembered, inputs, as_json=as_json)


def _check(given: Arguments, documents: Sequence[Path]) -> None:
    filled.require_known(given, documents)
    for name, path in {"prefixes": given.prefixes, "factors": given.factors}.items():
        if path == STANDARD_INPUT and not given.text and given.input in (None, STANDARD_INPUT):
            raise RecipeError(f"--{name}: standard input cannot hold the sentences too; name a file with --input")
    if given.prefix is not None and given.prefixes is not None:
        raise RecipeError("--prefix and --prefixes: give one of them")
    if given.align and given.format != "jsonl":
        raise RecipeError("--align: only JSON has room for alignments; add --format jsonl")
    require_least(given, n_best=1, batch_tokens=1, mbr=1, workers=1)
    if given.workers is not None and not given.ray:
        raise RecipeError("--workers: are processes of Ray; name files with --ray, or leave it out")
    _check_terms(given)
    if given.protect or documents:
        _check_protected(given, "--protect" if not documents else str(documents[0]))
    if given.remembering.memory:
        _check_remembered(given, documents)
    if documents:
        filled.check(given, documents)
        return
    given.filling.require_none(memory=bool(given.remembering.memory))


def _check_terms(given: Arguments) -> None:
    """What translations must hold, and what is drawn."""
    if given.input_format == "jsonl" and given.text:
        raise RecipeError("--input-format: sentences on the command line are text; leave it out, or give --input")
    if "" in given.constrain:
        raise RecipeError("--constrain: a term is empty; leave it out")
    if given.annotate != "nothing" and given.factors is not None:
        raise RecipeError("--factors: terms beside their sources have no labels; leave it out, or --annotate")
    if given.annotate != "nothing" and given.glossary is None:
        raise RecipeError(f"--annotate {given.annotate}: needs terms; name their file with --glossary")
    forced = forces_terms(given)
    if given.mbr is not None and (given.constrain or forced or given.input_format == "jsonl"):
        raise RecipeError("--mbr: samples hold no terms that they must; leave it out, or the constraints")
    if given.mbr is not None and given.mbr < given.n_best:
        raise RecipeError(f"--n-best: {given.n_best} of {given.mbr} samples; give at most --mbr")


def _check_remembered(given: Arguments, documents: Sequence[Path]) -> None:
    """What has no meaning where translations are taken as they are, or is read and written."""
    _refuse(given, "--memory", annotate=given.annotate != "nothing" and not documents)
    if given.output is not None and given.output.exists():
        for path in given.remembering.memory:
            if path.exists() and given.output.samefile(path):
                raise RecipeError(f"--output: {path} is read as well; choose another file")


def _check_protected(given: Arguments, place: str) -> None:
    """What has no meaning where translations are put together."""
    _refuse(given, place, replace_unknown=given.replace_unknown)


def _refuse(given: Arguments, place: str, **others: bool) -> None:
    """`RecipeError` where something is asked of translations that are not the model's alone, or one of `others`."""
    several = {"n_best": given.n_best > 1, "align": given.align}
    begun = {"prefix": given.prefix is not None, "prefixes": given.prefixes is not None}
    held = {"constrain": bool(given.constrain), "input_format": given.input_format == "jsonl"}
    told = {**several, **others, **begun, **held, "factors": given.factors is not None}
    for name, is_given in told.items():
        if is_given:
            raise RecipeError(f"--{name.replace('_', '-')}: cannot be together with {place}; leave one of them away")


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
