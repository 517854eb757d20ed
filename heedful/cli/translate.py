"""`heedful translate`: translate text line by line, in the same order; with `--ray` by processes of a Ray cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from heedful.cli import translate_options
from heedful.cli.arguments import require_minimum
from heedful.cli.line_commands import STANDARD_INPUT
from heedful.cli.translate_options import (
    TranslateOptions,
    build_protected_format,
    build_translation_format,
    check_search,
    forces_terms,
    read_input_sentences,
)
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class TranslateArguments(TranslateOptions):
    """Translate sentences, one per line, or fill a localization file; with one model or an ensemble of several.

    For example:

        heedful translate RUN --input new.en -o new.de
        heedful translate RUN file.po -o file.de.po
    """

    def execute(self) -> int:
        """Run the command; return the exit code."""
        document_files = translate_options.find_documents(self)
        _check_arguments(self, document_files)
        run_folders = [path for path in self.runs if path not in document_files]

        from heedful.runs.device import tune_malloc
        from heedful.tasks.translation.translations import add_context
        from heedful.tasks.translation.translator import Translator

        tune_malloc()
        check_search(self, run_folders)
        document = self.filling.read_document(document_files[0]) if document_files else None
        inputs = None if document else read_input_sentences(self)
        self.require_outputs()
        memory = self.remembering.read_memory(self.filling.get_languages(document, to=self.direction.to))
        predictor = self.computing.load_predictor(Translator, *run_folders, use="translates", step=self.step)
        translator = self.direction.apply_to(predictor, document=document)
        with _show_progress(enabled=not self.is_interactive) as tick:
            line_format = build_translation_format(translator, self, on_progress=tick)
            if document is not None:
                protector = build_protected_format(line_format, self).translator
                return self.filling.fill_document(document, protector, memory=memory, output=self.output)
            assert inputs is not None
            inputs = add_context(inputs, translator)
            model_lines = build_protected_format(line_format, self) if self.protect else line_format
            as_json = self.format == "jsonl"
            if memory is None:
                return self.write_answers(model_lines, inputs, as_json=as_json)
            from heedful.tasks.translation.memory_lookup import MemoryLineFormat

            memory_format = MemoryLineFormat(model_lines, memory, accelerators=self.protect)
            return self.write_answers(memory_format, inputs, as_json=as_json)

    def check_file_set(self) -> None:
        """Raise an error, before Ray starts, if the run does not exist or an option does not fit the run or --ray."""
        if self.remembering.memory:
            raise RecipeError("--memory: cannot be combined with --ray; leave it out")
        _check_arguments(self, [])
        check_search(self, self.runs)
        if self.glossary is not None:
            from heedful.tasks.translation.glossary import TermGlossary

            TermGlossary.from_file(self.glossary)

    def list_runs(self) -> Sequence[Path]:
        """Return the folders of the models."""
        return self.runs


def _check_arguments(args: TranslateArguments, documents: Sequence[Path]) -> None:
    """Raise `RecipeError` if options do not fit together; `documents` are the localization files to fill."""
    translate_options.require_run_folders(args, documents)
    for name, path in {"prefixes": args.prefixes, "factors": args.factors}.items():
        if path == STANDARD_INPUT and not args.text and args.input in (None, STANDARD_INPUT):
            raise RecipeError(f"--{name}: standard input cannot hold the sentences too; name a file with --input")
    if args.prefix is not None and args.prefixes is not None:
        raise RecipeError("--prefix and --prefixes: give one of them")
    if args.align and args.format != "jsonl":
        raise RecipeError("--align: only JSON output contains alignments; add --format jsonl")
    require_minimum(args, n_best=1, batch_tokens=1, mbr=1)
    _check_terms(args)
    if args.protect or documents:
        _check_protect(args, "--protect" if not documents else str(documents[0]))
    if args.remembering.memory:
        _check_memory(args, documents)
    if documents:
        translate_options.check_documents(args, documents)
        return
    args.filling.require_none(memory=bool(args.remembering.memory))


def _check_terms(args: TranslateArguments) -> None:
    """Raise `RecipeError` if options for terms exclude each other or lack a glossary, or if --mbr is combined with
    required terms or has fewer samples than --n-best.
    """
    if args.input_format == "jsonl" and args.text:
        raise RecipeError("--input-format: sentences on the command line are text; leave it out, or give --input")
    if "" in args.constrain:
        raise RecipeError("--constrain: a term is empty; leave it out")
    if args.annotate != "nothing" and args.factors is not None:
        raise RecipeError("--factors: annotated terms have no labels; leave out --factors or --annotate")
    if args.annotate != "nothing" and args.glossary is None:
        raise RecipeError(f"--annotate {args.annotate}: needs terms; give their file with --glossary")
    is_forced = forces_terms(args)
    if args.mbr is not None and (args.constrain or is_forced or args.input_format == "jsonl"):
        raise RecipeError("--mbr: samples cannot be forced to contain terms; leave out --mbr or the constraints")
    if args.mbr is not None and args.mbr < args.n_best:
        raise RecipeError(f"--n-best: {args.n_best} of {args.mbr} samples; give at most --mbr")


def _check_memory(args: TranslateArguments, documents: Sequence[Path]) -> None:
    """Raise `RecipeError` if an option does not fit a translation memory, or the output is one of its files;
    `documents` are the localization files to fill.
    """
    _reject_options(args, "--memory", annotate=args.annotate != "nothing" and not documents)
    if args.output is not None and args.output.exists():
        for path in args.remembering.memory:
            if path.exists() and args.output.samefile(path):
                raise RecipeError(f"--output: {path} is read as well; choose another file")


def _check_protect(args: TranslateArguments, option: str) -> None:
    """Raise `RecipeError` for options that do not fit protected text; the message names `option`, which protects it."""
    _reject_options(args, option, replace_unknown=args.replace_unknown)


def _reject_options(args: TranslateArguments, option: str, **further: bool) -> None:
    """Raise `RecipeError` if an option is given that cannot be combined with `option`, because it needs the unchanged
    output of the model. `further` says of other such options, by name, whether they are given.
    """
    list_options = {"n_best": args.n_best > 1, "align": args.align}
    prefix_options = {"prefix": args.prefix is not None, "prefixes": args.prefixes is not None}
    constraint_options = {"constrain": bool(args.constrain), "input_format": args.input_format == "jsonl"}
    is_given_by_name = {
        **list_options,
        **further,
        **prefix_options,
        **constraint_options,
        "factors": args.factors is not None,
    }
    for name, is_given in is_given_by_name.items():
        if is_given:
            raise RecipeError(f"--{name.replace('_', '-')}: cannot be combined with {option}; leave one of them out")


@contextmanager
def _show_progress(*, enabled: bool) -> Iterator[Callable[[int], None] | None]:
    """Show the number of translated sentences and the speed on standard error, if that is a terminal and progress is
    enabled. Yield a function that is called with a number of new sentences, or None.
    """
    if not enabled or not sys.stderr.isatty():
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
        start, done = time.perf_counter(), 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.update(task, completed=done, speed=f", {done / (time.perf_counter() - start):.1f}/s")

        yield advance
