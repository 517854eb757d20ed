"""Calls with shapes that a signature excludes are refused, though only the first of calls that are alike is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jaxtyping
import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, Int, TypeCheckError
from shape_checks import disable_shape_checks
from torch import Tensor

from heedful.tensors import Tokens

checked = jaxtyping.jaxtyped(typechecker=beartype)  # as the hook writes above each function


class Widen:
    """Rows of 4 numbers, unless it was made otherwise."""

    def __init__(self, width: int = 4) -> None:
        self.width = width

    @checked
    def widen(self, rows: Float[Tensor, "N d"], *, by: Float[Tensor, " d"] | None = None) -> Float[Tensor, "N 4"]:
        return rows.new_zeros(len(rows), self.width)


@checked
def total(parts: Sequence[Float[Tensor, " n"]]) -> Later:
    return torch.stack(list(parts)).sum(0)


@checked
def count(rows: int) -> str:
    return "row" if rows == 1 else rows  # type: ignore[return-value]


@checked
@dataclass(frozen=True)
class Scores:
    ids: Int[Tensor, "N T"]
    of_each: Float[Tensor, " N"]


Later = Float[Tensor, " n"]
"""Unknown when `total` is decorated."""
ROWS = torch.zeros(2, 3)


def test_what_is_given_is_checked_whatever_was_given_before() -> None:
    for _ in range(2):
        assert Widen().widen(ROWS).shape == (2, 4)
        assert Widen().widen(ROWS, by=ROWS[0]).shape == (2, 4)
        for wrong in (ROWS[0], ROWS.long(), ROWS.numpy()):
            with pytest.raises(TypeCheckError):
                Widen().widen(wrong)
        with pytest.raises(TypeCheckError):
            Widen().widen(ROWS, by=ROWS[0, :2])


def test_what_is_returned_is_checked_though_the_same_was_given_before() -> None:
    for _ in range(2):
        Widen().widen(ROWS)
        with pytest.raises(TypeCheckError):
            Widen(5).widen(ROWS)


def test_items_and_types_that_are_defined_later_are_checked() -> None:
    for _ in range(2):
        assert total([ROWS[0], ROWS[1]]).shape == (3,)
        with pytest.raises(TypeCheckError):
            total([ROWS, ROWS])


def test_functions_without_arrays_are_checked() -> None:
    for _ in range(2):
        assert count(1) == "row"
        with pytest.raises(BeartypeCallHintViolation):
            count(2)
        with pytest.raises(BeartypeCallHintViolation):
            count("2")  # type: ignore[arg-type]


def test_parts_of_a_dataclass_agree() -> None:
    for _ in range(2):
        assert Scores(torch.zeros(2, 5, dtype=torch.long), ROWS[:, 0]).of_each.shape == (2,)
        with pytest.raises(TypeCheckError):
            Scores(torch.zeros(3, 5, dtype=torch.long), ROWS[:, 0])


def test_nothing_is_checked_where_that_is_asked_for() -> None:
    with disable_shape_checks():
        assert Widen(5).widen(ROWS).shape == (2, 5)
    with pytest.raises(TypeCheckError):
        Widen(5).widen(ROWS)


def test_the_package_is_checked() -> None:
    with pytest.raises(TypeCheckError):
        Tokens(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 4, dtype=torch.long))
