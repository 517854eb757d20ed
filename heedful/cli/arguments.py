"""Command-line arguments as frozen dataclasses: parsing, help, and options that many commands share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from heedful.cli.option_parser import (
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
    engine: EngineName | None = None
    """engine that computes the model: floating point as trained (torch); on a CPU also large matrices in 8 bits (int8),
    the same in native code (native), or the fastest of these (auto); by default that of the recipe or of the
    weights"""
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
        from heedful.cli.help import print_help

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
