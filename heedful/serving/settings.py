"""Settings of the server: models, address and limits, from a TOML file and command-line options."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from heedful.errors import RecipeError
from heedful.files import LARGEST_RECIPE, parse_toml, read_text
from heedful.recipes import toml
from heedful.recipes.config import Config, InputPath, PositiveInt
from heedful.recipes.error_messages import describe_errors, suggest_fix
from heedful.recipes.overrides import merge_overrides, parse_overrides, resolve_paths
from heedful.recipes.recipe import EngineName

_ADDRESS_PATTERN: Final = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
PositiveSeconds = Annotated[float, Field(gt=0)]
ShortName = Annotated[str, Field(min_length=1, max_length=200)]


def _split_names(value: Any) -> Any:
    """Split a comma-separated text, as on a command line, into a list of names; return other values unchanged."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


NameList = Annotated[tuple[ShortName, ...], Field(strict=False), BeforeValidator(_split_names)]


class ModelSettings(Config):
    """One served model, and how it is computed."""

    run: InputPath
    """run folder, or a Hugging Face folder"""
    task: ShortName | None = None
    """name of the task, for runs with several tasks"""
    engine: EngineName | None = None
    """engine that computes, as --engine of other commands"""
    adapter: InputPath | None = None
    """adapter that is loaded onto the model, as --adapter"""
    source_language: ShortName | None = None
    """source language of a translation model whose recipe does not name it, as `en`"""
    target_language: ShortName | None = None
    """target language, likewise"""


class IndexSettings(Config):
    """One served index of passages."""

    folder: InputPath
    """folder that `heedful index` has written"""


class ServerLimits(Config):
    """Limits on what the server does for one request, one client, or all of them."""

    body: PositiveInt = 2_000_000
    """maximum bytes of a request"""
    file: PositiveInt = 20_000_000
    """maximum bytes of a file that is sent"""
    bodies: PositiveInt = 2**28
    """maximum bytes of the bodies of all requests together, until they are answered; bodies of up to 64 kB do not
    count"""
    decoding: PositiveInt = 2**30
    """maximum bytes of memory for decoding pictures, sounds, clips and files, for all requests together"""
    characters: PositiveInt = 20_000
    """maximum characters of all texts of a request"""
    batch: PositiveInt = 256
    """maximum texts of a request"""
    alternatives: Annotated[int, Field(ge=0)] = 10
    """maximum answers to a text besides the best one"""
    tokens: PositiveInt = 2_048
    """maximum tokens that are generated for a text"""
    header_bytes: PositiveInt = 32_768
    """maximum bytes of all headers"""
    headers: PositiveInt = 100
    """maximum headers of a request"""
    connections: PositiveInt = 1_000
    """maximum open connections"""
    connections_per_address: PositiveInt = 400
    """maximum open connections from one address that is not a proxy"""
    queue: PositiveInt = 512
    """maximum requests that wait for a model or are being answered by it"""
    rows: PositiveInt = 64
    """maximum texts that a model answers at the same time"""
    deadline: PositiveSeconds = 60.0
    """maximum seconds for an answer; a request may ask for less"""
    arrival: PositiveSeconds = 20.0
    """seconds in which a request must have arrived completely"""
    idle: PositiveSeconds = 15.0
    """seconds that a connection without a request stays open"""
    drain: PositiveSeconds = 30.0
    """seconds for finishing running requests when the server shuts down"""
    rate: Annotated[int, Field(ge=0)] = 0
    """maximum requests per minute of one key, or of one address if there are no keys; 0 means no limit"""


class AccessSettings(Config):
    """Who may send requests."""

    keys: InputPath | None = None
    """file of API keys, as `heedful serve --new-key` writes it; without one, no key is needed"""
    hosts: NameList = ()
    """host names of the server, as translate.example.org; the default is its own address and the name of this
    machine"""
    origins: NameList = ()
    """web origins that may send requests from a browser (CORS), as https://example.org; * allows all"""
    proxies: NameList = ()
    """addresses and networks of proxies, as 10.0.0.1 or 10.0.0.0/8, whose X-Forwarded-For and X-Forwarded-Proto headers
    are trusted"""

    @field_validator("proxies")
    @classmethod
    def _check_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        """Reject a proxy that is neither an IP address nor a network."""
        for network in proxies:
            try:
                ipaddress.ip_network(network)
            except ValueError:
                raise ValueError(
                    f"{network!r} is not an address or network; write it as 10.0.0.1 or 10.0.0.0/8"
                ) from None
        return proxies


