"""Transformer steps, int8 matrix products, the ranking of logits and operators of training, in native code.

The arguments are memory addresses: this package uses neither torch nor NumPy. The structures and functions are those of
`src/native.h`, which documents them. `heedful` uses this package if it is installed.
"""

from __future__ import annotations

import ctypes
import weakref
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any, Final

_LIBRARY: Final = ctypes.CDLL(str(Path(__file__).with_name("library.so")))
INTERFACE: Final = 5
"""Version of the interface; it grows with each change of structures and functions, and `heedful` checks it."""
DONE, POSITION_TOO_LARGE, NO_SUCH_ENTRY = range(3)
"""Return values of `forward`."""
ACTIVATIONS: Final = ("relu", "gelu", "gelu_tanh", "silu")
"""Names of the activations; the index is the number in `Stack.activation`."""


class Linear(Structure):
    """Parameters of a linear map, x W' + b."""

    _fields_ = [("weight", c_void_p), ("bias", c_void_p)]


class Norm(Structure):
    """Parameters of a LayerNorm, or of an RMSNorm, which is not centred."""

    _fields_ = [("gain", c_void_p), ("bias", c_void_p), ("epsilon", c_float), ("centred", c_int32)]


class Table(Structure):
    """Embedding table with a vector for each entry."""

    _fields_ = [("bytes", c_void_p), ("scale", c_void_p), ("floats", c_void_p), ("entries", c_int64)]


class Attention(Structure):
    """Parameters of an attention: projections and norms."""

    _fields_ = [
        ("query", Linear),
        ("key_value", Linear),
        ("output", Linear),
        ("norm", Norm),
        ("query_norm", Norm),
        ("key_norm", Norm),
    ]


class Layer(Structure):
    """Parameters of a layer: self-attention, cross-attention to each memory, and feed-forward."""

    _fields_ = [
        ("own", Attention),
        ("across", POINTER(Attention)),
        ("inner", Linear),
        ("outer", Linear),
        ("gate", Linear),
        ("norm", Norm),
    ]


class Stack(Structure):
    """Parameters of a Transformer: embedding and layers."""

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
        ("key_value_heads", c_int64),
        ("head_width", c_int64),
        ("turned", c_int64),
        ("before", c_int64),
        ("after", c_int64),
        ("scale", c_float),
        ("pre_norm", c_int32),
        ("activation", c_int32),
    ]


class Chunk(Structure):
    """Tokens to read, [rows, length]."""

    _fields_ = [
        ("ids", c_void_p),
        ("positions", c_void_p),
        ("segments", c_void_p),
        ("vectors", c_void_p),
        ("rows", c_int64),
        ("length", c_int64),
    ]


