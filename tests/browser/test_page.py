"""The viewer's page as a whole: it loads nothing, escapes everything, works by keyboard, on paper and in a frame."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
import pytest
from random_records import ENGLISH, GERMAN, build_dirichlet_record, build_random_record

from heedful.inspection.web import render_viewer

HOSTILE = ("</script><script>alert(1)</script>", '<img src=x onerror="alert(2)">', "&amp;", "\u202eabc", "", " ", "\n")
VIEWS = ("alignment", "heads", "model", "summary")
ELEMENTS = "document.querySelectorAll('*').length"


def read_state(page: Any) -> dict[str, str]:
    return dict(page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"))


def test_all_views_are_shown_without_requests(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(walk=True))
    tabs = page.locator("[role=tab]")
    for i in range(tabs.count()):
        tabs.nth(i).click()
        assert tabs.nth(i).get_attribute("aria-selected") == "true"
        page.wait_for_selector(".view > *", state="attached")
    shown = {page.locator("[role=tab]").nth(i).get_attribute("id") for i in range(tabs.count())}
    assert {f"tab-{view}" for view in VIEWS} <= shown


@pytest.mark.parametrize("roles", [("encoder",), ("cross",), ("decoder",), ("summary",), ("encoder", "summary"), ()])
def test_records_of_all_architectures(open_page: Callable[..., Any], roles: Any) -> None:
    """A record has the views that it has data for, and each attention is found in them."""
    record = build_random_record(heads=1, roles=roles)
    page = open_page(record)
    tabs = page.locator("[role=tab]")
    there = tabs.evaluate_all("tabs => tabs.map((tab) => tab.id.slice(4))")
    expected = [
        "alignment",
        "heads",
        "model",
        "steps",
        "decoding",
        "masks",
        "positions",
        "flow",
        "architecture",
        "summary",
    ]
    if not roles:
        expected = ["decoding", "positions"]
    elif roles == ("cross",):
        expected.remove("architecture")  # below a cross-attention the computation is unknown
    elif "summary" in roles:
        expected.insert(0, "hops")  # two layers with one attention each
        if roles == ("summary",):
            expected.remove("flow")
            expected.remove("architecture")
    assert there == expected
    for i, view in enumerate(there):
        tabs.nth(i).click()
        page.wait_for_selector(f".view-{view} > *", state="attached")
        assert page.locator(".view").count() == 1
    if roles:
        page.wait_for_selector("table.summary td")
        rows = "rows => rows.map((row) => [...row.children].slice(0, 3).map((each) => each.textContent))"
        found = page.locator("table.summary tbody tr").evaluate_all(rows)
        assert found == [[each.role, str(each.layer), "0"] for each in record.maps]


def test_tokens_are_never_html(open_page: Callable[..., Any]) -> None:
    record = build_random_record(source=HOSTILE, written=HOSTILE, walk=True)
    page = open_page(record)
    page.on("dialog", lambda dialog: pytest.fail(f"a token ran: {dialog.message}"))
    tabs = page.locator("[role=tab]")
    for i in range(tabs.count()):
        tabs.nth(i).click()
        page.wait_for_selector(".view > *", state="attached")
        page.wait_for_timeout(100)
        assert page.locator("main img").count() == 0
        assert page.locator("main script").count() == 0
    tabs.first.click()
    page.get_by_role("button", name="As a table").click()
    names = page.locator(".as-table thead th").all_text_contents()[1:]
    assert names == [HOSTILE[0], HOSTILE[1], "&amp;", "[U+202E]abc", "∅", "␣", "␊"]


def test_a_policy_forbids_loading(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record())
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "*" not in policy


def test_keys(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(layers=3, heads=3))
    assert page.locator("[role=tab][aria-selected=true]").get_attribute("id") == "tab-alignment"
    page.keyboard.press("2")
    assert read_state(page)["view"] == "heads"
    page.keyboard.press("1")
    page.keyboard.press("[")
    assert read_state(page) | {"map": "7", "head": "mean"} == read_state(page)
    page.keyboard.press(".")
    assert read_state(page)["head"] == "0"
    for _ in range(4):
        page.keyboard.press(".")
    assert read_state(page)["head"] == "2"
    page.keyboard.press(",")
    assert read_state(page)["head"] == "1"
    page.keyboard.press("m")
    assert read_state(page)["head"] == "mean"
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("2")
    assert read_state(page)["view"] == "alignment"
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()


def test_tabs_follow_the_arrows(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record())
    page.locator("[role=tab]").first.focus()
    count = page.locator("[role=tab]").count()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-heads"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    focused = page.locator("[role=tab]").nth(count - 1)
    assert focused.evaluate("each => each === document.activeElement")
    assert page.locator("[role=tabpanel]").get_attribute("aria-labelledby") == focused.get_attribute("id")
    assert page.locator("[role=tab][tabindex='0']").count() == 1


def test_the_address_keeps_the_choices(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(), query="#view=model&map=1&head=1&theme=dark&ramp=grey&query=99")
    assert page.locator("[role=tab][aria-selected=true]").get_attribute("id") == "tab-model"
    assert page.get_by_label("Layer", exact=True).input_value() == "1"
    page.keyboard.press("1")
    assert page.get_by_label("Head", exact=True).input_value() == "1"
    assert "query" not in read_state(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(open_page: Callable[..., Any], scheme: str) -> None:
    page = open_page(build_random_record(sharpness=0.0), color_scheme=scheme)
    tabs = page.locator("[role=tab]")
    for i in range(tabs.count()):
        tabs.nth(i).click()
        page.wait_for_selector(".view > *", state="attached")
        page.wait_for_timeout(200)
        poor = page.evaluate(CONTRAST)
        assert poor == [], tabs.nth(i).text_content()


# Contrast ratios of WCAG 2 between all text and its background that are too small for AA.
CONTRAST = """() => {
  const probe = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    probe.clearRect(0, 0, 1, 1);
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = probe.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
  const light = (c) => {
    const [r, g, b] = c.map((x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (each) => {
    const below = each.parentElement ? behind(each.parentElement) : over(rgba("Canvas"), [255, 255, 255]);
    return over(rgba(getComputedStyle(each).backgroundColor), below);
  };
  const poor = [];
  for (const each of document.querySelectorAll("main *, dialog *")) {
    const text = [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || !each.getClientRects().length || each.closest(":disabled")) continue;
    const style = getComputedStyle(each);
    const below = behind(each.closest("svg") ? each.closest("svg").parentElement : each);
    const ink = over(rgba(each.closest("svg") ? style.fill : style.color), below);
    const [one, two] = [light(ink), light(below)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < (large ? 3 : 4.5)) poor.push([each.tagName, each.textContent.slice(0, 30), ratio.toFixed(2)]);
  }
  return poor;
}"""


def test_only_the_picture_is_printed_dark_on_white(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(), color_scheme="dark")
    page.wait_for_selector(".view[data-shown]")
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_timeout(300)
    assert not page.locator(".toolbar").is_visible()
    assert not page.locator(".tabs").is_visible()
    assert page.locator(".view canvas").first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate(CONTRAST) == []


def test_a_zoomed_map_is_printed_whole_with_its_explanation(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(source=ENGLISH * 3, written=GERMAN * 3))
    page.wait_for_selector(".view[data-shown]")
    page.get_by_text("How to read this").click()
    for _ in range(6):
        page.get_by_role("button", name="Zoom in").click()
    sizes = """() => {
      const node = document.querySelector(".scroller"), view = node.closest(".view");
      const canvas = node.querySelector("canvas").getBoundingClientRect();
      const sizer = node.querySelector(".sizer").getBoundingClientRect();
      return [canvas.width - sizer.width, canvas.height - sizer.height, view.clientWidth - sizer.width,
        Number(node.dataset.cell), document.querySelector("details.help").open];
    }"""
    zoomed = page.evaluate(sizes)
    assert zoomed[1] < -100, "the window shows a part"
    assert not zoomed[4]
    page.emulate_media(media="print")
    page.wait_for_timeout(300)
    wide, high, room, cell, opened = page.evaluate(sizes)
    assert wide >= -1
    assert high >= -1
    assert room >= -1
    assert cell < zoomed[3]
    assert opened
    page.emulate_media(media="screen")
    page.wait_for_timeout(300)
    assert page.evaluate(sizes) == zoomed


def test_in_a_notebook(page_opener: Any) -> None:
    """In a frame without an address everything works, and choices never load the surrounding page into the frame."""
    inner = render_viewer(build_random_record())
    page = page_opener.page(
        "<!DOCTYPE html><title>notebook</title>"
        f'<iframe srcdoc="{escape(inner)}" sandbox="allow-scripts" style="width:1200px;height:800px"></iframe>'
    )
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready=true]").wait_for(state="attached")
    frame.get_by_role("tab", name="Model").click()
    frame.locator(".thumbnail").nth(1).click()
    assert frame.get_by_role("tab", name="Alignment").get_attribute("aria-selected") == "true"
    assert frame.get_by_label("Head", exact=True).input_value() == "1"


def test_twelve_layers_of_twelve_heads_are_a_small_page(page_opener: Any) -> None:
    """In bytes and in layout: two elements for each head, and pixels for cells."""
    html = render_viewer(build_dirichlet_record(12, 12, 128))
    assert len(html.encode()) < 1_500_000
    page = page_opener.page(html, query="#view=model")
    page.wait_for_selector(".view-model[data-shown]")
    assert page.locator(".thumbnail").count() == 144
    assert page.evaluate(ELEMENTS) < 3 * 144 + 150
    sizes = page.locator(".view canvas").evaluate_all("all => all.map(({width, height}) => [width, height])")
    assert sizes == [[128, 128]] * 144, "one pixel for each weight"


def test_a_thousand_tokens_stay_usable(open_page: Callable[..., Any]) -> None:
    record = build_dirichlet_record(1, 2, 1000, concentration=0.02)
    page = open_page(record, query="#head=1")
    page.wait_for_selector(".view[data-shown]")
    for _ in range(12):
        page.get_by_role("button", name="Zoom in").click()
    frame = page.locator(".scroller")
    side = float(frame.get_attribute("data-cell"))
    assert side > 20
    frame.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("PageDown")
    readout = page.locator("#readout")
    assert (readout.get_attribute("data-query"), readout.get_attribute("data-key")) == ("10", "999")
    value = float(readout.get_attribute("data-value"))
    assert value == pytest.approx(record.maps[0].weights[1, 10, 999], abs=1 / 255)
    for key, view in (("2", "heads"), ("3", "model"), ("4", "steps"), ("1", "alignment")):
        page.keyboard.press(key)
        page.wait_for_selector(f".view-{view} > *", state="attached")
        assert page.evaluate(ELEMENTS) < 1000, "only the weights in the window are drawn"
        sizes = page.locator(".view canvas").evaluate_all("all => all.map(({width, height}) => width * height)")
        assert sum(sizes) < 2 * 1280 * 900


def test_the_payload_has_the_numbers_of_the_record(page_opener: Any) -> None:
    record = build_random_record(layers=1, heads=2, walk=True)
    html = render_viewer(record)
    page = page_opener.page(html)
    page.wait_for_selector("html[data-ready=true]")
    found = page.evaluate(
        """async () => {
          const {readRecord} = await import("heedful/record.js");
          const record = readRecord();
          const of = async (map) => ({
            weights: [...(await map.loadWeights()).data],
            visible: [...(await map.loadVisible()).data],
            scores: [...(await map.loadSteps()).scores.data],
            shape: (await map.loadWeights()).shape,
          });
          return Promise.all(record.maps.map(of));
        }"""
    )
    for each, map_ in zip(found, record.maps, strict=True):
        assert each["shape"] == list(map_.weights.shape)
        np.testing.assert_allclose(each["weights"], map_.weights.ravel(), atol=1 / 65535)
        np.testing.assert_array_equal(each["visible"], map_.visible.ravel())
        assert map_.walk is not None
        np.testing.assert_allclose(each["scores"], map_.walk.scores.ravel(), rtol=1e-3, atol=1e-6)
    assert json.loads(page.locator("#record").text_content())["model"] == record.model
