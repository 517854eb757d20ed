"""The views that explain: step by step, decoding, masks, positions, rollout and flow."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_records import D_K, ENGLISH, GERMAN, build_answer_record, build_random_record

from heedful.attention.hooks import READ_AXIS, WRITTEN_AXIS
from heedful.inspection.flow import compute_attention_flow, compute_rollout
from heedful.inspection.record import AttentionMap, InspectionRecord, PositionEncoding
from heedful.inspection.web import render_viewer

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=60_000)

OpenPage = Callable[..., Any]
MINUS = "\N{MINUS SIGN}"
HALF = 2e-3
"""Maximal error of half precision for numbers below about 4."""


def parse_number(text: str) -> float:
    return float(text.split(maxsplit=1)[0].replace(MINUS, "-"))


def read_column(page: Any, title: str) -> list[str]:
    """Read a column of the table of scores."""
    titles = page.locator("table.scores thead th").all_inner_texts()
    place = next(i for i, each in enumerate(titles) if title in each)
    cells: list[str] = page.locator(f"table.scores tbody tr > :nth-child({place + 1})").all_inner_texts()
    return cells


def build_address(record: InspectionRecord, view: str, **state: object) -> str:
    if "map" in state:
        role, layer = state["map"]  # type: ignore[misc]
        state["map"] = next(i for i, each in enumerate(record.maps) if (each.role, each.layer) == (role, layer))
    return "#" + "&".join(f"{name}={value}" for name, value in {"view": view, **state}.items())


def keep_roles(record: InspectionRecord, *roles: str) -> InspectionRecord:
    return replace(record, maps=tuple(each for each in record.maps if each.role in roles))


def wait_for_flow(page: Any) -> None:
    page.wait_for_selector("[data-done=true]")


def read_bars(page: Any, place: int) -> list[float]:
    """Read a column of the table of one token's inputs."""
    return [parse_number(each) for each in page.locator(f"table.bars tbody tr > :nth-child({place})").all_inner_texts()]


