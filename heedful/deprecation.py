"""Old public names, which work for one version with a `DeprecationWarning` that names the new one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def get_renamed(module: str, name: str, renames: Mapping[str, str]) -> Any:
    """Return what an old name of a module means today, with a `DeprecationWarning`.

    Args:
        module: full name of the module.
        name: the requested name.
        renames: the new name of each old one.

    Raises:
        AttributeError: `name` is not an old name.
    """
    if name not in renames:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    new = renames[name]
    warnings.warn(
        f"{module}.{name} is now called {module}.{new}; the old name will be removed in the next version",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(module), new)


def module_getattr(module: str, renames: Mapping[str, str]) -> Callable[[str], Any]:
    """Build the `__getattr__` of a module that has old names.

    Args:
        module: full name of the module, `__name__` there.
        renames: the new name of each old one.
    """

    def get_attribute(name: str) -> Any:
        return get_renamed(module, name, renames)

    return get_attribute


def keep_old_names(**renames: str) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that keeps old names of attributes, with a `DeprecationWarning`.

    Subclasses keep the old names of their bases.

    Args:
        renames: the new name of each old one.
    """

    def decorate(cls: type[T]) -> type[T]:
        inherited: Mapping[str, str] = getattr(cls, "_old_names", {})
        table = {**inherited, **renames}

        def get_attribute(self: T, name: str) -> Any:
            if name not in table:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            new = table[name]
            warnings.warn(
                f"{type(self).__name__}.{name} is now called {new}; the old name will be removed in the next version",
                DeprecationWarning,
                stacklevel=2,
            )
            return getattr(self, new)

        cls._old_names = table  # type: ignore[attr-defined]
        cls.__getattr__ = get_attribute  # type: ignore[attr-defined]
        return cls

    return decorate
