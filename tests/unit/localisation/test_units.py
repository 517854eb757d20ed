"""Which units the documents of each format have, and exactly what filling one writes."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest
from localisation_documents import HTML, PO, SRT, TMX, XLIFF, XLIFF_2

from heedful.errors import DataError
from heedful.localisation.documents import TranslatableDocument
from heedful.localisation.files import read_document


def read(path: Path) -> TranslatableDocument:
    return read_document(path, source="en", target="de")


def shown(document: TranslatableDocument) -> list[str]:
    return ["".join(part if isinstance(part, str) else part.raw for part in unit.source) for unit in document.units]


def test_states_of_xliff(write) -> None:
    units = read(write("a.xlf", XLIFF)).units
    assert [unit.name for unit in units] == ["1", "2", "3", "4", "5", "6", "7"]
    assert [unit.translatable for unit in units] == [True, False, False, True, True, True, True]
    assert [unit.state for unit in units] == [*["untranslated"] * 4, "translated", "review", "translated"]
    assert units[0].notes == ("Be brief.",)
    assert units[3].source == ("a < b",)
    assert (units[4].target, units[5].target) == (("ja",), ("n\xe4",)), "and not that of alt-trans"


def test_states_of_xliff_2(write) -> None:
    units = read(write("a.xlf", XLIFF_2)).units
    assert [unit.name for unit in units] == ["s1", "s2", "u", "v"]
    assert [unit.state for unit in units] == ["untranslated", "review", "translated", "untranslated"]
    assert [unit.translatable for unit in units] == [True, True, True, False]
    assert units[0].notes == ("Short.",)


def test_a_target_stands_below_its_source(write) -> None:
    found = read(write("a.xlf", XLIFF)).fill_targets({0: ("X",), 3: ("a < c",)}).decode()
    assert found == XLIFF.replace(
        "&amp; go.</source>\n", '&amp; go.</source>\n    <target state="needs-review-translation">X</target>\n'
    ).replace("]]></source><target/>", ']]></source><target state="needs-review-translation">a &lt; c</target>')


def test_variants_of_a_memory(write) -> None:
    document = read(write("a.tmx", TMX))
    assert [unit.state for unit in document.units] == ["translated", "untranslated", "untranslated"]
    found = document.fill_targets({1: ("Hund",)}).decode()
    new = '<tuv xml:lang="de" creationid="heedful"><seg>Hund</seg></tuv>'
    assert found == TMX.replace("<seg>chien</seg></tuv>", f"<seg>chien</seg></tuv>{new}")


def test_units_come_one_after_the_other(sample) -> None:
    document = read(sample)

    assert list(document) == list(document.units)


def test_a_memory_that_is_read_once_is_not_kept(write) -> None:
    document = read(write("a.tmx", TMX))
    seen = weakref.WeakSet(unit for unit in document)

    assert not seen


def test_what_of_a_page_is_read(write) -> None:
    assert shown(read(write("a.html", HTML))) == [
        "My page",
        "About us",
        'Say "hi"',
        "Hello & <b>welcome</b>",
        'Some text<br>with <a href="x" title="go there">a link</a>.',
        "go there",
        "Use <code>ls -l</code> now <!-- c --> or not, 1 < 2",
        "Cat",
        "Your name",
    ]


def test_subtitles(write) -> None:
    document = read(write("a.srt", SRT))
    assert shown(document) == ["<i>Hello</i> you\nover there", "", "- Yes.\n- No."]
    found = document.fill_targets({0: ("eins\n\nzwei",)}).decode()
    assert found == SRT.replace("<i>Hello</i> you\nover there", "eins\nzwei"), "an empty line would end it"


def test_line_ends_are_those_of_the_file(write) -> None:
    for name, text in (("a.po", PO), ("a.srt", SRT)):
        document = read(write(name, text.replace("\n", "\r\n")))
        numbers = [number for number, unit in enumerate(document.units) if unit.translatable]
        found = document.fill_targets(dict.fromkeys(numbers, ("one\ntwo",)))
        assert found.count(b"\n") == found.count(b"\r\n") > 5


def test_what_is_fuzzy_says_so_once(write) -> None:
    document = read(write("a.po", PO))
    found = document.fill_targets({2: ("neu",), 3: ("1",), 4: ("2",), 5: ("3",)}).decode()
    assert found.count("#, fuzzy\n") == PO.count("#, fuzzy\n") + 1
    assert "fuzzy, fuzzy" not in found


def test_a_unit_inside_of_the_target_of_another_is_told(write) -> None:
    text = XLIFF.replace(
        "<note>Be brief.</note>", '<target>x<trans-unit id="8"><source>In</source></trans-unit></target>'
    )
    document = read_document(write("a.xlf", text))
    with pytest.raises(DataError, match=r"a\.xlf:\d+: a translation stands inside another one; export the file again"):
        document.fill_targets(dict.fromkeys(range(len(document.units)), ("y",)))