class TestSteps:
    @pytest.mark.parametrize(("role", "head", "query"), [("encoder", 0, 3), ("decoder", 1, 4), ("cross", 1, 8)])
    def test_all_numbers_are_those_of_the_computation(
        self, open_page: OpenPage, role: str, head: int, query: int
    ) -> None:
        record = build_random_record(walk=True)
        each = record.find_map(role, layer=1)  # type: ignore[arg-type]
        page = open_page(record, query=build_address(record, "steps", map=(role, 1), head=head, query=query))
        page.wait_for_selector("table.scores tbody tr")
        walk, visible = each.walk, each.visible[query]
        assert walk is not None
        products = walk.queries[head, query] @ walk.keys[head].T
        assert [parse_number(text) for text in read_column(page, "Score")] == pytest.approx(list(products), abs=0.02)
        assert [parse_number(text) for text in read_column(page, "Scaled")] == pytest.approx(
            list(walk.scores[head, query]), abs=0.011
        )
        assert [parse_number(text) for text in read_column(page, "Weight")] == pytest.approx(
            list(each.weights[head, query]), abs=6e-4
        )
        assert [f"{MINUS}∞" in text for text in read_column(page, "Mask")] == list(~visible)
        assert page.locator("table.scores tbody s").count() == int((~visible).sum())

    def test_the_weights_shown_are_the_softmax_of_the_masked_scores(self, open_page: OpenPage) -> None:
        record = build_random_record(walk=True)
        page = open_page(record, query=build_address(record, "steps", map=("decoder", 0), head=1, query=5))
        found = page.evaluate(
            """async () => {
              const { readRecord } = await import("heedful/record.js");
              const { loadStages, computeSoftmax } = await import("heedful/attention_stages.js");
              const errors = [];
              for (const map of readRecord().maps) for (let head = 0; head < 2; head++) {
                for (let query = 0; query < map.queryAxis.tokens.length; query++) {
                  const s = await loadStages(map, { head, query });
                  if (!(s.isDot && s.isSoftmax && s.isSum)) errors.push([map.label, head, query]);
                  const again = computeSoftmax(s.scores, s.visible);
                  errors.push(...again.map((each, k) => Math.abs(each - s.weights[k])).filter((each) => each > 0.005));
                }
              }
              return errors;
            }"""
        )
        assert found == []

    def test_other_scores_and_normalizers_are_not_called_dot_and_softmax(self, open_page: OpenPage) -> None:
        record = build_random_record(layers=1, walk=True, roles=("cross",))
        [each] = record.maps
        assert each.walk is not None
        strange = replace(each.walk, scores=each.walk.scores[:, ::-1].copy(), scale=1.0)
        record = replace(record, maps=(replace(each, walk=strange),))
        page = open_page(record, query=build_address(record, "steps", head=0, query=1))
        page.wait_for_selector("table.scores")
        titles = " ".join(page.locator("table.scores thead th").all_inner_texts())
        assert "score(q, kj)" in titles.replace("\n", "")
        assert "softmax" not in titles.split("Weight")[1].split("Values")[0].splitlines()[1]
        assert "Scaled" not in titles

    def test_a_bias_of_positions_is_a_separate_stage(self, open_page: OpenPage) -> None:
        record = build_random_record(layers=1, walk=True, roles=("encoder",))
        [each] = record.maps
        assert each.walk is not None
        bias = np.random.default_rng(0).normal(size=each.weights.shape).astype(np.float32)
        scores = each.walk.scores + bias
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = (powers / powers.sum(-1, keepdims=True)).astype(np.float32)
        contexts = weights @ each.walk.values
        walk = replace(each.walk, bias=bias, scores=scores, contexts=contexts)
        record = replace(record, maps=(replace(each, walk=walk, weights=weights),))
        page = open_page(record, query=build_address(record, "steps", head=1, query=2))
        page.wait_for_selector("table.scores")
        assert [parse_number(text) for text in read_column(page, "Position")] == pytest.approx(
            list(bias[1, 2]), abs=0.011
        )
        products = walk.queries[1, 2] @ walk.keys[1].T
        assert [parse_number(text) for text in read_column(page, "Score")] == pytest.approx(list(products), abs=0.03)

    def test_stages_appear_one_after_the_other(self, open_page: OpenPage) -> None:
        record = build_random_record(walk=True)
        page = open_page(record, query=build_address(record, "steps", map=("encoder", 0), head=0, query=0))
        badges = page.locator(".stage .badge")
        page.wait_for_selector(".stage .badge")
        everything = badges.count()
        assert badges.all_inner_texts() == [str(i + 1) for i in range(everything)]
        assert "Embedding" in page.locator(".stage h3").first.inner_text()
        page.get_by_role("button", name="First").click()
        for shown in range(1, everything + 1):
            expect(badges).to_have_count(shown)
            if shown < everything:
                page.get_by_role("button", name="Next").click()
        assert page.get_by_role("button", name="Next").is_disabled()
        page.get_by_role("button", name="Previous").click()
        expect(badges).to_have_count(everything - 1)

    def test_arrow_keys_choose_the_query(self, open_page: OpenPage) -> None:
        record = build_random_record(walk=True)
        page = open_page(record, query=build_address(record, "steps", map=("cross", 0), head=0, query=0))
        page.locator(".token-row .token").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expected = record.find_map("cross", layer=0).weights[0, 2]
        expect(page.locator("table.scores .weight").first).to_contain_text(f"{expected[0]:.3f}")
        assert page.locator(".token-row [aria-checked=true]").inner_text() == GERMAN[2]
        assert page.evaluate("document.activeElement.textContent") == GERMAN[2]

    def test_a_strip_shows_its_numbers(self, open_page: OpenPage) -> None:
        record = build_random_record(walk=True)
        page = open_page(record, query=build_address(record, "steps", map=("encoder", 1), head=1, query=2))
        strip = page.get_by_role("img", name="query of in")
        box = strip.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 2.5 / D_K, box["y"] + 4)
        walk = record.find_map("encoder", layer=1).walk
        assert walk is not None
        name, said = page.locator(".readout").inner_text().split(": ")
        assert name == "query of in, dimension 2"
        assert parse_number(said) == pytest.approx(float(walk.queries[1, 2, 2]), abs=5e-3)

    def test_without_steps_the_page_says_how_to_record_them(self, open_page: OpenPage) -> None:
        record = build_random_record()
        page = open_page(record, query=build_address(record, "steps"))
        page.locator(".view-steps .command").wait_for()
        assert "--detail yes" in page.locator(".view-steps").inner_text()


