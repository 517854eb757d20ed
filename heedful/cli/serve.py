"""`heedful serve`: serve trained models over HTTP."""

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

from heedful.cli.arguments import DeviceOptions, parse_known_arguments
from heedful.cli.option_parser import OptionInfo, Positional
from heedful.cli.output import log
from heedful.errors import MissingExtraError, RecipeError, RunError
from heedful.serving.settings import ServerSettings, load_settings, to_toml

_REQUIRED_PACKAGES: Final = ("starlette", "uvicorn", "httptools", "python_multipart", "prometheus_client")
_NEW_KEY: Final = "--new-key"


@dataclass(frozen=True)
class ServeArguments:
    """Serve trained models over HTTP until Ctrl-C: a page at http://127.0.0.1:5000, and APIs for programs.

    Any key of the settings is an option:

        heedful serve RUN --port 8000 --limits.queue 100 --access.keys keys.txt

    heedful serve --print-config shows all keys, in the format of a file for --config.
    """

    runs: Annotated[tuple[str, ...], Positional] = ()
    """run folders, or Hugging Face folders, each as name=folder or named after its folder"""
    index: Annotated[tuple[str, ...], OptionInfo(metavar="INDEX")] = ()
    """folders of passage indices, named likewise"""
    config: Path | None = None
    """TOML file with settings, including models"""
    print_config: bool = False
    """show the complete settings and exit"""
    new_key: Annotated[str | None, OptionInfo(metavar="[NAME]")] = None
    """make an API key, print it once, add its hash to the file of --access.keys, and exit"""
    ray: bool = False
    """serve with replicas on a Ray cluster, as many as --ray.replicas and --ray.most allow"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)


def run_serve(argv: Sequence[str]) -> int:
    """Run `heedful serve`, which serves models over HTTP, and return its exit code; 0 if a signal ended it, which is
    how servers end.
    """
    args, overrides = parse_known_arguments(ServeArguments, complete_new_key(argv), program="heedful serve")
    settings = _build_settings(args, overrides)
    if args.print_config:
        print(to_toml(settings), end="")
        return 0
    if args.new_key is not None:
        _make_key(settings, args.new_key or None)
        return 0
    _check_settings(settings)

    if args.ray:
        from heedful.serving.ray_serve import serve_on_ray

        serve_on_ray(settings, log)
        return 0

    from heedful.serving.server import run_server

    if not run_server(settings, log):  # no client waits for the computations that still run
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def complete_new_key(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line with `--new-key=` where its name was left out."""
    pairs = pairwise([*argv, "-"])
    return [f"{word}=" if word == _NEW_KEY and next_word.startswith("-") else word for word, next_word in pairs]


def _build_settings(args: ServeArguments, overrides: Sequence[str]) -> ServerSettings:
    """Build the settings from the file, the folders, and the options; `overrides` are those that set keys of the
    settings.
    """
    device_options = args.computing
    device_words = {"--device": device_options.device, "--threads": device_options.threads}
    options = [word for name, value in device_words.items() if value is not None for word in (name, str(value))]
    tables = {
        "models": {name: {"run": folder} for name, folder in _parse_folders(args.runs, "RUN")},
        "indices": {name: {"folder": folder} for name, folder in _parse_folders(args.index, "--index")},
    }
    settings = load_settings(args.config, [*overrides, *options], tables)
    model_options = {"engine": device_options.engine, "adapter": device_options.adapter}
    given_options = {name: value for name, value in model_options.items() if value is not None}
    models = {name: model.model_copy(update=given_options) for name, model in settings.models.items()}
    return settings.model_copy(update={"models": models})


def _parse_folders(words: Iterable[str], option: str) -> Iterable[tuple[str, str]]:
    """Yield names and absolute folders from words such as name=folder, or folder alone; `RecipeError`, which names the
    option, if a word has no name or folder, or two have the same name.
    """
    names: set[str] = set()
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or Path(word).is_dir():
            name, folder = Path(word).resolve().name, word
        if not name or not folder:
            raise RecipeError(f"{option}: {word!r} has no name or no folder; write name=folder, or a folder")
        if name in names:
            raise RecipeError(f"{option}: two are called {name!r}; write other-name={folder}")
        names.add(name)
        yield name, str(Path(folder).resolve())


def _make_key(settings: ServerSettings, name: str | None) -> None:
    """Make an API key, store its hash under the name (None chooses one) in the file of the settings, and print the key
    once. Without a file, print the line for one too.
    """
    from heedful.serving.auth import add_key, format_key_line, generate_key

    path = settings.access.keys
    if path is None:
        key = generate_key()
        log("add this line to the file of --access.keys; the key itself is shown only once:")
        log(format_key_line(name or "key-1", key).rstrip("\n"))
    else:
        name, key = add_key(path, name)
        log(f"{name}: added to {path}; the key itself is shown only once:")
    print(key)


def _check_settings(settings: ServerSettings) -> None:
    """Raise an error, before anything is loaded, for settings without models, or with missing folders or packages; warn
    if others can use the server without a key.
    """
    if not settings.models and not settings.indices:
        raise RecipeError("heedful serve: needs a run folder; write heedful serve RUN, or name models in --config")
    for model in settings.models.values():
        if not model.run.is_dir():
            raise RunError(f"{model.run}: no such run folder; check the path")
    for index in settings.indices.values():
        if not index.folder.is_dir():
            raise RunError(f"{index.folder}: no such index; check the path")
    missing_packages = [name for name in _REQUIRED_PACKAGES if find_spec(name) is None]
    if missing_packages:
        raise MissingExtraError(
            f'a server needs {", ".join(missing_packages)}, not installed here: pip install "heedful[serve]"'
        )
    if settings.access.keys is None and not _is_loopback(settings.host):
        log(
            f"{settings.host}: everyone who can reach this machine can use the server without a key; make keys with "
            "heedful serve --access.keys keys.txt --new-key, and give --access.keys keys.txt"
        )


def _is_loopback(host: str) -> bool:
    """Whether a host is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
