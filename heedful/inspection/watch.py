"""What happens inside a model during a block of code: attention weights by module, calls of any module, silent heads.

All of it hears the calls of its own thread or asynchronous task alone, so that several may share a model.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

from torch import Tensor, nn

from heedful.attention.explained import Explaining
from heedful.attention.probe import Probe, Read, reading


@contextmanager
def watch(
    model: nn.Module, *, detach: bool = True, only: Container[str] | None = None
) -> Iterator[dict[str, list[Tensor]]]:
    """Collects the weights of every attention computed inside the block.

    Watching makes attention form its weights where a fused kernel would not; results stay the same.

    Args:
        model: whose attentions are watched.
        detach: cut the weights from the gradient; False lets a loss use them.
        only: paths of the attentions that are watched; all unless given. The others keep their fast kernels.

    Yields:
        For each attention, by its path in the model, the weights of its calls in order, each [B, H, Q, K] or [B, Q, K].
    """
    seen: dict[str, list[Tensor]] = {}

    def note(name: str) -> Read:
        return lambda weights: seen.setdefault(name, []).append(weights.detach() if detach else weights)

    probes = {name: probe for name, probe in probes_of(model) if only is None or name in only}
    with reading({probe: note(name) for name, probe in probes.items()}):
        yield seen


def probes_of(model: nn.Module) -> Iterator[tuple[str, Probe]]:
    """Every probe of a model, by the path of the module that it belongs to."""
    for path, module in model.named_modules():
        if isinstance(module, Probe):
            yield path.rpartition(".")[0], module


@contextmanager
def without_head(model: nn.Module, path: str, *, head: int) -> Iterator[None]:
    """Inside the block one head takes nothing from what it looks at: its weights are all 0 (Michel et al. 2019, eq. 2).

    Args:
        model: whose attention is meant.
        path: of the attention in the model.
        head: counted from 0; an attention without heads has the head 0.
    """
    attention = model.get_submodule(path)
    assert isinstance(attention, Explaining)

    def silence(weights: Tensor) -> Tensor:
        if weights.dim() == 3:
            return weights * 0
        silent = weights.clone()
        silent[:, head] = 0
        return silent

    with reading({attention.probe: silence}):
        yield


Heard = Callable[[Any, tuple[Any, ...], dict[str, Any], Tensor], Tensor | None]
"""Gets a module, the arguments of a call, and its output; may give another output instead."""

_LISTENING: ContextVar[frozenset[object]] = ContextVar("listening", default=frozenset())
_REGISTERING = Lock()  # PyTorch counts hooks without one, so that two threads could get the same number


@contextmanager
def listening(hooks: Mapping[nn.Module, Heard]) -> Iterator[None]:
    """Inside the block each call of these modules is heard when it is done."""
    mine = object()

    def hook(heard: Heard) -> Callable[..., Tensor | None]:
        # Other threads call it too. While it comes and goes they may do so without the keywords, which come in between.
        def told(module: nn.Module, args: tuple[Any, ...], *rest: Any) -> Tensor | None:
            if mine not in _LISTENING.get():
                return None
            keywords, output = rest
            return heard(module, args, keywords, output)

        return told

    with ExitStack() as stack:
        with _REGISTERING:
            for module, heard in hooks.items():
                stack.callback(module.register_forward_hook(hook(heard), with_kwargs=True).remove)
        _LISTENING.set(_LISTENING.get() | {mine})
        stack.callback(lambda: _LISTENING.set(_LISTENING.get() - {mine}))
        yield
