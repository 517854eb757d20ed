# ruff: noqa: RUF001  (marks of punctuation and letters of other scripts look alike)
"""Sentences by rules."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path

import pytest
from external_data import find_external_data

from heedful.data import text_splitting as module
from heedful.data.documents import BlankSeparatedDocuments
from heedful.data.text_splitting import ABBREVIATIONS, split_sentences

WORDS = ["Dr", "The", "cat", "U.S", "3", "14", "J", "e.g", "猫", "kein", "am ", "Mai", "x"]
MARKS = [".", ". ", ".. ", "…", "! ", "?", "!?", '"', "”", "(", ") ", "。", "！", "」", "«", "» ", "।", ","]
PARTS = [*WORDS, *MARKS, "\n", "\n\n", " ", "  ", "\t", "\u00a0", "\r\n"]


@pytest.mark.parametrize(
    "text",
    [
        "He came.| She went!| Why?| Nobody knows…| Well",
        "Mr. Smith met Dr. J. S. Bach in the U.S. Army.| They talked.",
        'He said "Go!" and went.| "Why?" she asked.| "I am here."| He left.',
        "Pi is 3.14 or so.| It costs $ 2.50, i.e. nothing.| See fig. 3 and vol. 2.",
        "Wait... what?| Wait...| What?",
        "(It was late.)| He slept [well].| “So did I.”",
        "3. Results are good.| At age 39.| The past was better.| In 1999.| Then came 2000.",
        "Er kam am 3. Mai.| Das ist z.B. gut, vgl. 2.",
        "Это было в 2010 г. в Москве, т.е. давно.| Он ушёл.",
        "No. 5 is alive.| He said no.| Then he went.",
        "¿Qué pasa?| ¡Nada!| Está bien.",
        "私は猫です。|名前はまだない。|「どこで生れたか。」|見当がつかぬ！",
        "你好！|你是谁？|我不知道。",
        "One line\nand its rest.| Another\n\n|Headline\n\n|A third one.",
        "यह है।| वह था।",
    ],
)
def test_where_sentences_end(text: str) -> None:
    assert split_sentences(text.replace("|", "")) == [" ".join(part.split(" ")).strip() for part in text.split("|")]


def test_joined_they_are_the_text_up_to_white_space() -> None:
    for _ in range(2000):
        text = "".join(random.choices(PARTS, k=random.randrange(40)))
        found = split_sentences(text)
        assert "".join("".join(found).split()) == "".join(text.split())
        assert all(part and part == part.strip() for part in found)
        rest = text
        for part in found:  # each as it is written, with nothing but white space between two
            before, _, rest = rest.partition(part)
            assert not before.strip()


def test_sentences_of_sentences_are_themselves() -> None:
    for word in sorted(ABBREVIATIONS):
        assert split_sentences(f"It is {word}. 5 times so.") == [f"It is {word}. 5 times so."]
    for _ in range(500):
        text = "".join(random.choices(["Cat ", "dogs ", "ran. ", "Why? ", "“No!” ", "well… ", "3.5 "], k=12))
        for part in split_sentences(text):
            assert split_sentences(part) == [part]


def test_the_work_for_a_mark_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each period a few characters before it are searched, however long the sentence is."""
    searched: list[int] = []

    class Watched:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern = pattern

        def search(self, text: str) -> re.Match[str] | None:
            searched.append(len(text))
            return self.pattern.search(text)

    for name in ("_LAST_WORD", "_BEFORE_ORDINAL"):
        monkeypatch.setattr(module, name, Watched(getattr(module, name)))
    split_sentences("word Dr. Z. am 3. Mai " * 2_000)
    assert 6_000 <= len(searched) <= 8_000
    assert max(searched) <= 40


def test_paragraphs_of_wikipedia() -> None:
    with gzip.open(find_external_data("xquad/xquad.en.json.gz")) as file:
        paragraphs = [p["context"] for article in json.load(file)["data"] for p in article["paragraphs"]]
    found = [part for text in paragraphs for part in split_sentences(text)]
    assert 4 < len(found) / len(paragraphs) < 7
    # A sentence begins with a capital letter, a number, or what opens one of them.
    assert sum(bool(re.match(r"[\"“(\[‘']*[A-ZÀ-Ž0-9]", part)) for part in found) / len(found) > 0.99
    assert sum(part[-1] in '.!?"”’)]…' for part in found) / len(found) > 0.99


def test_empty_lines_are_borders_of_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\na b\nc.\n \nd\n\n\n")
    documents = BlankSeparatedDocuments(path)
    for _ in range(2):
        assert [(d.text, d.is_last) for d in documents] == [("a b\nc.", True), ("d", True)]
