"""The step of a Transformer, products of bytes and the ranking of logits, in native code.

What is handed over are addresses: this package knows neither torch nor NumPy. The structures and functions are those of
`src/native.h`, which says what they mean; `heedful` uses them where it finds this package.
"""

from __future__ import annotations

import ctypes
import weakref
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any, Final

_LIBRARY: Final = ctypes.CDLL(str(Path(__file__).with_name("library.so")))
INTERFACE: Final = 1
"""Grows with each change of structures and functions; `heedful` says which one it was written for."""
DONE, POSITION_TOO_LARGE, NO_SUCH_ENTRY = range(3)
"""What `forward` answers."""
ACTIVATIONS: Final = ("relu", "gelu", "gelu_tanh", "silu")
"""Their numbers are their places."""


class Linear(Structure):
    """x W' + b."""

    _fields_ = [("weight", c_void_p), ("bias", c_void_p)]


class Norm(Structure):
    """LayerNorm."""

    _fields_ = [("gain", c_void_p), ("bias", c_void_p), ("epsilon", c_float)]


class Table(Structure):
    """A vector for each entry."""

    _fields_ = [("bytes", c_void_p), ("scale", c_void_p), ("floats", c_void_p), ("entries", c_int64)]


class Attention(Structure):
    """Projections, and the norm around them."""

    _fields_ = [("query", Linear), ("key_value", Linear), ("output", Linear), ("norm", Norm)]


class Layer(Structure):
    """Attention to what was read, attention across to each memory, and feed-forward."""

    _fields_ = [
        ("own", Attention),
        ("across", POINTER(Attention)),
        ("inner", Linear),
        ("outer", Linear),
        ("norm", Norm),
    ]


class Stack(Structure):
    """Embedding and layers."""

    _fields_ = [
        ("words", Table),
        ("segments", Table),
        ("places", c_void_p),
        ("cosines", c_void_p),
        ("sines", c_void_p),
        ("embedding_norm", Norm),
        ("final_norm", Norm),
        ("layers", POINTER(Layer)),
        ("positions", c_int64),
        ("depth", c_int64),
        ("memories", c_int64),
        ("width", c_int64),
        ("heads", c_int64),
        ("before", c_int64),
        ("after", c_int64),
        ("scale", c_float),
        ("pre_norm", c_int32),
        ("activation", c_int32),
    ]


class Chunk(Structure):
    """Tokens."""

    _fields_ = [
        ("ids", c_void_p),
        ("positions", c_void_p),
        ("segments", c_void_p),
        ("vectors", c_void_p),
        ("rows", c_int64),
        ("length", c_int64),
    ]


