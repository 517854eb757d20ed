"""Figures of a record: every view well-formed for any tokens, inside its frame, and true to the numbers."""

from __future__ import annotations

import base64
import math
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from random_records import GERMAN, build_answer_record, build_dirichlet_record, build_random_record
from view_records import build_view_record

from heedful.attention.hooks import AttentionKind
from heedful.errors import DataError, RecipeError
from heedful.inspection.figures import VIEWS, draw_figure
from heedful.inspection.figures.maps import name_mask
from heedful.inspection.figures.sheet import MapSelection
from heedful.inspection.flow import compute_attention_flow, compute_rollout
from heedful.inspection.heatmap import GLOW, INK, map_colours
from heedful.inspection.record import AttentionMap, BeamNode, GeneratedToken, InspectionRecord, MapAxis
from heedful.inspection.svg import draw_image, encode_png, make_visible

SVG = "{http://www.w3.org/2000/svg}"
AWKWARD = [
    "</svg>", "<script>alert(1)</script>", '"&\'', "&amp;", "\x00\x1b[31m", "", "   ", "昭和五十一年", "e\u0301",
    "\u202eabc", "👩\u200d👧", "\ud800", "▁Donaudampfschifffahrtsgesellschaft", "شنبه", "]]>",
]  # fmt: skip
ELEMENTS = {"svg", "g", "rect", "circle", "path", "text", "title", "style", "image"}


def tree_of(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg.encode("utf-8"))


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in tree_of(svg).iter(f"{SVG}text")]


