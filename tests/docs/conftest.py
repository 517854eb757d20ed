"""The scripts beside the pages, which generate some pages when the documentation is built."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def script() -> Callable[[str], ModuleType]:
    """Return a function that imports a script of docs, as in `script("api_pages")`."""

    def load(name: str) -> ModuleType:
        if name not in sys.modules:
            spec = spec_from_file_location(name, DOCS / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]

    return load
