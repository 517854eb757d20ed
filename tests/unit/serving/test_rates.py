from __future__ import annotations

import pytest

from heedful.serving.clients import RateLimiter, client_network


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_many_a_minute() -> None:
    clock = Clock()
    rates = RateLimiter(3, clock=clock)
    assert [rates.take_token("a") for _ in range(4)] == [0, 0, 0, pytest.approx(20)]
    assert rates.take_token("b") == 0
    clock.now = 19
    assert rates.take_token("a") == pytest.approx(1)
    clock.now = 20.1
    assert rates.take_token("a") == 0
    assert rates.take_token("a") > 19, "what was refused cost nothing, and no more came back"
    clock.now = 10_000
    assert [rates.take_token("a") == 0 for _ in range(4)] == [True, True, True, False], "no more than so many are kept"


def test_any_number_where_there_is_no_limit() -> None:
    rates = RateLimiter(0)
    assert {rates.take_token("a") for _ in range(100)} == {0.0}
    assert len(rates) == 0


def test_who_asked_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not who asks often, who would have all requests back by that."""
    monkeypatch.setattr("heedful.serving.clients._MAX_CLIENTS", 2)
    rates = RateLimiter(2, clock=Clock())
    assert [rates.take_token(who) for who in ("often", "once", "often", "new")] == [0, 0, 0, 0]
    assert rates.take_token("often") > 0
    assert [rates.take_token(who) for who in ("once", "once")] == [0, 0], "it was forgotten"


def test_memory_is_bounded_and_the_newest_are_kept() -> None:
    rates = RateLimiter(1, clock=Clock())
    for number in range(30_000):
        rates.take_token(str(number))
    assert len(rates) == 10_000
    assert rates.take_token("29999") > 0
    assert rates.take_token("0") == 0


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_households(address: str, found: str) -> None:
    assert client_network(address) == found
