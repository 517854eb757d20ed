"""Files of records: the record itself, pictures, and tables of numbers for papers and other programs.

A record is one safetensors file: its arrays are tensors, everything else is JSON in the header under `heedful.record`:
{"format": 3, "record": {...}}. A part is an object of its fields as in the module `record`, several parts are a list,
an array is {"array": name of the tensor}. Format 1 had no pictures, marks, spans, edges and glimpses, format 2 no
`said`, widths and attributions; files of these formats are read without them.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import jaxtyped
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from heedful.argument_checks import format_value, require_path
from heedful.atomic_io import atomic_replace, check_memory, read_header
from heedful.errors import DataError, MissingExtraError, RecipeError, RunError
from heedful.files import parse_json
from heedful.inspection.record import AttentionMap, GeneratedToken, InspectionRecord, ModelAnswer

FORMAT_VERSION = 3

_HEADER_KEY = "heedful.record"
_MAX_LOG_PROBABILITY = 0.01
"""Largest logarithm of a probability; rounding may make it a little larger than 0."""
_MAX_PROBABILITY = 1.01
_TYPST_PAGE = """\
#set document(date: none)
#set page(width: auto, height: auto, margin: 0pt)
#image("figure.svg")
"""


def save_record(record: InspectionRecord, path: str | Path) -> None:
    """Save a record as one file, atomically.

    Raises:
        TrainingError: the file cannot be written.
    """
    if not isinstance(record, InspectionRecord):
        raise RecipeError(f"record: {format_value(record)} is not a record; give what `inspect` returns")
    require_path(path, name="path")
    arrays: dict[str, np.ndarray] = {}
    content = {"format": FORMAT_VERSION, "record": _to_json(record, "", arrays)}
    with atomic_replace(Path(path)) as beside:
        beside.touch()
        mode = beside.stat().st_mode
        save_file(arrays, beside, metadata={_HEADER_KEY: json.dumps(content, ensure_ascii=False)})
        beside.chmod(mode)  # safetensors allows only the owner to read


def load_record(path: str | Path) -> InspectionRecord:
    """Load a record that `save_record` wrote.

    Raises:
        RunError: there is no such file, it is damaged, or it is not a record.
    """
    require_path(path, name="path")
    try:
        header, arrays = _read_file(Path(path))
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror or error}); give the file of a saved record") from None
    except (SafetensorError, ValueError) as error:
        raise RunError(f"{path}: is not a record, or is damaged ({error}); save it again") from None
    if header is None:
        raise RunError(f"{path}: contains tensors but no record; name a file that `heedful inspect --save` wrote")
    try:
        content = parse_json(header)
        version = content["format"]
        if version in (1, 2, FORMAT_VERSION):
            record = _build_value(InspectionRecord, content["record"], arrays)
            assert isinstance(record, InspectionRecord)
            require_consistent(record)
            return record
    except (ValueError, KeyError, TypeError, DataError) as error:
        raise RunError(f"{path}: the record in it cannot be read ({error}); save it again") from None
    raise RunError(
        f"{path}: has format {version!r}, this version of heedful reads 1 to {FORMAT_VERSION}; install the one that "
        "wrote it"
    )


def _read_file(path: Path) -> tuple[str | None, dict[str, np.ndarray]]:
    """Return the header entry of a record file, or None if there is none, and its tensors."""
    check_memory(path)
    read_header(path)
    with safe_open(path, framework="numpy") as file:
        return (file.metadata() or {}).get(_HEADER_KEY), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _to_json(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Convert a part of a record, or a value in it, to JSON values. Arrays move into `arrays` and are replaced by their
    name; `name` is the dotted name of the value.
    """
    if isinstance(value, np.ndarray):
        arrays[name] = np.ascontiguousarray(value)
        return {"array": name}
    if is_dataclass(value):
        prefix = f"{name}." if name else ""
        return {each.name: _to_json(getattr(value, each.name), prefix + each.name, arrays) for each in fields(value)}
    if isinstance(value, tuple):
        return [_to_json(each, f"{name}.{number}", arrays) for number, each in enumerate(value)]
    return value


@cache
def _get_field_types(cls: type) -> dict[str, Any]:
    """Return the types of the fields of a part of a record."""
    return get_type_hints(cls)


