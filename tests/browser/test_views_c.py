"""The views of pictures, clips, glimpses, stories, dialogues and unrolled models."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_records import ENGLISH, build_random_record
from view_records import (
    build_caption_record,
    build_chain_record,
    build_clip_record,
    build_cross_map,
    build_dialogue_record,
    build_glimpse_record,
    build_level_record,
    build_speech_record,
    build_story_record,
)

from heedful.inspection.figures.sheet import MapSelection
from heedful.inspection.figures.stories import sum_over_spans
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.inspection.unrolled import unroll_model

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=60_000)

OpenPage = Callable[..., Any]
HOSTILE = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "\u202eabc", "")
RECORDS: dict[str, Callable[[], InspectionRecord]] = {
    "regions": build_caption_record,
    "frames": build_clip_record,
    "glimpses": build_glimpse_record,
    "hops": build_story_record,
    "chain": build_chain_record,
    "turns": build_dialogue_record,
    "unrolled": build_level_record,
}


def read_weights(page: Any, selector: str) -> list[float]:
    found: list[float] = page.eval_on_selector_all(selector, "all => all.map((each) => Number(each.dataset.weight))")
    return found


@pytest.mark.parametrize("view", RECORDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_record_has_its_view_with_an_explanation(open_page: OpenPage, view: str, theme: str) -> None:
    page = open_page(RECORDS[view](), query=f"#view={view}", color_scheme=theme)
    page.wait_for_selector(f".view-{view} > *", state="attached")
    tabs = page.locator("[role=tab]").evaluate_all("tabs => tabs.map((tab) => tab.id.slice(4))")
    assert set(tabs) & set(RECORDS) == {view}
    if view != "unrolled":
        assert tabs[0] == view
    assert page.locator(".help p").text_content()
    named = page.locator(f".view-{view} [role=img]:not([aria-label]), .view-{view} button:not(:has-text(''))")
    assert named.count() == 0


def test_other_records_do_not_have_these_views(open_page: OpenPage) -> None:
    page = open_page(build_random_record())
    tabs = page.locator("[role=tab]").evaluate_all("tabs => tabs.map((tab) => tab.id.slice(4))")
    assert not set(tabs) & set(RECORDS)


@pytest.mark.parametrize(
    "make",
    [
        build_caption_record,
        build_clip_record,
        build_glimpse_record,
        build_story_record,
        build_chain_record,
        build_dialogue_record,
        build_level_record,
    ],
)
def test_words_are_never_html(open_page: OpenPage, make: Callable[..., InspectionRecord]) -> None:
    named = {build_story_record: "facts", build_chain_record: "facts"}.get(make, "words")
    page = open_page(make(**{named: HOSTILE}))
    page.on("dialog", lambda dialog: pytest.fail(f"a token ran: {dialog.message}"))
    page.wait_for_timeout(100)
    if page.get_by_role("button", name="As a table").count():
        page.get_by_role("button", name="As a table").click()
    assert page.locator("main script, main img").count() == 0


class TestRegions:
    def test_each_word_has_its_picture_and_its_probability(self, open_page: OpenPage) -> None:
        page = open_page(build_caption_record())
        expect(page.locator(".region")).to_have_count(4)
        assert page.locator(".region").all_inner_texts() == ["A(1.00)", "red(0.87)", "ball(0.64)", "</s>(0.40)"]
        page.locator(".region").nth(2).click()
        expect(page.locator(".regions h2")).to_have_text("ball(0.64)")
        assert "query=2" in page.evaluate("location.hash")
        assert page.evaluate("document.activeElement.textContent") == "ball(0.64)"

    def test_the_arrow_keys_read_the_regions(self, open_page: OpenPage) -> None:
        record = build_caption_record()
        page = open_page(record, query="#query=1&head=1")
        board = page.locator(".regions [role=img]")
        board.focus()
        for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        weight = record.maps[0].weights[1, 1, 1 * 6 + 2]
        expect(page.locator(".regions .readout")).to_have_text(f"row 1, column 2: {weight:.4f}")

    def test_raw_regions_have_sharp_edges_and_the_brightest_is_the_strongest(self, open_page: OpenPage) -> None:
        weights = np.zeros((1, 1, 24), np.float32)
        weights[0, 0, 8] = 1  # row 1, column 2
        axes = (MapAxis.from_grid("regions", rows=4, columns=6), MapAxis("written", ("dog",)))
        page = open_page(InspectionRecord("m", axes, (build_cross_map(weights, keys="regions"),)), query="#ramp=grey")
        look = """(canvas) => {
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          const at = (row, column) => data[4 * (Math.floor(row / 4 * height) * width + Math.floor(column / 6 * width))];
          return [at(1.5, 2.5), at(1.5, 1.95), at(1.5, 2.05), at(3.5, 5.5)];
        }"""
        canvas = page.locator(".regions [role=img] canvas")
        middle, before, after, far = canvas.evaluate(look)
        assert middle > 240
        assert abs(before - after) < 40
        assert far < 5
        page.get_by_label("smooth").uncheck()
        expect(page.get_by_label("smooth")).not_to_be_checked()
        page.wait_for_timeout(300)
        assert canvas.evaluate(look) == [255, 0, 255, 0]

    def test_the_table_has_the_strongest_regions(self, open_page: OpenPage) -> None:
        record = build_caption_record()
        page = open_page(record)
        page.get_by_role("button", name="As a table").click()
        first = page.locator(".as-table tbody tr").first.locator("td").first.inner_text()
        best = int(record.maps[0].mean_weights[0].argmax())
        assert first == f"{record.get_axis('regions').tokens[best]} {record.maps[0].mean_weights[0, best]:.3f}"


class TestFrames:
    @pytest.mark.parametrize(
        ("make", "pictures"),
        [(build_clip_record, 8), (build_speech_record, 1), (lambda: build_clip_record(pictures=False), 0)],
    )
    def test_bars_are_as_high_as_weights(
        self, open_page: OpenPage, make: Callable[[], InspectionRecord], pictures: int
    ) -> None:
        record = make()
        page = open_page(record)
        expect(page.locator("svg.frames image")).to_have_count(pictures)
        paths = page.eval_on_selector_all(".frames .bars", "all => all.map((each) => each.getAttribute('d'))")
        heights = np.array([[-float(high) for high in re.findall(r"v(-?[\d.]+)h", path)] for path in paths])
        mean = record.maps[0].mean_weights
        np.testing.assert_allclose(heights / heights.max(), mean / mean.max(), atol=2e-3)
        assert page.locator("svg.frames .marked").count() == len(record.get_axis("frames").marked)

    def test_keys_read_bars_and_choose_words(self, open_page: OpenPage) -> None:
        record = build_clip_record()
        page = open_page(record)
        page.locator(".view-frames [role=img]").focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        said = f"ball(0.90) (1) attends to frame 2: {record.maps[0].mean_weights[1, 2]:.4f}, known to matter"
        expect(page.locator(".readout")).to_have_text(said)
        page.keyboard.press("Enter")
        expect(page.locator(".frame-row.chosen text")).to_have_text("ball(0.90)")
        assert "query=1" in page.evaluate("location.hash")


def test_the_path_of_glimpses_is_shown(open_page: OpenPage) -> None:
    record = build_glimpse_record()
    page = open_page(record)
    spots = page.eval_on_selector_all(
        ".glimpse circle", "all => all.map((c) => [c.cx.baseVal.value, c.cy.baseVal.value])"
    )
    image = page.evaluate(
        "(({ width, height }) => [width, height].map((each) => each.baseVal.value))"
        "(document.querySelector('.glimpses image'))"
    )
    np.testing.assert_allclose(
        np.array(spots) / image, [(each.column, each.row) for each in record.glimpses], atol=1e-4
    )
    page.locator(".token").first.focus()
    page.keyboard.press("Home")
    expect(page.locator(".decoding-options h2")).to_have_text("After glimpse 1")
    expect(page.locator(".is-written .bar-text")).to_have_text("0.400")
    sides = page.eval_on_selector_all(".seen.is-current", "all => all.map((each) => each.width.baseVal.value)")
    assert sides == pytest.approx([size * image[1] for size in record.glimpses[0].sizes], abs=0.1)


def test_hops_have_their_weights_and_known_facts_are_marked(open_page: OpenPage) -> None:
    record = build_story_record()
    page = open_page(record)
    expected = np.stack([each.weights[0, 0] for each in record.maps], 1)
    page.wait_for_selector("table.weights")
    np.testing.assert_allclose(read_weights(page, "table.weights td"), expected.ravel(), atol=1e-4)
    assert page.locator("tr.is-marked th").all_text_contents() == [
        f"● {fact} (known to matter)" for fact in ("Mary took the milk.", "Sandra went to the office.")
    ]
    share = [float(row[2] + row[3]) for row in expected.T]
    assert (
        f"hop 1 {share[0]:.2f}, hop 2 {share[1]:.2f}, hop 3 {share[2]:.2f}" in page.locator(".view-hops").inner_text()
    )


def test_hops_over_words_shade_the_text_for_each_head_of_a_summary(open_page: OpenPage) -> None:
    record = build_random_record(1, 3, roles=("encoder", "summary"))
    page = open_page(record, query="#view=hops")
    page.wait_for_selector(".words")
    assert page.locator(".view-hops h2").all_inner_texts() == ["hop 1", "hop 2", "hop 3"]
    shown = np.reshape(read_weights(page, ".shaded"), (3, len(ENGLISH)))
    np.testing.assert_allclose(shown, record.find_map("summary", layer=0).weights[:, 0], atol=1e-4)


def test_a_chain_has_its_marginals_and_its_most_probable_paths(open_page: OpenPage) -> None:
    record = build_chain_record(heads=2)
    page = open_page(record, query="#head=1")
    page.wait_for_selector(".chain circle")
    np.testing.assert_allclose(read_weights(page, ".chain circle"), record.maps[0].weights[1].ravel(), atol=1e-4)
    assert page.locator(".view-chain ol li").count() == 3
    edges = record.maps[0].edges
    assert edges is not None
    assert page.locator(".chain .link").count() == int((edges[1] > 0.01).sum())
    page.keyboard.press("m")
    expect(page.locator(".chain .link")).to_have_count(int((edges.mean(0) > 0.01).sum()))


def test_turns_show_the_attention_of_each_word(open_page: OpenPage) -> None:
    record = build_dialogue_record()
    page = open_page(record)
    page.wait_for_selector(".turn")
    assert page.locator(".turn h2").all_inner_texts() == ["user", "agent", "user"]
    found = sum_over_spans(record.maps[0], record.get_axis("source"), MapSelection())
    for step in (0, 2):
        page.locator(".token").nth(step).click()
        expect(page.locator("table.weights th.is-chosen")).to_have_text(page.locator(".token").nth(step).inner_text())
        shown = [float(text) for text in page.locator(".turn .bar-text").all_inner_texts()]
        assert shown == pytest.approx(found[step].tolist(), abs=6e-4)
        np.testing.assert_allclose(read_weights(page, ".shaded"), record.maps[0].mean_weights[step], atol=1e-4)
    np.testing.assert_allclose(read_weights(page, "table.weights td"), found.T.ravel(), atol=1e-4)


class TestUnrolled:
    def test_a_box_shows_its_dependencies(self, open_page: OpenPage) -> None:
        record = build_level_record()
        diagram = unroll_model(record.levels, {axis.name: axis.tokens for axis in record.axes})
        page = open_page(record, query="#view=unrolled")
        steps = page.locator(".box").evaluate_all("all => all.map((each) => Number(each.dataset.step))")
        assert steps == [node.step for node in diagram.nodes if node.row]
        page.locator(".view-unrolled [role=img]").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(page.locator(".readout")).to_have_text("LSTM →, encoder level 1, at red (1): step 2; depends on A red")
        page.keyboard.press("ArrowUp")
        expect(page.locator(".readout")).to_contain_text(
            "LSTM ←, encoder level 1, at red (1): step 3; depends on red ball"
        )
        apart = page.locator(".box.is-faded").count()
        assert apart == page.locator(".box").count() - 3

    def test_the_wave_runs_to_the_end(self, open_page: OpenPage) -> None:
        record = build_level_record()
        page = open_page(record, query="#view=unrolled")
        slider = page.locator(".view-unrolled input[type=range]")
        slider.fill("1")
        at_once = page.locator(".box[data-step='1']").count()
        expect(page.locator(".readout")).to_contain_text(f"Step 1 of {slider.get_attribute('max')}: {at_once} at once")
        assert page.locator(".box:not(.is-faded)").count() == at_once
        page.get_by_role("button", name="Play").click()
        page.get_by_role("button", name="Pause").wait_for()
        expect(page.locator(".box.is-faded")).to_have_count(0)
        page.get_by_role("button", name="Play").wait_for()


def test_several_memories_are_distinguished_where_a_layer_is_chosen(open_page: OpenPage) -> None:
    record = build_caption_record()
    words = MapAxis("caption words", ("a", "b", "c"))
    other = build_cross_map(np.full((1, 4, 3), 1 / 3, np.float32), keys="caption words", layer=1)
    page = open_page(replace(record, axes=(*record.axes, words), maps=(*record.maps, other)), query="#view=alignment")
    layers = page.get_by_label("Layer").locator("option").all_inner_texts()
    assert layers == ["0 (regions)", "1 (caption words)"]