class TestDecoding:
    def test_each_step_shows_its_weights_and_probabilities(self, open_page: OpenPage) -> None:
        record = build_random_record()
        page = open_page(record, query=build_address(record, "decoding"))
        mean = record.find_map("cross", layer=-1).mean_weights
        for step in (0, 1, 2):
            expect(page.locator(".decoding-options h2")).to_have_text(f"Step {step + 1}")
            weights = page.eval_on_selector_all(".shaded", "found => found.map((each) => Number(each.dataset.weight))")
            assert weights == pytest.approx(list(mean[step]), abs=1e-4)
            row = page.locator(".is-written td.number").inner_text()
            assert parse_number(row) == pytest.approx(record.written[step].log_probability, abs=6e-4)
            page.get_by_role("button", name="Step", exact=True).click()
        total = sum(each.log_probability for each in record.written[:4])
        assert f"{total:.3f}".replace("-", MINUS) in page.locator(".decoding-options").inner_text()

    def test_a_step_says_how_likely_it_copies(self, open_page: OpenPage) -> None:
        record = build_random_record()
        page = open_page(record, query=build_address(record, "decoding"))
        page.wait_for_selector("text=Step 1")
        assert page.locator(".copying").count() == 0
        tokens = tuple(replace(each, copy_probability=0.25 + place / 8) for place, each in enumerate(record.written))
        copying = replace(record, written=tokens)
        page = open_page(copying, query=build_address(copying, "decoding"))
        page.get_by_role("button", name="Step", exact=True).click()
        expect(page.locator(".copying")).to_contain_text("with probability 0.375, generates one with 0.625")
        page.locator(".view-decoding").get_by_text("table").first.click()
        expect(page.locator(".view-decoding th").filter(has_text="copied")).to_have_count(1)

    def test_play_runs_to_the_end_and_stops(self, open_page: OpenPage) -> None:
        record = build_random_record(written=("eins", "zwei", "</s>"))
        page = open_page(record, query=build_address(record, "decoding"))
        page.get_by_role("button", name="Play").click()
        expect(page.locator(".word.is-current")).to_have_text("</s>")
        page.get_by_role("button", name="Play").wait_for()
        expect(page.locator(".decoding-options h2")).to_have_text("Step 3")
        assert page.get_by_role("button", name="Step", exact=True).is_disabled()
        total = sum(each.log_probability for each in record.written)
        assert f"{total:.3f}".replace("-", MINUS) in page.locator(".decoding-options").inner_text()

    def test_the_tree_shows_the_returned_path_and_pruned_branches_on_demand(self, open_page: OpenPage) -> None:
        record = build_random_record()
        page = open_page(record, query=build_address(record, "decoding"))
        best = page.locator(".branch.is-best")
        assert best.locator("text:not(.score)").all_text_contents() == ["start", *GERMAN]
        assert len({each.get_attribute("y") for each in best.locator("rect").all()}) == 1
        assert page.locator(".branch.is-pruned").count() == 0
        page.get_by_label("pruned branches").check()
        pruned = [each for each in record.tree if each.fate == "pruned"]
        assert page.locator(".branch.is-pruned").count() == len(pruned)
        boxes = [(each.get_attribute("x"), each.get_attribute("y")) for each in page.locator(".branch rect").all()]
        assert len(set(boxes)) == len(record.tree)
        scores = {f"{each.score:.3f}".replace("-", MINUS) for each in record.tree if each.score is not None}
        assert set(page.locator(".branch .score").all_text_contents()) == scores

    def test_works_without_a_tree_and_without_attention(self, open_page: OpenPage) -> None:
        record = replace(build_random_record(), tree=(), maps=())
        page = open_page(record, query=build_address(record, "decoding"))
        page.get_by_role("button", name="Step", exact=True).click()
        page.wait_for_selector("text=Step 2")
        assert page.locator(".shaded").count() == 0
        assert "no beam" in page.locator(".view-decoding").inner_text()

    def test_a_language_model_looks_at_what_it_read(self, open_page: OpenPage) -> None:
        record = keep_roles(build_random_record(), "decoder")
        page = open_page(record, query=build_address(record, "decoding", map=("decoder", 1), head=1))
        weights = page.eval_on_selector_all(".shaded", "found => found.map((each) => Number(each.dataset.weight))")
        assert weights == pytest.approx(list(record.find_map("decoder", layer=1).get_head_weights(1)[0]), abs=1e-4)


