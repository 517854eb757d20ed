"""What is served, where, and within which limits: a TOML file, and options that change it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from heedful.errors import RecipeError
from heedful.files import LARGEST_RECIPE, parse_toml, read_text
from heedful.recipes import toml, toml_errors
from heedful.recipes.config import Config, InputPath, PositiveInt
from heedful.recipes.error_messages import describe_errors
from heedful.recipes.overrides import merge_overrides, parse_overrides, resolve_paths
from heedful.recipes.recipe import EngineName

PositiveSeconds = Annotated[float, Field(gt=0)]
ShortName = Annotated[str, Field(min_length=1, max_length=200)]


def _split_names(value: Any) -> Any:
    """A text is a list of names with commas between them, as one is written on a command line."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


NameList = Annotated[tuple[ShortName, ...], Field(strict=False), BeforeValidator(_split_names)]


class ModelSettings(Config):
    """One model, and what computes it."""

    run: InputPath
    """run folder, or a folder of Hugging Face"""
    task: ShortName | None = None
    """of runs with several tasks: which one"""
    engine: EngineName | None = None
    """what computes, as --engine of other commands"""
    adapter: InputPath | None = None
    """what is put on the model, as --adapter"""
    source_language: ShortName | None = None
    """of a translation model whose recipe does not say it: what it reads, as `en`"""
    target_language: ShortName | None = None
    """likewise, what it writes"""


class IndexSettings(Config):
    """An index of passages."""

    folder: InputPath
    """that `heedful index` has written"""


class ServerLimits(Config):
    """How much is done for anybody."""

    body: PositiveInt = 2_000_000
    """bytes of a request"""
    file: PositiveInt = 20_000_000
    """bytes of a file that is to be translated or looked at"""
    bodies: PositiveInt = 2**28
    """bytes of the bodies of all requests, while they arrive and are answered; one of up to 64 kB does not count"""
    decoding: PositiveInt = 2**30
    """bytes of memory in which pictures, sounds, clips and files are decoded at one time, for all requests together"""
    characters: PositiveInt = 20_000
    """of all texts of a request"""
    batch: PositiveInt = 256
    """texts of a request"""
    alternatives: Annotated[int, Field(ge=0)] = 10
    """answers to a text, besides the best"""
    tokens: PositiveInt = 2_048
    """that are written for a text"""
    header_bytes: PositiveInt = 32_768
    """of all headers"""
    headers: PositiveInt = 100
    """of a request"""
    connections: PositiveInt = 1_000
    """that are open at one time"""
    connections_per_address: PositiveInt = 400
    """of these, from one address that is no proxy"""
    queue: PositiveInt = 512
    """requests that wait for a model, or are being answered by it"""
    rows: PositiveInt = 64
    """texts that a model answers at one time"""
    deadline: PositiveSeconds = 60.0
    """seconds for an answer; a request may ask for less"""
    arrival: PositiveSeconds = 20.0
    """seconds in which a request must have arrived"""
    idle: PositiveSeconds = 15.0
    """seconds that a connection without a request stays open"""
    drain: PositiveSeconds = 30.0
    """seconds in which what is under way is finished when the server ends"""
    rate: Annotated[int, Field(ge=0)] = 0
    """requests a minute of one key, or of one address where there are no keys; 0 is any number"""


class AccessSettings(Config):
    """Who may ask."""

    keys: InputPath | None = None
    """file of API keys, as `heedful serve --new-key` writes it; without one, everybody may ask"""
    hosts: NameList = ()
    """names by which the server may be asked for, as in translate.example.org; without any, its own address, and what
    this machine calls itself"""
    origins: NameList = ()
    """pages that may ask from a browser (CORS), as in https://example.org; * is all"""
    proxies: NameList = ()
    """addresses and networks of proxies, as in 10.0.0.1 or 10.0.0.0/8, that are believed who asks through them
    (X-Forwarded-For) and how (X-Forwarded-Proto)"""

    @field_validator("proxies")
    @classmethod
    def _check_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for network in proxies:
            try:
                ipaddress.ip_network(network)
            except ValueError:
                raise ValueError(f"{network!r} is no address or network; write it as 10.0.0.1 or 10.0.0.0/8") from None
        return proxies


