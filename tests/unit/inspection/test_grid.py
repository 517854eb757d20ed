"""Numbers of heads as squares: each where it belongs, in the colour of its share."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from heedful.errors import DataError
from heedful.inspection.figures.maps import HeadValue, draw_heads_grid
from heedful.inspection.heatmap import INK

SVG = "{http://www.w3.org/2000/svg}"


def test_every_head_has_its_number_and_its_colour() -> None:
    rated = [HeadValue("cross", layer, head, value) for layer, head, value in ((0, 0, 0.5), (0, 2, 2.0), (1, 0, -1.0))]
    rated.append(HeadValue("encoder", 3, 1, 1.0))
    picture = draw_heads_grid(rated, title="lost & found", digits=1)
    root = ElementTree.fromstring(picture)
    assert root.attrib["aria-label"] == "lost & found"
    squares = [each for each in root.iter(f"{SVG}rect") if each.attrib.get("rx") == "4"]
    texts = [each for each in root.iter(f"{SVG}text") if "style" in each.attrib]
    assert [each.text for each in texts] == ["0.5", "2.0", "-1.0", "1.0"]
    assert [each.attrib["fill"] for each in squares] == [INK.get_colour(share) for share in (0.25, 1.0, 0.0, 0.5)]
    for square, text in zip(squares, texts, strict=True):
        middle = float(square.attrib["x"]) + float(square.attrib["width"]) / 2
        assert float(text.attrib["x"]) == pytest.approx(middle)
    places = [(float(each.attrib["x"]), float(each.attrib["y"])) for each in squares[:3]]
    assert places[1][0] > places[0][0] == places[2][0]
    assert places[2][1] > places[0][1] == places[1][1]
    assert re.findall(r">layer (\d)<", picture) == ["0", "1", "3"]


def test_heads_that_are_worth_nothing_are_pale() -> None:
    picture = draw_heads_grid([HeadValue("cross", 0, 0, -2.0), HeadValue("cross", 0, 1, 0.0)], title="none")
    assert picture.count(f'fill="{INK.get_colour(0.0)}"') == 2
    with pytest.raises(DataError, match="no heads"):
        draw_heads_grid([], title="none")
