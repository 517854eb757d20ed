"""The same server on many machines: in replicas of Ray Serve, whose number goes by how much is asked."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

from heedful.errors import HeedfulError, MissingExtraError, RecipeError, RunError
from heedful.serving.app import lead
from heedful.serving.guard import Guard
from heedful.serving.house import House
from heedful.serving.logs import logging_as
from heedful.serving.opening import furnish
from heedful.serving.refusal import overladen
from heedful.serving.routes import refused
from heedful.serving.settings import Settings, load_settings

_LOGGING: Final = {"enable_access_log": False}
"""Of Ray; a replica has a line for each request itself, where one is wanted."""


@final
class Replica:
    """An ASGI application that opens its house when it is told to begin, as Ray tells it.

    Args:
        settings: of the house.
    """

    def __init__(self, settings: Settings) -> None:
        self._house = House(settings, {}, {})
        self._guard = Guard(self._house)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            with logging_as(self._house.settings):
                await self._live(receive, send)
        elif self._is_large(scope["headers"]):
            await refused(overladen(self._house.settings.limits))(scope, receive, send)
        else:
            await self._guard(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "lifespan.startup"
        try:
            await asyncio.to_thread(self._open)
        except HeedfulError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        self._house.state = "ending"
        await send({"type": "lifespan.shutdown.complete"})

    def _is_large(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether there are more headers than `protocol` lets in where it speaks HTTP; here Ray does."""
        limits = self._house.settings.limits
        return len(headers) > limits.headers or sum(len(b"".join(each)) for each in headers) > limits.header_bytes

    def _open(self) -> None:
        from heedful.serving.warming import warm

        furnish(self._house, lambda _: None)
        warm(self._house, lambda _: None)
        lead(self._guard, self._house)
        self._house.state = "ready"


def deployed(settings: Settings) -> Any:
    """An application of Ray Serve, to be run by `ray.serve.run`.

    Raises:
        MissingExtraError: Ray Serve is not installed.
    """
    if find_spec("ray") is None:
        raise MissingExtraError('a server of replicas needs Ray Serve, not installed here: pip install "heedful[ray]"')
    from ray import serve

    spread, limits = settings.ray, settings.limits
    many: dict[str, Any] = {"num_replicas": spread.replicas}
    if spread.most is not None:
        scaling = {"min_replicas": spread.replicas, "max_replicas": spread.most}
        many = {"autoscaling_config": {**scaling, "target_ongoing_requests": spread.ongoing}}
    table = settings.model_dump(mode="json")

    def replica() -> Replica:
        return Replica(Settings.model_validate(table))

    made = serve.deployment(
        serve.ingress(replica)(),
        name="heedful",
        ray_actor_options={"num_cpus": spread.cpus, "num_gpus": spread.gpus},
        max_ongoing_requests=limits.queue,
        max_queued_requests=limits.queue,
        graceful_shutdown_timeout_s=limits.drain,
        logging_config=_LOGGING,
        **many,
    )
    return made.bind()


def build(arguments: Mapping[str, str]) -> Any:
    """For configurations of Ray Serve: `import_path: heedful.serving.spread:build`, with `args: {config: FILE}`.

    Raises:
        RecipeError: no file is named, or what is wrong in it.
    """
    if set(arguments) != {"config"}:
        raise RecipeError(
            "heedful.serving.spread:build takes one argument: config, the path of a TOML file of settings"
        )
    return deployed(load_settings(Path(arguments["config"]), [], {}))


def serve_spread(settings: Settings, say: Callable[[str], None]) -> None:
    """Serves on the Ray cluster that there is, or one of this machine, until a signal comes.

    Raises:
        RunError: no replica could begin.
        MissingExtraError: Ray Serve is not installed.
    """
    application = deployed(settings)
    import ray
    from ray import serve

    if not ray.is_initialized():
        ray.init(configure_logging=False, log_to_driver=False)
    idle = max(1, round(settings.limits.idle))
    http = {"host": settings.host, "port": settings.port, "keep_alive_timeout_s": idle}
    serve.start(http_options=http, logging_config=_LOGGING)
    try:
        serve.run(application, name="heedful")
    except RuntimeError as error:
        raise RunError(f"Ray: no replica could begin ({error}); its dashboard, or its logs, tell why") from None
    ended = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):  # of which Ray has handlers of its own until here
        signal.signal(each, lambda *_: ended.set())
    say(f"http://{settings.host}:{settings.port}\nready")
    ended.wait()
    serve.shutdown()
    ray.shutdown()
