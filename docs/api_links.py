"""A Sphinx extension for the reference: signatures as the source has them, and names that lead where they are told.

- Annotations stand as they are written, with the letters of shapes, and link to the classes that they name.
- Docstrings are plain text, so `*`, `|` and a last `_` mean themselves.
- On every other page, code such as `heedful.attention.scores.DotScore` links to the reference where that has the name.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from itertools import chain
from typing import Any, ClassVar

import api_pages
from docutils import nodes
from pydantic import BaseModel
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

_UNLINKED = (nodes.reference, nodes.title, addnodes.pending_xref)
"""What code may stand in without being made a link."""
_LOG = logging.getLogger(__name__)


def signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, args: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """The signature in the words of the source; none of tables, whose keys are listed below them."""
    if inspect.isclass(obj) and issubclass(obj, BaseException):
        return None
    if inspect.isclass(obj) and issubclass(obj, BaseModel):
        return "", None
    try:
        found = inspect.signature(obj)
    except (TypeError, ValueError):
        return None
    kept = [
        parameter.replace(annotation=_written(parameter.annotation), default=_short(parameter.default))
        for place, parameter in enumerate(found.parameters.values())
        if not (what == "method" and place == 0 and parameter.name in ("self", "cls"))
    ]
    told = found.replace(parameters=kept, return_annotation=inspect.Signature.empty)
    back = _written(found.return_annotation)
    if inspect.isclass(obj) and str(told) == "(*args: Any, **kwargs: Any)":  # that of torch's modules
        return "()", None
    return str(told), None if inspect.isclass(obj) or back is inspect.Signature.empty else str(back)


class _Text(str):
    """A text that stands in a signature without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _written(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    if isinstance(annotation, str):
        return _Text(annotation)
    return _Text(inspect.formatannotation(annotation))


def _short(default: Any) -> Any:
    """Functions and objects by their names, since their addresses say nothing."""
    if default is inspect.Parameter.empty or isinstance(default, str | int | float | bool | tuple | None):
        return default
    if inspect.isclass(default) or inspect.isroutine(default):
        return _Text(default.__name__)
    told = repr(default)
    return _Text("..." if " at 0x" in told else told)


def plain(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Takes from a docstring what only reStructuredText would read as marks; tells the type of an attribute."""
    lines[:] = [api_pages.escaped(line) for line in lines]
    if what == "attribute" and lines:
        owner, _, attribute = name.rpartition(".")
        module, _, kind = owner.rpartition(".")
        table = getattr(sys.modules.get(module), kind, None)
        found = getattr(table, "__annotations__", {}).get(attribute)
        if found is not None:
            lines[0] = f"``{_written(found)}``: {lines[0]}{_default(table, attribute)}"


def _default(table: Any, key: str) -> str:
    """What a key of a recipe's table is where it is not given."""
    field = getattr(table, "model_fields", {}).get(key)
    if field is None or field.is_required() or not isinstance(field.default, str | int | float | None):
        return ""
    return f" (default ``{field.default!r}``)"


class Names:
    """Finds what the reference tells of, by whatever name a module knows it."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self._objects = objects
        self._found: dict[tuple[str, str], str | None] = {}
        last: dict[str, list[str]] = {}
        for name, entry in objects.items():
            if entry.objtype in ("class", "exception", "function", "data"):
                last.setdefault(name.rpartition(".")[2], []).append(name)
        self._aliases: dict[int, str] = {}
        self._only = {name: full[0] for name, full in last.items() if len(full) == 1 and name[:1].isupper()}

    def alias(self, full: str, value: object) -> None:
        """Tells of a constant, such as an alias of a type, which does not know its own name."""
        self._aliases.setdefault(id(value), full)

    def find(self, name: str, module: str = "") -> str | None:
        """The full name in the reference of what `module` calls `name`; None of what is not told there."""
        if (module, name) not in self._found:
            self._found[module, name] = self._find(name, module)
        return self._found[module, name]

    def _find(self, name: str, module: str) -> str | None:
        for full in (f"{module}.{name}", name, f"heedful.{name}"):
            if full in self._objects:
                return full
        if name.startswith("heedful."):
            module, _, name = name.rpartition(".")
        value: Any = sys.modules.get(module)
        for part in name.split("."):
            value = getattr(value, part, None)
        full = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        if full in self._objects:
            return full
        return self._aliases.get(id(value)) or self._only.get(name)


class Links(SphinxPostTransform):
    """Leads names to where the reference tells of them, and leaves those of others as text."""

    default_priority = 5  # before Sphinx looks for them
    names: ClassVar[Names]

    def run(self, **kwargs: Any) -> None:
        """Of one page."""
        names = self.names
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("refdomain") == "py":
                found = names.find(node["reftarget"], node.get("py:module") or "")
                self._replace(node, found, node.children)
        for code in list(self.document.findall(nodes.literal)):
            name = code.astext()
            if name.startswith("heedful.") and not isinstance(code.parent, _UNLINKED):
                self._replace(code, names.find(name), [code.deepcopy()])

    def _replace(self, node: nodes.Element, found: str | None, content: list[nodes.Node]) -> None:
        if found is None:
            node.replace_self(content)
            return
        entry = self.env.domaindata["py"]["objects"][found]
        link = make_refnode(self.app.builder, self.env.docname, entry.docname, entry.node_id, content, found)
        node.replace_self(link)


def collect(app: Sphinx, env: Any) -> None:
    """All names, once every page was read; modules are imported for whoever reads pages in several processes."""
    for module in chain.from_iterable(api_pages.rooms(api_pages.modules()).values()):
        if module.members:
            importlib.import_module(module.full)
    objects = env.domaindata["py"]["objects"]
    Links.names = Names(objects)
    for page in api_pages.rooms(api_pages.modules()).values():
        for module in page:
            for member in module.members:
                full = f"{module.full}.{member.name}"
                if full not in objects:
                    _LOG.warning("%s is not in the reference", full)
                value = getattr(sys.modules[module.full], member.name, None)
                if member.directive == "py:data" and not isinstance(value, str | int | float | bool | type | None):
                    Links.names.alias(full, value)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of all this."""
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", plain, priority=400)
    app.connect("env-check-consistency", collect)
    app.add_post_transform(Links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
