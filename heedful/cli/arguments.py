"""A command's arguments: the fields of a frozen dataclass, read by tyro."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import tyro

from heedful.errors import RecipeError
from heedful.recipes.options import apart

Arguments = TypeVar("Arguments")
User = TypeVar("User")

_WIDE: Final = 10_000
_CONFIG: Final = (tyro.conf.OmitArgPrefixes,)

PositionalPath: TypeAlias = Annotated[Path, tyro.conf.Positional]
PositionalPaths: TypeAlias = Annotated[tuple[Path, ...], tyro.conf.Positional]


def maybe(metavar: str) -> Any:
    """Marks what need not be given: None has its meaning told in words, so the help neither offers nor repeats it."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


MaybePath: TypeAlias = Annotated[Path | None, maybe("PATH")]
MaybeText: TypeAlias = Annotated[str | None, maybe("TEXT")]
MaybeInt: TypeAlias = Annotated[int | None, maybe("INT")]
MaybeFloat: TypeAlias = Annotated[float | None, maybe("FLOAT")]


@dataclass(frozen=True, kw_only=True)
class Computing:
    """Where, and with how many threads."""

    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""

    def __post_init__(self) -> None:
        require_least(self, threads=1)

    def begin(self) -> None:
        """Has everything from now on computed so."""
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)

    def load(
        self, kind: type[User], *folders: Path, use: str, task: str | None = None, step: int | None = None
    ) -> User:
        """Begins, and gives the trained model; see `load_as`."""
        from heedful.runs.load import load_as

        self.begin()
        return load_as(kind, *folders, use=use, task=task, device=self.device, step=step)


def require_least(given: Any, **least: int) -> None:
    """`RecipeError` where an option was given a smaller number."""
    for name, smallest in least.items():
        number = getattr(given, name)
        if number is not None and number < smallest:
            raise RecipeError(f"--{name.replace('_', '-')}: {number}; must be at least {smallest}")


def parse(cls: type[Arguments], words: Sequence[str], *, program: str) -> Arguments:
    """The dataclass `cls` filled from the words of a command line; its docstrings are the help.

    Raises:
        RecipeError: the words do not fit; the message is one sentence.
        SystemExit: with code 0, after `--help` was printed.
    """
    try:
        with redirect_stderr(io.StringIO()):
            return tyro.cli(cls, args=words, prog=program, config=_CONFIG)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise RecipeError(f"{program}: {_complaint(cls, words, program=program)}; see {program} --help") from None


def parse_apart(cls: type[Arguments], words: Sequence[str], *, program: str) -> tuple[Arguments, list[str]]:
    """`parse`, and the options that are no fields of `cls`: what `load_recipe` takes as overrides.

    Each comes with the word behind it unless that begins with `--`. They are set apart before tyro sees the rest, so
    that the value of an unknown option is never mistaken for a positional argument.
    """
    names = _names(cls)

    def others(option: str) -> bool:
        name = option.replace("-", "_")
        near = [] if name in names or "." in name else get_close_matches(name, names, n=1, cutoff=0.8)
        if near:
            raise RecipeError(f"{program}: --{option} is no option; did you mean --{near[0].replace('_', '-')}?")
        return name not in names

    own, overrides = apart(words, others=others)
    return parse(cls, own, program=program), overrides


def _complaint(cls: type[Any], words: Sequence[str], *, program: str) -> str:
    """What is wrong with words that tyro has refused.

    They are refused again where no terminal is, and `COLUMNS` is wide: there tyro draws no colours and breaks no lines.
    """
    said, width = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(_WIDE)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said), suppress(SystemExit):
            tyro.cli(cls, args=words, prog=program, config=_CONFIG)
    finally:
        del os.environ["COLUMNS"]
        if width is not None:
            os.environ["COLUMNS"] = width
    return _sentence(said.getvalue())


def _names(cls: type[Any]) -> set[str]:
    """What may stand behind `--` for a field of `cls`, with `_` for `-`."""
    hints = get_type_hints(cls, include_extras=True)
    names = {"help"}
    for field in fields(cls):
        names |= {field.name, f"no_{field.name}"}
        for note in getattr(hints[field.name], "__metadata__", ()):
            aliases = getattr(note, "aliases", None) or ()
            names |= {alias.lstrip("-").replace("-", "_") for alias in (*aliases, getattr(note, "name", None) or "")}
    return names - {""}


def _sentence(frame: str) -> str:
    """What tyro says in a frame, without the frame, its title and where to find help.

    Terminals that know no lines to draw with get a rule of hyphens below the title, and no sides.
    """
    said: list[list[str]] = [[]]
    for line in frame.splitlines()[1:]:
        inside = line.strip("│ ")
        if not inside.strip("╰─╯- "):
            said.append([])
        else:
            said[-1].append(inside)
    told = [" ".join(part) for part in said if part]
    kept = [part for part in told if not part.startswith(("For full helptext", "Argument helptext"))]
    return "; ".join(kept) or frame.strip()
