"""Parts of a record that others are made of."""

from __future__ import annotations

import numpy as np
import pytest
from inspected import made_up

from heedful.errors import DataError
from heedful.inspection.record import Axis


def test_the_mean_over_heads_is_a_mean() -> None:
    (each,) = made_up(layers=1, heads=3, roles=("cross",)).maps
    longhand = (each.weights[0] + each.weights[1] + each.weights[2]) / 3
    np.testing.assert_allclose(each.mean, longhand, atol=1e-6)
    np.testing.assert_allclose(each.mean.sum(1), 1, atol=1e-5)


def test_heads_keep_their_numbers() -> None:
    (whole,) = made_up(layers=1, heads=4, roles=("cross",), walk=True).maps
    part = whole.only([3, 1])
    assert part.heads == (1, 3)
    np.testing.assert_array_equal(part.head(3), whole.weights[3])
    np.testing.assert_array_equal(part.weights[0], whole.weights[1])
    assert part.walk is not None
    assert whole.walk is not None
    np.testing.assert_array_equal(part.walk.scores[1], whole.walk.scores[3])


def test_axes_say_what_stands_along_them() -> None:
    picture, film, text = Axis.grid("picture", rows=2, columns=3), Axis.frames("film", 4), Axis("source", ("a", "b"))
    assert picture.tokens == ("0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert [each.size for each in (picture, film, text)] == ["2 x 3", "4", "2"]
    assert [each.kind for each in (picture, film, text)] == ["grid", "frames", "text"]


@pytest.mark.parametrize(("kind", "columns"), [("grid", 4), ("grid", None), ("text", 3), ("frames", 1)])
def test_axes_that_are_no_grid(kind: str, columns: int | None) -> None:
    with pytest.raises(DataError, match="axis picture: 6 tokens of kind"):
        Axis("picture", tuple("abcdef"), kind, columns)  # type: ignore[arg-type]
