"""Models that are kept in memory, for work that loads the same one again and again, such as one file after another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, final

_KEPT: ContextVar[KeptModels | None] = ContextVar("kept_models", default=None)


@final
class KeptModels:
    """Loaded models, by the arguments that they were loaded with."""

    def __init__(self) -> None:
        self._models: dict[Hashable, Any] = {}

    @contextmanager
    def use(self) -> Iterator[None]:
        """Let `load_once` look here in the block, and keep here what it loads."""
        token = _KEPT.set(self)
        try:
            yield
        finally:
            _KEPT.reset(token)

    def get_or_load(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """Return the model that is kept under a key; call `load` for it the first time."""
        if key not in self._models:
            self._models[key] = load()
        return self._models[key]


def load_once(load: Callable[..., Any], *folders: Any, **load_kwargs: Any) -> Any:
    """Call `load` with the arguments; inside `KeptModels.use`, return the model that it returned for the same ones,
    messages (`say`) apart.
    """
    kept = _KEPT.get()
    if kept is None:
        return load(*folders, **load_kwargs)
    named = sorted((name, str(value)) for name, value in load_kwargs.items() if name != "say")
    return kept.get_or_load((*map(str, folders), *named), lambda: load(*folders, **load_kwargs))
