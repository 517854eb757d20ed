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
    from heedful.serving.house import House

_ATOMS: Final = (str, bytes, int, float, complex, type(None), type, Enum)
_WORKING: Final = (FunctionType, BuiltinFunctionType, MethodType, ModuleType)


@final
class Parts:
    """All that models are made of, by where in them it is.

    An engine, a tokenizer or a matrix is sent as the name of its place, and is the receiver's own there; all else is
    pickled. This is for what a process says to one that it has begun itself, through a pipe that nobody else has:
    whoever writes into it could have any code run. Nothing of it is ever kept, and no file is read so.

    Args:
        roots: the models, as each process has loaded them and before it asks them anything.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        self._at = dict(_parts(roots))
        self._places = {id(part): place for place, part in self._at.items()}

    def __getitem__(self, place: str) -> Any:
        """What is at a place; `KeyError` where nothing is."""
        return self._at[place]

    def place(self, value: object) -> str | None:
        """Where something is, if it is a part."""
        return self._places.get(id(value))

    def every(self) -> Iterator[object]:
        """Each part once."""
        return iter(self._at.values())

    def dumps(self, value: object) -> bytes:
        """As bytes; an exception of `pickle` where it cannot be sent to another process."""
        written = io.BytesIO()
        _Writer(written, self).dump(value)
        return written.getvalue()

    def loads(self, content: bytes) -> Any:
        """What `dumps` was given there, with the parts that are here."""
        return _Reader(io.BytesIO(content), self).load()


def parts_of(house: House) -> Parts:
    """Of all that is asked in a house; before it is, since not every process has what is made then."""
    return Parts({name: model.face for name, model in house.all.items()})


def _parts(roots: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Each object below the roots once, and the first place at which it is; the nearest come first."""
    waiting, seen = deque(roots.items()), set[int]()
    while waiting:
        place, value = waiting.popleft()
        if id(value) in seen or isinstance(value, _ATOMS + _WORKING):
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            waiting += [(f"{place}[{key!r}]", each) for key, each in value.items() if isinstance(key, str | int)]
        elif isinstance(value, list | tuple):
            waiting += [(f"{place}[{number}]", each) for number, each in enumerate(value)]
        elif not isinstance(value, set | frozenset):
            yield place, value
            waiting += [(f"{place}.{name}", each) for name, each in getattr(value, "__dict__", {}).items()]


def _part(place: str) -> Any:
    raise AssertionError(f"{place}: a reader has it by itself")


def _error(kind: type[BaseException], args: tuple[Any, ...], told: Mapping[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    vars(error).update(told)
    return error


@final
class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, parts: Parts) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._parts = parts

    def reducer_override(self, value: object) -> Any:
        """Parts are called by their places; exceptions are what they say, however they are made."""
        place = self._parts.place(value)
        if place is not None:
            return _part, (place,)
        return (_error, (type(value), value.args, vars(value))) if isinstance(value, BaseException) else NotImplemented


@final
class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, parts: Parts) -> None:
        super().__init__(file)
        self._parts = parts

    def find_class(self, module: str, name: str) -> Any:
        """Places become parts."""
        if (module, name) == (__name__, _part.__name__):
            return self._parts.__getitem__
        return super().find_class(module, name)