class RaySettings(Config):
    """Replicas of Ray Serve (`heedful serve --ray`)."""

    replicas: PositiveInt = 1
    """that there are; with `most`, the fewest"""
    most: PositiveInt | None = None
    """that there may be; how many there are goes by how much is asked"""
    ongoing: PositiveInt = 32
    """requests for each replica that are aimed at, where their number changes"""
    cpus: Annotated[float, Field(gt=0)] = 1.0
    """of a replica"""
    gpus: Annotated[float, Field(ge=0)] = 0.0
    """of a replica"""

    @field_validator("most")
    @classmethod
    def _check_max_replicas(cls, max_replicas: int | None, info: ValidationInfo) -> int | None:
        if max_replicas is not None and max_replicas < info.data.get("replicas", 1):
            raise ValueError("must be at least ray.replicas")
        return max_replicas


class ServerSettings(Config):
    """All of it."""

    models: dict[ShortName, ModelSettings] = Field(default_factory=dict)
    """what is served, by the names under which it is asked for"""
    indices: dict[ShortName, IndexSettings] = Field(default_factory=dict)
    """indices of passages, likewise"""
    host: ShortName = "127.0.0.1"
    """address on which the server listens; 0.0.0.0 is every one"""
    port: Annotated[int, Field(ge=0, le=65_535)] = 5000
    """0 takes a free one"""
    device: ShortName | None = None
    """where to compute (cpu, cuda, cuda:1); a GPU where there is one"""
    threads: PositiveInt | None = None
    """CPU threads, of each process that computes"""
    processes: Annotated[int, Field(ge=0)] | None = None
    """that compute beside the one that speaks HTTP, each with all models and threads of its own; with 0 that one
    computes itself. Unless given, two on a CPU of several cores, and else none"""
    page: bool = True
    """show the page at /"""
    log: Literal["text", "json", "none"] = "text"
    """a line for each request, on standard error"""
    log_texts: bool = False
    """tell in the log what was asked, which may be private"""
    limits: ServerLimits = ServerLimits()
    """how much is done for anybody"""
    access: AccessSettings = AccessSettings()
    """who may ask"""
    ray: RaySettings = RaySettings()
    """on how many machines, with --ray"""


def load_settings(path: Path | None, overrides: Sequence[str], model_options: Mapping[str, Any]) -> ServerSettings:
    """The settings of a TOML file, if there is one, with models that were `model_options` and what the command line says.

    Raises:
        RecipeError: what is wrong, a sentence each.
    """
    source = "command line" if path is None else str(path)
    file_settings = {} if path is None else resolve_paths(_read_toml(path), ServerSettings, path.parent)
    for name, value in model_options.items():
        file_settings[name] = {**file_settings.get(name, {}), **value}
    changes = parse_overrides(overrides)
    merged = merge_overrides(file_settings, changes, ServerSettings)
    try:
        return ServerSettings.model_validate(merged)
    except ValidationError as error:
        flags = [".".join(change.path) for change in changes]
        raise RecipeError(
            "\n".join(describe_errors(error, root=ServerSettings, content=merged, source=source, flags=flags))
        ) from None


def to_toml(settings: ServerSettings) -> str:
    """As a TOML file has them, defaults included."""
    return toml.format_document(settings.model_dump(mode="json", exclude_none=True))


def _read_toml(path: Path) -> dict[str, Any]:
    text = ""
    try:
        text = read_text(path, max_bytes=LARGEST_RECIPE).removeprefix("\ufeff")
        return parse_toml(text)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror}); give the path of a TOML file") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    except ValueError as error:
        raise RecipeError(f"{path}: is no valid TOML: {error}{toml_errors.suggest_fix(text, str(error))}") from None
