"""Terms of a search by words."""

from __future__ import annotations

import random

import pytest

from heedful.retrieval.bm25 import extract_terms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Newton's apple-tree, 3.14!", ["newton", "s", "apple", "tree", "3", "14"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("snake_case __init__", ["snake", "case", "init"]),
        ("Cafe\u0301 CAFÉ café", ["café", "café", "café"]),
        ("\ufb01ne", ["fine"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Москва, Киев", ["москва", "киев"]),
        ("東京都 tower", ["東京", "京都", "tower"]),
        ("中", ["中"]),
        ("スーパー", ["スー", "ーパ", "パー"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("x東京y", ["x", "東京", "y"]),
        ("한국어 사전", ["한국어", "사전"]),
        ("", []),
        (" ?! … ", []),
    ],
)
def test_terms(text: str, found: list[str]) -> None:
    assert [term.text for term in extract_terms(text)] == found


def test_each_term_says_where_it_stands() -> None:
    dice = random.Random(5)
    letters = "aB3_ '-ß\u0301é東京ภข한\n.\u00a0Д"
    for _ in range(300):
        text = "".join(dice.choice(letters) for _ in range(dice.randrange(30)))
        before = -1
        for term in extract_terms(text):
            assert before < term.start < term.stop <= len(text)
            assert [again.text for again in extract_terms(text[term.start : term.stop])] == [term.text]
            before = term.start
