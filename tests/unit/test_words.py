"""Singulars and articles, of all words that messages use them for and of others."""

from __future__ import annotations

import pytest

from heedful.data.detect.checks import format_count
from heedful.english_words import add_article, to_singular


@pytest.mark.parametrize(
    ("plural", "one"),
    [
        ("texts", "text"),
        ("pairs", "pair"),
        ("lines", "line"),
        ("sentences", "sentence"),
        ("dialogues", "dialogue"),
        ("questions", "question"),
        ("paragraphs", "paragraph"),
        ("stretches", "stretch"),
        ("classes", "class"),
        ("passages", "passage"),
        ("entries", "entry"),
        ("boxes", "box"),
        ("dishes", "dish"),
        ("uses", "use"),
        ("caches", "cache"),
        ("people", "person"),
        ("series", "series"),
        ("hypotheses", "hypothesis"),
        ("matrices", "matrix"),
        ("labelled texts", "labelled text"),
        ("class", "class"),
    ],
)
def test_singulars(plural: str, one: str) -> None:
    assert to_singular(plural) == one
    assert format_count(1, plural) == f"1 {one}"
    assert format_count(2, plural) == f"2 {plural}"


def test_articles() -> None:
    assert [add_article(each) for each in ("text", "answer", "Entry")] == ["a text", "an answer", "an Entry"]
