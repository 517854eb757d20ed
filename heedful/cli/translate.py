"""`heedful translate`: translate text line by line, in the same order; with `--ray` by processes of a Ray cluster."""

from __future__ import annotations

import gzip
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from heedful.cli import translate_options
from heedful.cli.arguments import (
    require_minimum,
)
from heedful.cli.line_commands import STANDARD_INPUT
from heedful.cli.output import log
from heedful.cli.translate_options import (
    TranslateOptions,
    build_protected_format,
    build_translation_format,
    check_search,
    forces_terms,
    read_input_sentences,
)
from heedful.errors import HeedfulError, MissingExtraError, RecipeError

if TYPE_CHECKING:
    from heedful.tasks.predictor import LineFormat


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
        if self.ray:
            return translate_with_ray(self)

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
    require_minimum(args, n_best=1, batch_tokens=1, mbr=1, workers=1)
    if args.workers is not None and not args.ray:
        raise RecipeError("--workers: is for Ray; give files with --ray, or leave it out")
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


_CHUNK_SIZE: Final = 2_048
"""Number of lines after which the output is saved."""


def translate_with_ray(args: TranslateOptions) -> int:
    """Translate the files of `--ray`; return the exit code, which is 2 if a file could not be translated.

    Raises:
        RecipeError: an option does not fit --ray, or two files have the same name.
        MissingExtraError: Ray is not installed.
    """
    folder = _check_ray_options(args)
    remaining = [path for path in args.ray if not (folder / path.name).exists()]
    if len(remaining) < len(args.ray):
        num_existing = len(args.ray) - len(remaining)
        log(f"{folder}: {num_existing:,} of {len(args.ray):,} files exist already; continuing with the others")
    if not remaining:
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = list(_translate_files(args, remaining))
    for outcome in outcomes:
        log(outcome["message"])
    return 2 if any(outcome["failed"] for outcome in outcomes) else 0


def _check_ray_options(args: TranslateOptions) -> Path:
    """Raise `RecipeError` if an option does not fit --ray, or a file is missing; return the output folder."""
    if args.output is None or args.output.is_file():
        raise RecipeError("--ray: writes a file for each; name a folder for them with --output")
    single_file_options = {"input": args.input, "text": args.text, "prefixes": args.prefixes, "factors": args.factors}
    if conflicting := next((name for name, value in single_file_options.items() if value), None):
        raise RecipeError(f"--{conflicting}: is for one file, but --ray names several; leave it out")
    if args.remembering.memory:
        raise RecipeError("--memory: cannot be combined with --ray; leave it out")
    names = [path.name for path in args.ray]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise RecipeError(f"--ray: two files are called {duplicate}; rename one, or translate them one after the other")
    for path in args.ray:
        if not path.is_file():
            raise RecipeError(f"--ray: {path}: no such file; check the path")
        if args.output.resolve() == path.resolve().parent:
            raise RecipeError(
                f"--output: {args.output} is the folder that {path.name} is read from; choose another folder"
            )
    if find_spec("ray") is None:
        raise MissingExtraError('--ray: needs Ray, which is not installed here: pip install "heedful[ray]"')
    return args.output


def _translate_files(args: TranslateOptions, files: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    """Translate the files with a pool of Ray actors; yield for each the message (`message`) and whether it failed
    (`failed`).
    """
    import ray

    threads = args.computing.threads or 1
    absolute_args = replace(args, output=_resolve_path(args.output), runs=tuple(path.resolve() for path in args.runs))
    if not ray.is_initialized():
        ray.init(log_to_driver=False, configure_logging=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    workers = args.workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    data = ray.data.from_items([{"path": str(path.resolve())} for path in files], override_num_blocks=len(files))
    results = data.map(
        _TranslationActor,
        fn_constructor_args=(absolute_args,),
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(files))),
        num_cpus=threads,
        num_gpus=None if args.computing.device in (None, "cpu") else 1,
    )
    yield from results.iter_rows()


def _resolve_path(path: Path | None) -> Path:
    """Return the absolute path."""
    assert path is not None
    return path.resolve()


