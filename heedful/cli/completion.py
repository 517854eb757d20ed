"""`heedful completion`: shell scripts that complete commands, options and keys."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from shlex import quote
from typing import Annotated, Final, Literal, final, get_origin

from heedful.bundled import list_recipes, list_studies
from heedful.cli import serve
from heedful.cli.commands import COMMANDS, load_arguments_class
from heedful.cli.option_parser import CommandOption, OptionParser, Positional, build_parser
from heedful.recipes.config import Config
from heedful.recipes.recipe import get_recipe_class
from heedful.recipes.reference import list_keys
from heedful.registry import list_tasks, load_object
from heedful.serving.settings import ServerSettings

_KEY_SOURCES: Final = {"train": "keys", "describe": "keys", "compare": "keys", "serve": "settings"}
"""Commands that accept the keys of recipes, or of settings, as options."""


@dataclass(frozen=True)
class CompletionArguments:
    """Print a script for command-line completion of heedful; its first lines say where to put it.

    For bash:

        cd ~/.local/share/bash-completion/completions
        heedful completion bash > heedful
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], Positional]
    """shell that runs the script"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        print(_SHELLS[self.shell].build_script(collect_command_words()), end="")
        return 0


@dataclass(frozen=True)
class CommandWords:
    """Words that may follow one command.

    Attributes:
        summary: summary of the command.
        options: its named options.
        first_words: words for its first argument; empty if that is a path or free text.
    """

    summary: str
    options: Sequence[CommandOption]
    first_words: Sequence[str]

    @property
    def option_names(self) -> list[str]:
        """All names of its options."""
        return ["--help", *(name for option in self.options for name in option.names)]

    @property
    def choices(self) -> Mapping[str, Sequence[str]]:
        """The allowed words of each option that takes one of a few."""
        return {
            name: option.value_type.choices
            for option in self.options
            if option.value_type is not None and option.value_type.choices
            for name in option.names
        }


def collect_command_words() -> dict[str, CommandWords]:
    """Return the words that may follow each command."""
    first_words: dict[str, Sequence[str]] = {
        "recipes": list(list_recipes()),
        "study": list(list_studies()),
        "quickstart": [task for task in list_tasks() if get_recipe_class(task).shown_by],
        "recipe": list_recipe_keys(),
    }
    words_by_command = {}
    for name, command in COMMANDS.items():
        options = [option for parser in _iter_parsers(name) for option in parser.options]
        choices = next((option.value_type.choices for option in options if not option.names and option.value_type), ())
        named_options = {option.names: option for option in options if option.names}
        words_by_command[name] = CommandWords(
            command.summary, list(named_options.values()), first_words.get(name, choices)
        )
    return words_by_command


def _iter_parsers(name: str) -> Iterator[OptionParser]:
    """Yield the option parser of the command `name`, or those of all its demonstrations (quickstart), or none."""
    arguments = load_arguments_class(name)
    if arguments is not None:
        yield build_parser(arguments)
    elif name == "quickstart":
        references = {task: get_recipe_class(task).shown_by for task in list_tasks()}
        yield from (
            build_parser(load_object(reference, context=f"task = {task!r}"))
            for task, reference in references.items()
            if reference
        )


@cache
def list_recipe_keys() -> tuple[str, ...]:
    """Return every key of every task's recipe that can be given as an option."""
    paths = dict.fromkeys(key.path for task in list_tasks() for key in list_keys(task) if not key.is_table)
    return tuple(sorted(path for path in paths if "NAME" not in path))


@cache
def list_settings_keys() -> tuple[str, ...]:
    """Return every key of the server settings that can be given as an option, except those that are options of the
    command itself.
    """
    own_names = {name for option in build_parser(serve.ServeArguments).options for name in option.names}
    return tuple(path for path in _iter_plain_keys("", ServerSettings) if f"--{path}" not in own_names)


def _iter_plain_keys(prefix: str, config_class: type[Config]) -> Iterator[str]:
    """Yield the dotted keys of a table and of nested tables, except tables with user-defined keys. Each begins with
    `prefix`.
    """
    for name, field in config_class.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Config):
            yield from _iter_plain_keys(f"{prefix}{name}.", annotation)
        elif get_origin(annotation) is not dict:
            yield f"{prefix}{name}"


class ShellCompletion(ABC):
    """Completion script for one shell; abstract."""

    @abstractmethod
    def build_script(self, words_by_command: Mapping[str, CommandWords]) -> str:
        """Return the completion script, which suggests the words of each command."""


def _format_key_lists() -> Iterator[str]:
    """Yield shell assignments of the recipe keys and the settings keys."""
    yield f'  keys="{" ".join(f"--{key}" for key in list_recipe_keys())}"'
    yield f'  settings="{" ".join(f"--{key}" for key in list_settings_keys())}"'


