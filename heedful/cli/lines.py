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
    Computing,
    MaybeInt,
    MaybeOutput,
    MaybePath,
    MaybeText,
    PositionalPath,
    TextsBehind,
    User,
)
from heedful.cli.file_names import require_text_name
from heedful.cli.output import destination, say
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.faces import Face, Lines

STANDARD_INPUT: Final = Path("-")
"""How a command line calls it."""

Input = TypeVar("Input")
AnyFace = TypeVar("AnyFace", bound="Face")


@dataclass(frozen=True, kw_only=True)
class LineOptions:
    """Where lines come from, and where answers go."""

    input: MaybePath = None
    """file with a text on each line, plain or gzipped; standard input if not given, or if it is -"""
    output: MaybeOutput = None
    """file for the results; standard output if not given"""

    inline: ClassVar[str] = "text"
    """The option that may be given instead of a file."""
    files: ClassVar[Sequence[str]] = ("input",)
    """The options whose files are read."""

    def __post_init__(self) -> None:
        if self.input is not None and getattr(self, self.inline, None) not in (None, ()):
            raise RecipeError(f"--{self.inline} and --input: give one of them, or neither to read standard input")
        read = [path for name in self.files if (path := getattr(self, name)) is not None and path.exists()]
        if self.output is not None and self.output.exists() and any(map(self.output.samefile, read)):
            raise RecipeError(f"--output: {self.output} is read as well; choose another file")
        if self.output is not None:
            self.require_output(self.output)

    def require_output(self, output: Path) -> None:
        """Refuse a file whose name says that it holds no lines; commands that write other files override this."""
        require_text_name(output, option="--output")

    @property
    def place(self) -> str:
        """What messages call the place where lines come from."""
        return "standard input" if self.input in (None, STANDARD_INPUT) else str(self.input)

    @property
    def typed(self) -> bool:
        """Whether somebody types the lines, and waits for an answer to each."""
        return is_typed(self.input) and getattr(self, self.inline, None) in (None, ())

    def read(self) -> Iterator[str]:
        """The lines of the file, which is looked for at once, or of standard input."""
        return read_or_typed(self.input)

    def answer(self, lines: Lines[Input, Any], inputs: Iterable[Input], *, as_json: bool) -> int:
        """`answer`, to where the options say, and one at a time where somebody types; the exit code."""
        return answer(lines, inputs, output=self.output, as_json=as_json, chunk=1 if self.typed else None)


@dataclass(frozen=True, kw_only=True)
class FileOptions(LineOptions):
    """The same, where a model answers."""

    computing: Computing = field(default_factory=Computing)


@dataclass(frozen=True, kw_only=True)
class RunOptions(FileOptions):
    """The same, for one run."""

    run: PositionalPath
    """run folder"""
    task: MaybeText = None
    """of runs with several tasks: which one; not needed where one alone will do"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""

    def load(self, kind: type[User], *, use: str) -> User:
        """The trained model; see `load_as`."""
        return self.computing.load(kind, self.run, use=use, task=self.task, step=self.step)


@dataclass(frozen=True, kw_only=True)
class TextOptions(RunOptions):
    """The same, where texts may stand on the command line."""

    text: TextsBehind = ()
    """texts instead of a file; they may also stand behind the run, without the option"""

    def read(self) -> Iterator[str]:
        """What was given, wherever it stands."""
        return iter(self.text) if self.text else super().read()

    def serve(self, kind: type[AnyFace], *, use: str, as_json: bool, **options: Any) -> int:
        """Has texts answered by a trained model of this kind, which does `use`; `options` are fields of its lines.

        Returns the exit code.
        """
        texts = self.read()  # a file that is missing shows before a model is loaded
        lines = replace(self.load(kind, use=use).lines(), **options)  # type: ignore[type-var]  # all are dataclasses
        return self.answer(lines, lines.inputs(texts, name=self.place), as_json=as_json)


def is_typed(path: Path | None) -> bool:
    """Whether lines come from a terminal."""
    return path in (None, STANDARD_INPUT) and sys.stdin.isatty()


def read_or_typed(path: Path | None) -> Iterator[str]:
    """The lines of a file, or of standard input; whoever is to type them is told so."""
    from heedful.data.readers import read_lines

    if is_typed(path):
        say("each line is answered once it is typed; Ctrl-D on an empty line ends")
    return read_lines(path or sys.stdin.buffer)


def answer(
    lines: Lines[Input, Any],
    inputs: Iterable[Input],
    *,
    output: Path | None = None,
    as_json: bool,
    chunk: int | None = None,
) -> int:
    """Writes what a model says of each input, for people or `as_json`; to standard output unless a file is given.

    So many inputs are answered together as `chunk` says, or else `lines`. An input that cannot be read gets an empty
    line, or its error as JSON, and is told of on standard error; in the end, what was not read as it is given is told
    too. Returns the exit code, which is 2 where an input could not be read.
    """
    from heedful.tasks.faces import Unread, chunked

    first = 1
    unread, notes = 0, Counter[str]()
    with destination(output) as out:
        for part in chunked(inputs, chunk or lines.chunk):
            for each in lines.answers(part, first=first):
                if isinstance(each, Unread):
                    unread += 1
                    say(f"heedful: {each.message}")
                    out.write(json.dumps({"error": each.message}, ensure_ascii=False) + "\n" if as_json else "\n")
                    continue
                notes.update(lines.notes(each))
                record = json.dumps(lines.record(each), ensure_ascii=False) + "\n" if as_json else lines.text(each)
                out.write(record)
            out.flush()
            first += len(part)
    tell(notes, of=first - 1)
    return 2 if unread else 0


def tell(notes: Counter[str], *, of: int) -> None:
    """Says how many inputs were read otherwise than given, and how (`Lines.notes`)."""
    for note, count in notes.items():
        say(f"{count:,} of {of:,} texts: {note}")
