"""Old public names, which work for one version with a `DeprecationWarning` that names the new one."""

from __future__ import annotations

import importlib.abc
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


def get_renamed(module: str, name: str, renames: Mapping[str, str]) -> Any:
    """Return the object that an old name in a module stands for today, with a `DeprecationWarning`; `renames` has the
    new name of each old one.

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
    """Build the `__getattr__` of a module that has old names; `renames` has the new name of each.

    Args:
        module: full name of the module, `__name__` there.
        renames: the new name of each old one.
    """

    def get_attribute(name: str) -> Any:
        return get_renamed(module, name, renames)

    return get_attribute


def keep_old_names(**renames: str) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that keeps old names of attributes, with a `DeprecationWarning`; `renames` gives the new
    name of each.

    Subclasses keep the old names of their bases.

    Args:
        renames: the new name of each old one.
    """

    def decorate(cls: type[T]) -> type[T]:
        """Add the old names to those that the class inherits, and return it."""
        inherited: Mapping[str, str] = getattr(cls, "_old_names", {})
        table = {**inherited, **renames}

        def get_attribute(self: T, name: str) -> Any:
            """Return the attribute that an old name stands for, with a `DeprecationWarning`."""
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


class OldModuleFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of version 0.1 under their old names, with a `DeprecationWarning`.

    It stands last in `sys.meta_path`, so it is only asked for modules that do not exist. The names in an old module are
    looked up in the new one, old names first (`old_modules.json`).
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return a spec for an old name of a module of heedful; None for all others."""
        if not fullname.startswith("heedful.") or fullname.removeprefix("heedful.") not in read_old_modules():
            return None
        return ModuleSpec(fullname, self, is_package=fullname.removeprefix("heedful.") in _OLD_PACKAGES)

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Make the names of the new module available in the old one, with a `DeprecationWarning`."""
        new_name, renames = read_old_modules()[module.__name__.removeprefix("heedful.")]
        warnings.warn(
            f"{module.__name__} is now called heedful.{new_name}; the old name will be removed in the next version",
            DeprecationWarning,
            stacklevel=2,
        )

        def get_attribute(name: str) -> Any:
            location, _, new = renames.get(name, name).rpartition(":")
            return getattr(import_module(f"heedful.{location or new_name}"), new)

        import_module(f"heedful.{new_name}")
        module.__dict__["__getattr__"] = get_attribute


_OLD_PACKAGES = frozenset({"data.forms", "serving.apart", "serving.own", "tasks.video"})
"""Folders of version 0.1 that have another name now."""


@cache
def read_old_modules() -> Mapping[str, tuple[str, Mapping[str, str]]]:
    """Return for each old module its new name, and the new names of what was in it, as "module:name" if it is in
    another module.
    """
    text = Path(__file__).with_name("old_modules.json").read_text(encoding="utf-8")
    modules: Mapping[str, tuple[str, Mapping[str, str]]] = json.loads(text)
    return modules


def install_old_modules() -> None:
    """Let old names of modules be imported; called once by heedful itself."""
    if not any(isinstance(finder, OldModuleFinder) for finder in sys.meta_path):
        sys.meta_path.append(OldModuleFinder())