def pixels_of(data: bytes) -> np.ndarray:
    """A PNG read by its specification, with every checksum tested."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place, chunks = 8, {}
    while place < len(data):
        size, name = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + size]
        assert struct.unpack(">I", data[place + 8 + size : place + 12 + size]) == (zlib.crc32(name + body),)
        chunks[name] = body
        place += 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 2, 0, 0, 0], "eight bits, red, green and blue, no interlace"
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any(), "no filter"
    return rows[:, 1:].reshape(height, width, 3)


def cells(pixels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """One pixel for each cell, after a look that all pixels of a cell are the same."""
    down, across = pixels.shape[0] // shape[0], pixels.shape[1] // shape[1]
    found = pixels[::down, ::across]
    np.testing.assert_array_equal(found.repeat(down, 0).repeat(across, 1), pixels)
    return found


def images(svg: str) -> list[np.ndarray]:
    links = [node.attrib["href"] for node in tree_of(svg).iter(f"{SVG}image")]
    return [pixels_of(base64.b64decode(link.removeprefix("data:image/png;base64,"))) for link in links]


def places(node: ElementTree.Element, x: float = 0, y: float = 0) -> Iterator[tuple[ElementTree.Element, float, float]]:
    """Every text with where it begins, through the groups around it."""
    moved = re.match(r"translate\((\S+) (\S+)\)", node.attrib.get("transform", ""))
    if moved:
        x, y = x + float(moved[1]), y + float(moved[2])
    if node.tag == f"{SVG}text":
        yield node, x + float(node.attrib.get("x", 0)), y + float(node.attrib.get("y", 0))
    for child in node:
        yield from places(child, x, y)


@pytest.mark.parametrize("view", VIEWS)
def test_any_token_gives_well_formed_xml_that_loads_nothing(view: str) -> None:
    layers = 1 if view == "flow" else 2  # which takes longest of all to be computed
    record = build_view_record(view, AWKWARD, layers=layers, heads=3)
    record = replace(record, model="<b>\x00", notes=("</svg>",))
    svg = draw_figure(record, view=view)
    root = tree_of(svg)
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= ELEMENTS
    links = [value for node in root.iter() for name, value in node.attrib.items() if name.endswith("href")]
    assert all(link.startswith("data:image/png;base64,") for link in links)
    assert not re.search(r"\bon[a-z]+=|url\(|@import", re.sub(r"<title>.*?</title>|<text.*?</text>", "", svg))
    for text in texts(svg):
        assert text.strip()
        hidden = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\u200c\u200d"]
        assert not hidden


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("heads", [1, 8])
def test_everything_lies_inside_the_picture(view: str, heads: int) -> None:
    """Texts are measured by a rule of thumb of half an em for each letter."""
    tokens = ["a", "Hottentottenstottertrottel", "b", "昭和五十一年", "c", "d"]
    svg = draw_figure(build_view_record(view, tokens, layers=2, heads=heads), view=view)
    root = tree_of(svg)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for node, x, y in places(root):
        size = float(node.attrib.get("font-size", root.attrib["font-size"]))
        reach = size * sum(1.0 if unicodedata.east_asian_width(c) == "W" else 0.5 for c in node.text or "")
        share = {"end": (-1.0, 0.0), "middle": (-0.5, 0.5)}.get(node.attrib.get("text-anchor", ""), (0.0, 1.0))
        tilt = math.cos(math.radians(50)) if "rotate" in node.attrib.get("transform", "") else 1.0
        assert left <= x + share[0] * reach * tilt, node.text
        assert x + share[1] * reach * tilt <= left + width, node.text
        assert top + size / 2 < y <= top + height, node.text


def test_the_same_record_gives_the_same_picture() -> None:
    for view in VIEWS:
        one, other = (build_view_record(view, GERMAN, layers=1, heads=2) for _ in range(2))
        assert draw_figure(one, view=view) == draw_figure(other, view=view)


def test_unknown_views_and_missing_parts_are_named() -> None:
    record = build_random_record(1, 2, roles=("encoder",))
    with pytest.raises(
        RecipeError, match=r"view: 'alignmnet' is not a view; choose one of alignment, heads, .*decoding"
    ):
        draw_figure(record, view="alignmnet")
    with pytest.raises(DataError, match=r"no cross attention in this record; it has encoder"):
        draw_figure(record, role="cross")
    with pytest.raises(DataError, match=r"has heads 0, 1 in this record, not 5"):
        draw_figure(record, head=5)
    with pytest.raises(DataError, match="inspect with other --heads"):
        draw_figure(record.keep_maps(heads=[7]))
    bare = InspectionRecord("bare", (), ())
    for view in VIEWS:
        with pytest.raises(DataError):
            draw_figure(bare, view=view)


def test_an_alignment_shows_one_head_or_their_mean() -> None:
    record = build_random_record(2, 3)
    each = record.find_map("cross", layer=0)
    for head, weights in ((None, each.mean_weights), (2, each.weights[2])):
        svg = draw_figure(record, layer=0, head=head, ramp=INK)
        tips = [node.text or "" for node in tree_of(svg).iter(f"{SVG}title")][1:]
        assert [float(tip.rsplit(": ", 1)[1]) for tip in tips] == [round(w, 3) for w in weights.ravel().tolist()]
    assert "cross layer 0, head 2" in texts(svg)
    assert {"source →", "written ↓"} <= set(texts(svg))
    assert {"read →", "written ↓"} <= set(texts(draw_figure(record, role="decoder")))


def test_a_large_alignment_is_one_image() -> None:
    record = build_dirichlet_record(1, 1, 300)
    svg = draw_figure(record)
    (pixels,) = images(svg)
    np.testing.assert_array_equal(cells(pixels, (300, 300)), map_colours(record.maps[0].weights[0], GLOW))
    assert len(svg) < 600_000


def test_weights_beyond_zero_and_one_are_cut_and_this_is_said() -> None:
    record = build_random_record(1, 1)
    maps = tuple(replace(each, weights=3 * each.weights - 1) for each in record.maps)
    svg = draw_figure(replace(record, maps=maps))
    assert any("drawn as 0 and 1" in text for text in texts(svg))
    assert not any("drawn as" in text for text in texts(draw_figure(record)))


def test_lines_are_as_strong_as_weights() -> None:
    record = build_random_record(2, 3)
    each = record.find_map("encoder", layer=1)
    groups = tree_of(draw_figure(record, view="heads", role="encoder")).findall(f"{SVG}g")
    for head in range(3):
        (group,) = [node for node in groups if node.attrib.get("class") == f"hue{head}"]
        strong = each.weights[head][each.weights[head] >= 0.04].tolist()
        assert [float(path.attrib["stroke-opacity"]) for path in group] == [float(f"{w:.2f}") for w in strong]
    alone = tree_of(draw_figure(record, view="heads", role="encoder", head=2))
    assert len(list(alone.iter(f"{SVG}path"))) == int((each.weights[2] >= 0.04).sum())


def test_long_texts_have_no_more_lines_than_can_be_seen() -> None:
    flat = np.full((4, 100, 100), 0.05, np.float32) + 0.01 * np.random.rand(4, 100, 100).astype(np.float32)
    axis = MapAxis("source", tuple("x" * 100))
    each = AttentionMap("e", "encoder", 0, (0, 1, 2, 3), "source", "source", flat, np.ones((100, 100), bool))
    paths = list(tree_of(draw_figure(InspectionRecord("flat", (axis,), (each,)), view="heads")).iter(f"{SVG}path"))
    assert 2900 <= len(paths) <= 3100


def test_the_model_shows_every_head_in_its_place() -> None:
    record = build_random_record(2, 3)
    svg = draw_figure(record, view="model")
    found = images(svg)
    expected = [weights for each in record.maps for weights in each.weights]
    assert len(found) == len(expected) == 18
    for pixels, weights in zip(found, expected, strict=True):
        np.testing.assert_array_equal(cells(pixels, weights.shape), map_colours(weights, GLOW))
    assert len(images(draw_figure(record.keep_maps(heads=[1]), view="model", role="cross"))) == 2


def test_a_rollout_is_drawn_with_its_own_scale() -> None:
    record = build_random_record(3, 4)
    svg = draw_figure(record, view="rollout")
    shares = compute_rollout(record).shares
    tips = [node.text or "" for node in tree_of(svg).iter(f"{SVG}title")][1:]
    assert [float(tip.rsplit(": ", 1)[1]) for tip in tips] == [round(w, 3) for w in shares.ravel().tolist()]
    highest = math.ceil(20 * shares.max()) / 20
    assert highest < 0.9, "the record is one whose scale differs"
    assert f"{highest:g}" in texts(svg)
    fills = [node.attrib["fill"] for node in tree_of(svg).iter(f"{SVG}rect") if node.find(f"{SVG}title") is not None]
    assert fills == [GLOW.get_colour(w / highest) for w in shares.ravel().tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("role", [None, "encoder"])
def test_flow_stands_beside_rollout(role: AttentionKind | None) -> None:
    record = build_random_record(2, 2, written=GERMAN[:5])
    svg = draw_figure(record, view="flow", role=role)
    shares = compute_rollout(record, side=role and "encoder").shares
    queries = range(len(shares))
    amounts = np.stack([compute_attention_flow(record, query, side=role and "encoder").amounts for query in queries])
    first, _, second, _ = images(svg)
    scales = [float(text) for text in texts(svg) if re.fullmatch(r"\d\.\d\d", text)]
    for pixels, matrix, highest in zip((first, second), (shares, amounts), scales, strict=True):
        assert -1e-6 < highest - matrix.max() < 0.05
        np.testing.assert_array_equal(cells(pixels, matrix.shape), map_colours(np.minimum(matrix / highest, 1), GLOW))
    assert (amounts >= shares - 1e-6).all()
    lines = [node for node in tree_of(svg).iter(f"{SVG}path") if "stroke-dasharray" in node.attrib]
    assert len(lines) == (2 if role is None else 0), "where the source ends and what was read begins"


def test_answers_have_their_probabilities() -> None:
    record = build_answer_record()
    svg = draw_figure(record, view="answers")
    shown = texts(svg)
    for each in record.answers:
        assert each.about in shown
        assert make_visible(each.answer_text) in shown
        assert all(f"{option.probability:.3f}" in shown for option in each.options[:5])
    bars = [float(node.attrib["width"]) for node in tree_of(svg).iter(f"{SVG}rect") if node.get("class") == "hue0"]
    assert bars == pytest.approx(
        [120 * each.options[0].probability for each in record.answers if each.options], abs=0.06
    )
    with pytest.raises(DataError, match="--view decoding"):
        draw_figure(build_random_record(1, 1), view="answers")


def test_flow_of_a_long_text_is_refused() -> None:
    with pytest.raises(DataError, match=r"from 140 to 140 tokens through 4 attentions takes too long.*--view rollout"):
        draw_figure(build_dirichlet_record(4, 1, 140), view="flow")


@pytest.mark.parametrize(
    ("visible", "name"),
    [
        (np.ones((3, 5)), "everything"),
        (np.zeros((3, 5)), "nothing"),
        (np.tri(6), "causal"),
        (np.tri(6) - np.tri(6, k=-3), "the last 3"),
        (np.tri(7, k=2) - np.tri(7, k=-3), "a window of 2"),
        (np.tri(7, k=1) - np.tri(7, k=-4), "from 3 before to 1 after"),
        (np.array([[1, 0, 1], [0, 1, 0]]), "3 of 6 pairs"),
    ],
)
def test_masks_have_the_names_that_people_give_them(visible: np.ndarray, name: str) -> None:
    assert name_mask(visible.astype(bool)) == name


@pytest.mark.parametrize("size", [5, 120])
def test_masks_show_every_pair_that_can_see_each_other_once(size: int) -> None:
    visible = np.random.rand(size, size) < 0.4
    axis = MapAxis("source", tuple("x" * size))
    weights = (visible / np.maximum(1, visible.sum(1, keepdims=True))).astype(np.float32)[None]
    maps = [AttentionMap(f"e{i}", "encoder", i, (0,), "source", "source", weights, visible) for i in range(2)]
    svg = draw_figure(InspectionRecord("masked", (axis,), tuple(maps)), view="masks")
    (path,) = tree_of(svg).iter(f"{SVG}path")
    cell = min(22.0, 420 / size)
    drawn = np.zeros((size, size), int)
    for x, y, width in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", path.attrib["d"]):
        row, start = round(float(y) / cell), round(float(x) / cell)
        drawn[row, start : start + round((float(width) + 0.5) / cell)] += 1
    np.testing.assert_array_equal(drawn, visible)
    assert "encoder layers 0, 1" in texts(svg)


def test_each_position_scheme_has_its_pictures() -> None:
    record = build_random_record()
    (plain,) = record.encodings
    relative = replace(plain, name="relative <to> keys", places=plain.places - 4, relative=True)
    found = images(draw_figure(replace(record, encodings=(plain, relative)), view="positions"))
    assert len(found) == 2 * 2 + 2, "vectors and products, then vectors alone, each with its scale"
    (vectors, _, products, *_) = found
    assert np.shape(cells(vectors, plain.vectors.shape)) == (*plain.vectors.shape, 3)
    scores = plain.vectors @ plain.vectors.T
    strength = -cells(products, scores.shape).astype(int).sum(-1)
    order = np.argsort(scores.ravel())
    assert (np.diff(strength.ravel()[order]) >= -6).all(), "larger products are darker"


def test_what_was_written_has_its_probabilities() -> None:
    record = build_random_record()
    shown = texts(draw_figure(record, view="decoding"))
    total = 0.0
    for each in record.written:
        total += each.log_probability
        assert each.token in shown
        assert f"{math.exp(each.log_probability):.3f}" in shown
        assert f"{total:.2f}" in shown
        assert all(f"{math.exp(other.log_probability):.3f}" in shown for other in each.alternatives)
    forced = replace(record, written=tuple(GeneratedToken(each.token, -math.inf, ()) for each in record.written))
    assert "0.000" in texts(draw_figure(forced, view="decoding"))


def random_tree(size: int) -> tuple[BeamNode, ...]:
    """Nodes that continue any earlier one; one of the leaves was returned."""
    parents = [-1] + [int(np.random.randint(i)) for i in range(1, size)]
    leaf = max(set(range(size)) - set(parents))
    best = {leaf}
    while parents[leaf] >= 0:
        leaf = parents[leaf]
        best.add(leaf)
    inner = set(parents)
    return tuple(
        BeamNode(p, f"n{i}", -float(i), None if i in inner else -1.0, "lived" if i in inner else "ended", i in best)
        for i, p in enumerate(parents)
    )


@pytest.mark.parametrize("size", [1, 2, 40])
def test_a_tree_has_every_node_to_the_right_of_its_parent_and_none_above_another(size: int) -> None:
    branches = random_tree(size)
    root = tree_of(draw_figure(replace(build_random_record(), tree=branches), view="tree"))
    at = {node.text: (x, y) for node, x, y in places(root)}
    names = ["start"] + [branch.token for branch in branches[1:]]
    assert len({at[name] for name in names}) == size
    for name, branch in zip(names, branches, strict=True):
        if branch.parent >= 0:
            assert at[name][0] > at[names[branch.parent]][0]
    best = [at[name][1] for name, branch in zip(names, branches, strict=True) if branch.best]
    assert len(set(best)) == 1, "what was returned is one straight line"
    assert len(list(root.iter(f"{SVG}path"))) == size - 1


def test_a_tree_as_deep_as_a_long_text_can_be_drawn() -> None:
    branches = tuple(BeamNode(i - 1, f"n{i}", -float(i), None, "lived", True) for i in range(1100))
    assert "n1099" in texts(draw_figure(replace(build_random_record(), tree=branches), view="tree"))


def test_pruned_branches_are_faint_and_the_best_are_bold() -> None:
    record = build_random_record()
    root = tree_of(draw_figure(record, view="tree"))
    looks = {node.text: node.attrib for node, _, _ in places(root)}
    for branch in record.tree[1:]:
        assert (looks[branch.token].get("class") == "faint") == (branch.fate == "pruned")
        assert (looks[branch.token].get("font-weight") == "700") == branch.best


def test_an_image_keeps_every_pixel() -> None:
    pixels = np.random.randint(0, 256, (7, 5, 3), np.uint8)
    np.testing.assert_array_equal(pixels_of(encode_png(pixels)), pixels)
    node = ElementTree.fromstring(draw_image(pixels, width=10, height=140, tip="&lt;x&gt;"))
    data = base64.b64decode(node.attrib["href"].split(",")[1])
    np.testing.assert_array_equal(cells(pixels_of(data), pixels.shape), pixels)
    assert node[0].text == "<x>"


@pytest.mark.parametrize("ramp", [GLOW, INK])
def test_colours_of_an_array_are_those_of_the_ramp(ramp: object) -> None:
    weights = np.arange(256, dtype=np.float32).reshape(16, 16) / 255
    found = ["#" + bytes(pixel).hex() for pixel in map_colours(weights, ramp).reshape(-1, 3)]  # type: ignore[arg-type]
    assert found == [ramp.get_colour(i / 255) for i in range(256)]  # type: ignore[attr-defined]


def test_what_is_shown_without_a_choice() -> None:
    for roles, expected in ((("encoder", "decoder", "cross"), "cross"), (("encoder", "decoder"), "decoder")):
        assert MapSelection().select_map(build_random_record(3, 1, roles=roles)).name == f"{expected} layer 2"  # type: ignore[arg-type]


def test_a_large_tree_is_drawn_without_what_was_pruned() -> None:
    small, large = (
        build_random_record(written=tuple("abcdef")),
        build_random_record(written=tuple(f"w{i}" for i in range(40))),
    )
    shown = set(texts(draw_figure(large, view="tree")))
    for branch in large.tree[1:]:
        assert (branch.token in shown) == (branch.fate != "pruned")
    assert any("39 pruned branches are left out" in text for text in shown)
    assert all(branch.token in set(texts(draw_figure(small, view="tree"))) for branch in small.tree[1:])


def test_steps_show_the_numbers_of_the_head() -> None:
    record = build_random_record(1, 2, source=GERMAN, written=GERMAN, walk=True)
    attention_map = record.find_map("cross", layer=0)
    assert attention_map.walk is not None
    shown = texts(draw_figure(record, view="steps", role="cross", head=1))
    query = record.get_axis(attention_map.queries).tokens[0]
    start = shown.index(f"query “{query}”")
    keys = record.get_axis(attention_map.keys).tokens
    walk = attention_map.walk
    for row, key in enumerate(keys):
        place = shown.index(make_visible(key), start)
        product = float(walk.queries[1, 0] @ walk.keys[1, row])
        score = f"{walk.scores[1, 0, row]:.2f}" if attention_map.visible[0, row] else "-∞"
        assert shown[place : place + 4] == [key, f"{product:.2f}", score, f"{attention_map.weights[1, 0, row]:.2f}"]
        start = place + 4
    with pytest.raises(DataError, match="were not recorded"):
        draw_figure(build_random_record(1, 2), view="steps")


def test_inputs_are_summed() -> None:
    record = build_random_record(1, 2, source=GERMAN, written=GERMAN)
    assert record.embedded
    shown = texts(draw_figure(record, view="inputs"))
    assert {"word", "+ position", "= sum"} <= set(shown)
    with pytest.raises(DataError, match="no embeddings"):
        draw_figure(replace(record, embedded=()), view="inputs")
