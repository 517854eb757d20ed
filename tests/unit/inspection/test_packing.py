"""Arrays for the page: what comes out is what went in, up to what packing promises."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

import numpy as np
import pytest
from random_records import build_dirichlet_record, build_random_record

from heedful.inspection.web import (
    build_payload,
    pack_bits,
    pack_numbers,
    pack_weights,
    render_notebook_viewer,
    render_viewer,
)


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    """As arrays.js does it."""
    content = zlib.decompress(base64.b64decode(packed["data"]))
    match packed["type"]:
        case "u16":
            numbers = np.frombuffer(content, "<u2") / 65535
        case "u8":
            heads = np.frombuffer(content, "u1").reshape(len(packed["scales"]), -1)
            numbers = heads / 255 * np.array(packed["scales"])[:, None]
        case "f16":
            numbers = np.frombuffer(content, "<f2").astype(np.float64)
        case "bit":
            numbers = np.unpackbits(np.frombuffer(content, "u1"))[: int(np.prod(packed["shape"]))]
    return numbers.reshape(packed["shape"])


@pytest.mark.parametrize("fine", [False, True])
def test_weights_are_as_exact_as_promised(fine: bool) -> None:
    weights = np.random.default_rng(1).dirichlet(np.full(50, 0.1), (2, 30)).astype(np.float32)
    weights[0, 0, :3], weights[1] = (0, 1, 0.5), weights[1] / 20
    found = unpacked(pack_weights(weights, use_16_bits=fine))
    allowed = 1 / 131_070 if fine else np.array([1, weights[1].max()])[:, None, None] / 510
    assert (np.abs(found - weights) <= allowed + 1e-9).all()
    assert found[0, 0, 0] == 0
    assert found[0, 0, 1] == 1


@pytest.mark.parametrize("keys", [1, 600, 5000])
def test_heads_that_look_everywhere_alike_still_do(keys: int) -> None:
    rows = unpacked(pack_weights(np.full((1, 3, keys), 1 / keys), use_16_bits=False))
    assert rows.sum(2) == pytest.approx(np.ones((1, 3)))


def test_heads_without_weights_stay_so() -> None:
    assert unpacked(pack_weights(np.zeros((2, 3, 4)), use_16_bits=False)).max() == 0


def test_weights_that_are_no_shares_are_kept_as_numbers() -> None:
    weights = np.array([[[-0.25, 1.5]]])
    np.testing.assert_array_equal(unpacked(pack_weights(weights, use_16_bits=True)), weights)


def test_numbers_have_three_digits_and_an_end() -> None:
    numbers = np.array([3.14159, -1e-3, 1e9, -np.inf, 0.0])
    assert unpacked(pack_numbers(numbers)) == pytest.approx([3.14159, -1e-3, 65504, -65504, 0], rel=1e-3)


def test_bits() -> None:
    bits = np.random.default_rng(1).random((7, 5)) < 0.5
    np.testing.assert_array_equal(unpacked(pack_bits(bits)), bits)


def test_the_page_holds_the_record_and_loads_nothing() -> None:
    record = build_random_record(walk=True, source=("</script><script>alert(1)</script>", "\u2028", "</s>"))
    page = render_viewer(record)
    assert page.count("</script>") == 3  # those of the page itself
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in page
    (content,) = re.findall(r'<script type="application/json" id="record">(.*?)</script>', page, re.DOTALL)
    found = json.loads(content)
    assert found == build_payload(record)
    assert found["axes"][0]["tokens"] == list(record.axes[0].tokens)
    for packed, each in zip(found["maps"], record.maps, strict=True):
        np.testing.assert_allclose(unpacked(packed["weights"]), each.weights, atol=1e-5)
        np.testing.assert_array_equal(unpacked(packed["visible"]), each.visible)
        assert each.walk is not None
        np.testing.assert_allclose(unpacked(packed["walk"]["values"]), each.walk.values, rtol=1e-3, atol=1e-3)


def test_many_weights_take_eight_bits() -> None:
    kinds = {each["weights"]["type"] for each in build_payload(build_dirichlet_record(12, 12, 128))["maps"]}
    assert kinds == {"u8"}


def test_in_a_notebook_the_page_is_a_frame() -> None:
    record = build_random_record(layers=1)
    frame = record._repr_html_()
    assert frame == render_notebook_viewer(record)
    (inside,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert "<" not in inside
    assert 'sandbox="allow-scripts"' in frame
