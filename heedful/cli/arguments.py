"""Command-line arguments as frozen dataclasses: parsing, help, and options that many commands share."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from rich.console import Console
from rich.text import Text

from heedful.cli.option_parser import (
    CommandOption,
    FileSuffixes,
    OptionInfo,
    Positional,
    PositionalAlias,
    build_arguments,
    build_parser,
)
from heedful.cli.output import log
from heedful.english_words import closest_match
from heedful.errors import RecipeError
from heedful.recipes.config import read_field_docs
from heedful.recipes.overrides import group_options, split_options
from heedful.recipes.recipe import EngineName

ArgumentsT = TypeVar("ArgumentsT")
PredictorT = TypeVar("PredictorT")

_MAX_THREADS: Final = 1024
"""Each thread needs a stack of its own; PyTorch aborts the process when it cannot start a thread."""

PositionalPath: TypeAlias = Annotated[Path, Positional]
PositionalPaths: TypeAlias = Annotated[tuple[Path, ...], Positional]
OutputPath: TypeAlias = Annotated[Path, OptionInfo(["-o"])]
OptionalPath: TypeAlias = Path | None
OptionalOutput: TypeAlias = Annotated[Path | None, OptionInfo(["-o"])]
OptionalPage: TypeAlias = Annotated[Path | None, FileSuffixes((".html", ".htm"))]
OptionalFigure: TypeAlias = Annotated[Path | None, FileSuffixes((".svg", ".pdf", ".png"))]
OptionalText: TypeAlias = str | None
TextOrPositional: TypeAlias = Annotated[str | None, PositionalAlias()]
TextsOrPositionals: TypeAlias = Annotated[tuple[str, ...], PositionalAlias()]
"""Type of options whose values may also follow the positional arguments, without the option."""
OptionalInt: TypeAlias = int | None
OptionalFloat: TypeAlias = float | None


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Device, CPU threads, engine and adapter."""

    device: OptionalText = None
    """device to compute on (cpu, cuda, cuda:1); a GPU if there is one"""
    threads: OptionalInt = None
    """number of CPU threads; PyTorch's own choice if not given"""
    engine: Annotated[EngineName | None, OptionInfo(metavar="ENGINE")] = None
    """engine that computes the model: floating point as trained (torch), with large matrices in bf16 (torch-bfloat16),
    or either with steps recorded for a GPU (torch-graphs, torch-graphs-bfloat16); on a CPU also large matrices in 8
    bits (int8), the same in native code (native), native code without 8 bits (native-float32, native-bfloat16), or the
    fastest on this machine (auto); by default that of the recipe or of the weights"""
    adapter: OptionalPath = None
    """folder of an adapter to attach to the model: a run with training.adapter, or a PEFT folder"""

    def __post_init__(self) -> None:
        require_minimum(self, threads=1)
        if self.threads is not None and self.threads > _MAX_THREADS:
            raise RecipeError(f"--threads: {self.threads}; must be at most {_MAX_THREADS}")

    def set_num_threads(self) -> None:
        """Set the number of CPU threads of PyTorch, if it was given."""
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)

    @property
    def load_kwargs(self) -> dict[str, Any]:
        """Keyword arguments for `heedful.load`."""
        return {"device": self.device, "engine": self.engine, "say": log, "adapter": self.adapter}

    def load_predictor(
        self,
        predictor_type: type[PredictorT],
        *folders: Path,
        use: str,
        task: str | None = None,
        step: int | None = None,
    ) -> PredictorT:
        """Set the number of threads and load the trained model, or an ensemble of several folders; see
        `heedful.runs.load.load_predictor`. `use` says in errors what the model must do; `task` chooses one of several
        tasks, and `step` a kept checkpoint.
        """
        from heedful.runs.load import load_predictor

        self.set_num_threads()
        return load_predictor(predictor_type, *folders, use=use, task=task, step=step, **self.load_kwargs)


def require_minimum(options: Any, **minimums: int) -> None:
    """Raise `RecipeError` if a field of `options` has a number below its minimum; None is allowed."""
    for name, minimum in minimums.items():
        number = getattr(options, name)
        if number is not None and number < minimum:
            raise RecipeError(f"--{name.replace('_', '-')}: {number}; must be at least {minimum}")


def parse_arguments(cls: type[ArgumentsT], argv: Sequence[str], *, program: str) -> ArgumentsT:
    """Parse the words of a command line into the dataclass `cls`; its docstrings are the help. `program` is the command
    in messages.

    Raises:
        RecipeError: the words do not fit; the message is one sentence.
        SystemExit: with code 0, after `--help` was printed.
    """
    if _is_help_requested(argv):
        print_help(cls, program=program)
        raise SystemExit(0)
    parsed = build_parser(cls).parse(argv, program=program)
    for option in parsed.renamed_options:
        log(f"{option.former_name} is now called {option.display_name}; the next version will not accept the old name")
    arguments: ArgumentsT = build_arguments(cls, parsed)
    return arguments


def parse_script_arguments(cls: type[ArgumentsT], script: str) -> ArgumentsT:
    """Parse the command line of a script, which is a file and no command of heedful; a mistake ends the process."""
    try:
        return parse_arguments(cls, sys.argv[1:], program=Path(script).name)
    except RecipeError as error:
        raise SystemExit(str(error)) from None


