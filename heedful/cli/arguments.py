"""A command's arguments: the fields of a frozen dataclass, read by tyro."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import tyro

from heedful.cli.grammar import Behind, Ending, build, grammar
from heedful.cli.output import say
from heedful.errors import RecipeError
from heedful.recipes.options import apart, grouped
from heedful.recipes.recipe import EngineName
from heedful.words import near

Arguments = TypeVar("Arguments")
User = TypeVar("User")

_MOST_THREADS: Final = 1024
"""Each has a stack of its own; a process cannot begin any number of them, and PyTorch ends it where it cannot."""
_CONFIG: Final = (tyro.conf.OmitArgPrefixes,)

PositionalPath: TypeAlias = Annotated[Path, tyro.conf.Positional]
PositionalPaths: TypeAlias = Annotated[tuple[Path, ...], tyro.conf.Positional]


def maybe(metavar: str) -> Any:
    """Marks what need not be given: None has its meaning told in words, so the help neither offers nor repeats it."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


MaybePath: TypeAlias = Annotated[Path | None, maybe("PATH")]
MaybeOutput: TypeAlias = Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="PATH", help_behavior_hint="")]
MaybePage: TypeAlias = Annotated[Path | None, maybe("PATH"), Ending((".html", ".htm"))]
MaybeFigure: TypeAlias = Annotated[Path | None, maybe("PATH"), Ending((".svg", ".pdf", ".png"))]
MaybeText: TypeAlias = Annotated[str | None, maybe("TEXT")]
TextBehind: TypeAlias = Annotated[str | None, maybe("TEXT"), Behind()]
TextsBehind: TypeAlias = Annotated[tuple[str, ...], Behind()]
"""What may also stand behind the positional arguments, without the option."""
MaybeInt: TypeAlias = Annotated[int | None, maybe("INT")]
MaybeFloat: TypeAlias = Annotated[float | None, maybe("FLOAT")]


@dataclass(frozen=True, kw_only=True)
class Computing:
    """Where, and with how many threads."""

    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""
    engine: Annotated[EngineName | None, maybe("{torch,int8,native,auto}")] = None
    """what computes: fp32 as trained; on a CPU large matrices in 8 bits, or these in native code; or what is faster"""
    adapter: MaybePath = None
    """folder of an adapter that is put on the model: a run with training.adapter, or one of PEFT"""

    def __post_init__(self) -> None:
        require_least(self, threads=1)
        if self.threads is not None and self.threads > _MOST_THREADS:
            raise RecipeError(f"--threads: {self.threads}; must be at most {_MOST_THREADS}")

    def begin(self) -> None:
        """Has everything from now on computed so."""
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)

    @property
    def how(self) -> dict[str, Any]:
        """What `load` is to be told of it."""
        return {"device": self.device, "engine": self.engine, "say": say, "adapter": self.adapter}

    def load(
        self, kind: type[User], *folders: Path, use: str, task: str | None = None, step: int | None = None
    ) -> User:
        """Begins, and gives the trained model; see `load_as`."""
        from heedful.runs.load import load_as

        self.begin()
        return load_as(kind, *folders, use=use, task=task, step=step, **self.how)


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
    if _asks_for_help(words):
        tyro.cli(cls, args=["--help"], prog=program, config=_CONFIG)
    given = grammar(cls).read(words, program=program)
    for option in given.renamed:
        say(f"{option.formerly} is called {option.shown} now; the next version will not know the old name")
    found: Arguments = build(cls, given)
    return found


def parse_apart(cls: type[Arguments], words: Sequence[str], *, program: str) -> tuple[Arguments, list[str]]:
    """`parse`, and the options that are no fields of `cls`: what `load_recipe` takes as overrides.

    Each comes with the word behind it unless that begins with `--`. They are set apart before tyro sees the rest, so
    that the value of an unknown option is never mistaken for a positional argument.
    """
    if _asks_for_help(words):
        parse(cls, ["--help"], program=program)
    known = grammar(cls)
    names = [name[2:] for name in known.spellings]

    def others(option: str) -> bool:
        if known.find(f"--{option}") is not None:
            return False
        if "." not in option and near(option, names, cutoff=0.8):
            raise RecipeError(f"{program}: --{option} is no option; {known.remedy(option, program=program)}")
        return True

    own, overrides = apart(words, others=others)
    _require_single(overrides)
    return parse(cls, own, program=program), overrides


def _require_single(overrides: Sequence[str]) -> None:
    """Refuse a key that is set twice; in Python a later override may change an earlier one."""
    seen = set()
    for group in grouped(overrides):
        name = group[0].partition("=")[0]
        key = name.replace("_", "-")
        if key in seen:
            raise RecipeError(f"{name}: is given twice; give it once")
        seen.add(key)


def _asks_for_help(words: Sequence[str]) -> bool:
    before = words[: words.index("--")] if "--" in words else words
    return "--help" in before or "-h" in before