def _build_value(hint: Any, content: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Build a value of the type `hint` from JSON, the inverse of `_to_json`; `arrays` has the arrays by name. Raise
    `TypeError` if the content has another type.
    """
    if get_origin(hint) in (Union, UnionType):  # a part that may be left out
        if content is None:
            return None
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    origin, type_args = get_origin(hint), get_args(hint)
    if origin is tuple and isinstance(content, list):
        return tuple(_build_value(type_args[0], each, arrays) for each in content)
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(content, dict):
        return _build_part(hint, content, arrays)
    if isinstance(content, dict) and content.keys() == {"array"} and isinstance(hint, type):
        array = arrays[content["array"]]
        if isinstance(array, hint):
            return array
        raise TypeError(f"{content['array']} is {array.dtype} of shape {array.shape}")
    if hint is float and type(content) is int:
        return float(content)
    if (origin is Literal and content in type_args) or (hint in (str, int, float, bool) and type(content) is hint):
        return content
    raise TypeError(f"{ascii(content)[:40]} is not {getattr(hint, '__name__', hint)}")


def _build_part(cls: type, content: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Build the dataclass `cls`, a part of a record, from the JSON of its fields; `arrays` has the arrays by name.
    Raise `TypeError` for an unknown field.
    """
    hints = _get_field_types(cls)
    if unknown := content.keys() - hints.keys():
        raise TypeError(f"{cls.__name__} has no {min(unknown)!r}")
    with jaxtyped("context"):  # one name of a dimension is one length within a part
        return cls(
            **{name: _build_value(hints[name], field_content, arrays) for name, field_content in content.items()}
        )


def write_figure(svg: str, path: Path, *, resolution: float = 200.0) -> None:
    """Write an SVG picture as .svg, or convert it to .pdf or .png with typst, by the suffix of `path`; the output is
    reproducible. `resolution` is for .png, in dots per inch.

    Args:
        svg: the picture, as `draw_figure` returns it.
        path: its suffix determines the format.
        resolution: of a PNG, in dots per inch; a pixel of the picture is 1/96 inch.

    Raises:
        RecipeError: unknown suffix.
        MissingExtraError: typst is not installed.
        TrainingError: the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in (".svg", ".pdf", ".png"):
        raise RecipeError(f"{path}: unknown kind of picture {suffix!r}; take .svg, .pdf or .png")
    content = svg.encode("utf-8", errors="replace")
    if suffix != ".svg":
        content = _convert_with_typst(content, "pdf" if suffix == ".pdf" else "png", resolution)
    with atomic_replace(path) as beside:
        beside.write_bytes(content)


def _convert_with_typst(svg: bytes, kind: Literal["pdf", "png"], resolution: float) -> bytes:
    """Convert an SVG file to PDF or PNG with typst; `resolution` is for PNG, in dots per inch."""
    try:
        import typst
    except ImportError:
        raise MissingExtraError(
            f"a figure as {kind} needs the package typst; install it with: pip install 'heedful[figures]', or take .svg"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "figure.svg").write_bytes(svg)
        page = Path(folder) / "figure.typ"
        page.write_text(_TYPST_PAGE, encoding="utf-8")
        return typst.compile(str(page), format=kind, ppi=resolution)


def write_weights(record: InspectionRecord, path: Path) -> None:
    """Write all weights of a record as .npz or .csv.

    A .npz holds, for each map, `role.layer.weights` [H, Q, K], `.visible` [Q, K], `.heads` and `.axes` (the names of
    the query and key axes), and `tokens.axis` for each axis; with attributions also `attribution.method.scores` [N, K],
    `.rows` and `.columns`. A .csv has a line for each weight.

    Raises:
        RecipeError: unknown suffix.
        TrainingError: the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in _TABLE_WRITERS:
        raise RecipeError(f"{path}: unknown kind of table {suffix!r}; take {' or '.join(_TABLE_WRITERS)}")
    with atomic_replace(path) as beside:
        _TABLE_WRITERS[suffix](record, beside)


def write_array(array: np.ndarray, path: Path) -> None:
    """Write one array as .npy; `TrainingError` if that fails."""
    with atomic_replace(path) as beside, beside.open("wb") as file:
        np.save(file, array)


def _write_npz(record: InspectionRecord, path: Path) -> None:
    """Write weights, axes and attributions as .npz."""
    arrays: dict[str, Any] = {f"tokens.{axis.name}": _to_string_array(axis.tokens) for axis in record.axes}
    for attention_map in record.maps:
        name = f"{attention_map.role}.{attention_map.layer}"
        arrays[f"{name}.weights"] = attention_map.weights
        arrays[f"{name}.visible"] = attention_map.visible
        arrays[f"{name}.heads"] = np.array(attention_map.heads, dtype=np.int64)
        arrays[f"{name}.axes"] = _to_string_array((attention_map.queries, attention_map.keys))
    for attribution in record.attributions:
        rows, columns = record.list_attribution_labels(attribution)
        arrays[f"attribution.{attribution.method}.scores"] = attribution.scores
        arrays[f"attribution.{attribution.method}.rows"] = _to_string_array(rows)
        arrays[f"attribution.{attribution.method}.columns"] = _to_string_array(columns)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _to_string_array(texts: tuple[str, ...]) -> np.ndarray:
    # numpy drops NUL at the end of a string
    """Convert texts to a numpy array of strings."""
    return np.array([text.replace("\0", "\u2400") for text in texts], dtype=np.str_)


def _write_csv(record: InspectionRecord, path: Path) -> None:
    """Write all weights as .csv."""
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file)  # set the line ends here, or a carriage return in a token would not be quoted
        writer.writerow(("role", "layer", "head", "query index", "query", "key index", "key", "weight"))
        for attention_map in record.maps:
            writer.writerows(_iter_csv_rows(record, attention_map))