def build_band(length: int, before: int, after: int) -> np.ndarray:
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]
    band: np.ndarray = (distance >= -before) & (distance <= after)
    return band


class TestMasks:
    @pytest.mark.parametrize(
        ("visible", "name"),
        [
            (np.ones((4, 6), dtype=bool), "every key is visible"),
            (np.zeros((3, 3), dtype=bool), "no key is visible"),
            (np.tri(5, dtype=bool), "causal: the token itself and all before it"),
            (np.tri(3, 5, 2, dtype=bool), "causal: the token itself and all before it"),
            (build_band(8, 2, 2), "window of 2 tokens on each side"),
            (build_band(8, 2, 1), "window of 2 before and 1 after"),
            (build_band(8, 3, 0), "causal window of 3 tokens before"),
            (build_band(8, 0, 0), "only the token itself"),
            (np.repeat([[True, True, False, True, False]], 4, axis=0), "2 keys are masked for all queries"),
            (np.eye(5, dtype=bool)[::-1], "another kind of mask"),
        ],
    )
    def test_a_mask_is_named_by_its_pattern(
        self, mask_namer: Callable[[np.ndarray], str], visible: np.ndarray, name: str
    ) -> None:
        assert mask_namer(visible) == name

    def test_maps_with_one_mask_share_a_picture(self, open_page: OpenPage) -> None:
        record = build_random_record(layers=3)
        page = open_page(record, query=build_address(record, "masks"))
        page.wait_for_selector(".mask-card")
        titles = page.locator(".mask-card h2").all_inner_texts()
        users = page.locator(".mask-card h2 + p").all_inner_texts()
        assert dict(zip(users, titles, strict=True)) == {
            "encoder 0, encoder 1, encoder 2": "Every key is visible",
            "decoder 0, decoder 1, decoder 2": "Causal: the token itself and all before it",
            "cross 0, cross 1, cross 2": "Every key is visible",
        }

    def test_arrow_keys_read_the_cells(self, open_page: OpenPage) -> None:
        record = keep_roles(build_random_record(), "decoder")
        page = open_page(record, query=build_address(record, "masks"))
        page.locator(".grid").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".readout").inner_text() == f"{GERMAN[0]} (0) cannot attend to {GERMAN[0]} (1)"
        page.keyboard.press("ArrowDown")
        assert page.locator(".readout").inner_text() == f"{GERMAN[1]} (1) can attend to {GERMAN[0]} (1)"


@pytest.fixture(scope="module")
def mask_namer(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[np.ndarray], str]:
    """Return a function that gives the page's name of a mask."""
    path = tmp_path_factory.mktemp("masks") / "page.html"
    path.write_text(render_viewer(build_random_record(layers=1, heads=1)), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]")

    def name(visible: np.ndarray) -> str:
        script = "async mask => (await import('heedful/masks_view.js')).describeMask(mask)"
        found: str = page.evaluate(script, {"shape": list(visible.shape), "data": visible.ravel().astype(int).tolist()})
        return found

    return name


