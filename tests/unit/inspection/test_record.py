"""Parts of a record that others are made of."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from random_records import build_random_record
from view_records import build_chain_record, build_glimpse_record, build_story_record

from heedful.errors import DataError
from heedful.inspection.record import Glimpse, MapAxis, TokenSpan
from heedful.inspection.svg import make_photo_url


def test_the_mean_over_heads_is_a_mean() -> None:
    (each,) = build_random_record(layers=1, heads=3, roles=("cross",)).maps
    longhand = (each.weights[0] + each.weights[1] + each.weights[2]) / 3
    np.testing.assert_allclose(each.mean_weights, longhand, atol=1e-6)
    np.testing.assert_allclose(each.mean_weights.sum(1), 1, atol=1e-5)


def test_heads_keep_their_numbers() -> None:
    (whole,) = build_random_record(layers=1, heads=4, roles=("cross",), walk=True).maps
    part = whole.keep_heads([3, 1])
    assert part.heads == (1, 3)
    np.testing.assert_array_equal(part.get_head_weights(3), whole.weights[3])
    np.testing.assert_array_equal(part.weights[0], whole.weights[1])
    assert part.walk is not None
    assert whole.walk is not None
    np.testing.assert_array_equal(part.walk.scores[1], whole.walk.scores[3])


def test_axes_say_what_stands_along_them() -> None:
    picture, film, text = (
        MapAxis.from_grid("picture", rows=2, columns=3),
        MapAxis.from_frames("film", 4),
        MapAxis("source", ("a", "b")),
    )
    assert picture.tokens == ("0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert [each.size_text for each in (picture, film, text)] == ["2 x 3", "4", "2"]
    assert [each.kind for each in (picture, film, text)] == ["grid", "frames", "text"]


@pytest.mark.parametrize(("kind", "columns"), [("grid", 4), ("grid", None), ("text", 3), ("frames", 1)])
def test_axes_that_are_no_grid(kind: str, columns: int | None) -> None:
    with pytest.raises(DataError, match="axis picture: 6 tokens of kind"):
        MapAxis("picture", tuple("abcdef"), kind, columns)  # type: ignore[arg-type]


PIXELS = np.zeros((1, 4, 6, 3), np.uint8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MapAxis.from_grid("picture", rows=2, columns=2, pictures=PIXELS.repeat(4, 0)),
            "4 pictures of 4 places of kind",
        ),
        (lambda: MapAxis.from_frames("film", 3, pictures=PIXELS.repeat(2, 0)), "2 pictures of 3 places"),
        (lambda: MapAxis("text", ("a",), pictures=PIXELS), "1 pictures of 1 places of kind 'text'"),
        (lambda: MapAxis.from_frames("film", 3, pictures=PIXELS[0]), r"shape \(4, 6, 3\)"),  # type: ignore[arg-type]
        (lambda: MapAxis.from_frames("film", 1, pictures=PIXELS.astype(np.float32)), "pictures of float32"),
        (lambda: MapAxis.from_frames("film", 3, marked=(1, 3)), "place 3 is marked; mark places from 0 to 2"),
        (lambda: MapAxis("facts", ("a",), marked=(-1,)), "place -1 is marked"),
        (lambda: MapAxis("text", ("a", "b"), spans=(TokenSpan("me", 0, 3),)), "span 'me' from 0 to 3 of 2"),
        (
            lambda: MapAxis("text", ("a", "b"), spans=(TokenSpan("me", 0, 2), TokenSpan("you", 1, 2))),
            "span 'you' from 1 to 2",
        ),
        (lambda: Glimpse(0.5, 1.5, (0.1,)), r"glimpse at \(0.5, 1.5\)"),
        (lambda: Glimpse(0.5, float("nan"), (0.1,)), "glimpse at"),
        (lambda: Glimpse(0.5, 0.5, ()), "one or more"),
        (lambda: Glimpse(0.5, 0.5, (0.1, 0.0)), "each above 0"),
        (lambda: replace(build_glimpse_record(), axes=build_story_record().axes), "glimpses without a picture"),
        (lambda: replace(build_story_record().maps[0], edges=np.zeros((1, 1, 5, 5), np.float32)), r"\(1, 0, 5, 5\)"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


def test_edges_of_some_heads_are_theirs() -> None:
    (whole,) = build_chain_record(heads=3).maps
    part = whole.keep_heads([2])
    assert whole.edges is not None
    assert part.edges is not None
    np.testing.assert_array_equal(part.edges[0], whole.edges[2])


def test_a_photograph_is_the_same_to_others_and_a_large_one_means_of_its_blocks() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

    def seen(pixels: np.ndarray, longest: int) -> np.ndarray:
        content = base64.b64decode(make_photo_url(pixels, longest=longest).removeprefix("data:image/png;base64,"))
        return np.asarray(image.open(BytesIO(content)))

    pixels = np.random.default_rng(1).integers(0, 256, (7, 10, 3)).astype(np.uint8)
    np.testing.assert_array_equal(seen(pixels, 10), pixels)
    small = seen(pixels, 4)  # blocks of two rows and three columns, fewer at the ends
    assert small.shape == (4, 4, 3)
    for row in range(4):
        for column in range(4):
            block = pixels[2 * row : 2 * row + 2, 3 * column : 3 * column + 3].astype(float)
            np.testing.assert_allclose(small[row, column], block.mean((0, 1)), atol=0.51)