class _TranslationActor:
    """Ray actor with a model, which translates one file after the other.

    Args:
        args: the options of the command, with absolute paths.
    """

    def __init__(self, args: TranslateOptions) -> None:
        from heedful.tasks.translation.translator import Translator

        computing = replace(args.computing, threads=args.computing.threads or 1)
        model = computing.load_predictor(Translator, *args.runs, use="translates", step=args.step)
        self._args = args
        self._translator = args.direction.apply_to(model, document=None)
        line_format = build_translation_format(self._translator, args)
        self._line_format: LineFormat[Any, Any] = (
            build_protected_format(line_format, args) if args.protect else line_format
        )

    def __call__(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Translate the file row["path"]; return a dict with a message (`message`) and whether it failed (`failed`)."""
        path = Path(row["path"])
        try:
            count, notes = self._translate_file(path)
        except HeedfulError as error:
            return {"message": f"heedful: {error}", "failed": True}
        return {"message": f"{_resolve_path(self._args.output) / path.name}: {count:,} lines{notes}", "failed": False}

    def _translate_file(self, path: Path) -> tuple[int, str]:
        """Translate one file; return the number of lines and a note about unreadable ones."""
        from heedful.tasks.predictor import UnreadableInput, iter_chunks
        from heedful.tasks.translation.translations import add_context

        folder = _resolve_path(self._args.output)
        output = _ResumableFile(folder / f".{path.name}.growing")
        inputs = add_context(
            read_input_sentences(replace(self._args, input=path, output=None, ray=())), self._translator
        )
        as_json, num_unread = self._args.format == "jsonl", 0
        with output.open() as file:
            count = output.num_lines
            for batch in iter_chunks(islice(inputs, count, None), _CHUNK_SIZE):
                texts = []
                for result in self._line_format.answer_inputs(batch, start=count + 1):
                    if isinstance(result, UnreadableInput):
                        num_unread += 1
                        texts.append(
                            json.dumps({"error": result.message}, ensure_ascii=False) + "\n" if as_json else "\n"
                        )
                    else:
                        record = self._line_format.to_json(result) if as_json else None
                        texts.append(
                            json.dumps(record, ensure_ascii=False) + "\n"
                            if as_json
                            else self._line_format.format_answer(result)
                        )
                count += len(batch)
                output.append("".join(texts), file, num_lines=count)
        output.finish(folder / path.name)
        return count, f", {num_unread:,} of which could not be read" if num_unread else ""


@dataclass
class _ResumableFile:
    """An output file that can be continued: a second file stores how many input lines it contains, in how many
    bytes.
    """

    path: Path

    def __post_init__(self) -> None:
        self._state_path = self.path.with_name(f"{self.path.name}.json")
        self.num_lines, self._num_bytes = 0, 0
        if self.path.exists() and self._state_path.exists():
            self.num_lines, self._num_bytes = json.loads(self._state_path.read_text(encoding="utf-8"))

    def open(self) -> IO[bytes]:
        """Open the file for appending after the last saved content."""
        file = self.path.open("r+b" if self._num_bytes else "wb")
        file.seek(self._num_bytes)
        file.truncate()
        return file

    def append(self, text: str, file: IO[bytes], *, num_lines: int) -> None:
        """Append text to the open file, and store that it now contains `num_lines` input lines."""
        from heedful.atomic_io import write_atomic

        content = text.encode()
        file.write(content)
        file.flush()
        self._num_bytes += len(content)
        write_atomic(self._state_path, json.dumps([num_lines, self._num_bytes]).encode())

    def finish(self, path: Path) -> None:
        """Move the file to its final name, compressed if that ends with .gz."""
        if path.suffix == ".gz":
            compressed = self.path.with_name(f"{self.path.name}.gz")
            with self.path.open("rb") as plain, gzip.GzipFile(compressed, "wb", mtime=0) as file:
                shutil.copyfileobj(plain, file)
            compressed.replace(path)
            self.path.unlink()
        else:
            self.path.replace(path)
        self._state_path.unlink(missing_ok=True)
