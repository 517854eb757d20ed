"""Check that names on pages exist: commands, options, keys of recipes, files and names of the package."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from heedful.__main__ import main
from heedful.cli.commands import COMMANDS
from heedful.recipes.config import Config
from heedful.recipes.config import get_key_types as section_keys
from heedful.recipes.reference import list_keys
from heedful.registry import list_tasks
from heedful.serving.settings import ServerSettings

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"(recipes|studies|examples|benchmarks|tests|docs)/[\w./-]*")
NAME = re.compile(r"heedful(\.[a-zA-Z_]\w*)+")
KEY = re.compile(r'((?:[a-z_]+\.)*[a-z_]+) = (?:"([\w-]+)"|.+)')
DOTTED = re.compile(r"(model|training|data|tokenizer|generation|looking)(\.[a-z_]+)+")
OWN_OPTIONS = ("quickstart", "study", "train", "describe", "compare", "sweep")
"""Commands with options that their own --help does not list: options of a task or study, and keys of recipes."""


@cache
def collect_keys() -> Mapping[str, set[str]]:
    """Return the possible values of each recipe key, over all tasks."""
    found: dict[str, set[str]] = {}
    for task in list_tasks():
        for key in list_keys(task):
            found.setdefault(key.path, set()).update(re.findall(r'"([^"]+)"', key.type), key.selector[1])
    return found


@cache
def collect_server_keys() -> set[str]:
    """Return the keys of a server's settings, which are options of `heedful serve`."""

    def iter_section_keys(section: type[Config], above: str = "") -> Iterator[str]:
        for name, key_type in section_keys(section).items():
            yield f"{above}{name}"
            for inner in key_type.config_classes:
                yield from iter_section_keys(inner, f"{above}{name}.")

    return set(iter_section_keys(ServerSettings))


@cache
def get_help(command: str) -> str:
    """Return what --help of a command prints; without a command, the general help."""
    if not command:
        return "\n".join(map(get_help, COMMANDS))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main([command, "--help"])
    return printed.getvalue()


def is_option(word: str, command: str = "") -> bool:
    """Return whether a command, or any command, has an option with this name, or it is a key of a recipe."""
    listed = re.search(rf"{re.escape(word)}(?![\w-])", get_help(command)) is not None
    key = word.removeprefix("--").replace("-", "_")
    return (
        listed
        or (command in ("", *OWN_OPTIONS) and is_key(key))
        or (command in ("", "serve") and key in collect_server_keys())
    )


def is_command(words: str) -> bool:
    """Return whether heedful has this command with these options."""
    command, *rest = words.split()[1:] or ["--help"]
    given = [word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)]
    if command.startswith("-") or command.isupper():
        return True
    return command in COMMANDS and (
        command in ("quickstart", "study") or all(option == "--help" or is_option(option, command) for option in given)
    )


def is_key(path: str, word: str | None = None) -> bool:
    """Return whether a recipe has this key, which may have this value; the last parts of the key are enough."""
    own = re.sub(r"^tasks\.[\w-]+\.", "tasks.NAME.", path)
    found = [known for known in collect_keys() if known == own or known.endswith(f".{own}")]
    return bool(found) and (word is None or any(word in collect_keys()[known] for known in found))


def is_name(name: str) -> bool:
    """Return whether this is a module, a name of a module, or an attribute of such a name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
