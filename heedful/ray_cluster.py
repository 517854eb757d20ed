"""The Ray cluster on which commands with `--ray` work."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Final

from heedful.errors import RunError

_OBJECT_STORE: Final = 2**27
"""Bytes of shared memory of a cluster that a command starts: 128 MiB. heedful sends only names and requests through
it; Ray would take 30 % of the memory."""

_CONNECT_SECONDS: Final = 10.0
"""Seconds for which a cluster is waited for."""


def connect_to_ray(environment: Mapping[str, str] | None = None) -> None:
    """Connect to the cluster that RAY_ADDRESS names or `ray start` has made on this machine, else start one with the
    processors of this machine; do nothing if this process is connected already.

    Args:
        environment: variables of the environment of all processes that Ray starts for this command.

    Raises:
        RunError: the cluster does not answer.
    """
    _check_address(os.environ.get("RAY_ADDRESS", ""))
    os.environ.setdefault("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", str(_OBJECT_STORE))  # Ray reads it when imported
    import ray

    if ray.is_initialized():
        return
    runtime_env = {"env_vars": dict(environment)} if environment else None
    try:
        ray.init(log_to_driver=False, configure_logging=False, runtime_env=runtime_env)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise RunError(_describe_error(error)) from None


def _check_address(address: str) -> None:
    """Raise `RunError` if nothing listens at an address of host and port, for which Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    if "/" in host or not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise RunError(
            f"RAY_ADDRESS: nothing answers at {address} ({error}); correct it, or start one: ray start --head"
        ) from None


def _describe_error(error: BaseException) -> str:
    """Return the message for an error of connecting to a cluster."""
    reason, cause = str(error).strip().partition("\n")[0], error.__cause__
    if cause is not None and "AuthToken" in str(cause):
        return f"Ray: {reason}: its token is missing; set RAY_AUTH_MODE=token, and copy the token of the cluster here"
    return f"Ray: no cluster answers ({reason}); check RAY_ADDRESS, or run: ray stop"
