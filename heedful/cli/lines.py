"""What all commands share that read lines and answer them: their options, and the way from one end to the other."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from heedful.cli.arguments import Computing, MaybePath, MaybeText, PositionalPath, User
from heedful.cli.output import destination, say
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.faces import Face, Lines

Input = TypeVar("Input")
AnyFace = TypeVar("AnyFace", bound="Face")


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Where lines come from, and where answers go."""

    input: MaybePath = None
    """file with a text on each line, plain or gzipped; standard input if not given"""
    output: MaybePath = None
    """file for the results; standard output if not given"""
    computing: Computing = field(default_factory=Computing)

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

    @property
    def place(self) -> str:
        """What messages call the place where lines come from."""
        return "standard input" if self.input is None else str(self.input)

    def read(self) -> Iterator[str]:
        """The lines of the file, which is looked for at once, or of standard input."""
        from heedful.data.readers import read_lines

        return read_lines(self.input or sys.stdin.buffer)


@dataclass(frozen=True, kw_only=True)
class RunOptions(FileOptions):
    """The same, for one run."""

    run: PositionalPath
    """run folder"""
    task: MaybeText = None
    """of runs with several tasks: which one; not needed where one alone will do"""

    def load(self, kind: type[User], *, use: str) -> User:
        """The trained model; see `load_as`."""
        return self.computing.load(kind, self.run, use=use, task=self.task)


@dataclass(frozen=True, kw_only=True)
class TextOptions(RunOptions):
    """The same, where texts may stand on the command line."""

    text: tuple[str, ...] = ()
    """texts instead of a file"""

    def read(self) -> Iterator[str]:
        """What was given, wherever it stands."""
        return iter(self.text) if self.text else super().read()

    def serve(self, kind: type[AnyFace], *, use: str, as_json: bool, **options: Any) -> int:
        """Has texts answered by a trained model of this kind, which does `use`; `options` are fields of its lines.

        Returns the exit code.
        """
        texts = self.read()  # a file that is missing shows before a model is loaded
        lines = replace(self.load(kind, use=use).lines(), **options)  # type: ignore[type-var]  # all are dataclasses
        return answer(lines, lines.inputs(texts, name=self.place), output=self.output, as_json=as_json)


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
