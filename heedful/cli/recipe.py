"""`heedful recipe`: what a key of a recipe means, and which keys there are."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import tyro

from heedful.catalogue import DEFAULT, called, tasks
from heedful.cli.arguments import MaybeText, parse
from heedful.errors import RecipeError
from heedful.recipes.reference import Key, keys_of
from heedful.recipes.synonyms import KEYS
from heedful.words import near

_WIDTH: Final = 100


@dataclass(frozen=True)
class Arguments:
    """What a key of a recipe means: its type, default and range, as in heedful recipe training.schedule.rate

    The last part of a key will do, and a table tells all its keys. Without a key all keys of a task are listed.
    """

    key: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="KEY", help_behavior_hint="")] = ""
    """dotted key, a part of one, or a table"""
    task: MaybeText = None
    """of the recipes of this task alone"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful recipe")
    if given.task is not None and given.task not in tasks():
        meant = called(given.task)
        remedy = f"did you mean {meant}?" if meant else f"choose one of {', '.join(tasks())}"
        raise RecipeError(f"--task: {given.task!r} is no task; {remedy}")
    if not given.key:
        print("\n".join(_rows(keys_of(given.task or DEFAULT))))
        return 0
    found = _shared([given.task] if given.task else list(tasks()))
    key = given.key.removeprefix("--").replace("-", "_").replace("[", "").replace("]", "")
    print("\n\n".join(_told(_find(key, found), found, several=given.task is None)))
    return 0


def _shared(names: Sequence[str]) -> dict[Key, list[str]]:
    """Every key of some tasks, and the tasks that have it."""
    found: dict[Key, list[str]] = {}
    for task in names:
        for key in keys_of(task):
            found.setdefault(key, []).append(task)
    return found


def _find(key: str, known: Mapping[Key, object]) -> list[str]:
    """The dotted keys that somebody means by one."""
    paths = dict.fromkeys(each.path for each in known)
    matching = [path for path in paths if path == key] or [path for path in paths if f".{path}".endswith(f".{key}")]
    if not matching:
        _, names = KEYS.get(key.rpartition(".")[2], ("", ()))
        matching = [name for name in names if name in paths][:1]
    if not matching:
        lasts = [path.rpartition(".")[2] for path in paths]
        meant = near(key, paths) or near(key.rpartition(".")[2], lasts)
        remedy = f"did you mean {meant}?" if meant else "heedful recipe lists all keys"
        raise RecipeError(f"heedful recipe: {key!r} is no key of a recipe; {remedy}")
    return matching


def _told(paths: Sequence[str], known: Mapping[Key, Sequence[str]], *, several: bool) -> Iterator[str]:
    """A block for each meaning of each key; kinds of a table that have the same one share it."""
    for path in paths:
        meanings: dict[tuple[Key, tuple[str, ...]], list[str]] = {}
        for key, names in known.items():
            if key.path == path:
                plain = replace(key, chosen=(key.chosen[0], ()))
                meanings.setdefault((plain, tuple(names)), []).extend(key.chosen[1])
        for (key, names), kinds in meanings.items():
            yield "\n".join(_block(key, kinds, names if several else (), known))


def _block(key: Key, kinds: Sequence[str], names: Sequence[str], known: Mapping[Key, object]) -> Iterator[str]:
    yield key.path
    yield f"  {', '.join(filter(None, (_spelled(key.type), key.range)))}; {_unless_given(key)}"
    yield textwrap.fill(key.about, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    if kinds:
        shown = " or ".join(f'"{kind}"' for kind in dict.fromkeys(kinds))
        yield textwrap.fill(f"  where {key.chosen[0]} = {shown}", _WIDTH, subsequent_indent="    ")
    if names:
        shown = "all tasks" if len(names) == len(tasks()) else ", ".join(names)
        yield textwrap.fill(f"  in recipes of {shown}", _WIDTH, subsequent_indent="    ")
    if key.is_table:
        inside = [each for each in known if each.path.startswith(f"{key.path}.")]
        yield from (f"    {row}" for row in _rows(inside))


def _rows(found: Sequence[Key]) -> list[str]:
    """A line for each key: its type and its default."""
    lines: dict[str, Key] = {}
    for key in found:
        lines.setdefault(key.path, key)
    width = max(map(len, lines), default=0)
    return [f"{path:<{width}}  {_spelled(key.type)}; {_unless_given(key)}" for path, key in lines.items()]


def _spelled(text: str) -> str:
    return text.replace("`", "").replace("**", "")


def _unless_given(key: Key) -> str:
    default = _spelled(key.default)
    return {"must be given": default, "see meaning": "depends on others"}.get(default, f"{default} by default")
