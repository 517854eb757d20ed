"""All text fits into its box, at the widths of a phone, a tablet and a desktop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from random_records import build_answer_record, build_random_record
from view_records import build_level_record, build_view_record

from heedful.inspection.record import InspectionRecord

WIDTHS = (360, 768, 1280)
WORDS = (
    "Donaudampfschifffahrtsgesellschaft",
    "WWWWMWWWWMWWWW",
    "一二三四五六七八九十一二三",
    "Mary went to the garden.",
)
VIEWS = ("regions", "frames", "glimpses", "hops", "chain", "turns", "unrolled")

# Texts that are wider than their select, beyond an edge around them, or beyond the shape that they label. Pictures in
# a scroller are windows: their labels can be scrolled to.
CUT = """() => {
  const cut = [];
  const isShown = (node) => node.checkVisibility() && !node.closest(".visually-hidden, h1");
  const note = (kind, node, box) => cut.push(`${kind}: ${node.textContent.trim().slice(0, 40)} in ${box.tagName}`);
  const isBeyond = (one, other, slack) => one.width > 0 && (
    one.left < other.left - slack || one.right > other.right + slack ||
    one.top < other.top - slack || one.bottom > other.bottom + slack);
  for (const select of [...document.querySelectorAll("select")].filter(isShown)) {
    const copy = select.cloneNode(true);
    copy.style.cssText = "position: absolute; max-width: none; width: max-content";
    select.after(copy);
    if (copy.offsetWidth > select.offsetWidth + 1) note("select", select.options[0], select);
    copy.remove();
  }
  for (const node of [...document.querySelectorAll("main *, .tour *")].filter(isShown)) {
    const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!hasText || node.closest("select")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const text = (node.ownerSVGElement ? node : range).getBoundingClientRect();
    for (let box = node; !box.matches("main, .tour"); box = box.parentElement) {
      const style = getComputedStyle(box);
      if (/auto|scroll/.test(style.overflowX)) break;
      const isPicture = box.matches("svg") && !box.closest(".scroller");
      const hasEdge = parseFloat(style.borderLeftWidth) > 0 || style.overflowX === "hidden" && !box.matches("svg");
      if (style.display === "inline" && !isPicture || !isPicture && !hasEdge) continue;
      if (isBeyond(text, box.getBoundingClientRect(), 3)) note("edge", node, box);
    }
    const shape = node.parentElement.matches("svg g") && node.parentElement.querySelector("rect, circle");
    const isCentred = node.getAttribute("text-anchor") === "middle";
    const [inner, outer] = [node, shape].map((each) => shape && each.getBoundingClientRect());
    if (shape && isCentred && isBeyond(inner, outer, 1)) note("shape", node, shape);
  }
  const beyond = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  return beyond > 0 ? [...cut, `the page is ${beyond} px too wide`] : cut;
}"""


def list_cut_texts(page: Any, views: Sequence[str] = ()) -> list[str]:
    """Return the texts that are cut in the given views, or in all of them, with the view and the width of the page."""
    shown = views or page.locator("[role=tab]").evaluate_all("tabs => tabs.map((tab) => tab.id.slice(4))")
    page.evaluate("document.documentElement.dataset.unfolded = ''")
    found = []
    for view in shown:
        page.evaluate("view => { location.hash = `#view=${view}` }", view)
        page.wait_for_selector(f".view-{view} > *", state="attached")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(80)
            found += [f"{view} at {width}: {each}" for each in page.evaluate(CUT)]
    return found


@pytest.mark.parametrize(("scheme", "views"), [("light", ()), ("dark", ("alignment", "architecture"))])
def test_the_names_of_attentions_are_whole(open_page: Callable[..., Any], scheme: str, views: Sequence[str]) -> None:
    """This also holds for wider letters (WCAG 2.2, 1.4.12), as other systems' fonts have."""
    record = build_random_record(walk=True, roles=("encoder", "decoder", "cross", "summary"))
    page = open_page(replace(record, encodings=()), color_scheme=scheme)
    page.add_style_tag(content="button, select { letter-spacing: 0.12em }")
    assert list_cut_texts(page, views) == []


@pytest.mark.parametrize("view", VIEWS)
def test_long_and_wide_words_fit(open_page: Callable[..., Any], view: str) -> None:
    assert list_cut_texts(open_page(build_view_record(view, WORDS, layers=2, heads=2)), [view]) == []


def test_long_answers_and_stages_fit(open_page: Callable[..., Any]) -> None:
    assert list_cut_texts(open_page(build_answer_record(WORDS * 2, walk=True)), ["answers", "steps"]) == []
    page = open_page(build_random_record(source=WORDS, written=WORDS, walk=True))
    assert list_cut_texts(page, ["decoding", "steps", "flow", "masks"]) == []


def test_long_names_of_layers_fit(open_page: Callable[..., Any]) -> None:
    names = (
        "Multi-head self-attention over the whole sentence",
        "Attention (Bahdanau)",
        "WWWWWWWWWW hops",
        "一二三四五六七八九十",
    )
    assert list_cut_texts(open_page(_build_named_levels(names)), ["architecture", "unrolled"]) == []


def test_positions_of_deep_modules_have_short_names(open_page: Callable[..., Any]) -> None:
    """A select cannot wrap, so it leaves out the end that all paths share; the text below it has the whole name."""
    record = build_random_record()
    (encoding,) = record.encodings
    names = [f"sinusoidal ({side}.encoder.stack.embedding.position)" for side in ("encoder", "decoder")]
    page = open_page(replace(record, encodings=tuple(replace(encoding, name=name) for name in names)))
    assert list_cut_texts(page, ["positions"]) == []
    options = page.get_by_label("Encoding").locator("option").all_text_contents()
    assert options == ["sinusoidal (encoder)", "sinusoidal (decoder)"]
    assert names[0] in page.locator(".position-card").first.text_content()


def _build_named_levels(names: Sequence[str]) -> InspectionRecord:
    """Build the record of an encoder and a decoder whose layers have these names."""
    record = build_level_record()
    sides = {level.side: level for level in record.levels}
    levels = [replace(level, name=name, carries=()) for level in sides.values() for name in names]
    return replace(record, levels=tuple(levels))
