"""Fit the polynomials of `src/activations.inc`, and print that file: python native/fit_activations.py

GELU(x) is x (1/2 + f(x)), and its derivative 1/2 + f'(x) is of the same kind, with functions f that are odd. Each is
fitted up to a limit, where it becomes 1/2 and stays so: by x p(z) with z = 2 (x / limit)^2 - 1 and
p(z) = 1 / (2 limit) + (1 - z) r(z). The weights of the least squares follow the errors (Lawson 1961), so that the
largest error becomes small. It needs NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev, polynomial

_POINTS, _ROUNDS = 6000, 60
_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def normal_cdf_minus_half(x: float) -> float:
    """Return P(X < x) - 1/2 of the standard normal distribution: the factor of GELU."""
    return math.erf(x / math.sqrt(2)) / 2


def gelu_derivative_minus_half(x: float) -> float:
    """Return the derivative of GELU, minus 1/2."""
    return normal_cdf_minus_half(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def tanh_factor(x: float) -> float:
    """Return the factor of GELU's approximation by tanh, minus 1/2."""
    return math.tanh(_TANH_SCALE * (x + _TANH_CUBE * x**3)) / 2


def gelu_tanh_derivative_minus_half(x: float) -> float:
    """Return the derivative of GELU's approximation by tanh, minus 1/2."""
    factor = tanh_factor(x)
    return factor + x * (0.5 - 2 * factor * factor) * _TANH_SCALE * (1 + 3 * _TANH_CUBE * x * x)


_FITS: dict[str, tuple[Callable[[float], float], float, int]] = {
    "GELU_FACTOR": (normal_cdf_minus_half, 5.25, 13),
    "GELU_SLOPE": (gelu_derivative_minus_half, 5.75, 16),
    "TANH_FACTOR": (tanh_factor, 5.0, 14),
    "TANH_SLOPE": (gelu_tanh_derivative_minus_half, 5.25, 19),
}
"""Function, limit and degree of each polynomial."""


def fit_polynomial(function: Callable[[float], float], limit: float, degree: int) -> tuple[np.ndarray, float]:
    """Return the coefficients of p, the highest power first, and the largest error of x p at points up to the limit."""
    x = limit * np.sin(np.linspace(1e-4, math.pi / 2, _POINTS))  # denser near the limit
    values = np.array([function(point) for point in x])
    z = 2 * (x / limit) ** 2 - 1
    terms = chebyshev.chebvander(z, degree - 1) * (x * (1 - z))[:, None]
    targets = values - x / (2 * limit)
    weights = np.ones_like(x)
    for _ in range(_ROUNDS):
        roots = np.sqrt(weights)
        series = np.linalg.lstsq(terms * roots[:, None], targets * roots, rcond=None)[0]
        errors = np.abs(terms @ series - targets)
        weights *= errors / (weights @ errors)
    factors = polynomial.polymul([1, -1], chebyshev.cheb2poly(series))
    factors[0] += 1 / (2 * limit)
    return factors[::-1], float(errors.max())


def main() -> None:
    """Print the C++ file."""
    print("// Made by `fit_activations.py`: odd functions as x p(2 (x / limit)^2 - 1), highest power first.")
    for name, (function, limit, degree) in _FITS.items():
        factors, error = fit_polynomial(function, limit, degree)
        print(
            f"\n// Error {error:.0e} below the limit; beyond it, the function differs from 1/2 by up to "
            f"{abs(function(limit) - 0.5):.0e}."
        )
        print(f"constexpr float {name}_LIMIT = {limit}f;")
        print(f"constexpr float {name}[] = {{")
        for start in range(0, len(factors), 6):
            print("    " + ", ".join(f"{factor:.9g}f" for factor in factors[start : start + 6]) + ",")
        print("};")


if __name__ == "__main__":
    main()
