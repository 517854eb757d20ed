"""The guided tour: its stops depend on the record, it shows the record's numbers, and it restores the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_records import ENGLISH, GERMAN, build_answer_record, build_random_record
from view_records import (
    build_caption_record,
    build_chain_record,
    build_dialogue_record,
    build_glimpse_record,
    build_level_record,
    build_story_record,
)

from heedful.inspection.record import InspectionRecord, VectorSize


def begin(page: Any) -> None:
    page.get_by_role("button", name="Guided tour").click()
    page.wait_for_selector(".tour h3:not(:empty)")


def walk_through(page: Any) -> list[tuple[str, str]]:
    """Collect titles and texts of all stops, with the arrow key."""
    begin(page)
    found = []
    while True:
        page.wait_for_timeout(250)
        found.append((page.locator(".tour h3").text_content(), page.locator(".tour p").text_content()))
        if page.locator(".tour").get_by_role("button", name="Next", exact=True).is_disabled():
            return found
        page.keyboard.press("ArrowRight")


def read_hash(page: Any) -> dict[str, str]:
    return dict(page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"))


TRANSLATOR = [
    "Tokens",
    "Embedding and position",
    "One head in numbers",
    "All heads",
    "Layers above",
    "Cross attention",
    "The generated text",
    "Probabilities of the next token",
    "The choice",
]
GPT = [*TRANSLATOR[:5], *TRANSLATOR[-2:]]
BERT = [*TRANSLATOR[:5], "The answer"]


def build_gpt_record() -> InspectionRecord:
    record = build_random_record(walk=True, roles=("decoder",))
    return replace(record, axes=record.axes[1:], embedded=record.embedded[1:], tree=())


@pytest.mark.parametrize(
    ("record", "road"),
    [
        (build_random_record(walk=True), TRANSLATOR),
        (build_random_record(1, 1), ["Tokens", "Embedding and position", "One head", *TRANSLATOR[5:]]),
        (build_gpt_record(), GPT),
        (build_answer_record(walk=True), BERT),
        (build_dialogue_record(), None),
        (build_level_record(), None),
        (build_caption_record(), None),
        (build_glimpse_record(), None),
        (build_story_record(), None),
        (build_chain_record(), None),
    ],
    ids=["translator", "small", "gpt", "bert", "dialogue", "recurrent", "picture", "glimpses", "hops", "chain"],
)
def test_each_model_has_its_own_tour(
    open_page: Callable[..., Any], record: InspectionRecord, road: list[str] | None
) -> None:
    page = open_page(record)
    stops = walk_through(page)
    titles = [title for title, _ in stops]
    if road is not None:
        assert titles == road
    assert len(set(titles)) == len(titles) >= 1
    for _, words in stops:
        assert 0 < words.count(". ") + words.endswith(".") <= 3
        assert not any(bad in words for bad in ("undefined", "NaN", "null"))


def test_the_numbers_are_those_of_the_record(open_page: Callable[..., Any]) -> None:
    record = replace(build_random_record(walk=True), widths=(VectorSize("output", "decoder", 12345),))
    place = 5  # shirt
    page = open_page(record)
    begin(page)
    page.get_by_label("Word").select_option(str(place))
    page.wait_for_selector(".tour p:has-text('shirt')")
    page.keyboard.press("ArrowRight")
    told = {page.locator(".tour h3").text_content(): page.locator(".tour p").text_content()}
    page.locator(".tour h2").click()
    for _ in range(7):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(100)
        told[page.locator(".tour h3").text_content()] = page.locator(".tour p").text_content()
    first, last = record.find_map("encoder", layer=0), record.find_map("cross", layer=-1).mean_weights
    others = np.where(np.arange(len(ENGLISH)) == place, -1, first.weights[:, place])
    head, key = np.unravel_index(others.argmax(), others.shape)
    assert f"head {head}, one of 2" in told["One head in numbers"]
    assert (
        f"“{ENGLISH[key]}” scores {first.walk.scores[head, place, key]:.2f}".replace("-", "\N{MINUS SIGN}")
        in told["One head in numbers"]
    )
    assert f"{round(100 * others[head, key])} % of the sum" in told["One head in numbers"]
    step = int(last[:, place].argmax())
    assert f"when “{GERMAN[step]}” is generated: it gets {round(100 * last[step, place])} %" in told["Cross attention"]
    chance = np.exp(record.written[step].log_probability)
    assert f"“{GERMAN[step]}” gets {round(100 * chance)} %" in told["Probabilities of the next token"]
    assert "12,345 tokens" in told["Probabilities of the next token"]


def test_explained_elements_are_highlighted(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(walk=True))
    begin(page)
    marks = {
        "Tokens": "[data-box='tokens/encoder'].tour-mark",
        "Embedding and position": ".stage.tour-mark",
        "One head in numbers": "tr[data-key].tour-mark",
        "All heads": ".scroller.tour-mark",
        "Layers above": ".scroller .spot",
        "Cross attention": ".scroller .spot",
        "The generated text": ".scroller .spot",
        "Probabilities of the next token": ".is-written.tour-mark",
        "The choice": ".tree-scroll.tour-mark",
    }
    for number, (title, mark) in enumerate(marks.items(), 1):
        assert page.locator(".tour h3").text_content() == title
        assert page.locator(".tour-head .soft").text_content() == f"{number} of {len(marks)}"
        page.wait_for_selector(mark)
        assert page.locator(".tour-mark").count() <= 1
        if number < len(marks):
            page.locator(".tour").get_by_role("button", name="Next", exact=True).click()
    assert page.evaluate("document.activeElement.textContent") == "End the tour"
    page.keyboard.press("ArrowLeft")
    assert page.locator(".tour h3").text_content() == "Probabilities of the next token"


@pytest.mark.parametrize("end", ["Escape", "button"])
def test_it_restores_the_page(open_page: Callable[..., Any], end: str) -> None:
    page = open_page(build_random_record(walk=True), query="#view=alignment&map=1&head=1&query=3")
    page.wait_for_selector(".view[data-shown]")
    assert page.locator("details.help").evaluate("each => each.open")
    page.get_by_role("button", name="Zoom in").click()
    before = read_hash(page)
    assert len(walk_through(page)) == len(TRANSLATOR)
    assert read_hash(page) != before
    if end == "Escape":
        page.keyboard.press("Escape")
    else:
        page.get_by_role("button", name="End the tour").click()
    page.wait_for_selector(".view[data-shown]")
    assert read_hash(page) == before | {"theme": "auto", "ramp": "paper"}
    for gone in (".tour", ".tour-mark", ".spot"):
        assert page.locator(gone).count() == 0
    assert page.locator("details.help").evaluate("each => each.open")
    assert page.evaluate("document.activeElement.textContent") == "Guided tour"
    page.keyboard.press("4")
    assert page.locator("details.help").evaluate("each => each.open"), "explanations that the tour showed stay open"


def test_arrows_in_a_picture_stay_in_the_picture(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(walk=True))
    begin(page)
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector(".scroller .spot")
    page.locator(".scroller").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".tour-head .soft").text_content() == "6 of 9"


def test_on_a_phone_and_on_paper(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(walk=True))
    page.set_viewport_size({"width": 320, "height": 640})
    begin(page)
    for _ in range(8):
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.keyboard.press("ArrowRight")
    box = page.locator(".tour").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
    assert box["height"] < 320
    page.emulate_media(media="print")
    assert not page.locator(".tour").is_visible()


def test_the_whole_model_is_a_picture_with_links_to_its_views(open_page: Callable[..., Any]) -> None:
    record = replace(
        build_level_record(),
        widths=(VectorSize("embedding", "encoder", 32), VectorSize("output", "decoder", 99)),
        answers=(),
    )
    page = open_page(record, query="#view=architecture")
    boxes = page.locator("[data-box]").evaluate_all("all => all.map((each) => each.dataset.box)")
    assert boxes[:3] == ["tokens/encoder", "embedding/encoder", "level/encoder/0"]
    assert "level/decoder/1" in boxes
    assert page.locator("[data-box='embedding/encoder'] .part-width").text_content() == "32"
    page.locator("[data-box='level/encoder/0'] .part-name").click()
    assert read_hash(page)["view"] == "unrolled"
    translator = open_page(build_random_record(3, 2), query="#view=architecture")
    page = translator
    page.locator("[data-box='level/decoder/2']").get_by_role("button", name="attention to source, 2 heads").click()
    assert read_hash(page) | {"view": "alignment", "map": "8", "head": "mean"} == read_hash(page)
