"""What somebody sends to keep a server busy: it is looked through once, not once for each of its letters."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from localisation_documents import DOCX, build_zip, wrap_docx_body

from heedful.errors import DataError
from heedful.localisation import xliff_document
from heedful.localisation.documents import TextContent
from heedful.localisation.files import read_document
from heedful.localisation.html_document import HtmlDocument
from heedful.localisation.placeholders import scan_placeholders, to_plain_text
from heedful.localisation.po_document import parse_plural_forms
from heedful.localisation.segments import InlineCode
from heedful.localisation.xml_elements import XmlElement

LONG = 100_000
"""Letters for which twice nested loops take more than half a minute, and one less than a second."""


@contextmanager
def soon() -> Iterator[None]:
    """Fails where a block takes more time of the processor than anything that is done once for each letter."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 15


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [*(("", piece) for piece in (" ", "--", "a-", "A.", "a_", "{", "%", "<a ", "~a")), ("%", "9"), ("{", " ")],
)
def test_placeholders(beginning: str, piece: str) -> None:
    text = beginning + piece * (LONG // len(piece))
    with soon():
        assert (
            "".join(part.raw if isinstance(part, InlineCode) else part for part in scan_placeholders((text,))) == text
        )
        to_plain_text((text,))


@pytest.mark.parametrize("piece", ["<a ", '<a "', "<a x='", "<a", "<pre>", "<b translate=no>", "<", "&", "<b>x"])
def test_pages(piece: str) -> None:
    with soon():
        page = HtmlDocument(TextContent("one " + piece * (LONG // len(piece))), Path("page"))
        assert page.fill_targets({}) == page.content.text.encode()


def test_pages_with_elements_of_all_names() -> None:
    with soon():
        HtmlDocument(TextContent("".join(f"<x{number} translate=no>" for number in range(LONG // 10))), Path("page"))


def test_plural_rules() -> None:
    with soon():
        assert parse_plural_forms(f"nplurals=2; plural=n{' ' * LONG}x;") is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.po", lambda: 'msgid "a"\nmsgstr ""\n\n' * 30_000),
        ("a.srt", lambda: "1\n00:00:01,000 --> 00:00:02,000\na\n\n" * 10_000),
        (
            "a.docx",
            lambda: build_zip(
                {**DOCX, "word/document.xml": wrap_docx_body(f"<w:p><w:r><w:t>a{' ' * LONG}</w:t></w:r></w:p>")}
            ),
        ),
        (
            "b.docx",
            lambda: build_zip(
                {**DOCX, "word/document.xml": wrap_docx_body(f"<w:p><w:r><w:t{' ' * LONG}>a</w:t></w:r></w:p>")}
            ),
        ),
    ],
)
def test_files(tmp_path: Path, name: str, content: Callable[[], str | bytes]) -> None:
    made = content()
    (tmp_path / name).write_bytes(made if isinstance(made, bytes) else made.encode())
    with soon():
        document = read_document(tmp_path / name)
        document.fill_targets(
            {number: ("b",) for number, unit in enumerate(document.units) if to_plain_text(unit.source)}
        )


@pytest.mark.parametrize(
    "piece", ["<b>", "<b>x", "<p>word</p>", "<a x=1 title='y z'>", "<img alt=c>", "<br>a ", "<!---->"]
)
def test_a_page_takes_little_memory(piece: str) -> None:
    """At most 50 bytes for each letter, where a dictionary for each tag took 120."""
    text = piece * (30_000 // len(piece))
    content = TextContent(text)
    HtmlDocument(TextContent(piece), Path("page"))
    tracemalloc.start()
    try:
        page = HtmlDocument(content, Path("page"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 50 * len(text)
    assert page.fill_targets({}) == text.encode()


def paragraph_of(inside: str) -> dict[str, str | bytes]:
    return {**DOCX, "word/document.xml": wrap_docx_body(f"<w:p>{inside}</w:p>")}


def test_parts_of_a_run_do_not_multiply_what_is_said_of_it(tmp_path: Path) -> None:
    """Each part of a run is a code with all that is said of the run, so 20,000 of each would take gigabytes."""
    looks, breaks = "<w:b/>" * 1000, "<w:br/>" * 1000
    path = tmp_path / "a.docx"
    path.write_bytes(build_zip(paragraph_of(f"<w:r><w:rPr>{looks}</w:rPr><w:t>a</w:t>{breaks}</w:r>")))
    with pytest.raises(DataError, match=r"a\.docx.*50 times as large"):
        read_document(path)
    path.write_bytes(build_zip(paragraph_of(f"<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t>{breaks}</w:r>")))
    assert to_plain_text(read_document(path).units[0].source) == "a"


@pytest.mark.parametrize("depth", [19, 21, 1500])
def test_fields_inside_each_other_are_read_however_deep(tmp_path: Path, depth: int) -> None:
    def mark(kind: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    begin = mark("begin") + "<w:r><w:instrText>TOC</w:instrText></w:r>" + mark("separate")
    path = tmp_path / "a.docx"
    path.write_bytes(build_zip(paragraph_of(begin * depth + "<w:r><w:t>text</w:t></w:r>" + mark("end") * depth)))
    document = read_document(path)
    (unit,) = [each for each in document.units if "text" in to_plain_text(each.source)]
    assert to_plain_text(unit.source) == "text"
    assert len(document.fill_targets({document.units.index(unit): unit.source})) > 1000


def test_a_text_that_is_packed_too_densely_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(
        build_zip({**paragraph_of("<w:r><w:t>a</w:t></w:r>" * 60_000), "word/media/white.bmp": bytes(2 << 20)})
    )
    with pytest.raises(DataError, match=r"document\.xml unpacks to more than 200 times its size"):
        read_document(path)
    members = {**paragraph_of("<w:r><w:t>a</w:t></w:r>"), "word/media/white.bmp": bytes(2 << 20)}
    path.write_bytes(build_zip(members))
    document = read_document(path)
    assert len(document.fill_targets({0: ("b",)})) > 1000, "a white picture is no text"


def test_the_notes_of_a_unit_are_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each of its segments."""
    asked = []

    def notes(owner: XmlElement) -> Iterator[XmlElement]:
        asked.append(owner)
        return owner.iter_children("note")

    monkeypatch.setattr(xliff_document, "_iter_notes", notes)
    segments = "<segment><source>a</source></segment>" * 50
    path = tmp_path / "a.xlf"
    path.write_text(f'<xliff version="2.0"><file><unit id="u"><note>n</note>{segments}</unit></file></xliff>')
    units = read_document(path).units
    assert [unit.notes for unit in units] == [("n",)] * 50
    assert len(asked) == 1


def test_an_attribute_that_loses_its_letters_moves_no_text() -> None:
    page = HtmlDocument(TextContent('<p title="one">two</p><img alt=three><p>four <b>five</b></p>'), Path("page"))
    targets = {
        number: tuple("." if isinstance(part, str) and unit.name == "attribute" else part for part in unit.source)
        for number, unit in enumerate(page.units)
    }
    assert page.fill_targets(targets) == b'<p title=".">two</p><img alt="."><p>four <b>five</b></p>'
