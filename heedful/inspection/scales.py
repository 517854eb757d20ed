"""Scales of plot axes, linear and logarithmic, and their ticks."""

from __future__ import annotations

import math

from heedful.inspection.svg import Number

_FEW_DECADES, _MOST_DECADES = 3, 10
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Scale:
    """A linear axis scale: equal differences are equal distances."""

    def transform(self, value: Number) -> float:
        """Return the position of a value, up to unit and origin."""
        return float(value)

    def inverse_transform(self, position: float) -> float:
        """Return the value at a position."""
        return position

    def make_ticks(self, low: Number, high: Number) -> tuple[tuple[Number, str], ...]:
        """Return four to nine round ticks (value, label) that enclose the lowest and the highest value."""
        if low == high:
            half = abs(low) / 10 or 1.0
            low, high = low - half, high + half
        step = _round_up_step((high - low) / 5)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return tuple((i * step, f"{i * step + 0.0:,.{digits}f}") for i in range(first, last + 1))


class LogarithmicScale(Scale):
    """A logarithmic axis scale: equal ratios are equal distances; for values above 0."""

    def transform(self, value: Number) -> float:
        """Return the logarithm to base 10."""
        if value <= 0:
            raise ValueError(f"{value} has no place on a logarithmic axis: give values above 0, or take a linear one")
        return math.log10(value)

    def inverse_transform(self, position: float) -> float:
        """Return the power of 10."""
        power: float = 10.0**position
        return power

    def make_ticks(self, low: Number, high: Number) -> tuple[tuple[Number, str], ...]:
        """Return powers of ten as ticks; with 2 and 5 times these if there are few, and only some if there are many."""
        first, last = math.floor(self.transform(low) + 1e-9), math.ceil(self.transform(high) - 1e-9)
        if last - first > _MOST_DECADES:
            stride = -(-(last - first) // _MOST_DECADES)
            return tuple((10.0**n, _format_power(1, n)) for n in range(first, last + stride, stride))
        factors = (1, 2, 5) if last - first <= _FEW_DECADES else (1,)
        marks = [(factor, n) for n in range(first - 1, last + 2) for factor in factors]
        # from the last mark that is not above the lowest value to the first later one that reaches the highest
        start = max(i for i, (factor, n) in enumerate(marks) if factor * 10.0**n <= low * (1 + 1e-9))
        end = next(i for i, (factor, n) in enumerate(marks) if i > start and factor * 10.0**n >= high * (1 - 1e-9))
        return tuple((factor * 10.0**n, _format_power(factor, n)) for factor, n in marks[start : end + 1])


LINEAR, LOGARITHMIC = Scale(), LogarithmicScale()


def _format_power(factor: int, power: int) -> str:
    """Format factor times 10 to the power, as a plain number if that is short."""
    if -4 <= power <= 5:
        return f"{factor * 10**power:,}" if power >= 0 else f"{factor * 10.0**power:.{-power}f}"
    raised = "10" + str(power).translate(_SUPERSCRIPT)
    return raised if factor == 1 else f"{factor}·{raised}"


def _round_up_step(rough: Number) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
