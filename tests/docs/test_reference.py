"""The reference contains all public modules and names of its rooms."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).parents[2] / "heedful"


@pytest.fixture(scope="module")
def api(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("api_pages")


@pytest.fixture(scope="module")
def pages(api: ModuleType) -> Mapping[str, str]:
    return {page: api.text(page, found) for page, found in api.rooms(api.modules()).items()}


def find_public_modules(left_out: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules that can be imported, without those of the left-out rooms."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names = parts[:-1] if parts[-1] == "__init__" else parts
        if not (names and names[0] in left_out) and not any(name.startswith("_") for name in names):
            yield ".".join(("heedful", *names))


def find_public_names(module: str) -> Iterator[str]:
    """Yield the classes and functions that a module itself defines."""
    for name, value in vars(import_module(module)).items():
        own = getattr(value, "__module__", None) == module and getattr(value, "__name__", None) == name
        if own and not name.startswith("_") and (inspect.isclass(value) or inspect.isroutine(value)):
            yield name


def find_documented_names(text: str) -> set[str]:
    """Find the full names that a page of the reference documents."""
    found = set()
    for block in text.split(".. automodule:: ")[1:]:
        module = block.split()[0]
        names = re.findall(r"^\.\. (?:auto(?:class|exception|function)|py:data):: (\w+)$", block, re.MULTILINE)
        found |= {f"{module}.{name}" for name in names}
    return found


def find_missing_names(pages: Mapping[str, str], left_out: Mapping[str, str]) -> set[str]:
    known = set().union(*map(find_documented_names, pages.values()))
    wanted = {f"{module}.{name}" for module in find_public_modules(left_out) for name in find_public_names(module)}
    return wanted - known


def test_each_room_is_documented_or_left_out_for_a_reason(api: ModuleType) -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    rooms -= {"__init__", "__pycache__", "share", "py"}
    assert rooms == {*(set(api.ROOMS) - {"heedful"}), *api.LEFT_OUT, *api.ENTRY} - {""}
    assert all(api.LEFT_OUT.values())


def test_each_public_name_is_documented(api: ModuleType, pages: Mapping[str, str]) -> None:
    assert find_missing_names(pages, api.LEFT_OUT) == set()


def test_a_missing_name_is_found(api: ModuleType, pages: Mapping[str, str]) -> None:
    less = {**pages, "attention": pages["attention"].replace(".. autoclass:: DotScore\n", "")}
    assert find_missing_names(less, api.LEFT_OUT) == {"heedful.attention.scores.DotScore"}
    less = {page: text for page, text in pages.items() if page != "tensors"}
    assert "heedful.tensors.Memory" in find_missing_names(less, api.LEFT_OUT)


def test_names_that_a_package_exports_are_listed(pages: Mapping[str, str]) -> None:
    for module, page in (("heedful", "heedful"), ("heedful.attention", "attention")):
        listed = re.search(r"Names that can be had from here: (.+)\.$", pages[page], re.MULTILINE)
        assert listed is not None
        names = [f"{module}.{name}" for name in import_module(module).__all__ if name != "__version__"]
        assert re.findall(r"`~([\w.]+)`", listed[1]) == names


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("q * k and |x|", r"q \* k and \|x\|"),
        ("s_ and `s_` and d_k", r"s\_ and `s_` and d_k"),
    ],
)
def test_signs_mean_themselves(api: ModuleType, line: str, plain: str) -> None:
    assert api.escaped(line) == plain


def test_the_first_page_links_to_each_room(pages: Mapping[str, str]) -> None:
    text = (PACKAGE.parent / "docs/api.md").read_text(encoding="utf-8")
    assert re.findall(r"^api/(.+)$", text, re.MULTILINE) == list(pages)
