"""Common part of all commands that answer lines: checks, options, and the loop that reads, answers and writes."""

from __future__ import annotations

import json
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from heedful.cli.answer_file import get_current_answer_file
from heedful.cli.arguments import (
    DeviceOptions,
    OptionalOutput,
    PositionalPath,
    PredictorT,
    TextsOrPositionals,
    require_minimum,
)
from heedful.cli.option_parser import OptionInfo
from heedful.cli.option_types import require_text_suffix
from heedful.cli.output import log, open_output, require_writable
from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.inspection.record import InspectionRecord
    from heedful.recipes.recipe import Recipe
    from heedful.tasks.predictor import LineFormat, Predictor


def read_recipe_of_task(run: Path, tasks: Collection[str]) -> Recipe | None:
    """Return the recipe of a run if its task is one of `tasks`.

    Return None for another task, which loading reports, and for a Hugging Face folder, which has no recipe.

    Raises:
        RunError: there is no such run.
    """
    from heedful.foreign.folders import is_hugging_face_folder
    from heedful.runs.load import read_run_recipe

    if is_hugging_face_folder(run):
        return None
    recipe = read_run_recipe(run)
    return recipe if recipe.task in tasks else None


def check_number_of_outputs(config: Any, n_best: int, *, noun: str, alternative: str = "beam") -> None:
    """Raise `RecipeError` if several outputs are requested from greedy search. The message calls an output `noun`, and
    names a kind of search that finds several (`alternative`).

    Args:
        config: generation config with the options of the command.
        n_best: number of outputs.
        noun: what an output is, for messages.
        alternative: kind of search that finds several.
    """
    if config.kind == "greedy" and n_best > 1:
        raise RecipeError(f"--n-best {n_best}: greedy search finds one {noun}; add --search {alternative}")


def check_coverage(config: Any) -> None:
    """Raise `RecipeError` for a coverage penalty, in commands that read no text."""
    if getattr(config, "coverage", 0):
        raise RecipeError("coverage: needs attention to a source text, which only translation has; leave it out")


def require_files(names: Iterable[str | Path], *, noun: str = "file") -> None:
    """Raise `DataError` for the first name of a file that does not exist, which the message calls `noun`; empty names
    are left to the reader.
    """
    for name in names:
        if str(name).strip() and not Path(name).exists():
            raise DataError(f"{name}: there is no such {noun}; check the path")


STANDARD_INPUT: Final = Path("-")
"""Path that means standard input on a command line."""

InputT = TypeVar("InputT")
AnyPredictor = TypeVar("AnyPredictor", bound="Predictor")