def parse_known_arguments(cls: type[ArgumentsT], argv: Sequence[str], *, program: str) -> tuple[ArgumentsT, list[str]]:
    """Parse the words of a command line like `parse_arguments`, and return the options that are not fields of `cls`,
    for `load_recipe`. Each of these is followed by the next word unless that begins with `--`; they are separated
    first, so that their values are never taken for positional arguments.
    """
    if _is_help_requested(argv):
        parse_arguments(cls, ["--help"], program=program)
    parser = build_parser(cls)
    option_names = [name[2:] for name in parser.options_by_name]

    def is_foreign(option: str) -> bool:
        """Whether an option is a key of the recipe; raise `RecipeError` if it resembles an option of the command."""
        if parser.find_option(f"--{option}") is not None:
            return False
        if "." not in option and closest_match(option, option_names, cutoff=0.8):
            raise RecipeError(
                f"{program}: --{option} is not an option; {parser.suggest_option(option, program=program)}"
            )
        return True

    own_words, overrides = split_options(argv, is_foreign=is_foreign)
    _reject_duplicates(overrides)
    return parse_arguments(cls, own_words, program=program), overrides


def _reject_duplicates(overrides: Sequence[str]) -> None:
    """Raise `RecipeError` if a key is set twice in the words `overrides`; in Python, a later override may change an
    earlier one.
    """
    seen_keys = set()
    for group in group_options(overrides):
        name = group[0].partition("=")[0]
        key = name.replace("_", "-")
        if key in seen_keys:
            raise RecipeError(f"{name}: is given twice; give it once")
        seen_keys.add(key)


def _is_help_requested(argv: Sequence[str]) -> bool:
    """Whether the words before `--` ask for the help."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    return "--help" in options or "-h" in options


_MAX_WIDTH: Final = 100
_INDENT: Final = 24
"""Column at which the meaning of an option begins."""
_EXAMPLE_INDENT: Final = " " * 4
"""How the lines of an example begin in a docstring."""


def print_help(cls: type[Any], *, program: str) -> None:
    """Print the help of the command `program`, whose options are the fields of `cls`; in colours on a terminal."""
    console = Console(highlight=False, soft_wrap=True)
    for line in _iter_lines(cls, program=program, width=min(console.width, _MAX_WIDTH)):
        console.print(line)


def _iter_lines(cls: type[Any], *, program: str, width: int) -> Iterator[Text]:
    """Yield the lines of a command's help: usage, docstring of `cls`, arguments, options, and the options of nested
    dataclasses.
    """
    parser = build_parser(cls)
    yield Text(f"usage: {parser.format_usage(f'{program} [OPTIONS]')}")
    for paragraph in inspect.cleandoc(cls.__doc__ or "").split("\n\n"):
        yield Text()
        yield from _format_paragraph(paragraph, width=width)
    if parser.positionals:
        yield from _iter_group("Arguments", parser.positionals, width=width)
    named_options = [option for option in parser.options if option.names]
    yield from _iter_group("Options", [option for option in named_options if option.group is cls], width=width)
    yield from _format_option("-h, --help", "", "show this help and exit", width=width)
    for group in dict.fromkeys(option.group for option in named_options if option.group is not cls):
        title = " ".join(inspect.cleandoc(group.__doc__ or "").split()).rstrip(".")
        yield from _iter_group(title, [option for option in named_options if option.group is group], width=width)


def _format_paragraph(paragraph: str, *, width: int) -> Iterator[Text]:
    """Yield the lines of a paragraph of a docstring, filled to `width`; the lines of an indented example stay."""
    lines = paragraph.split("\n")
    if all(line.startswith(_EXAMPLE_INDENT) for line in lines):
        yield from (Text(f"  {line.removeprefix(_EXAMPLE_INDENT)}") for line in lines)
    else:
        yield Text(textwrap.fill(" ".join(paragraph.split()), width, break_on_hyphens=False))


def _iter_group(title: str, options: Sequence[CommandOption], *, width: int) -> Iterator[Text]:
    """Yield the title of some options, and the lines of each with its default."""
    yield Text()
    yield Text(textwrap.fill(f"{title}:", width), style="bold")
    for option in options:
        docs = _describe_fields(option.group)
        repeated = " ..." if option.max_words is None else ""
        if not option.names:
            yield from _format_option(option.display_name + repeated, "", docs.get(option.key, ""), width=width)
            continue
        names = ", ".join(sorted(option.names, key=lambda name: name.startswith("--")))
        metavar = " ".join([option.metavar] * max(option.min_words, 1)) + repeated
        yield from _format_option(names, metavar, docs.get(option.key, "") + _format_default(option), width=width)


def _format_option(names: str, metavar: str, meaning: str, *, width: int) -> Iterator[Text]:
    """Yield the lines of one option: its names and the word for its value (`metavar`), and beside or below them its
    meaning. Lines have at most `width` columns.
    """
    head = Text(f"  {names} ", style="cyan").append(metavar, style="default")
    lines = textwrap.wrap(" ".join(meaning.split()), width - _INDENT, break_on_hyphens=False)
    if lines and len(head) < _INDENT:
        head.pad_right(_INDENT - len(head))
        head.append(lines.pop(0), style="default")
    head.rstrip()
    yield head
    yield from (Text(" " * _INDENT + line) for line in lines)


def _format_default(option: CommandOption) -> str:
    """Format the default of an option; nothing for one that is off, empty or explained by the option's meaning."""
    if option.required:
        return " (required)"
    if option.value_type is None or option.default in (None, (), "", MISSING):
        return " (default: on)" if option.default is True else ""
    values = option.default if isinstance(option.default, tuple) else (option.default,)
    return f" (default: {' '.join(map(str, values))})"


def _describe_fields(cls: type[Any]) -> Mapping[str, str]:
    """Return the docstring of each field of a class, its base classes included.

    A field that was made by code has a function that returns its docstring as `describe` in its metadata.
    """
    docs = {name: text for base in reversed(cls.__mro__) for name, text in read_field_docs(base).items()}
    return docs | {entry.name: entry.metadata["describe"]() for entry in fields(cls) if "describe" in entry.metadata}
