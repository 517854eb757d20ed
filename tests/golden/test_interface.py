"""Commands, options, recipe keys and HTTP fields that were recorded still exist.

`python tests/golden/test_interface.py` writes `interface.json`. New names may be added; a missing name breaks scripts,
recipes or clients of users.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).with_name("interface.json")
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w.-]*")


def list_options() -> Iterator[str]:
    """Yield `COMMAND --option` for each option that the help of a command names."""
    from heedful.__main__ import main
    from heedful.cli.commands import COMMANDS

    for command in COMMANDS:
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            main([command, "--help"])
        for option in sorted(set(_OPTION.findall(text.getvalue()))):
            yield f"{command} {option.rstrip('.')}"


def list_recipe_keys() -> Iterator[str]:
    """Yield `TASK key.subkey` for each key of the JSON Schemas of recipes."""
    from heedful.recipes.load import json_schema

    for task in list_task_names():
        schema = json.loads(json_schema(task))
        for key in sorted(set(list_fields(schema, schema))):
            yield f"{task} {key}"


def list_task_names() -> list[str]:
    from heedful.registry import list_tasks

    return sorted(list_tasks())


def list_routes(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield `METHOD /path in|out field.subfield` for the JSON fields of each route of an OpenAPI document."""
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            route = f"{method.upper()} {path}"
            yield route
            yield from (f"{route} query {parameter['name']}" for parameter in operation.get("parameters", ()))
            bodies = [("in", operation.get("requestBody", {}))]
            bodies += [(f"out {status}", response) for status, response in operation.get("responses", {}).items()]
            for direction, body in bodies:
                for content in body.get("content", {}).values():
                    for field in sorted(set(list_fields(content.get("schema", {}), spec))):
                        yield f"{route} {direction} {field}"


def list_fields(schema: Any, root: Mapping[str, Any], seen: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted names of all properties below a JSON Schema; a recursive type is followed once."""
    if isinstance(schema, list):
        for part in schema:
            yield from list_fields(part, root, seen)
    if not isinstance(schema, dict):
        return
    if (reference := schema.get("$ref")) is not None:
        if reference in seen:
            return
        target: Any = root
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        yield from list_fields(target, root, (*seen, reference))
    for name, value in schema.get("properties", {}).items():
        yield name
        yield from (f"{name}.{field}" for field in list_fields(value, root, seen))
    for keyword in ("anyOf", "oneOf", "allOf", "items", "prefixItems", "additionalProperties"):
        yield from list_fields(schema.get(keyword), root, seen)


def read_specification(folder: Path) -> Mapping[str, Any]:
    """Return the OpenAPI document of a server that has a model of each task."""
    from live_server import open_registry, run_server
    from task_runs import create_task_runs

    with run_server(open_registry(create_task_runs(folder))) as live:
        spec: Mapping[str, Any] = live.ask("/spec").json
    return spec


def read_interface(folder: Path) -> dict[str, list[str]]:
    return {
        "options": list(list_options()),
        "recipe keys": list(list_recipe_keys()),
        "routes": sorted(set(list_routes(read_specification(folder)))),
    }


def test_no_recorded_name_is_missing(tmp_path: Path, unchecked: None) -> None:
    recorded, interface = json.loads(RECORDED.read_text(encoding="utf-8")), read_interface(tmp_path)
    missing = {kind: sorted(set(names) - set(interface[kind])) for kind, names in recorded.items()}
    assert missing == {kind: [] for kind in recorded}
    assert all(len(names) > 100 for names in recorded.values())


@pytest.mark.parametrize(("schema", "fields"), [({"properties": {"a": {"items": {"$ref": "#/x"}}}}, {"a", "a.b"})])
def test_fields_behind_references_are_found(schema: Mapping[str, Any], fields: set[str]) -> None:
    root = {"x": {"properties": {"b": {"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}}}}
    assert set(list_fields(schema, root)) == fields


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]
    with tempfile.TemporaryDirectory() as name:
        text = json.dumps(read_interface(Path(name)), indent=0, ensure_ascii=False) + "\n"
    RECORDED.write_text(text, encoding="utf-8")
