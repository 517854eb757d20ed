"""`heedful completion`: a script with which a shell completes commands, options and keys."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from shlex import quote
from typing import Annotated, Final, Literal, final, get_origin

import tyro

from heedful.catalogue import find, recipe_of, tasks
from heedful.cli import serve
from heedful.cli.arguments import parse
from heedful.cli.commands import COMMANDS
from heedful.cli.grammar import Grammar, Option, grammar
from heedful.recipes.reference import keys_of
from heedful.recipes.section import Section
from heedful.serving.settings import Settings
from heedful.shelf import recipes, studies

_KEYED: Final = {"train": "keys", "describe": "keys", "compare": "keys", "serve": "settings"}
"""Commands that take the keys of recipes, or of settings, as options."""


@dataclass(frozen=True)
class Arguments:
    """Print a script that teaches a shell what may stand behind heedful; its first lines say where it belongs.

    bash: heedful completion bash > ~/.local/share/bash-completion/completions/heedful
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]
    """which shell"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful completion")
    print(_SHELLS[given.shell].script(known()), end="")
    return 0


@dataclass(frozen=True)
class Words:
    """What may stand behind one command.

    Attributes:
        about: what it does.
        options: all of them, those with a name alone.
        first: what may stand first; empty where that is a path or the user's own.
    """

    about: str
    options: Sequence[Option]
    first: Sequence[str]

    @property
    def names(self) -> list[str]:
        """Every option as it is written."""
        return ["--help", *(name for option in self.options for name in option.names)]

    @property
    def choices(self) -> Mapping[str, Sequence[str]]:
        """What may stand behind an option that takes one of a few words."""
        return {
            name: option.value.choices
            for option in self.options
            if option.value is not None and option.value.choices
            for name in option.names
        }


def known() -> dict[str, Words]:
    """What may stand behind each command."""
    first: dict[str, Sequence[str]] = {
        "recipes": list(recipes()),
        "study": list(studies()),
        "quickstart": [task for task in tasks() if recipe_of(task).shown_by],
        "recipe": keys(),
    }
    found = {}
    for name, command in COMMANDS.items():
        options = [option for each in _grammars(name, command.module) for option in each.options]
        chosen = next((option.value.choices for option in options if not option.names and option.value), ())
        named = {option.names: option for option in options if option.names}
        found[name] = Words(command.about, list(named.values()), first.get(name, chosen))
    return found


def _grammars(name: str, module: str) -> Iterator[Grammar]:
    """The options of a command, or those of all that it may show."""
    arguments = getattr(import_module(module), "Arguments", None)
    if arguments is not None:
        yield grammar(arguments)
    elif name == "quickstart":
        places = {task: recipe_of(task).shown_by for task in tasks()}
        yield from (grammar(find(place, about=f"task = {task!r}")) for task, place in places.items() if place)


@cache
def keys() -> tuple[str, ...]:
    """Every key of every task's recipe that can be given as it is."""
    found = dict.fromkeys(key.path for task in tasks() for key in keys_of(task) if not key.is_table)
    return tuple(sorted(path for path in found if "NAME" not in path))


@cache
def settings() -> tuple[str, ...]:
    """Every key of a server's settings that can be given as it is, but for those that are options in any case."""
    own = {name for option in grammar(serve.Arguments).options for name in option.names}
    return tuple(path for path in _plain("", Settings) if f"--{path}" not in own)


