"""Messages between the parent, which serves HTTP, and its worker processes, and how they are pickled."""

from __future__ import annotations

import io
import pickle
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

if TYPE_CHECKING:
    from heedful.serving.registry import ModelRegistry


_PLAIN_TYPES: Final = (str, bytes, int, float, complex, type(None), type, Enum)
_CODE_TYPES: Final = (FunctionType, BuiltinFunctionType, MethodType, ModuleType)


@final
@dataclass(frozen=True)
class RunJobMessage:
    """To a worker: run a batch job.

    Attributes:
        request_number: by which later messages refer to the request.
        model: key of the model.
        answer_batch: pickled function that answers a batch, as `SharedObjects` writes it; equal bytes are
            unpickled once.
        examples: pickled examples to answer.
        sizes: see `BatchJob`, as are the next two.
        batch_tokens: most token ids of a batch, with padding.
        max_rows: most examples of a batch.
        with_partials: whether to send partial outputs of growing texts.
        seconds: that the request was granted.
        expires_at: end of that time, on the monotonic clock that all processes of a machine share.
        trace_parent: fields that name the parent of the job's span; None if the request is not traced.
    """

    request_number: int
    model: str
    answer_batch: bytes
    examples: bytes
    sizes: Sequence[int]
    batch_tokens: int
    max_rows: int
    with_partials: bool
    seconds: float
    expires_at: float
    trace_parent: Mapping[str, str] | None = None


@final
@dataclass(frozen=True)
class CancelMessage:
    """To a worker: the client of this request has disconnected."""

    request_number: int


@final
@dataclass(frozen=True)
class ShutdownMessage:
    """To a worker: no more requests will come, so the process may end."""


@final
@dataclass(frozen=True)
class ReadyMessage:
    """From a worker: its models are loaded and warm."""


@final
@dataclass(frozen=True)
class LoadErrorMessage:
    """From a worker: its models could not be loaded."""

    error: Exception


@final
@dataclass(frozen=True)
class AnswersMessage:
    """From a worker: the pickled answers to all examples of a request, in order."""

    request_number: int
    answers: bytes


@final
@dataclass(frozen=True)
class ErrorMessage:
    """From a worker: a request failed with this error."""

    request_number: int
    error: BaseException


@final
@dataclass(frozen=True)
class PartialMessage:
    """From a worker: the token ids that an example has so far."""

    request_number: int
    index: int
    ids: Sequence[int]


@final
@dataclass(frozen=True)
class CountsMessage:
    """From a worker: work since the last such message, as (model, texts) of each step and (model, number of tokens)."""

    batches: Sequence[tuple[str, int]]
    token_counts: Sequence[tuple[str, int]]


ParentMessage: TypeAlias = RunJobMessage | CancelMessage | ShutdownMessage
"""Message to a worker."""
WorkerMessage: TypeAlias = (
    ReadyMessage | LoadErrorMessage | AnswersMessage | ErrorMessage | PartialMessage | CountsMessage
)
"""Message from a worker."""


@final
class SharedObjects:
    """All objects that belong to loaded models, by their paths there, for pickling references to them.

    An engine, a tokenizer or an array of a model is sent as its path, and the receiver uses its own object;
    everything else is pickled. This is only for messages between a process and its children over a private
    pipe: anyone who can write into the pipe could run any code. Nothing pickled is stored, and no file is read
    this way.

    Args:
        roots: the models by key, as each process has loaded them and before they are used.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        self._by_path = dict(_iter_paths(roots))
        self._paths_by_id = {id(shared_object): path for path, shared_object in self._by_path.items()}

    def __getitem__(self, path: str) -> Any:
        """Return the object at a path; raise `KeyError` if there is none."""
        return self._by_path[path]

    def find_path(self, value: object) -> str | None:
        """Return the path of an object, or None if it does not belong to the models."""
        return self._paths_by_id.get(id(value))

    def iter_objects(self) -> Iterator[object]:
        """Yield each object once."""
        return iter(self._by_path.values())

    def dumps(self, value: object) -> bytes:
        """Pickle a value; an exception of `pickle` is raised if it cannot be sent."""
        buffer = io.BytesIO()
        _SharedPickler(buffer, self).dump(value)
        return buffer.getvalue()

    def loads(self, content: bytes) -> Any:
        """Unpickle what `dumps` wrote in another process, with this process's own shared objects."""
        return _SharedUnpickler(io.BytesIO(content), self).load()


def collect_shared_objects(registry: ModelRegistry) -> SharedObjects:
    """Collect the shared objects of all models of a registry.

    Call it before the models are used, since objects that are created later differ between processes.
    """
    return SharedObjects({name: model.predictor for name, model in registry.models_and_indices.items()})


def _iter_paths(roots: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the path and each object below the roots (models by key) once, with the shortest path, in breadth-first
    order.
    """
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
    """Stand for a reference in a pickle; `_SharedUnpickler` replaces it, so it is never called."""
    raise AssertionError(f"{path}: the reader replaces this reference")


def _rebuild_error(
    error_type: type[BaseException], args: tuple[Any, ...], attributes: Mapping[str, Any]
) -> BaseException:
    """Rebuild an exception from its type, arguments and attributes without calling its constructor."""
    error = error_type.__new__(error_type, *args)
    vars(error).update(attributes)
    return error


_FOUND_CLASSES: Final[dict[tuple[str, str], Any]] = {}
"""Classes and functions that messages name, by module and name; searching them again would take as long as the rest."""


@final
class _SharedPickler(pickle.Pickler):
    """Pickler that writes shared objects as paths."""

    def __init__(self, file: io.BytesIO, shared_objects: SharedObjects) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._shared_objects = shared_objects

    def reducer_override(self, value: object) -> Any:
        """Reduce a shared object to its path, and an exception to type, arguments and attributes; return
        `NotImplemented` for any other value, which is then pickled as usual.
        """
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
    """Unpickler that replaces paths by the shared objects of this process."""

    def __init__(self, file: io.BytesIO, shared_objects: SharedObjects) -> None:
        super().__init__(file)
        self._shared_objects = shared_objects

    def find_class(self, module: str, name: str) -> Any:
        """Look up the class or function of this name in a module; for references, return a function that finds the
        shared object.
        """
        if (module, name) == (__name__, _load_reference.__name__):
            return self._shared_objects.__getitem__
        try:
            return _FOUND_CLASSES[module, name]
        except KeyError:
            found = _FOUND_CLASSES[module, name] = super().find_class(module, name)
            return found
