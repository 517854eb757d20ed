"""Who asks through proxies, and whom nobody believes that he does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from blocking_server import BlockingServer, run_blocking_server
from starlette.datastructures import Headers

from heedful.errors import RecipeError
from heedful.serving.clients import TrustedProxies
from heedful.serving.settings import AccessSettings, load_settings

OURS = ("10.0.0.0/8", "192.0.2.1", "2001:db8::/64")


def seen(peer: str, *chain: str, schemes: Sequence[str] = ()) -> tuple[str, str]:
    """The address and the scheme of a request, as they are understood."""
    raw = [(b"x-forwarded-for", each.encode()) for each in chain]
    raw += [(b"x-forwarded-proto", each.encode()) for each in schemes]
    scope = {"client": (peer, 1234), "scheme": "http", "headers": raw}
    found = TrustedProxies(AccessSettings(proxies=OURS)).apply_headers(scope, Headers(scope=scope))
    assert scope["client"] == (peer, 1234), "what others hold stays as it is"
    return found["client"][0], found["scheme"]


@pytest.mark.parametrize(
    ("peer", "chain", "client"),
    [
        ("198.51.100.7", ("203.0.113.9",), "198.51.100.7"),
        ("198.51.100.7", ("10.0.0.1",), "198.51.100.7"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("203.0.113.9",), "203.0.113.9"),
        ("10.0.0.1", ("1.1.1.1, 203.0.113.9",), "203.0.113.9"),
        ("10.0.0.1", ("1.1.1.1", "203.0.113.9"), "203.0.113.9"),
        ("10.0.0.1", ("10.9.9.9, 203.0.113.9, 10.0.0.2,192.0.2.1",), "203.0.113.9"),
        ("10.0.0.1", ("10.0.0.3, 10.0.0.2",), "10.0.0.3"),
        ("10.0.0.1", ("203.0.113.9:4711",), "203.0.113.9"),
        ("10.0.0.1", ("[2001:db8:1::5]:4711",), "2001:db8:1::5"),
        ("10.0.0.1", ("2001:db8:1::5",), "2001:db8:1::5"),
        ("2001:db8::7", ("203.0.113.9",), "203.0.113.9"),
        ("::ffff:10.0.0.1", ("::ffff:203.0.113.9",), "203.0.113.9"),
        ("10.0.0.1", ("203.0.113.9, unknown",), "10.0.0.1"),
        ("10.0.0.1", ("203.0.113.9, ", " "), "203.0.113.9"),
        ("10.0.0.1", ("203.0.113.9" + ", 10.0.0.2" * 2_000,), "10.0.0.2"),
        ("192.0.2.2", ("203.0.113.9",), "192.0.2.2"),
        ("", ("203.0.113.9",), ""),
    ],
)
def test_the_nearest_that_is_no_proxy_asks(peer: str, chain: Sequence[str], client: str) -> None:
    assert seen(peer, *chain)[0] == client


@pytest.mark.parametrize(
    ("peer", "chain", "schemes", "scheme"),
    [
        ("198.51.100.7", (), ("https",), "http"),
        ("10.0.0.1", (), ("https",), "https"),
        ("10.0.0.1", ("203.0.113.9",), ("HTTPS",), "https"),
        ("10.0.0.1", ("203.0.113.9",), ("https, http",), "http"),
        ("10.0.0.1", ("203.0.113.9",), ("http", "https"), "https"),
        ("10.0.0.1", ("203.0.113.9, 10.0.0.2",), ("http, https, http",), "https"),
        ("10.0.0.1", ("203.0.113.9, 10.0.0.2",), ("https",), "https"),
        ("10.0.0.1", ("203.0.113.9",), ("gopher",), "http"),
        ("10.0.0.1", ("203.0.113.9",), ("",), "http"),
    ],
)
def test_how_it_was_asked(peer: str, chain: Sequence[str], schemes: Sequence[str], scheme: str) -> None:
    assert seen(peer, *chain, schemes=schemes)[1] == scheme


def test_without_settings_nobody_is_believed() -> None:
    assert "127.0.0.1" not in TrustedProxies(AccessSettings())


def statuses(held: BlockingServer, *addresses: str) -> list[int]:
    return [held.live.ask("/waiting", headers={"X-Forwarded-For": each}).status for each in addresses]


def test_rates_are_those_of_clients_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"rate": 1}, access={"proxies": ["127.0.0.1"]}) as held:
        held.predictor.go.set()
        assert statuses(held, "203.0.113.1", "203.0.113.2", "203.0.113.1") == [200, 200, 429]
        assert statuses(held, "203.0.113.3, 203.0.113.2", "203.0.113.2, 203.0.113.4") == [429, 200]


def test_who_is_no_proxy_does_not_hide_behind_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"rate": 1}, access={"proxies": ["10.0.0.0/8"]}) as held:
        held.predictor.go.set()
        assert statuses(held, "203.0.113.1", "203.0.113.2", "10.0.0.1") == [200, 429, 429]


@pytest.mark.parametrize("odd", ["example.org", "10.0.0.1/8", "*", "10.0.0"])
def test_what_is_no_network(odd: str) -> None:
    with pytest.raises(RecipeError, match=r"access\.proxies.*is not an address or network"):
        load_settings(None, ["--access.proxies", f'["{odd}"]'], {})
