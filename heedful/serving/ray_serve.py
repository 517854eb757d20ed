"""Serve on several machines with autoscaled replicas of Ray Serve."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

from heedful.errors import HeedfulError, MissingExtraError, RecipeError, RunError
from heedful.ray_cluster import connect_to_ray
from heedful.serving.app import ServerApp, mount_routes
from heedful.serving.http_errors import headers_too_large
from heedful.serving.load_models import load_into, warm_up_models
from heedful.serving.ray_proxy import CALLBACK, build_middlewares
from heedful.serving.registry import ModelRegistry
from heedful.serving.request_log import log_event, use_server_logging
from heedful.serving.routes import error_response
from heedful.serving.settings import ServerSettings, load_settings
from heedful.serving.tracing import build_request_tracer

_NAME: Final = "heedful"
"""Name of the application on the cluster."""
_RAY_LOGGING: Final = {"enable_access_log": False}
"""Logging options of Ray; each replica logs its requests itself if the settings say so."""
_FLUSH_SECONDS: Final = 2.0
"""Seconds in which a replica that ends may send its last spans."""


@final
class Replica:
    """ASGI application of one Ray Serve replica, which loads its models at the lifespan startup event.

    Args:
        settings: of the server.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._registry = ModelRegistry(settings, {}, {})
        self._app = ServerApp(self._registry)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle an ASGI event: the start or end of the server, or a request, which is rejected if its headers exceed
        the limits.
        """
        if scope["type"] == "lifespan":
            with use_server_logging(self._registry.settings):
                await self._handle_lifespan(receive, send)
        elif self._has_excess_headers(scope["headers"]):
            await error_response(headers_too_large(self._registry.settings.limits))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _handle_lifespan(self, receive: Any, send: Any) -> None:
        """Handle the ASGI lifespan events: load the models at startup, and stop accepting requests at shutdown.
        `receive` gives the events, and `send` gets the answers.
        """
        assert (await receive())["type"] == "lifespan.startup"
        try:
            await asyncio.to_thread(self._load_models)
        except HeedfulError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        self._registry.state = "ending"
        if self._registry.tracer is not None:
            await asyncio.to_thread(self._registry.tracer.flush, _FLUSH_SECONDS)
        await send({"type": "lifespan.shutdown.complete"})

    def _has_excess_headers(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Return whether the headers exceed the limits; Ray speaks HTTP here, so `http_protocol` cannot check it."""
        limits = self._registry.settings.limits
        return len(headers) > limits.headers or sum(len(b"".join(header)) for header in headers) > limits.header_bytes

    def _load_models(self) -> None:
        """Load and warm up the models, mount their routes, and set the state to ready."""
        self._registry.tracer = build_request_tracer(self._registry.settings, process="replica", warn=log_event)
        load_into(self._registry, lambda _: None)
        warm_up_models(self._registry, lambda _: None)
        mount_routes(self._app, self._registry)
        self._registry.state = "ready"


def build_deployment(settings: ServerSettings) -> Any:
    """Return a Ray Serve application whose replicas serve as the settings say, to be run by `ray.serve.run`.

    Raises:
        MissingExtraError: Ray Serve is not installed.
    """
    if find_spec("ray") is None:
        raise MissingExtraError('a server of replicas needs Ray Serve, not installed here: pip install "heedful[ray]"')
    from ray import serve

    ray_settings, limits = settings.ray, settings.limits
    scaling_options: dict[str, Any] = {"num_replicas": ray_settings.replicas}
    if ray_settings.most is not None:
        scaling = {"min_replicas": ray_settings.replicas, "max_replicas": ray_settings.most}
        scaling_options = {"autoscaling_config": {**scaling, "target_ongoing_requests": ray_settings.ongoing}}
    settings_dict = settings.model_dump(mode="json")

    def build_replica() -> Replica:
        return Replica(ServerSettings.model_validate(settings_dict))

    deployment = serve.deployment(
        serve.ingress(build_replica)(),
        name=_NAME,
        ray_actor_options={"num_cpus": ray_settings.cpus, "num_gpus": ray_settings.gpus},
        max_ongoing_requests=limits.queue,
        max_queued_requests=limits.queue,
        graceful_shutdown_timeout_s=limits.drain,
        logging_config=_RAY_LOGGING,
        **scaling_options,
    )
    return deployment.bind()


def build(arguments: Mapping[str, str]) -> Any:
    """Build the application for a Ray Serve config file: `import_path: heedful.serving.ray_serve:build`, with the
    arguments `args: {config: FILE}`, which name a TOML file of settings.

    Raises:
        RecipeError: no file is named, or its content is wrong.
    """
    if set(arguments) != {"config"}:
        raise RecipeError(
            "heedful.serving.ray_serve:build takes one argument: config, the path of a TOML file of settings"
        )
    return build_deployment(load_settings(Path(arguments["config"]), [], {}))


def serve_on_ray(settings: ServerSettings, log: Callable[[str], None]) -> None:
    """Serve as the settings say on the running Ray cluster, or a new local one, until a signal arrives; `log` is called
    with the address when the server is ready.

    Raises:
        RunError: no replica could start.
        MissingExtraError: Ray Serve is not installed.
    """
    application = build_deployment(settings)
    connect_to_ray({CALLBACK: f"{build_middlewares.__module__}:{build_middlewares.__name__}"})
    import ray
    from ray import serve

    has_instance = bool(serve.status().proxies)
    if has_instance:
        log("Ray Serve runs on this cluster already; its own address and its own settings of HTTP stay")
    try:
        serve.start(http_options=_build_http_options(settings), logging_config=_RAY_LOGGING)
        serve.run(application, name=_NAME)
    except (RuntimeError, ray.exceptions.RayError) as error:
        if not has_instance:
            serve.shutdown()
        reason = str(error).strip().rpartition("\n")[2]
        raise RunError(f"Ray: no replica could start ({reason}); its dashboard or its logs say why") from None
    stop_event = threading.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):  # until here, Ray has its own handlers for them
        signal.signal(signal_number, lambda *_: stop_event.set())
    log(f"http://{settings.host}:{settings.port}\nready")
    stop_event.wait()
    serve.delete(_NAME)  # after running requests
    if not has_instance:
        serve.shutdown()
    ray.shutdown()


def _build_http_options(settings: ServerSettings) -> dict[str, Any]:
    """Build the options of Ray's HTTP proxies. They wait for an answer while a request arrives, waits for a replica and
    is answered; without a limit they would wait forever if no replica starts.
    """
    limits = settings.limits
    return {
        "host": settings.host,
        "port": settings.port,
        "keep_alive_timeout_s": max(1, round(limits.idle)),
        "request_timeout_s": limits.arrival + limits.deadline,
    }