@dataclass(frozen=True, kw_only=True)
class LineOptions:
    """Input of lines and output of answers."""

    input: Path | None = None
    """file with a text on each line, plain or compressed; standard input if not given or -"""
    output: OptionalOutput = None
    """file for the results; standard output if not given"""

    inline_option: ClassVar[str] = "text"
    """Name of the option that may be given instead of a file."""
    file_options: ClassVar[Sequence[str]] = ("input",)
    """Names of the options whose files are read."""

    def __post_init__(self) -> None:
        if self.input is not None and self._has_inline_texts:
            raise RecipeError(
                f"--{self.inline_option} and --input: give one of them, or neither to read standard input"
            )
        read_paths = [path for name in self.file_options if (path := getattr(self, name)) is not None and path.exists()]
        if self.output is not None and self.output.exists() and any(map(self.output.samefile, read_paths)):
            raise RecipeError(f"--output: {self.output} is read as well; choose another file")
        if self.output is not None:
            self.require_output(self.output)

    def require_output(self, output: Path) -> None:
        """Raise `RecipeError` for an output file with the suffix of another format than text; commands that write other
        files override this.
        """
        require_text_suffix(output, option="--output")

    def require_outputs(self) -> None:
        """Raise `DataError` if the output or the page, if there is one, cannot be written; call it before a model is
        loaded.
        """
        for name in ("output", "page"):
            if (path := getattr(self, name, None)) is not None:
                require_writable(path, f"--{name}")

    @property
    def input_name(self) -> str:
        """Name of the input for messages."""
        if self._has_inline_texts:
            return "command line"
        return "standard input" if self.input in (None, STANDARD_INPUT) else str(self.input)

    @property
    def is_interactive(self) -> bool:
        """Whether a user types the lines in a terminal, so that each is answered at once."""
        return is_interactive(self.input) and not self._has_inline_texts

    @property
    def _has_inline_texts(self) -> bool:
        """Whether the texts are on the command line."""
        return getattr(self, self.inline_option, None) not in (None, ())

    def read_lines(self) -> Iterator[str]:
        """Return the texts on the command line; without any, the lines of the input file, which is opened at once, or
        of standard input.
        """
        given = getattr(self, self.inline_option, None)
        return iter(map(str, given)) if isinstance(given, tuple) and given else open_lines(self.input)

    def write_answers(self, line_format: LineFormat[InputT, Any], inputs: Iterable[InputT], *, as_json: bool) -> int:
        """Answer the inputs and write the answers to the output, as lines of JSON or as the line format writes text;
        one at a time for a user who types. Return the exit code, which is 2 if an input could not be read.
        """
        return write_answers(
            line_format, inputs, output=self.output, as_json=as_json, chunk=1 if self.is_interactive else None
        )


@dataclass(frozen=True, kw_only=True)
class ModelLineOptions(LineOptions):
    """Input and output of lines, and the device of the model that answers them."""

    computing: DeviceOptions = field(default_factory=DeviceOptions)


