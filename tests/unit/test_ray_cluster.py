"""Where commands look for a Ray cluster, as far as this needs no Ray."""

from __future__ import annotations

import socket
from importlib.util import find_spec

import pytest

from heedful.errors import RunError
from heedful.ray_cluster import _describe_error, connect_to_ray


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_where_nothing_listens_is_told_at_once(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"{host}:{port}")
    with pytest.raises(RunError, match=rf"^RAY_ADDRESS: nothing answers at {host}:{port} .*ray start --head$"):
        connect_to_ray()


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
@pytest.mark.parametrize("address", ["", "local", "auto", "ray://host:10001"])
def test_other_addresses_are_left_to_ray(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ModuleNotFoundError, match="ray"):
        connect_to_ray()


def test_a_missing_token_is_told() -> None:
    cause = RuntimeError("RPC error: InvalidAuthToken: Authentication token is missing or incorrect.")
    error = ConnectionError("Failed to connect to Ray cluster at 10.0.0.1:6379")
    assert "ray stop" in _describe_error(error)
    error.__cause__ = cause
    assert "RAY_AUTH_MODE=token" in _describe_error(error)
