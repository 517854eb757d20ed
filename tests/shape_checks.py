"""Shapes are checked while tests run: by jaxtyping, in the first of all calls that are alike.

Checking takes twice as long as what small models compute. What a check finds depends on types, and on the shapes and
dtypes of arrays, so it would find the same in every call that has the same ones.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial, wraps
from itertools import islice
from types import FunctionType
from typing import Any, get_args

import jaxtyping
import numpy as np
from beartype import beartype
from jaxtyping import AbstractArray, config, install_import_hook
from torch import Tensor

ITEMS = 16
"""How many items of a list or tuple calls must have alike; a check looks at one of them, at random."""
_check_every_call = jaxtyping.jaxtyped
_RESULT: ContextVar[Any] = ContextVar("result")
"""What a function has returned, while that is checked."""


def install_checks(modules: Iterable[str]) -> None:
    """Check the functions and dataclasses of modules that are imported from now on.

    The hook of jaxtyping puts a decorator above each of them, whose place ours takes.
    """
    jaxtyping.jaxtyped = decorate
    # Code is cached by the name of what checks types. Another name than before: which modules are checked has changed.
    install_import_hook(list(modules), "shapes.beartype")


@contextmanager
def disable_shape_checks() -> Iterator[None]:
    """Disable the checks of shapes during the block."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)


def decorate(checked: Any = None, *, typechecker: object = None) -> Any:
    """Do what `jaxtyping.jaxtyped` does, but check only the first of calls that are alike."""
    if checked is None:
        return partial(decorate, typechecker=typechecker)
    if checked == "context":
        return _check_every_call("context")
    if not inspect.isclass(checked):
        return _CheckedFunction(checked).wrap()
    if dataclasses.is_dataclass(checked) and not hasattr(checked.__init__, "__wrapped__"):
        checked.__init__ = _CheckedFunction(checked.__init__).wrap()
    return checked


_CHECKED: list[_CheckedFunction] = []


class _CheckedFunction:
    """A function, and which kinds of calls of it were checked."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.passed: set[int] = set()

    def wrap(self) -> Callable[..., Any]:
        # torch.compile follows a function with checks disabled, but only without this object in its closure
        function, number = self.function, len(_CHECKED)
        _CHECKED.append(self)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if config.jaxtyping_disable:
                return function(*args, **kwargs)
            return _CHECKED[number].check(*args, **kwargs)

        return call

    @cached_property
    def check(self) -> Callable[..., Any]:
        """What is called in its place, made by the first call: by then all names in annotations are defined."""
        if any(map(_has_arrays, self._hints.values())):
            return self._call
        return beartype(self._copy())

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        given = hash((*map(_describe, args), *kwargs, *map(_describe, kwargs.values())))
        known = given in self.passed
        result = (self.function if known else self._check_call)(*args, **kwargs)
        returned = hash((given, _describe(result)))
        if known and returned not in self.passed:
            token = _RESULT.set(result)
            try:
                self._check_result(*args, **kwargs)
            finally:
                _RESULT.reset(token)
        self.passed |= {given, returned}
        return result

    @cached_property
    def _check_call(self) -> Callable[..., Any]:
        return _check_every_call(self.function, typechecker=beartype)

    @cached_property
    def _check_result(self) -> Callable[..., Any]:
        """The same with what the function has returned already."""

        def answer(*_: Any, **__: Any) -> Any:
            return _RESULT.get()

        signature = inspect.signature(self._copy())
        vars(answer).update(__signature__=signature, __name__=self.function.__name__)
        return _check_every_call(answer, typechecker=beartype)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return {name: self._resolve(hint) for name, hint in self.function.__annotations__.items()}

    def _resolve(self, hint: Any) -> Any:
        """Return the type of an annotation; Any, as jaxtyping does, where only type checkers know it."""
        try:
            return eval(hint, self.function.__globals__) if isinstance(hint, str) else hint
        except Exception:
            return Any

    def _copy(self) -> Callable[..., Any]:
        """Return the function with types in the place of the names of types."""
        old = self.function
        copy = FunctionType(old.__code__, old.__globals__, old.__name__, old.__defaults__, old.__closure__)
        copy.__kwdefaults__, copy.__qualname__ = old.__kwdefaults__, old.__qualname__
        copy.__annotations__ = self._hints
        return copy


def _has_arrays(hint: Any) -> bool:
    return (inspect.isclass(hint) and issubclass(hint, AbstractArray)) or any(map(_has_arrays, get_args(hint)))


def _describe(value: Any) -> Any:
    """Return all of a value that a check depends on."""
    if isinstance(value, Tensor | np.ndarray):
        return value.dtype, value.shape
    if isinstance(value, list | tuple):
        return type(value), *map(_describe, islice(value, ITEMS))
    if isinstance(value, dict):
        return type(value), *map(_describe, islice(value.values(), ITEMS))
    return value if isinstance(value, str) else type(value)
