"""What is said between two processes that have loaded the same models: what belongs to these is named, not copied."""

from __future__ import annotations

import io
import pickle
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from heedful.serving.registry import ModelRegistry

_PLAIN_TYPES: Final = (str, bytes, int, float, complex, type(None), type, Enum)
_CODE_TYPES: Final = (FunctionType, BuiltinFunctionType, MethodType, ModuleType)


@final
class SharedObjects:
    """All that models are made of, by where in them it is.

    An engine, a tokenizer or a matrix is sent as the name of its place, and is the receiver's own there; all else is
    pickled. This is for what a process says to one that it has begun itself, through a pipe that nobody else has:
    whoever writes into it could have any code run. Nothing of it is ever kept, and no file is read so.

    Args:
        roots: the models, as each process has loaded them and before it asks them anything.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        self._by_path = dict(_iter_paths(roots))
        self._paths_by_id = {id(shared_object): path for path, shared_object in self._by_path.items()}

    def __getitem__(self, path: str) -> Any:
        """What is at a place; `KeyError` where nothing is."""
        return self._by_path[path]

    def find_path(self, value: object) -> str | None:
        """Where something is, if it is a part."""
        return self._paths_by_id.get(id(value))

    def iter_objects(self) -> Iterator[object]:
        """Each part once."""
        return iter(self._by_path.values())

    def dumps(self, value: object) -> bytes:
        """As bytes; an exception of `pickle` where it cannot be sent to another process."""
        buffer = io.BytesIO()
        _SharedPickler(buffer, self).dump(value)
        return buffer.getvalue()

    def loads(self, content: bytes) -> Any:
        """What `dumps` was given there, with the parts that are here."""
        return _SharedUnpickler(io.BytesIO(content), self).load()


def collect_shared_objects(registry: ModelRegistry) -> SharedObjects:
    """Of all that is asked in a house; before it is, since not every process has what is made then."""
    return SharedObjects({name: model.predictor for name, model in registry.models_and_indices.items()})


def _iter_paths(roots: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Each object below the roots once, and the first place at which it is; the nearest come first."""
    queue, seen_ids = deque(roots.items()), set[int]()
    while queue:
        path, value = queue.popleft()
        if id(value) in seen_ids or isinstance(value, _PLAIN_TYPES + _CODE_TYPES):
            continue
        seen_ids.add(id(value))
        if isinstance(value, Mapping):
            queue += [(f"{path}[{key!r}]", child) for key, child in value.items() if isinstance(key, str | int)]
        elif isinstance(value, list | tuple):
            queue += [(f"{path}[{index}]", child) for index, child in enumerate(value)]
        elif not isinstance(value, set | frozenset):
            yield path, value
            queue += [(f"{path}.{name}", child) for name, child in getattr(value, "__dict__", {}).items()]


def _load_reference(path: str) -> Any:
    raise AssertionError(f"{path}: a reader has it by itself")


def _rebuild_error(
    error_type: type[BaseException], args: tuple[Any, ...], attributes: Mapping[str, Any]
) -> BaseException:
    error = error_type.__new__(error_type, *args)
    vars(error).update(attributes)
    return error


@final
class _SharedPickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, shared_objects: SharedObjects) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._shared_objects = shared_objects

    def reducer_override(self, value: object) -> Any:
        """Parts are called by their places; exceptions are what they say, however they are made."""
        path = self._shared_objects.find_path(value)
        if path is not None:
            return _load_reference, (path,)
        return (
            (_rebuild_error, (type(value), value.args, vars(value)))
            if isinstance(value, BaseException)
            else NotImplemented
        )


@final
class _SharedUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared_objects: SharedObjects) -> None:
        super().__init__(file)
        self._shared_objects = shared_objects

    def find_class(self, module: str, name: str) -> Any:
        """Places become parts."""
        if (module, name) == (__name__, _load_reference.__name__):
            return self._shared_objects.__getitem__
        return super().find_class(module, name)