def _iter_csv_rows(record: InspectionRecord, attention_map: AttentionMap) -> Iterator[tuple[object, ...]]:
    """Yield a CSV row for each weight of a map: role, layer, head, index and token of query and key, and the weight."""
    queries, keys = record.get_axis(attention_map.queries).tokens, record.get_axis(attention_map.keys).tokens
    for head, weights in zip(attention_map.heads, attention_map.weights, strict=True):
        for i, row in enumerate(weights):
            for j, weight in enumerate(row):
                yield attention_map.role, attention_map.layer, head, i, queries[i], j, keys[j], str(weight)


_TABLE_WRITERS: MappingProxyType[str, Callable[[InspectionRecord, Path], None]] = MappingProxyType(
    {".npz": _write_npz, ".csv": _write_csv}
)


def require_consistent(record: InspectionRecord) -> None:
    """Raise `DataError` if a part of a record refers to something that the record does not have.

    Records made from a model are consistent; a file may contain anything.
    """
    for attention_map in record.maps:
        _check_map(record, attention_map)
    for embedded in record.embedded:
        if len(embedded.words) > (count := len(record.get_axis(embedded.axis).tokens)):
            raise DataError(
                f"embedded {embedded.side}: {len(embedded.words)} vectors of {count} tokens of {embedded.axis}"
            )
    for number, branch in enumerate(record.tree):
        if not -1 <= branch.parent < number:
            raise DataError(f"branch {number}: continues branch {branch.parent}; branches come after their parents")
        if not branch.log_probability <= _MAX_LOG_PROBABILITY:
            raise DataError(f"branch {number}: its log-probability is {branch.log_probability}; give one of at most 0")
    for token in record.written:
        _check_generated_token(token)
    max_tokens = max((len(axis.tokens) for axis in record.axes), default=0)
    for answer in record.answers:
        _check_answer(answer, max_tokens)


def _check_map(record: InspectionRecord, attention_map: AttentionMap) -> None:
    """Raise `DataError` if a map's heads, layer or weights are invalid, or its size differs from that of its axes in
    the record.
    """
    heads, queries, keys = attention_map.weights.shape
    if (
        len(attention_map.heads) != heads
        or len(set(attention_map.heads)) != heads
        or min(attention_map.heads, default=0) < 0
    ):
        raise DataError(f"{attention_map.name}: weights of {heads} heads, which are called {attention_map.heads[:8]}")
    if attention_map.layer < 0:
        raise DataError(f"{attention_map.name}: layers are counted from 0")
    for name, length in ((attention_map.queries, queries), (attention_map.keys, keys)):
        if length != len(record.get_axis(name).tokens):
            raise DataError(
                f"{attention_map.name}: {length} places, and the axis {name} has {len(record.get_axis(name).tokens)}"
            )
    if not np.isfinite(attention_map.weights).all():
        raise DataError(f"{attention_map.name}: holds weights that are not numbers")


def _check_generated_token(token: GeneratedToken) -> None:
    """Raise `DataError` if a logarithm is not that of a probability, or the probability of copying is none."""
    for name, value in (
        (token.token, token.log_probability),
        *((other.token, other.log_probability) for other in token.alternatives),
    ):
        if not value <= _MAX_LOG_PROBABILITY:
            raise DataError(f"token {name!r}: its log-probability is {value}; give one of at most 0")
    copied = token.copy_probability
    if copied is not None and not 0 <= copied <= _MAX_PROBABILITY:
        raise DataError(f"token {token.token!r}: its probability of copying is {copied}; give one from 0 to 1")


def _check_answer(answer: ModelAnswer, num_tokens: int) -> None:
    """Raise `DataError` if an answer is empty, or refers to a token although there are only `num_tokens` tokens."""
    if answer.number is None and not answer.options:
        raise DataError(f"answer about {answer.about}: has neither options nor a number")
    for option in answer.options:
        if not 0 <= option.probability <= _MAX_PROBABILITY:
            raise DataError(f"option {option.name!r}: its probability is {option.probability}; give one from 0 to 1")
    for index in (answer.place, *(option.place for option in answer.options)):
        if index is not None and not 0 <= index < num_tokens:
            raise DataError(f"answer about {answer.about}: refers to token {index}, but there are {num_tokens}")
