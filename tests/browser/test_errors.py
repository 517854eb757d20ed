"""The page of suspicious translations: filters by keys, narrow windows, and use without scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heedful.data.readers import SentencePair
from heedful.inspection.page import PageTable
from heedful.tasks.translation.error_page import ErrorCases, build_error_page
from heedful.tasks.translation.evaluation import TranslationEvaluator, TranslationOutputs, TranslationStats
from heedful.tasks.translation.translations import TokenAlignment

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def html() -> str:
    pairs = [
        SentencePair(f"a dog {n} " * 12, f"ein Hund {n} " * 12, f"a/long/path/to/the/text.en:{n}") for n in range(1, 4)
    ]
    weights = np.full((36, 40), 1 / 40)
    seen = TranslationStats(-1.0, None, (), (TokenAlignment(("a",) * 40, ("b",) * 36, {"a": weights}),))
    cases = ErrorCases(
        TranslationEvaluator(pairs, text="t"),
        TranslationOutputs(("Hund " * 9, "x " * 50, "ein " * 12), stats=[seen] * 3),
    )
    return build_error_page(cases, title="t", scores=PageTable("", ["metric", "value"], [["BLEU", "1"]]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_keys_filter_the_translations(page_opener: Any, html: str, width: int, scheme: str) -> None:
    page = page_opener.page(html, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 700})
    counts = [int(label.rpartition("(")[2][:-1]) for label in page.locator("label").all_text_contents()]
    assert len(counts) > 2
    page.keyboard.press("Tab")
    for place, count in enumerate(counts):
        assert page.evaluate("document.activeElement.id") == f"kind-{place}"
        assert page.locator(".case:visible").count() == count
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    page.wait_for_selector("svg.heedful-alignment:visible")
    assert page.evaluate(SIDEWAYS) == 0
