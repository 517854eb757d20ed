"""Observation of a model during a block of code: attention weights, calls of modules, disabled heads.

All of it sees only the calls of its own thread or asynchronous task, so that several may share a model.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

from torch import Tensor, nn

from heedful.attention.hooks import HookPoint, TraceableAttention, WeightsHook, intercept_weights


@contextmanager
def watch_attention(
    model: nn.Module, *, detach: bool = True, paths: Container[str] | None = None
) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every attention module that runs inside the block, or only of those at `paths`. Gradients
    can flow through the weights only if `detach` is False.

    This makes attention compute its weights where a fused kernel would not; results stay the same.

    Args:
        model: whose attention is watched.
        detach: detach the weights from the graph; False lets a loss use them.
        paths: paths of the attention modules to watch; all unless given. The others keep their fast kernels.

    Yields:
        For each attention module, by its path in the model, the weights of its calls in order, each [B, H, Q, K] or
        [B, Q, K].
    """
    weights_by_path: dict[str, list[Tensor]] = {}

    def make_reader(name: str) -> WeightsHook:
        """Return a function that stores the weights of one module."""
        return lambda weights: weights_by_path.setdefault(name, []).append(weights.detach() if detach else weights)

    probes = {name: probe for name, probe in iter_probes(model) if paths is None or name in paths}
    with intercept_weights({probe: make_reader(name) for name, probe in probes.items()}):
        yield weights_by_path


def iter_probes(model: nn.Module) -> Iterator[tuple[str, HookPoint]]:
    """Yield every attention probe of a model with the path of its module."""
    for path, module in model.named_modules():
        if isinstance(module, HookPoint):
            yield path.rpartition(".")[0], module


@contextmanager
def disable_head(model: nn.Module, path: str, *, head: int) -> Iterator[None]:
    """Set all weights of one head of the attention module at `path` to 0 inside the block (Michel et al. 2019, eq. 2).

    Args:
        model: that contains the attention module.
        path: of the attention module in the model.
        head: counted from 0; attention without heads has the head 0.
    """
    attention = model.get_submodule(path)
    assert isinstance(attention, TraceableAttention)

    def zero_head(weights: Tensor) -> Tensor:
        """Return the weights with those of the head set to 0."""
        if weights.dim() == 3:
            return weights * 0
        zeroed = weights.clone()
        zeroed[:, head] = 0
        return zeroed

    with intercept_weights({attention.probe: zero_head}):
        yield


ForwardHook = Callable[[Any, tuple[Any, ...], dict[str, Any], Tensor], Tensor | None]
"""Gets a module, the arguments of a call, and its output; may give another output instead."""

_ACTIVE_HOOKS: ContextVar[frozenset[object]] = ContextVar("listening", default=frozenset())
_REGISTRATION_LOCK = Lock()  # PyTorch counts hooks without one, so that two threads could get the same number


@contextmanager
def register_hooks(hooks: Mapping[nn.Module, ForwardHook]) -> Iterator[None]:
    """Call a module's hook after each of its forward calls inside the block; what the hook returns replaces the output,
    unless it is None.
    """
    token = object()

    def wrap_hook(forward_hook: ForwardHook) -> Callable[..., Tensor | None]:
        # Other threads call it too. While a hook is added or removed, they may call it without the keywords.
        """Return a PyTorch hook that calls `forward_hook` only in this thread or task."""

        def call_hook(module: nn.Module, args: tuple[Any, ...], *rest: Any) -> Tensor | None:
            """Call the hook if this block is active."""
            if token not in _ACTIVE_HOOKS.get():
                return None
            keywords, output = rest
            return forward_hook(module, args, keywords, output)

        return call_hook

    with ExitStack() as stack:
        with _REGISTRATION_LOCK:
            for module, heard in hooks.items():
                stack.callback(module.register_forward_hook(wrap_hook(heard), with_kwargs=True).remove)
        _ACTIVE_HOOKS.set(_ACTIVE_HOOKS.get() | {token})
        stack.callback(lambda: _ACTIVE_HOOKS.set(_ACTIVE_HOOKS.get() - {token}))
        yield