class TestPositions:
    def test_pictures_and_numbers_are_those_of_the_encoding(self, open_page: OpenPage) -> None:
        record = build_random_record()
        [encoding] = record.encodings
        page = open_page(record, query=build_address(record, "positions"))
        page.wait_for_selector(".position-card")
        for place, expected in ((1, encoding.vectors @ encoding.vectors.T), (2, compute_distances(encoding.vectors))):
            card = page.locator(".position-card").nth(place)
            card.get_by_role("button", name="As a table").click()
            rows = [row.split("\t")[1:] for row in card.locator("tbody").inner_text().splitlines()]
            shown = np.array([[parse_number(text) for text in row] for row in rows])
            np.testing.assert_allclose(shown, expected, atol=2 * HALF + 5e-4 * np.abs(expected).max())
        page.get_by_label("Similarity").select_option("cosine")
        page.get_by_role("heading", name="Cosines").wait_for()
        assert "to 1.00" in page.locator(".position-card").nth(1).inner_text()

    def test_the_lines_follow_the_chosen_row(self, open_page: OpenPage) -> None:
        record = build_random_record()
        page = open_page(record, query=build_address(record, "positions"))
        page.get_by_label("Selected row").focus()
        page.keyboard.press("Home")
        page.wait_for_selector("text=Compared with position 0")
        titles = page.locator(".chart").nth(1).locator("title").all_text_contents()
        vectors = record.encodings[0].vectors
        expected = np.linalg.norm(vectors - vectors[0], axis=1)
        assert [parse_number(each.split(": ")[1]) for each in titles] == pytest.approx(list(expected), abs=2 * HALF)

    def test_relative_encodings_count_distances(self, open_page: OpenPage) -> None:
        vectors = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)
        shaw = PositionEncoding("relative to keys", np.arange(-3, 4), vectors, relative=True)
        record = replace(build_random_record(), encodings=(shaw,))
        page = open_page(record, query=build_address(record, "positions"))
        page.wait_for_selector("text=Compared with distance 0")
        assert "7 distances" in page.locator(".position-card").first.inner_text()


