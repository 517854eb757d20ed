"""What all commands share that read lines and answer them: their options, and the way from one end to the other."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from heedful.cli.arguments import (
    DeviceOptions,
    OptionalInt,
    OptionalOutput,
    OptionalPath,
    OptionalText,
    PositionalPath,
    PredictorT,
    TextsOrPositionals,
)
from heedful.cli.file_names import require_text_suffix
from heedful.cli.output import log, open_output
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.predictor import LineFormat, Predictor

STANDARD_INPUT: Final = Path("-")
"""How a command line calls it."""

InputT = TypeVar("InputT")
AnyPredictor = TypeVar("AnyPredictor", bound="Predictor")


@dataclass(frozen=True, kw_only=True)
class LineOptions:
    """Where lines come from, and where answers go."""

    input: OptionalPath = None
    """file with a text on each line, plain or gzipped; standard input if not given, or if it is -"""
    output: OptionalOutput = None
    """file for the results; standard output if not given"""

    inline_option: ClassVar[str] = "text"
    """The option that may be given instead of a file."""
    file_options: ClassVar[Sequence[str]] = ("input",)
    """The options whose files are read."""

    def __post_init__(self) -> None:
        if self.input is not None and getattr(self, self.inline_option, None) not in (None, ()):
            raise RecipeError(
                f"--{self.inline_option} and --input: give one of them, or neither to read standard input"
            )
        read_paths = [path for name in self.file_options if (path := getattr(self, name)) is not None and path.exists()]
        if self.output is not None and self.output.exists() and any(map(self.output.samefile, read_paths)):
            raise RecipeError(f"--output: {self.output} is read as well; choose another file")
        if self.output is not None:
            self.require_output(self.output)

    def require_output(self, output: Path) -> None:
        """Refuse a file whose name says that it holds no lines; commands that write other files override this."""
        require_text_suffix(output, option="--output")

    @property
    def input_name(self) -> str:
        """What messages call the place where lines come from."""
        return "standard input" if self.input in (None, STANDARD_INPUT) else str(self.input)

    @property
    def is_interactive(self) -> bool:
        """Whether somebody types the lines, and waits for an answer to each."""
        return is_interactive(self.input) and getattr(self, self.inline_option, None) in (None, ())

    def read_lines(self) -> Iterator[str]:
        """The lines of the file, which is looked for at once, or of standard input."""
        return open_lines(self.input)

    def write_answers(self, line_format: LineFormat[InputT, Any], inputs: Iterable[InputT], *, as_json: bool) -> int:
        """`write_answers`, to where the options say, and one at a time where somebody types; the exit code."""
        return write_answers(
            line_format, inputs, output=self.output, as_json=as_json, chunk=1 if self.is_interactive else None
        )


@dataclass(frozen=True, kw_only=True)
class ModelLineOptions(LineOptions):
    """The same, where a model answers."""

    computing: DeviceOptions = field(default_factory=DeviceOptions)


@dataclass(frozen=True, kw_only=True)
class RunLineOptions(ModelLineOptions):
    """The same, for one run."""

    run: PositionalPath
    """run folder"""
    task: OptionalText = None
    """of runs with several tasks: which one; not needed where one alone will do"""
    step: OptionalInt = None
    """a kept checkpoint instead of the finished model"""

    def load_predictor(self, predictor_type: type[PredictorT], *, use: str) -> PredictorT:
        """The trained model; see `load_predictor`."""
        return self.computing.load_predictor(predictor_type, self.run, use=use, task=self.task, step=self.step)


@dataclass(frozen=True, kw_only=True)
class TextLineOptions(RunLineOptions):
    """The same, where texts may stand on the command line."""

    text: TextsOrPositionals = ()
    """texts instead of a file; they may also stand behind the run, without the option"""

    def read_lines(self) -> Iterator[str]:
        """What was given, wherever it stands."""
        return iter(self.text) if self.text else super().read_lines()

    def predict_texts(
        self, predictor_type: type[AnyPredictor], *, use: str, as_json: bool, **line_format_fields: Any
    ) -> int:
        """Has texts answered by a trained model of this kind, which does `use`; `line_format_fields` are fields of its lines.

        Returns the exit code.
        """
        texts = self.read_lines()  # a file that is missing shows before a model is loaded
        line_format = replace(self.load_predictor(predictor_type, use=use).line_format(), **line_format_fields)  # type: ignore[type-var]  # all are dataclasses
        return self.write_answers(
            line_format, line_format.parse_lines(texts, source_name=self.input_name), as_json=as_json
        )


def is_interactive(path: Path | None) -> bool:
    """Whether lines come from a terminal."""
    return path in (None, STANDARD_INPUT) and sys.stdin.isatty()


def open_lines(path: Path | None) -> Iterator[str]:
    """The lines of a file, or of standard input; whoever is to type them is told so."""
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
    """Writes what a model says of each input, for people or `as_json`; to standard output unless a file is given.

    So many inputs are answered together as `chunk` says, or else `line_format`. An input that cannot be read gets an empty
    line, or its error as JSON, and is told of on standard error; in the end, what was not read as it is given is told
    too. Returns the exit code, which is 2 where an input could not be read.
    """
    from heedful.tasks.predictor import UnreadableInput, iter_chunks

    start = 1
    num_unread, notes = 0, Counter[str]()
    with open_output(output) as out:
        for batch in iter_chunks(inputs, chunk or line_format.chunk_size):
            for result in line_format.answer_inputs(batch, start=start):
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
            out.flush()
            start += len(batch)
    log_notes(notes, total=start - 1)
    return 2 if num_unread else 0


def log_notes(notes: Counter[str], *, total: int) -> None:
    """Says how many inputs were read otherwise than given, and how (`LineFormat.input_notes`)."""
    for note, count in notes.items():
        log(f"{count:,} of {total:,} texts: {note}")
