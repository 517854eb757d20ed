"""Whoever watches sees the calls of the own thread, and no others; nested watches each see theirs."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import Attention, DotScore
from heedful.attention.hooks import DECODER_SELF, assign_roles, intercept_weights
from heedful.inspection.capture import capture_attention, disable_head, register_hooks, watch_attention

Result = TypeVar("Result")


def attention() -> nn.ModuleDict:
    model = nn.ModuleDict({"one": Attention(DotScore())})
    assign_roles(model, DECODER_SELF)
    return model


def ask(model: nn.ModuleDict, length: int) -> Tensor:
    x = torch.randn(1, length, 4)
    found: Tensor = model["one"](x, x, value=x, visible=torch.ones(1, length, length, dtype=torch.bool))
    return found


def elsewhere(call: Callable[[], Result]) -> Result:
    """What another thread gets."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_other_threads_are_not_seen() -> None:
    model = attention()
    with watch_attention(model) as seen, capture_attention(model) as captured:
        elsewhere(lambda: ask(model, 3))
        ask(model, 5)
        assert model["one"].probe.is_watched
        assert not elsewhere(lambda: model["one"].probe.is_watched), "others keep their fast kernels"
    assert [each.size(-1) for each in seen["one"]] == [5]
    assert [each.scores.size(-1) for each in captured.explained["one"]] == [5]
    assert not model["one"].probe.is_watched


def test_nested_watches_see_what_happens_inside_them() -> None:
    model = attention()
    with watch_attention(model) as outer:
        ask(model, 2)
        with watch_attention(model) as inner, watch_attention(model, paths=()) as nothing:
            ask(model, 3)
        ask(model, 4)
    ask(model, 5)
    assert [each.size(-1) for each in outer["one"]] == [2, 3, 4]
    assert [each.size(-1) for each in inner["one"]] == [3]
    assert nothing == {}


def test_the_order_of_leaving_does_not_matter() -> None:
    model = attention()
    first, second = watch_attention(model), watch_attention(model)
    with first as one:
        two = second.__enter__()
    ask(model, 3)
    second.__exit__(None, None, None)
    ask(model, 4)
    assert one == {}
    assert [each.size(-1) for each in two["one"]] == [3]
    assert not model["one"].probe.is_watched


def test_a_task_of_its_own_context_is_another_one() -> None:
    """Asynchronous tasks run in copies of the context in which they were made."""
    model = attention()
    with watch_attention(model) as seen:
        inherited = contextvars.copy_context()
    before = contextvars.copy_context()
    before.run(ask, model, 3)
    assert seen == {}
    inherited.run(ask, model, 4)
    assert [each.size(-1) for each in seen["one"]] == [4]


def test_readers_replace_weights_in_turn() -> None:
    model, x = attention(), torch.randn(1, 3, 4)
    with intercept_weights({model["one"].probe: lambda weights: weights * 0 + 1}), watch_attention(model) as seen:
        ask(model, 3)
        with disable_head(model, "one", head=0):
            assert not ask(model, 3).any()
            assert elsewhere(lambda: ask(model, 3)).any(), "another thread keeps its head"
    assert [float(each.sum()) for each in seen["one"]] == [9, 9]  # who reads first sees what was there then
    assert x.shape == (1, 3, 4)


@pytest.mark.slow
def test_hooks_that_come_and_go_disturb_nobody() -> None:
    """One thread calls while others register and remove; PyTorch does neither in one step."""
    model = attention()
    done, failures = threading.Event(), []

    def come_and_go() -> None:
        while not done.is_set():
            with register_hooks({model["one"]: lambda *_: None}):
                pass

    def call() -> None:
        try:
            for _ in range(2000):
                ask(model, 2)
        except Exception as error:
            failures.append(error)
        done.set()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            pool.submit(come_and_go)
        pool.submit(call)
    assert failures == []
    assert not model["one"]._forward_hooks
    assert not model["one"]._forward_hooks_with_kwargs