def compute_distances(vectors: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    return found


class TestFlow:
    """The page computes flow itself, independent of `heedful.inspection.flow`."""

    @pytest.mark.parametrize(
        "roles", [("encoder",), ("decoder",), ("cross",), ("encoder", "cross"), ("encoder", "decoder", "cross")]
    )
    def test_rollout_and_flow_equal_those_of_python(self, open_page: OpenPage, roles: Sequence[str]) -> None:
        record = keep_roles(build_random_record(layers=3, source=ENGLISH[:6], written=GERMAN[-5:]), *roles)
        page = open_page(record, query=build_address(record, "flow"))
        side = "encoder" if roles == ("encoder",) else "decoder"
        found = json.loads(
            page.evaluate(
                """async side => {
                  const { readRecord } = await import("heedful/record.js");
                  const { loadGraph, computeFlows } = await import("heedful/attention_graph.js");
                  const { unpackArray } = await import("heedful/arrays.js");
                  const record = readRecord();
                  const graph = await loadGraph(record, record.overall[side]);
                  const shares = await unpackArray(record.overall[side].shares);
                  const all = [...Array(graph.size).keys()];
                  return JSON.stringify({
                    names: graph.inputs.map(({ name }) => name),
                    shares: Array.from(shares.data),
                    flows: graph.queries.tokens.map((_, q) => [...computeFlows(graph, q, all)]),
                  });
                }""",
                side,
            )
        )
        expected = compute_rollout(record)
        assert found["names"] == [axis.name for axis in expected.inputs]
        shares = np.reshape(found["shares"], expected.shares.shape)
        np.testing.assert_allclose(shares, expected.shares, atol=1e-4)
        flows = [compute_attention_flow(record, query).amounts for query in range(len(expected.queries.tokens))]
        np.testing.assert_allclose(found["flows"], flows, atol=5e-4)

    def test_a_chosen_token_shows_rollout_flow_and_the_last_layer(self, open_page: OpenPage) -> None:
        record = build_random_record()
        page = open_page(record, query=build_address(record, "flow"))
        page.wait_for_selector(".token-row .token")
        page.locator(".token-row .token").nth(4).click()
        wait_for_flow(page)
        expect(page.locator(".token-row [aria-checked=true]")).to_have_text("blauen")
        wait_for_flow(page)
        expected, flow = (
            compute_rollout(record).select_axis("source")[4],
            compute_attention_flow(record, 4).select_axis("source"),
        )
        assert read_bars(page, 2) == pytest.approx(list(expected), abs=1e-3)
        assert read_bars(page, 3) == pytest.approx(list(flow), abs=1e-3)
        assert read_bars(page, 4) == pytest.approx(list(record.find_map("cross", layer=-1).mean_weights[4]), abs=1e-3)

    def test_only_the_inputs_with_the_largest_rollout_are_shown(self, open_page: OpenPage) -> None:
        names = [f"w{number}" for number in range(66)]
        record = build_random_record(1, 1, names, GERMAN[:3])
        page = open_page(record, query=build_address(record, "flow"))
        page.wait_for_selector(".token-row .token")
        page.locator(".token-row .token").nth(1).click()
        expect(page.locator(".token-row [aria-checked=true]")).to_have_text(GERMAN[1])
        page.wait_for_selector("text=The table has the 60 inputs with the largest rollout, and not the other 6")
        wait_for_flow(page)
        shares = compute_rollout(record).select_axis("source")[1]
        largest = sorted(np.argsort(-shares)[:60])
        assert page.locator("table.bars tbody th").all_inner_texts() == [names[place] for place in largest]
        assert read_bars(page, 2) == pytest.approx(list(shares[largest]), abs=1e-3)

    def test_a_decoder_without_self_attention_says_so(self, open_page: OpenPage) -> None:
        record = keep_roles(build_random_record(layers=1), "cross")
        page = open_page(record, query=build_address(record, "flow"))
        page.wait_for_selector("text=This decoder has no self-attention. One half of each token stays")
        wait_for_flow(page)
        page.locator(".token-row .token").nth(4).click()
        expect(page.locator(".token-row [aria-checked=true]")).to_have_text("blauen")
        wait_for_flow(page)
        last = record.find_map("cross", layer=0).mean_weights[4]
        assert read_bars(page, 2) == pytest.approx(list(last / 2), abs=1e-3), "one half stays with the token itself"
        assert read_bars(page, 3) == pytest.approx(list(last / 2), abs=1e-3)
        assert read_bars(page, 4) == pytest.approx(list(last), abs=1e-3)

    def test_missing_layers_are_named(self, open_page: OpenPage) -> None:
        record = build_random_record(layers=3).keep_maps(layers=[2])
        page = open_page(record, query=build_address(record, "flow"))
        page.wait_for_selector("text=encoder layers 0, 1 are not in this record")
        assert page.locator("table.bars").count() == page.locator(".view-flow canvas").count() == 0, (
            "nothing is made up"
        )
        assert page.locator(".token-row").count() == 0


def recurrent() -> InspectionRecord:
    """One attention with one head to the source, nothing embedded, no positions, no tree."""
    record = keep_roles(build_random_record(layers=1, heads=1, walk=True), "cross")
    return replace(record, model="recurrent", embedded=(), encodings=(), tree=())


def language_model() -> InspectionRecord:
    record = keep_roles(build_random_record(walk=True), "decoder")
    axes = tuple(axis for axis in record.axes if axis.name in (READ_AXIS, WRITTEN_AXIS))
    return replace(record, axes=axes, embedded=record.embedded[1:], tree=())


def bert() -> InspectionRecord:
    record = keep_roles(build_random_record(walk=True), "encoder")
    return replace(record, axes=record.axes[:1], embedded=record.embedded[:1], written=(), tree=())


def long() -> InspectionRecord:
    words = [f"word{i}" for i in range(120)]
    return build_random_record(layers=1, heads=2, source=words, written=GERMAN, walk=True)


def strange_tokens() -> InspectionRecord:
    evil = ("</script><img src=x onerror=alert(1)>", "", " ", "\u202e", "👩‍👩‍👧", "&amp;")
    return build_random_record(source=evil, written=evil, walk=True)


def build_blind_record() -> InspectionRecord:
    """Build a record with a query that attends to nothing."""
    record = build_random_record(walk=True)
    maps = tuple(hide_all_keys(each) if each.role == "decoder" else each for each in record.maps)
    return replace(record, maps=maps)


def hide_all_keys(each: AttentionMap) -> AttentionMap:
    weights, visible = each.weights.copy(), each.visible.copy()
    weights[:, 0] = 0
    visible[0] = False
    return replace(each, weights=weights, visible=visible)


KINDS = (recurrent, language_model, bert, long, strange_tokens, build_blind_record, build_random_record)


@pytest.mark.parametrize("make", KINDS)
def test_all_views_draw_all_kinds_of_records(open_page: OpenPage, make: Callable[[], InspectionRecord]) -> None:
    record = make()
    page = open_page(record, query="#view=steps", color_scheme="dark" if make is build_blind_record else "light")
    there = page.locator("[role=tab]").evaluate_all("tabs => tabs.map((tab) => tab.id.slice(4))")
    assert {"steps", "masks", "flow"} <= set(there)
    assert ("decoding" in there) == bool(record.written)
    assert ("positions" in there) == bool(record.encodings)
    for view in ("steps", "decoding", "masks", "positions", "flow"):
        if view not in there:
            continue
        page.locator(f"#tab-{view}").click()
        drawn = ".stage, .command, .controls button, .mask-card, .position-card, .flow .grid"
        page.locator(f".view-{view}").locator(drawn).first.wait_for()
        wide = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert wide, f"{view} is wider than the page"
        table = page.locator(f".view-{view}").get_by_role("button", name="As a table")
        for i in range(table.count()):
            table.nth(i).click()
        if table.count():
            page.locator(".as-table table").first.wait_for()


class TestAnswers:
    def test_each_answer_has_its_options_and_the_attention_of_its_token(self, open_page: OpenPage) -> None:
        record = build_answer_record()
        page = open_page(record, query=build_address(record, "answers", map=("encoder", 1), head=1))
        options = page.locator(".decoding-options tbody tr")
        for count, each in enumerate(record.answers):
            expect(page.locator(".controls .soft")).to_have_text(f"{count + 1} of {len(record.answers)}")
            title = f"{each.about}: {each.subject}" if each.subject else each.about
            expect(page.locator(".decoding-options h2")).to_have_text(title)
            shown = [text.split("\t") for text in options.all_inner_texts()]
            assert [float(chance) for _, chance in shown] == pytest.approx(
                [o.probability for o in each.options], abs=6e-4
            )
            assert each.number is None or parse_number(page.locator(".decoding-options p").inner_text()) == each.number
            looked = page.locator(".decoding-attention .shaded")
            weights = [float(value) for value in looked.evaluate_all("all => all.map((each) => each.dataset.weight)")]
            row = (
                []
                if each.place is None
                else record.find_map("encoder", layer=1).get_head_weights(1)[each.place].tolist()
            )
            assert weights == pytest.approx(row, abs=HALF)
            if count + 1 < len(record.answers):
                page.get_by_role("button", name="Next").click()
        assert page.get_by_role("button", name="Next").is_disabled()
        page.get_by_role("button", name="tag: shirt").click()
        expect(page.locator(".decoding-options h2")).to_have_text("tag: shirt")
        assert "query=5" in page.evaluate("location.hash"), "other views follow"
        assert page.locator("#tab-decoding").count() == 0
        page.get_by_role("button", name="As a table").click()
        assert page.locator(".as-table tbody tr").count() == len(record.answers)

    def test_tokens_that_may_be_the_answer_are_shaded(self, open_page: OpenPage) -> None:
        record = build_answer_record()
        record = replace(record, answers=record.answers[-1:])
        page = open_page(record, query=build_address(record, "answers"))
        shaded = page.locator(".decoding-text [data-probability]")
        expect(shaded).to_have_count(5)
        found = shaded.evaluate_all("all => all.map((each) => [each.textContent, Number(each.dataset.probability)])")
        tokens = record.get_axis("source").tokens
        expected = sorted((option.place, option.probability) for option in record.answers[0].options)
        assert found == [[tokens[place], chance] for place, chance in expected]

    def test_without_attention_only_answers_are_shown(self, open_page: OpenPage) -> None:
        page = open_page(replace(build_answer_record(), maps=(), embedded=(), encodings=()))
        assert page.locator("[role=tab]").all_inner_texts() == ["Answers"]
        page.get_by_role("button", name="tag: shirt").click()
        expect(page.locator(".decoding-options h2")).to_have_text("tag: shirt")
        assert page.locator(".decoding-attention").count() == 0
