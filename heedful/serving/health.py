"""Routes about the state of the server: whether its process lives, whether it answers, and a page with details.

They answer at any time, also while models are loaded and while the server ends.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal, TypeAlias, final

from starlette.responses import JSONResponse, Response

from heedful.serving.auth import read_key
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, declare_route
from heedful.version import __version__

ModelStatus: TypeAlias = Literal["ready", "loading", "unavailable"]

_PACKAGES: Final = ("torch", "heedful-native")
"""Packages whose versions are shown, besides heedful."""
_RETRY_SECONDS: Final = 5
"""Seconds after which a client should ask again, as for all requests to a server that is not ready."""
_REFRESH_SECONDS: Final = 10
"""Seconds after which the page is loaded again."""


@final
@dataclass(frozen=True)
class ServedState:
    """State of a served model or index.

    Attributes:
        name: under which it is served.
        kind: `model` or `index`.
        state: `loading`, `ready`, or `unavailable` if no process can compute it now.
        waiting: number of requests that wait for it or are being answered.
        run_id: id of the run that trained it.
    """

    name: str
    kind: Literal["model", "index"]
    state: ModelStatus
    waiting: int = 0
    run_id: str | None = None


@final
@dataclass(frozen=True)
class ServerHealth:
    """State of a server.

    Attributes:
        status: `ok` if it answers requests, else why not: `loading`, `ending`, or `unavailable`.
        uptime_seconds: since it was started.
        models: state of each model and index.
        workers: state of each process that computes; empty if the HTTP process computes.
        versions: of heedful, Python and what computes, by name.
    """

    status: str
    uptime_seconds: float
    models: Sequence[ServedState]
    workers: Sequence[Mapping[str, Any]]
    versions: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        """Whether the server answers requests."""
        return self.status == "ok"

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {**asdict(self), "uptime_seconds": round(self.uptime_seconds, 1)}


def find_status(registry: ModelRegistry) -> str:
    """Return `ok` if the server answers requests, else why not: `loading`, `ending`, or `unavailable` if a model has no
    process that computes it.
    """
    if registry.state != "ready":
        return registry.state
    return "ok" if registry.has_ready_backends else "unavailable"


def collect_health(registry: ModelRegistry) -> ServerHealth:
    """Collect the state of a server."""
    names = [("model", name) for name in registry.settings.models]
    names += [("index", name) for name in registry.settings.indices]
    served: list[ServedState] = []
    if registry.state != "loading":
        served += [_build_served_state(model, "model") for model in [*registry.models.values()]]
        served += [_build_served_state(index, "index") for index in [*registry.indices.values()]]
    else:  # the loading thread changes what is loaded
        served += [ServedState(name, "index" if kind == "index" else "model", "loading") for kind, name in names]
    workers = [asdict(worker) for worker in registry.list_workers()]
    uptime = time.monotonic() - registry.started_at
    return ServerHealth(find_status(registry), uptime, served, workers, _list_versions())


def _build_served_state(model: LoadedModel[Any], kind: Literal["model", "index"]) -> ServedState:
    state: ModelStatus = "ready" if model.backend.is_ready else "unavailable"
    return ServedState(model.name, kind, state, model.num_waiting, model.run_id)


@cache
def _list_versions() -> Mapping[str, str]:
    """Return the versions of heedful, of Python and of the installed packages that compute."""
    versions = {"heedful": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@declare_route("/livez", "whether the process lives", method="GET", public=True, answers_always=True)
async def answer_liveness(_context: RequestContext) -> Mapping[str, Any]:
    """Answer 200 as long as the process can answer at all."""
    return {"status": "ok"}


@declare_route("/readyz", "whether models answer", method="GET", public=True, answers_always=True)
async def answer_readiness(context: RequestContext) -> Response:
    """Answer 200 if requests are answered now, otherwise 503 with the reason."""
    return _build_response({"status": find_status(context.registry)})


@declare_route(
    "/health",
    "whether models answer, with the state of each",
    method="GET",
    public=True,
    answers_always=True,
    other_media_types=(("text/html", "with `Accept: text/html`, as browsers send it: the same as a page"),),
)
async def answer_health(context: RequestContext) -> Response:
    """Answer 200 if requests are answered now, otherwise 503, with the state of models and processes. If requests need
    a key, a request without one gets the status alone.
    """
    health = collect_health(context.registry)
    if not _may_see_details(context):
        return _build_response({"status": health.status})
    if _prefers_html(context):
        headers = {"Cache-Control": "no-store"}
        return Response(
            render_health_page(health), 200 if health.is_ready else 503, media_type="text/html", headers=headers
        )
    return _build_response(health.to_json())


def _may_see_details(context: RequestContext) -> bool:
    """Return whether a request has a key, or none is needed; raise an `HTTPError` if its key is not known."""
    authenticator, request = context.registry.authenticator, context.request
    if not authenticator.requires_key:
        return True
    key = read_key(request.headers, request.scope["query_string"])
    if key is None:
        return False
    authenticator.authenticate(request.scope, key)
    return True


def _prefers_html(context: RequestContext) -> bool:
    """Return whether a request accepts HTML, and names it before JSON if it accepts both."""
    media_types = [
        part.partition(";")[0].strip() for part in context.request.headers.get("accept", "").lower().split(",")
    ]
    named = [name for name in media_types if name in ("text/html", "application/json")]
    return named[:1] == ["text/html"]


def _build_response(content: Mapping[str, Any]) -> Response:
    """Build the JSON response with a status, whose code says whether the server is ready."""
    headers = {"Cache-Control": "no-store"}
    if content["status"] == "ok":
        return JSONResponse(dict(content), headers=headers)
    return JSONResponse(dict(content), 503, headers={**headers, "Retry-After": str(_RETRY_SECONDS)})


def render_health_page(health: ServerHealth) -> str:
    """Render the state of a server as a page in HTML."""
    model_rows = [
        (model.name, model.kind, model.state, f"{model.waiting:,}", model.run_id or "-") for model in health.models
    ]
    worker_rows = [
        (
            str(worker["number"]),
            "ready" if worker["is_ready"] else "not ready",
            f"{worker['examples']:,}",
            f"{worker['restarts']:,}",
            worker["last_exit"] or "-",
        )
        for worker in health.workers
    ]
    heading = "ready" if health.is_ready else f"not ready: {health.status}"
    tables = _render_table("Models", ("name", "kind", "state", "requests", "run"), model_rows)
    if worker_rows:
        columns = ("process", "state", "texts to answer", "restarts", "last end")
        tables += _render_table("Processes that compute", columns, worker_rows)
    tables += _render_table("Versions", ("software", "version"), list(health.versions.items()))
    return "".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="refresh" content="{_REFRESH_SECONDS}">',
            f"<title>heedful: {escape(heading)}</title>",
            '<link rel="stylesheet" href="/docs/docs.css"><link rel="icon" href="/docs/icon.svg" type="image/svg+xml">',
            f"</head><body><main><h1>heedful: {escape(heading)}</h1>",
            f"<p>The server has run for {_format_duration(health.uptime_seconds)}.</p>",
            f"{tables}</main></body></html>\n",
        ]
    )


def _render_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Render a section with a table in HTML; the first cell of each row is its heading."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<section aria-label="{escape(title)}"><h2>{escape(title)}</h2>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></section>"
    )


def _format_duration(seconds: float) -> str:
    """Format seconds as days, hours and minutes, as `2 d 3 h 4 min`; below a minute as seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{count:,} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if count]
    return " ".join(parts) or f"{rest} s"
