"""`heedful serve`: trained models answer over HTTP."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

import tyro

from heedful.cli.arguments import Computing, MaybePath, MaybeText, parse_apart
from heedful.cli.output import say
from heedful.errors import MissingExtraError, RecipeError, RunError
from heedful.serving.settings import Settings, load_settings, shown

_NEEDED: Final = ("starlette", "uvicorn", "httptools", "python_multipart", "prometheus_client")
_NEW_KEY: Final = "--new-key"


@dataclass(frozen=True)
class Arguments:
    """Answer over HTTP with trained models, until Ctrl-C: a page at http://127.0.0.1:5000, and interfaces for programs.

    Any key of the settings is an option: --port 8000 --limits.queue 100 --access.keys keys.txt

    heedful serve --print-config shows all keys, as a file for --config has them.
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...", help_behavior_hint="")] = ()
    """run folders, or folders of Hugging Face, each as name=folder or called as its folder"""
    index: Annotated[tuple[str, ...], tyro.conf.arg(metavar="INDEX ...", help_behavior_hint="")] = ()
    """indices of passages, likewise"""
    config: MaybePath = None
    """TOML file with settings, models among them"""
    print_config: bool = False
    """show the complete settings and stop"""
    new_key: Annotated[MaybeText, tyro.conf.arg(metavar="[NAME]", help_behavior_hint="")] = None
    """make an API key, print it this once, add its hash to the file of --access.keys, and stop"""
    ray: bool = False
    """serve by replicas on a Ray cluster, as many as --ray.replicas and --ray.most say"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code; 0 where a signal ended the server, which is how servers end."""
    given, overrides = parse_apart(Arguments, named(arguments), program="heedful serve")
    settings = _settings(given, overrides)
    if given.print_config:
        print(shown(settings), end="")
        return 0
    if given.new_key is not None:
        _make_key(settings, given.new_key or None)
        return 0
    _check(settings)

    if given.ray:
        from heedful.serving.spread import serve_spread

        serve_spread(settings, say)
        return 0

    from heedful.serving.server import serve

    if not serve(settings, say):  # nobody waits for what is still computed
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def named(words: Sequence[str]) -> list[str]:
    """The words of a command line, where the name behind --new-key may be left out."""
    pairs = pairwise([*words, "-"])
    return [f"{word}=" if word == _NEW_KEY and behind.startswith("-") else word for word, behind in pairs]


def _settings(given: Arguments, overrides: Sequence[str]) -> Settings:
    computing = given.computing
    own = {"--device": computing.device, "--threads": computing.threads}
    options = [word for name, value in own.items() if value is not None for word in (name, str(value))]
    tables = {
        "models": {name: {"run": folder} for name, folder in _places(given.runs, "RUN")},
        "indices": {name: {"folder": folder} for name, folder in _places(given.index, "--index")},
    }
    settings = load_settings(given.config, [*overrides, *options], tables)
    how = {"engine": computing.engine, "adapter": computing.adapter}
    changed = {name: value for name, value in how.items() if value is not None}
    models = {name: model.model_copy(update=changed) for name, model in settings.models.items()}
    return settings.model_copy(update={"models": models})


def _places(words: Iterable[str], option: str) -> Iterable[tuple[str, str]]:
    """Names and folders, complete."""
    seen: set[str] = set()
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or Path(word).is_dir():
            name, folder = Path(word).resolve().name, word
        if not name or not folder:
            raise RecipeError(f"{option}: {word!r} names nothing; write name=folder, or a folder")
        if name in seen:
            raise RecipeError(f"{option}: two are called {name!r}; write other-name={folder}")
        seen.add(name)
        yield name, str(Path(folder).resolve())


def _make_key(settings: Settings, name: str | None) -> None:
    from heedful.serving.keys import add_key, line_of, new_key

    path = settings.access.keys
    if path is None:
        key = new_key()
        say("add this line to the file of --access.keys; the key itself is shown this once:")
        say(line_of(name or "key-1", key).rstrip("\n"))
    else:
        name, key = add_key(path, name)
        say(f"{name}: added to {path}; the key itself is shown this once:")
    print(key)


def _check(settings: Settings) -> None:
    """What can be told before anything is loaded."""
    if not settings.models and not settings.indices:
        raise RecipeError("heedful serve: needs a run folder; write heedful serve RUN, or name models in --config")
    for model in settings.models.values():
        if not model.run.is_dir():
            raise RunError(f"{model.run}: no such run folder; check the path")
    for index in settings.indices.values():
        if not index.folder.is_dir():
            raise RunError(f"{index.folder}: no such index; check the path")
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f'a server needs {", ".join(missing)}, not installed here: pip install "heedful[serve]"'
        )
    if settings.access.keys is None and not _is_loopback(settings.host):
        say(
            f"{settings.host}: whoever reaches this machine may ask, without a key; make some with heedful serve "
            "--access.keys keys.txt --new-key, and give --access.keys keys.txt"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
