"""Arrays as text for a web page: quantised, compressed, in base 64."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

Packed = dict[str, Any]
"""`type` of the numbers (u8, u16, f16 or bit), `shape`, and `data`: base 64 of zlib's stream of them, little-endian."""

_FINE = 2**19
"""Weights in all that a page may hold in 16 bits; more get 8."""


def fine(count: int) -> bool:
    """Whether a page with so many weights has room for 16 bits for each."""
    return count <= _FINE


def pack_weights(weights: Float[np.ndarray, "H Q K"], *, fine: bool) -> Packed:
    """Weights from 0 to 1 as whole numbers: 65,535 w in 16 bits, or 255 w / s in 8.

    The first is off by at most 1/131,070, the second by at most s/510; s is 1, or the largest weight of a head that has
    none above 1/8. The page is told, under `scales`. Weights beyond that range, which `proportional` may give, are kept
    as numbers of 16 bits with a floating point.
    """
    if weights.size and (weights.min() < 0 or weights.max() > 1):
        return pack_numbers(weights)
    exact = weights.astype(np.float64)
    if fine:
        return _packed("u16", np.rint(exact * 65535).astype("<u2"))
    largest = exact.max((1, 2), initial=0.0)
    scales = np.where((largest > 0) & (largest < 1 / 8), largest, 1.0)
    return {**_packed("u8", np.rint(exact / scales[:, None, None] * 255).astype("u1")), "scales": scales.tolist()}


def pack_numbers(numbers: Float[np.ndarray, ...]) -> Packed:
    """Any numbers, in half precision: three digits; beyond 65,504 they are cut to it."""
    limit = float(np.finfo(np.float16).max)
    return _packed("f16", np.clip(numbers, -limit, limit).astype("<f2"))


def pack_bits(bits: Bool[np.ndarray, ...]) -> Packed:
    """Truth values, eight in a byte, the first one highest."""
    return {**_packed("bit", np.packbits(bits)), "shape": list(bits.shape)}


def _packed(kind: str, numbers: np.ndarray) -> Packed:
    stream = zlib.compress(np.ascontiguousarray(numbers).tobytes())
    return {"type": kind, "shape": list(numbers.shape), "data": base64.b64encode(stream).decode("ascii")}