class Cache(Structure):
    """Cache of the keys and values of earlier tokens."""

    _fields_ = [
        ("numbers", c_void_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("layer", c_int64),
        ("past", c_void_p),
        ("parents", c_void_p),
        ("read", c_int64),
        ("present", c_void_p),
    ]


class Memory(Structure):
    """Keys and values of a cross-attention."""

    _fields_ = [
        ("numbers", c_void_p),
        ("positions", c_void_p),
        ("of", c_void_p),
        ("rows", c_int64),
        ("slots", c_int64),
    ]


class RowState(Structure):
    """State of the rows in greedy search and sampling."""

    _fields_ = [("positions", c_void_p), ("lengths", c_void_p), ("done", c_void_p)]


class Repetition(Structure):
    """Rules about tokens that occur again, with the texts so far."""

    _fields_ = [
        ("texts", c_void_p),
        ("exempt", c_void_p),
        ("length", c_int64),
        ("exempt_count", c_int64),
        ("ngram_size", c_int64),
        ("penalty", c_float),
        ("after", c_void_p),
    ]


class DecodingOptions(Structure):
    """Options of several steps of a search: length limits, forbidden tokens, EOS, the number of steps, repetition."""

    _fields_ = [
        ("limits", c_void_p),
        ("forbidden", c_void_p),
        ("forbidden_count", c_int64),
        ("eos", c_int64),
        ("steps", c_int64),
        ("repetition", POINTER(Repetition)),
    ]


class Beams(Structure):
    """State of the sentences in a beam search."""

    _fields_ = [
        ("counts", c_void_p),
        ("live", c_void_p),
        ("done", c_void_p),
        ("ended", c_void_p),
        ("places", c_void_p),
        ("last", c_void_p),
    ]


class Candidates(Structure):
    """Candidate continuations of the beams, best first."""

    _fields_ = [
        ("totals", c_void_p),
        ("values", c_void_p),
        ("beams", c_void_p),
        ("ids", c_void_p),
        ("ends", c_void_p),
        ("ranks", c_void_p),
    ]


class HeadVectors(Structure):
    """Vectors [rows, tokens, heads, width] with strides; each vector is dense."""

    _fields_ = [("numbers", c_void_p), ("row", c_int64), ("token", c_int64), ("head", c_int64)]


class AttentionBatch(Structure):
    """Attention that is trained: its operands, its mask, and its weights."""

    _fields_ = [
        ("query", HeadVectors),
        ("key", HeadVectors),
        ("value", HeadVectors),
        ("context", HeadVectors),
        ("rows", c_int64),
        ("heads", c_int64),
        ("queries", c_int64),
        ("keys", c_int64),
        ("width", c_int64),
        ("value_width", c_int64),
        ("hidden", c_void_p),
        ("hidden_row", c_int64),
        ("hidden_query", c_int64),
        ("hidden_key", c_int64),
        ("factors", c_void_p),
        ("weights", c_void_p),
        ("scale", c_float),
        ("bfloat16", c_int32),
    ]


class Dropout(Structure):
    """Dropout, decided by a random byte for each number."""

    _fields_ = [("bytes", c_void_p), ("threshold", c_int32), ("scale", c_float)]


class NormBatch(Structure):
    """LayerNorm of vectors [rows, width], with the moments that its gradient needs."""

    _fields_ = [
        ("x", c_void_p),
        ("gain", c_void_p),
        ("bias", c_void_p),
        ("moments", c_void_p),
        ("rows", c_int64),
        ("width", c_int64),
        ("epsilon", c_float),
        ("bfloat16", c_int32),
    ]


def _declare(name: str, *arguments: Any, result: Any = None) -> Any:
    """Return a function of the library with the types of its arguments and result set."""
    function = getattr(_LIBRARY, name)
    function.argtypes, function.restype = arguments, result
    return function


_processors = _declare("heedful_processors", result=c_char_p)
_use = _declare("heedful_use", c_char_p, result=c_int32)
_pack_int8 = _declare("heedful_pack_int8", c_void_p, c_void_p, c_int64, c_int64, result=c_void_p)
_pack_bfloat16 = _declare("heedful_pack_bfloat16", c_void_p, c_int64, c_int64, result=c_void_p)
_pack_float32 = _declare("heedful_pack_float32", c_void_p, c_int64, c_int64, result=c_void_p)
_free = _declare("heedful_free", c_void_p)

linear = _declare("heedful_linear", c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int32)
"""Apply a linear map to `count` vectors, out[i] = x[i] W' + b:
`linear(matrix.address, bias, x, count, out, threads)`."""
forward = _declare(
    "heedful_forward",
    POINTER(Stack),
    POINTER(Chunk),
    POINTER(Cache),
    POINTER(Memory),
    c_void_p,
    c_int32,
    result=c_int32,
)
"""Compute the hidden vectors of a chunk: `forward(stack, chunk, cache, memories, hidden, threads)`.

Returns `DONE`, or the reason of a failure: `POSITION_TOO_LARGE` or `NO_SUCH_ENTRY`."""
decode_greedy = _declare(
    "heedful_decode_greedy",
    *(POINTER(Stack), POINTER(Linear), POINTER(Chunk), POINTER(Cache), POINTER(Memory), POINTER(DecodingOptions)),
    *(POINTER(RowState), POINTER(RowState), c_void_p, c_void_p, c_void_p, c_void_p, c_int32),
    result=c_int32,
)
"""Run several steps of greedy search: `decode_greedy(stack, output, chunk, cache, memories, options, before, after,
ids, log_probabilities, at, result, threads)`.

Returns the same values as `forward`."""
decode_beams = _declare(
    "heedful_decode_beams",
    *(POINTER(Stack), POINTER(Linear), POINTER(Chunk), POINTER(Cache), POINTER(Memory), POINTER(DecodingOptions)),
    *(c_int64, c_int64, c_void_p, c_void_p, POINTER(Beams), POINTER(Beams)),
    *(c_void_p, c_void_p, c_void_p, c_void_p, c_int32),
    result=c_int32,
)
"""Run several steps of beam search: `decode_beams(stack, output, chunk, cache, memories, options, width, kept,
divisors, forced, before, after, ids, log_probabilities, beams, result, threads)`.

Returns the same values as `forward`."""
normalisers = _declare("heedful_normalisers", c_void_p, c_int64, c_int64, c_void_p, c_int32)
"""Compute log(sum(exp(x))) of each row: `normalisers(x, rows, columns, out, threads)`."""
top = _declare(
    "heedful_top",
    *(c_void_p, c_void_p, c_int64, c_int64, c_int64, c_int64),
    *(c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int32),
)
"""Find the k largest values of each group of rows: `top(x, offsets, groups, width, columns, k, values, members, places,
logits, normalisers, log_probabilities, threads)`."""
append_tokens = _declare(
    "heedful_append_tokens",
    *(c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
    *(POINTER(RowState), POINTER(RowState), c_void_p, c_void_p, c_void_p),
)
"""Append a token to each row: `append_tokens(logits, normalisers, rows, columns, copies, picked, ended, limits, before,
after, log_probabilities, at, result)`."""
select = _declare(
    "heedful_select",
    *(POINTER(Candidates), c_int64, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
    *(POINTER(Beams), POINTER(Beams), POINTER(Candidates), c_void_p),
)
"""Advance each sentence of a beam search by a token: `select(found, sentences, width, kept, divisors, forced, limits,
before, after, chosen, result)`."""

attention = _declare("heedful_attention", POINTER(AttentionBatch), c_int32)
"""Compute contexts and weights: `attention(batch, threads)`."""
attention_backward = _declare("heedful_attention_backward", POINTER(AttentionBatch), POINTER(HeadVectors), c_int32)
"""Compute the gradients of query, key and value: `attention_backward(batch, gradients, threads)`."""
dropout = _declare("heedful_dropout", POINTER(Dropout), c_void_p, c_void_p, c_int64, c_void_p, c_int32, c_int32)
"""Compute x + dropout(branch): `dropout(dropout, x, branch, count, out, bfloat16, threads)`."""
norm = _declare("heedful_norm", POINTER(NormBatch), c_void_p, c_int32)
"""Compute LayerNorm: `norm(batch, out, threads)`."""
norm_backward = _declare("heedful_norm_backward", POINTER(NormBatch), c_void_p, c_void_p, c_void_p, c_void_p, c_int32)
"""Compute the gradients of LayerNorm: `norm_backward(batch, gradient, d_x, d_gain, d_bias, threads)`."""
bias_activation = _declare(
    "heedful_bias_activation", c_void_p, c_int64, c_int64, c_void_p, c_int32, c_void_p, c_int32, c_int32
)
"""Add a bias and compute an activation:
`bias_activation(x, rows, width, bias, activation, out, bfloat16, threads)`."""
bias_activation_backward = _declare(
    "heedful_bias_activation_backward",
    *(c_void_p, c_void_p, c_int64, c_int64, c_int32, c_void_p, c_void_p, c_int32, c_int32),
)
"""Compute the gradients of input and bias:
`bias_activation_backward(gradient, x, rows, width, activation, d_x, d_bias, bfloat16, threads)`."""
cross_entropy = _declare(
    "heedful_cross_entropy",
    *(c_void_p, c_int64, c_int64, c_void_p, c_float, c_void_p, c_int32, c_void_p, c_void_p, c_int32, c_int32),
)
"""Compute log-probabilities of labels, and the gradient of the logits in their place: `cross_entropy(logits, rows,
columns, labels, confidence, weights, gradient, log_probabilities, chosen, bfloat16, threads)`."""


def processors() -> tuple[str, ...]:
    """Return the names of the instruction sets that this processor and the library support, best first."""
    names: bytes = _processors()
    return tuple(names.decode().split())


def use(name: str) -> None:
    """Use another instruction set from now on; existing matrices keep theirs.

    Raises:
        ValueError: this processor has no instruction set of that name.
    """
    if not _use(name.encode()):
        raise ValueError(f"instruction set {name!r}: not here; choose one of {', '.join(processors())}")


class Matrix:
    """Matrix of a linear map, packed for this processor; it is freed with this object.

    Attributes:
        address: address of the packed matrix.
    """

    address: int

    def __init__(self, address: int) -> None:
        self.address = address
        weakref.finalize(self, _free, address)

    @classmethod
    def from_int8(cls, rows: int, scale: int, n: int, k: int) -> Matrix:
        """Pack an int8 matrix [n, k] with values from -127 to 127 at address `rows`, and a scale for each row."""
        return cls(_pack_int8(rows, scale, n, k))

    @classmethod
    def from_float32(cls, rows: int, n: int, k: int) -> Matrix:
        """Pack a float matrix [n, k] at address `rows`."""
        return cls(_pack_float32(rows, n, k))

    @classmethod
    def to_bfloat16(cls, rows: int, n: int, k: int) -> Matrix:
        """Round a float matrix [n, k] at address `rows` to bf16, and pack it."""
        return cls(_pack_bfloat16(rows, n, k))