@dataclass(frozen=True, kw_only=True)
class RunLineOptions(ModelLineOptions):
    """Input and output of lines for one run."""

    run: PositionalPath
    """run folder"""
    task: str | None = None
    """for runs with several tasks: name of the task; not needed if only one is suitable"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""

    def load_predictor(self, predictor_type: type[PredictorT], *, use: str) -> PredictorT:
        """Load the trained model if the output can be written; see `heedful.runs.load.load_predictor`. `use` says in
        errors what the model must do.
        """
        self.require_outputs()
        return self.computing.load_predictor(predictor_type, self.run, use=use, task=self.task, step=self.step)

    def answer_lines(
        self,
        line_format: LineFormat[InputT, Any],
        inputs: Iterable[InputT] | None = None,
        *,
        lines: Iterator[str] | None = None,
        **line_format_fields: Any,
    ) -> int:
        """Answer `inputs`, or those in `lines`, by default in the lines that are read, and write the answers; return
        the exit code. `line_format_fields` are changed in the line format before that.
        """
        changed: LineFormat[InputT, Any] = replace(line_format, **line_format_fields)  # type: ignore[type-var]  # all are dataclasses
        if inputs is None:
            inputs = changed.parse_lines(self.read_lines() if lines is None else lines, source_name=self.input_name)
        return self.write_answers(changed, inputs, as_json=getattr(self, "format", None) == "jsonl")


@dataclass(frozen=True, kw_only=True)
class FileSetOptions(ModelLineOptions):
    """Options of a command that also answers many files on a Ray cluster; abstract."""

    ray: Annotated[tuple[Path, ...], OptionInfo(metavar="FILE")] = ()
    """files of lines, plain or compressed, that are answered by processes of a Ray cluster, each into a file of the
    same name in the folder of --output; interrupted files are continued"""
    workers: int | None = None
    """with --ray: number of processes, each with its own model and --threads; if not given, as many as fit on the CPUs
    of the cluster"""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_minimum(self, workers=1)
        if self.workers is not None and not self.ray:
            raise RecipeError("--workers: is for Ray; give files with --ray, or leave it out")

    @abstractmethod
    def execute(self) -> int:
        """Run the command; return the exit code."""

    def check_file_set(self) -> None:
        """Raise an error, before Ray starts, if the run does not exist or an option does not fit --ray."""
        for run in self.list_runs():
            read_recipe_of_task(run, ())

    def list_runs(self) -> Sequence[Path]:
        """Return the folders of the models."""
        return (self.run,)  # type: ignore[attr-defined]  # of commands for one run


@dataclass(frozen=True, kw_only=True)
class TextLineOptions(RunLineOptions, FileSetOptions):
    """Input and output of lines for one run, with texts also on the command line."""

    text: TextsOrPositionals = ()
    """texts instead of a file; they may also follow the run, without the option"""

    def predict_texts(self, predictor_type: type[AnyPredictor], *, use: str, **line_format_fields: Any) -> int:
        """Load a trained model of a class and write its answers to the texts; return the exit code. `use` says in
        errors what the model must do; `line_format_fields` are changed in its line format.

        Args:
            predictor_type: class of the predictor.
            use: what it does, in words, for error messages.
            line_format_fields: fields of its line format.
        """
        texts = self.read_lines()  # a file that is missing shows before a model is loaded
        line_format = self.load_predictor(predictor_type, use=use).line_format()
        return self.answer_lines(line_format, lines=texts, **line_format_fields)


def is_interactive(path: Path | None) -> bool:
    """Whether lines come from a terminal."""
    return path in (None, STANDARD_INPUT) and sys.stdin.isatty()


def open_lines(path: Path | None) -> Iterator[str]:
    """Return the lines of a file, or of standard input for None or -; tell a user at a terminal how to type them."""
    from heedful.data.readers import read_lines

    if is_interactive(path):
        log("each line is answered once it is typed; Ctrl-D on an empty line ends")
    return read_lines(path or sys.stdin.buffer)


def write_answers(
    line_format: LineFormat[InputT, Any],
    inputs: Iterable[InputT],
    *,
    output: Path | None = None,
    as_json: bool,
    chunk: int | None = None,
) -> int:
    """Answer each input and write the answers as text or as JSON lines, to a file or to standard output; return the
    exit code, which is 2 if an input could not be read. `chunk` inputs are answered together, by default as many as
    `line_format` says. Inside `use_answer_file`, they are written to that file, behind those that it has.

    For an input that cannot be read, an empty line or its error as JSON is written, and the error is reported on
    standard error. At the end, notes about inputs that were changed before reading are reported.
    """
    from heedful.tasks.predictor import UnreadableInput, iter_chunks

    file = get_current_answer_file()
    num_answered, num_unread = (0, 0) if file is None else (file.num_answered, file.num_unread)
    first, notes = num_answered, Counter[str]()
    with open_output(output) if file is None else nullcontext(file) as out:
        for batch in iter_chunks(islice(inputs, num_answered, None), chunk or line_format.chunk_size):
            for result in line_format.answer_inputs(batch, start=num_answered + 1):
                if isinstance(result, UnreadableInput):
                    num_unread += 1
                    log(f"heedful: {result.message}")
                    out.write(json.dumps({"error": result.message}, ensure_ascii=False) + "\n" if as_json else "\n")
                    continue
                notes.update(line_format.input_notes(result))
                output_line = (
                    json.dumps(line_format.to_json(result), ensure_ascii=False) + "\n"
                    if as_json
                    else line_format.format_answer(result)
                )
                out.write(output_line)
            num_answered += len(batch)
            out.store(num_answered=num_answered, num_unread=num_unread)
    log_notes(notes, total=num_answered - first)
    return 2 if num_unread else 0


def write_viewer(record: InspectionRecord, page: Path) -> None:
    """Write the page of a record, and say where it is."""
    from heedful.inspection.page import write_page
    from heedful.inspection.web import render_viewer

    write_page(render_viewer(record), page)
    log(f"written: {page}")


def log_notes(notes: Counter[str], *, total: int) -> None:
    """Log how many of `total` inputs were changed before reading, and how (`LineFormat.input_notes`)."""
    for note, count in notes.items():
        log(f"{count:,} of {total:,} texts: {note}")
