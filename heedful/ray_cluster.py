"""The Ray cluster on which commands with `--ray` work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from heedful.errors import RunError

_OBJECT_STORE: Final = 2**27
"""Bytes of shared memory of a cluster that a command starts: 128 MiB. heedful sends only names and requests through
it; Ray would take 30 % of the memory."""


def connect_to_ray(environment: Mapping[str, str] | None = None) -> None:
    """Connect to the cluster that RAY_ADDRESS names or `ray start` has made on this machine, else start one with the
    processors of this machine; do nothing if this process is connected already.

    Args:
        environment: variables of the environment of all processes that Ray starts for this command.

    Raises:
        RunError: the cluster does not answer.
    """
    import ray

    if ray.is_initialized():
        return
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if environment:
        options["runtime_env"] = {"env_vars": dict(environment)}
    try:
        try:
            ray.init(address="auto", **options)
        except ConnectionError:
            if os.environ.get("RAY_ADDRESS", "local") != "local":
                raise
            ray.init(address="local", include_dashboard=False, object_store_memory=_OBJECT_STORE, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise RunError(
            f"Ray: no cluster answers ({reason}); check RAY_ADDRESS, or end the rest of it: ray stop"
        ) from None