def _format_cases(words_by_command: Mapping[str, CommandWords]) -> Iterator[str]:
    """Yield the case branch of each command, in syntax that bash and zsh share."""
    for name, command_words in words_by_command.items():
        yield f"    {name})"
        key_variable = f" ${_KEY_SOURCES[name]}" if name in _KEY_SOURCES else ""
        yield f'      options="{" ".join(command_words.option_names)}{key_variable}"'
        if command_words.first_words:
            yield f'      first="{" ".join(command_words.first_words)}"'
        if command_words.choices:
            yield '      case "$before" in'
            yield from (
                f'        {option}) values="{" ".join(choices)}" ;;'
                for option, choices in command_words.choices.items()
            )
            yield "      esac"
        yield "      ;;"


@final
class _BashCompletion(ShellCompletion):
    """Completion script for bash."""

    def build_script(self, words_by_command: Mapping[str, CommandWords]) -> str:
        """Return a function that suggests the words of each command in COMPREPLY; if it stays empty, readline completes
        file names.
        """
        return "\n".join(
            [
                "# Written by: heedful completion bash",
                "# Keep it as ~/.local/share/bash-completion/completions/heedful, or source it in ~/.bashrc.",
                "_heedful() {",
                "  local current before command options first values keys settings",
                '  current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}"',
                "  COMPREPLY=()",
                '  if [ "$COMP_CWORD" -eq 1 ]; then',
                f'    COMPREPLY=($(compgen -W "{" ".join(words_by_command)} --help --version" -- "$current"))',
                "    return",
                "  fi",
                *_format_key_lists(),
                '  case "$command" in',
                *_format_cases(words_by_command),
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
class _ZshCompletion(ShellCompletion):
    """Completion script for zsh."""

    def build_script(self, words_by_command: Mapping[str, CommandWords]) -> str:
        """Return a function for zsh's completion system that suggests the words of each command."""
        summaries = " ".join(
            quote(_escape_summary(name, command_words.summary)) for name, command_words in words_by_command.items()
        )
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
                f"    commands=({summaries})",
                "    _describe command commands",
                "    return",
                "  fi",
                *_format_key_lists(),
                '  case "$command" in',
                *_format_cases(words_by_command),
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


def _escape_summary(name: str, summary: str) -> str:
    """Format a command and its summary for zsh."""
    colons = re.sub(":", r"\\:", summary)
    return f"{name}:{colons}"


@final
class _FishCompletion(ShellCompletion):
    """Completion script for fish."""

    def build_script(self, words_by_command: Mapping[str, CommandWords]) -> str:
        """Return a line for each command and each of its options, and for each key of recipes and settings."""
        lines = [
            "# Written by: heedful completion fish",
            "# Keep it as ~/.config/fish/completions/heedful.fish",
            "complete -c heedful -f -n __fish_use_subcommand -l help",
            "complete -c heedful -f -n __fish_use_subcommand -l version",
        ]
        for name, command_words in words_by_command.items():
            lines.append(f"complete -c heedful -f -n __fish_use_subcommand -a {name} -d {quote(command_words.summary)}")
            prefix = f"complete -c heedful -n '__fish_seen_subcommand_from {name}'"
            lines.append(f"{prefix} -l help")
            if command_words.first_words:
                lines.append(f"{prefix} -f -a {quote(' '.join(command_words.first_words))}")
            lines += [
                f"{prefix} {self._format_option(option, written)}"
                for option in command_words.options
                for written in option.names
            ]
        for source, key_names in (("keys", list_recipe_keys()), ("settings", list_settings_keys())):
            commands = " ".join(name for name, command_words in _KEY_SOURCES.items() if command_words == source)
            prefix = f"complete -c heedful -n '__fish_seen_subcommand_from {commands}'"
            lines += [f"{prefix} -r -l {key}" for key in key_names]
        return "\n".join((*lines, ""))

    @staticmethod
    def _format_option(option: CommandOption, option_name: str) -> str:
        """Format one name of an option for fish, with its choices if it has some, or whether its values are files."""
        name = f"-l {option_name[2:]}" if option_name.startswith("--") else f"-s {option_name[1:]}"
        if option.value_type is None:
            return name
        if option.value_type.choices:
            return f"{name} -x -a {quote(' '.join(option.value_type.choices))}"
        return f"{name} -r -F" if option.value_type.is_path else f"{name} -x"


_SHELLS: Final[Mapping[str, ShellCompletion]] = {
    "bash": _BashCompletion(),
    "zsh": _ZshCompletion(),
    "fish": _FishCompletion(),
}