class Cache(Structure):
    """Keys and values that tokens have left."""

    _fields_ = [
        ("numbers", c_void_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("layer", c_int64),
        ("past", c_void_p),
        ("read", c_int64),
        ("present", c_void_p),
    ]


class Memory(Structure):
    """Keys and values across."""

    _fields_ = [
        ("numbers", c_void_p),
        ("positions", c_void_p),
        ("of", c_void_p),
        ("rows", c_int64),
        ("slots", c_int64),
    ]


class Growing(Structure):
    """The rows of greedy search and of sampling."""

    _fields_ = [("positions", c_void_p), ("lengths", c_void_p), ("done", c_void_p)]


class Writing(Structure):
    """Until when rows go on, and by what."""

    _fields_ = [
        ("limits", c_void_p),
        ("forbidden", c_void_p),
        ("forbidden_count", c_int64),
        ("eos", c_int64),
        ("steps", c_int64),
    ]


class Beams(Structure):
    """The sentences of a beam search."""

    _fields_ = [
        ("counts", c_void_p),
        ("live", c_void_p),
        ("done", c_void_p),
        ("ended", c_void_p),
        ("places", c_void_p),
        ("last", c_void_p),
    ]


class Candidates(Structure):
    """Continuations, best first."""

    _fields_ = [
        ("totals", c_void_p),
        ("values", c_void_p),
        ("beams", c_void_p),
        ("ids", c_void_p),
        ("ends", c_void_p),
        ("ranks", c_void_p),
    ]


def _declared(name: str, *arguments: Any, result: Any = None) -> Any:
    function = getattr(_LIBRARY, name)
    function.argtypes, function.restype = arguments, result
    return function


_processors = _declared("heedful_processors", result=c_char_p)
_use = _declared("heedful_use", c_char_p, result=c_int32)
_bytes = _declared("heedful_bytes", c_void_p, c_void_p, c_int64, c_int64, result=c_void_p)
_floats = _declared("heedful_floats", c_void_p, c_int64, c_int64, result=c_void_p)
_free = _declared("heedful_free", c_void_p)

linear = _declared("heedful_linear", c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int32)
"""`linear(matrix.address, bias, x, count, out, threads)`: out[i] = x[i] W' + b."""
forward = _declared(
    "heedful_forward",
    POINTER(Stack),
    POINTER(Chunk),
    POINTER(Cache),
    POINTER(Memory),
    c_void_p,
    c_int32,
    result=c_int32,
)
"""`forward(stack, chunk, cache, memories, hidden, threads)`: hidden vectors of a chunk; returns `DONE` or why not."""
write = _declared(
    "heedful_write",
    *(POINTER(Stack), POINTER(Linear), POINTER(Chunk), POINTER(Cache), POINTER(Memory), POINTER(Writing)),
    *(POINTER(Growing), POINTER(Growing), c_void_p, c_void_p, c_void_p, c_void_p, c_int32),
    result=c_int32,
)
"""Several steps of greedy search: `write(stack, output, chunk, cache, memories, how, before, after, ids,
log_probabilities, at, told, threads)`; returns what `forward` returns."""
normalisers = _declared("heedful_normalisers", c_void_p, c_int64, c_int64, c_void_p, c_int32)
"""`normalisers(x, rows, columns, out, threads)`: log(sum(exp(x))) of each row."""
top = _declared(
    "heedful_top",
    *(c_void_p, c_void_p, c_int64, c_int64, c_int64, c_int64),
    *(c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int32),
)
"""The largest of each group: `top(x, offsets, groups, width, columns, k, values, members, places, logits, normalisers,
log_probabilities, threads)`."""
grow = _declared(
    "heedful_grow",
    *(c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
    *(POINTER(Growing), POINTER(Growing), c_void_p, c_void_p, c_void_p),
)
"""Rows behind one more token: `grow(logits, normalisers, rows, columns, copies, picked, ended, limits, before, after,
log_probabilities, at, told)`."""
select = _declared(
    "heedful_select",
    *(POINTER(Candidates), c_int64, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
    *(POINTER(Beams), POINTER(Beams), POINTER(Candidates), c_void_p),
)
"""Sentences behind one more token of each beam: `select(found, sentences, width, kept, divisors, forced, limits,
before, after, chosen, told)`."""


def processors() -> tuple[str, ...]:
    """The instruction sets that this processor has of those that there are kernels for, best first."""
    names: bytes = _processors()
    return tuple(names.decode().split())


def use(name: str) -> None:
    """Computes with another instruction set from now on; matrices that there are keep theirs.

    Raises:
        ValueError: this processor has none of that name.
    """
    if not _use(name.encode()):
        raise ValueError(f"instruction set {name!r}: not here; choose one of {', '.join(processors())}")


class Matrix:
    """Of a linear map, packed for this processor; it is freed with this object.

    Attributes:
        address: of the packed matrix.
    """

    address: int

    def __init__(self, address: int) -> None:
        self.address = address
        weakref.finalize(self, _free, address)

    @classmethod
    def of_bytes(cls, rows: int, scale: int, n: int, k: int) -> Matrix:
        """Of whole numbers from -127 to 127 at an address, [n, k], and what a row of them is to be multiplied by."""
        return cls(_bytes(rows, scale, n, k))

    @classmethod
    def of_floats(cls, rows: int, n: int, k: int) -> Matrix:
        """Of floats at an address, [n, k]."""
        return cls(_floats(rows, n, k))
