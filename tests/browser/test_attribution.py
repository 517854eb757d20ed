"""Attributions beside attention weights: the record's own scores, their sums, and a stop of the tour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attribution_samples import add_random_attribution
from random_records import GERMAN, build_answer_record, build_random_record

HALF = 2e-3  # half-precision numbers, some of them 3


def open_view(open_page: Callable[..., Any], record: Any, **options: Any) -> Any:
    page = open_page(record, query="#view=attribution", **options)
    page.wait_for_selector("[data-column]")
    return page


def read_scores(page: Any) -> list[float]:
    return list(page.locator("[data-column]").evaluate_all("all => all.map((each) => Number(each.dataset.score))"))


def test_scores_and_weights_of_a_step(open_page: Callable[..., Any]) -> None:
    record = add_random_attribution(build_random_record())
    (each,) = record.attributions
    page = open_view(open_page, record)
    np.testing.assert_allclose(read_scores(page), each.scores[0], atol=HALF)
    page.get_by_role("radio", name="hemd").click()
    page.wait_for_timeout(100)
    step = GERMAN.index("hemd")
    np.testing.assert_allclose(read_scores(page), each.scores[step], atol=HALF)
    weights = page.locator("[data-weight]").evaluate_all("all => all.map((each) => Number(each.dataset.weight))")
    np.testing.assert_allclose(weights, record.find_map("cross", layer=-1).mean_weights[step], atol=1e-4)
    said = page.locator(".view").text_content()
    assert each.baselines is not None
    assert f"{each.values[step]:.3f}".replace("-", "\N{MINUS SIGN}") in said
    assert "completeness error is 0.250" in said
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(100)
    np.testing.assert_allclose(read_scores(page), each.scores[step + 1], atol=HALF)


def test_a_large_gap_is_a_warning(open_page: Callable[..., Any]) -> None:
    record = add_random_attribution(build_random_record())
    (each,) = record.attributions
    assert each.baselines is not None
    off = replace(each, baselines=each.values - each.scores.sum(1) - 5)
    page = open_view(open_page, replace(record, attributions=(off,)))
    assert "This error is large" in page.locator(".view .banner").text_content()
    few = replace(each, method="gradient", baselines=None)
    page = open_view(open_page, replace(record, attributions=(few,)))
    assert page.locator(".view .banner").count() == 0
    assert "Gradient \N{MULTIPLICATION SIGN} input" in page.locator(".view").text_content()


def test_answers_have_scores_too(open_page: Callable[..., Any]) -> None:
    record = add_random_attribution(build_answer_record(), about="answers", method="gradient")
    page = open_view(open_page, record)
    names = page.get_by_role("radio").all_text_contents()
    assert names[0] == "hidden token [MASK]: blue"
    assert len(names) == len(record.answers)
    page.get_by_role("radio", name="class: entailment").click()
    page.wait_for_timeout(100)
    assert page.locator("[data-weight]").count() == 0, "no token represents the whole text"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_works_by_keys_and_as_a_table(open_page: Callable[..., Any], scheme: str) -> None:
    record = add_random_attribution(build_random_record())
    (each,) = record.attributions
    page = open_view(open_page, record, color_scheme=scheme)
    page.locator(".grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    text = f"for mann: {each.scores[1, 1]:.4f}".replace("-", "\N{MINUS SIGN}")
    assert text[:-2] in page.locator(".grid").get_attribute("aria-label")
    page.get_by_role("button", name="As a table").click()
    page.wait_for_selector(".as-table td")
    cells = [float(cell.replace("\N{MINUS SIGN}", "-")) for cell in page.locator(".as-table td").all_text_contents()]
    np.testing.assert_allclose(cells, each.scores.ravel(), atol=HALF)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_tour_ends_with_it(open_page: Callable[..., Any]) -> None:
    record = add_random_attribution(build_random_record(walk=True))
    (each,) = record.attributions
    exact = replace(each, baselines=each.values - each.scores.sum(1))
    page = open_page(replace(record, attributions=(exact,)))
    page.get_by_role("button", name="Guided tour").click()
    page.wait_for_selector(".tour h3:not(:empty)")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(80)
    assert page.locator(".tour h3").text_content() == "Attribution"
    assert "Integrated gradients show what counted" in page.locator(".tour p").text_content()
    page.wait_for_selector("[data-column].tour-mark")
    place = int(page.get_by_label("Word").input_value())
    step = int(record.find_map("cross", layer=-1).mean_weights[:, place].argmax())
    assert f"counts {abs(each.scores[step, place]):.2f} nats" in page.locator(".tour p").text_content()
    assert page.locator("[role=radio][aria-checked=true]").get_attribute("data-row") == str(step)


@pytest.mark.parametrize("method", ["gradient", "integrated"])
def test_the_tour_leaves_out_scores_that_are_not_complete(open_page: Callable[..., Any], method: str) -> None:
    """Those of gradients times input never are."""
    record = add_random_attribution(build_random_record(), method=method)
    (each,) = record.attributions
    baselines = each.values - each.scores.sum(1) - 5 if method == "integrated" else None
    page = open_page(replace(record, attributions=(replace(each, baselines=baselines),)))
    page.get_by_role("button", name="Guided tour").click()
    page.wait_for_selector(".tour h3:not(:empty)")
    while not page.locator(".tour").get_by_role("button", name="Next", exact=True).is_disabled():
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(80)
    assert page.locator(".tour h3").text_content() == "The choice"


def test_old_links_open_the_view(open_page: Callable[..., Any]) -> None:
    page = open_page(add_random_attribution(build_random_record()), query="#view=mattered")
    assert page.locator("[role=tab][aria-selected=true]").get_attribute("id") == "tab-attribution"