def _plain(above: str, section: type[Section]) -> Iterator[str]:
    """The keys of a table and of those in it, but for tables whose keys are the user's own."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _plain(f"{above}{name}.", kind)
        elif get_origin(kind) is not dict:
            yield f"{above}{name}"


class Shell(ABC):
    """Abstract: each shell has its own language."""

    @abstractmethod
    def script(self, words: Mapping[str, Words]) -> str:
        """What it has to read."""


def _lists() -> Iterator[str]:
    """Keys by the names that `_KEYED` has for them, likewise."""
    yield f'  keys="{" ".join(f"--{key}" for key in keys())}"'
    yield f'  settings="{" ".join(f"--{key}" for key in settings())}"'


def _cases(words: Mapping[str, Words]) -> Iterator[str]:
    """Assignments for each command, in words that bash and zsh share."""
    for name, each in words.items():
        yield f"    {name})"
        keyed = f" ${_KEYED[name]}" if name in _KEYED else ""
        yield f'      options="{" ".join(each.names)}{keyed}"'
        if each.first:
            yield f'      first="{" ".join(each.first)}"'
        if each.choices:
            yield '      case "$before" in'
            yield from (f'        {option}) values="{" ".join(few)}" ;;' for option, few in each.choices.items())
            yield "      esac"
        yield "      ;;"


@final
class _Bash(Shell):
    def script(self, words: Mapping[str, Words]) -> str:
        """A function that sets COMPREPLY; what it leaves empty readline completes with files."""
        return "\n".join(
            [
                "# Written by: heedful completion bash",
                "# Keep it as ~/.local/share/bash-completion/completions/heedful, or source it in ~/.bashrc.",
                "_heedful() {",
                "  local current before command options first values keys settings",
                '  current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}"',
                "  COMPREPLY=()",
                '  if [ "$COMP_CWORD" -eq 1 ]; then',
                f'    COMPREPLY=($(compgen -W "{" ".join(words)} --help --version" -- "$current"))',
                "    return",
                "  fi",
                *_lists(),
                '  case "$command" in',
                *_cases(words),
                "  esac",
                '  if [ -n "$values" ]; then',
                '    COMPREPLY=($(compgen -W "$values" -- "$current"))',
                '  elif [[ "$current" == -* ]]; then',
                '    COMPREPLY=($(compgen -W "$options" -- "$current"))',
                '  elif [ "$COMP_CWORD" -eq 2 ] && [ -n "$first" ]; then',
                '    COMPREPLY=($(compgen -W "$first" -- "$current"))',
                "  fi",
                "}",
                "complete -o default -F _heedful heedful",
                "",
            ]
        )


@final
class _Zsh(Shell):
    def script(self, words: Mapping[str, Words]) -> str:
        """A function of zsh's own completion system."""
        return "\n".join(
            [
                "#compdef heedful",
                "# Written by: heedful completion zsh",
                "# Keep it as _heedful in a folder of $fpath, or source it in ~/.zshrc behind compinit.",
                "_heedful() {",
                "  local current before command options first values keys settings",
                '  current="${words[CURRENT]}" before="${words[CURRENT-1]}" command="${words[2]}"',
                "  if (( CURRENT == 2 )); then",
                "    local -a commands",
                f"    commands=({' '.join(quote(_described(name, each.about)) for name, each in words.items())})",
                "    _describe command commands",
                "    return",
                "  fi",
                *_lists(),
                '  case "$command" in',
                *_cases(words),
                "  esac",
                '  if [[ -n "$values" ]]; then',
                "    compadd -- ${=values}",
                '  elif [[ "$current" == -* ]]; then',
                "    compadd -- ${=options}",
                '  elif (( CURRENT == 3 )) && [[ -n "$first" ]]; then',
                "    compadd -- ${=first}",
                "  else",
                "    _files",
                "  fi",
                "}",
                'if [ "$funcstack[1]" = "_heedful" ]; then',
                "  _heedful",
                "else",
                "  compdef _heedful heedful",
                "fi",
                "",
            ]
        )


def _described(name: str, about: str) -> str:
    colons = re.sub(":", r"\\:", about)
    return f"{name}:{colons}"


@final
class _Fish(Shell):
    def script(self, words: Mapping[str, Words]) -> str:
        """A line for each command and each option."""
        lines = [
            "# Written by: heedful completion fish",
            "# Keep it as ~/.config/fish/completions/heedful.fish",
            "complete -c heedful -f -n __fish_use_subcommand -l help",
            "complete -c heedful -f -n __fish_use_subcommand -l version",
        ]
        for name, each in words.items():
            lines.append(f"complete -c heedful -f -n __fish_use_subcommand -a {name} -d {quote(each.about)}")
            within = f"complete -c heedful -n '__fish_seen_subcommand_from {name}'"
            lines.append(f"{within} -l help")
            if each.first:
                lines.append(f"{within} -f -a {quote(' '.join(each.first))}")
            lines += [
                f"{within} {self._option(option, written)}" for option in each.options for written in option.names
            ]
        for named, found in (("keys", keys()), ("settings", settings())):
            commands = " ".join(name for name, each in _KEYED.items() if each == named)
            within = f"complete -c heedful -n '__fish_seen_subcommand_from {commands}'"
            lines += [f"{within} -r -l {key}" for key in found]
        return "\n".join((*lines, ""))

    @staticmethod
    def _option(option: Option, written: str) -> str:
        name = f"-l {written[2:]}" if written.startswith("--") else f"-s {written[1:]}"
        if option.value is None:
            return name
        if option.value.choices:
            return f"{name} -x -a {quote(' '.join(option.value.choices))}"
        return f"{name} -r -F" if option.value.is_path else f"{name} -x"


_SHELLS: Final[Mapping[str, Shell]] = {"bash": _Bash(), "zsh": _Zsh(), "fish": _Fish()}
