"""What somebody sends to keep a server busy: it is looked through once, not once for each of its letters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from documents import DOCX, word, zipped

from heedful.localisation.encodings import Content
from heedful.localisation.files import read_document
from heedful.localisation.html import Html
from heedful.localisation.placeholders import plain, scanned
from heedful.localisation.segments import Code

LONG = 100_000
"""Letters for which twice nested loops take more than half a minute, and one less than a second."""


@contextmanager
def soon() -> Iterator[None]:
    """Fails where a block takes more time of the processor than anything that is done once for each letter."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 15


@pytest.mark.parametrize("piece", [" ", "--", "a-", "A.", "a_", "{", "%", "<a ", "~a"])
def test_placeholders(piece: str) -> None:
    text = piece * (LONG // len(piece))
    with soon():
        assert "".join(part.raw if isinstance(part, Code) else part for part in scanned((text,))) == text
        plain((text,))


@pytest.mark.parametrize("piece", ["<a ", '<a "', "<a x='", "<a", "<pre>", "<b translate=no>", "<", "&", "<b>x"])
def test_pages(piece: str) -> None:
    with soon():
        page = Html(Content("one " + piece * (LONG // len(piece))), Path("page"))
        assert page.filled({}) == page.content.text.encode()


def test_pages_with_elements_of_all_names() -> None:
    with soon():
        Html(Content("".join(f"<x{number} translate=no>" for number in range(LONG // 10))), Path("page"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.po", lambda: 'msgid "a"\nmsgstr ""\n\n' * 30_000),
        ("a.srt", lambda: "1\n00:00:01,000 --> 00:00:02,000\na\n\n" * 10_000),
        (
            "a.docx",
            lambda: zipped({**DOCX, "word/document.xml": word(f"<w:p><w:r><w:t>a{' ' * LONG}</w:t></w:r></w:p>")}),
        ),
        (
            "b.docx",
            lambda: zipped({**DOCX, "word/document.xml": word(f"<w:p><w:r><w:t{' ' * LONG}>a</w:t></w:r></w:p>")}),
        ),
    ],
)
def test_files(tmp_path: Path, name: str, content: Callable[[], str | bytes]) -> None:
    made = content()
    (tmp_path / name).write_bytes(made if isinstance(made, bytes) else made.encode())
    with soon():
        document = read_document(tmp_path / name)
        document.filled({number: ("b",) for number, unit in enumerate(document.units) if plain(unit.source)})


def test_an_attribute_that_loses_its_letters_moves_no_text() -> None:
    page = Html(Content('<p title="one">two</p><img alt=three><p>four <b>five</b></p>'), Path("page"))
    targets = {
        number: tuple("." if isinstance(part, str) and unit.name == "attribute" else part for part in unit.source)
        for number, unit in enumerate(page.units)
    }
    assert page.filled(targets) == b'<p title=".">two</p><img alt="."><p>four <b>five</b></p>'