class TracingSettings(Config):
    """OpenTelemetry traces of requests; the standard OTEL_ variables of the environment work too."""

    endpoint: ShortName | None = None
    """address of a collector that takes OTLP over HTTP, as http://127.0.0.1:4318"""

    @field_validator("endpoint")
    @classmethod
    def _check_address(cls, endpoint: str | None) -> str | None:
        """Reject an endpoint that is not a web address."""
        if endpoint is not None and not _ADDRESS_PATTERN.fullmatch(endpoint):
            raise ValueError(f"{endpoint!r} is not a web address; write it as http://127.0.0.1:4318")
        return endpoint


class RaySettings(Config):
    """Number and resources of Ray Serve replicas (`heedful serve --ray`)."""

    replicas: PositiveInt = 1
    """number of replicas; with `most`, the minimum"""
    most: PositiveInt | None = None
    """maximum number of replicas; with it, the number follows the load"""
    ongoing: PositiveInt = 32
    """target number of running requests for each replica, if their number follows the load"""
    cpus: Annotated[float, Field(gt=0)] = 1.0
    """CPU cores of each replica"""
    gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of each replica"""

    @field_validator("most")
    @classmethod
    def _check_max_replicas(cls, max_replicas: int | None, info: ValidationInfo) -> int | None:
        if max_replicas is not None and max_replicas < info.data.get("replicas", 1):
            raise ValueError("must be at least ray.replicas")
        return max_replicas


class ServerSettings(Config):
    """All settings of the server."""

    models: dict[ShortName, ModelSettings] = Field(default_factory=dict)
    """models, by the names under which they are served"""
    indices: dict[ShortName, IndexSettings] = Field(default_factory=dict)
    """indices of passages, by name"""
    host: ShortName = "127.0.0.1"
    """address on which the server listens; 0.0.0.0 means every address"""
    port: Annotated[int, Field(ge=0, le=65_535)] = 5000
    """port on which the server listens; 0 takes a free one"""
    device: ShortName | None = None
    """where to compute (cpu, cuda, cuda:1); by default a GPU if there is one"""
    threads: PositiveInt | None = None
    """CPU threads of each process that computes"""
    processes: Annotated[int, Field(ge=0)] | None = None
    """worker processes that compute besides the HTTP process, each with all models and its own threads; with 0, the
    HTTP process computes. The default is two on a CPU with several cores, else 0"""
    page: bool = True
    """serve the web page at /"""
    log: Literal["text", "json", "none"] = "text"
    """format of the log, one line for each request on standard error"""
    log_texts: bool = False
    """log the contents of requests, which may be private"""
    limits: ServerLimits = ServerLimits()
    """limits of the server"""
    access: AccessSettings = AccessSettings()
    """who may send requests"""
    tracing: TracingSettings = TracingSettings()
    """OpenTelemetry traces of requests"""
    ray: RaySettings = RaySettings()
    """Ray Serve replicas, with --ray"""


def load_settings(path: Path | None, overrides: Sequence[str], model_options: Mapping[str, Any]) -> ServerSettings:
    """Load the settings from a TOML file, if a path is given, and change them by the command line: `model_options` are
    entries for its tables, as `models`, and `overrides` are arguments such as `--limits.rows 8`.

    Raises:
        RecipeError: the settings are wrong; one sentence for each mistake.
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
    """Return the settings as TOML text, defaults included."""
    return toml.format_document(settings.model_dump(mode="json", exclude_none=True))


def _read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise a `RecipeError` that names it if it cannot be read or is not valid."""
    text = ""
    try:
        text = read_text(path, max_bytes=LARGEST_RECIPE).removeprefix("\ufeff")
        return parse_toml(text)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror}); give the path of a TOML file") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    except ValueError as error:
        raise RecipeError(f"{path}: is not valid TOML: {error}{suggest_fix(text, str(error))}") from None
