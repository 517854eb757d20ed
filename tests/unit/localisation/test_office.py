"""DOCX and ODT: which paragraphs they have, what filling them writes, and what is refused."""

from __future__ import annotations

import io
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from localisation_documents import BOLD, DOCX, ODT, OFFICE, build_zip, wrap_docx_body

from heedful.errors import DataError
from heedful.localisation import office_document
from heedful.localisation.documents import TranslatableDocument
from heedful.localisation.files import BINARY_SUFFIXES, DOCUMENT_SUFFIXES, read_document
from heedful.localisation.protection import has_same_codes
from heedful.localisation.segments import BREAK_NAME, InlineCode, Segment, list_codes


@pytest.fixture(params=OFFICE)
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / request.param
    path.write_bytes(build_zip(OFFICE[request.param], comment=b"mine"))
    return path


def docx(path: Path, body: str) -> TranslatableDocument:
    path.write_bytes(build_zip({**DOCX, "word/document.xml": wrap_docx_body(body)}))
    return read_document(path)


def odt(path: Path, text: str) -> TranslatableDocument:
    content = str(ODT["content.xml"])
    start, stop = content.index("<text:tracked-changes>"), content.index("</office:text>")
    path.write_bytes(build_zip({**ODT, "content.xml": content[:start] + text + content[stop:]}))
    return read_document(path)


def said(segment: Segment) -> str:
    """Text with signs for codes: <> around pairs, * for what stands alone, / for ends of lines."""
    signs = {"open": "<", "close": ">", "alone": "*"}
    return "".join(
        part if isinstance(part, str) else "/" if part.name == BREAK_NAME else signs[part.role] for part in segment
    )


def shouted(segment: Segment) -> Segment:
    return tuple(part.upper() if isinstance(part, str) else part for part in segment)


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_paragraphs_of_a_docx(write) -> None:
    units = read_document(write("a.docx", build_zip(DOCX))).units
    assert [said(unit.source) for unit in units] == [
        "*A letter*",
        "Press <the red key> & wait*",
        "Page*",
        "Kept*< new words>",
        "Outer*",
        "In a box",
        "<<Our page>>/and more words",
        "*Not long",
        "Our house",
    ]
    assert [unit.location.partition(".docx/word/")[2] for unit in units][-3:] == [
        "document.xml:7",
        "footnotes.xml:1",
        "header1.xml:1",
    ]


def test_paragraphs_of_an_odt(write) -> None:
    units = read_document(write("a.odt", build_zip(ODT))).units
    assert [said(unit.source) for unit in units] == [
        "A letter",
        "Press <the red key> & wait*",
        "Not long",
        "Wide   open*",
        "Page */and <our page>",
        "Our house",
    ]


def test_nothing_filled_is_nothing_changed(office: Path) -> None:
    assert read_document(office).fill_targets({}) == office.read_bytes()


def test_other_members_stay_with_all_that_is_said_of_them(office: Path) -> None:
    before = office.read_bytes()
    document = read_document(office)
    after = document.fill_targets({0: ("Hallo",)})
    with zipfile.ZipFile(io.BytesIO(before)) as one, zipfile.ZipFile(io.BytesIO(after)) as two:
        assert one.comment == two.comment == b"mine"
        assert one.namelist() == two.namelist()
        for old, new in zip(one.infolist(), two.infolist(), strict=True):
            about = ("date_time", "compress_type", "external_attr", "extra", "comment", "create_system")
            assert [getattr(old, name) for name in about] == [getattr(new, name) for name in about]
        changed = {name for name in one.namelist() if one.read(name) != two.read(name)}
    assert changed == {"word/document.xml" if office.suffix == ".docx" else "content.xml"}
    first = min(struct.unpack_from("<I", after, 14)[0], 1)
    assert first == 1, "the first member says its checksum before its content, not behind it"


def test_each_paragraph_can_be_filled_alone_and_all_at_once(office: Path, tmp_path: Path) -> None:
    document, again = read_document(office), tmp_path / f"again{office.suffix}"
    everything = {number: shouted(unit.source) for number, unit in enumerate(document.units)}
    for targets in (*({number: target} for number, target in everything.items()), everything):
        again.write_bytes(document.fill_targets(targets))
        found = read_document(again).units
        for number, (old, new) in enumerate(zip(document.units, found, strict=True)):
            wanted = targets.get(number, old.source)
            assert said(new.source) == said(wanted)
            inner = len(everything) == len(targets) or any(
                "box" in code.raw or "Not" in code.raw for code in list_codes(wanted)
            )
            assert inner or list_codes(new.source) == list_codes(wanted)


def test_what_is_kept_out_of_a_docx_is_not_touched(write) -> None:
    document = read_document(write("a.docx", build_zip(DOCX)))
    after = members(document.fill_targets({n: shouted(unit.source) for n, unit in enumerate(document.units)}))
    body = after["word/document.xml"].decode()
    for raw in ("gone words", " PAGE ", "<w:t>seven</w:t>", 'w:val="Heading1"', "<w:t>12</w:t>", 'r:id="rId9"'):
        assert body.count(raw) == str(DOCX["word/document.xml"]).count(raw) == 1, raw
    fallback = re.search("<mc:Fallback>.*</mc:Fallback>", body)
    assert fallback is not None
    assert "In a box" in fallback[0]
    assert "IN A BOX" in body
    assert "A LETTER" in body, "what Word has cut for its own ends is one text"
    assert after["word/comments.xml"].decode() == DOCX["word/comments.xml"]


def test_what_a_filled_paragraph_of_word_is_written_as(write) -> None:
    document = read_document(write("a.docx", build_zip(DOCX)))
    _, *pair, end, note = document.units[1].source
    opening, _, closing = pair
    assert (opening, closing, note) == tuple(list_codes(document.units[1].source))
    assert end == " & wait"
    after = members(document.fill_targets({1: (opening, "Rot", closing, " < dr\xfccken", note)}))[
        "word/document.xml"
    ].decode()
    assert (
        f'<w:p><w:r>{BOLD}<w:t xml:space="preserve">Rot</w:t></w:r><w:r><w:t xml:space="preserve"> &lt; dr\xfccken'
        '</w:t></w:r><w:r><w:rPr><w:rStyle w:val="FootnoteReference"/></w:rPr><w:footnoteReference w:id="2"/></w:r>'
        "</w:p>"
    ) in after


def test_the_usual_look_is_that_of_most_letters(tmp_path: Path) -> None:
    document = docx(
        tmp_path / "a.docx",
        f"<w:p><w:r>{BOLD}<w:t>All of this</w:t></w:r><w:r><w:t xml:space='preserve"
        f"'> </w:t></w:r><w:r>{BOLD}<w:t>is bold</w:t></w:r><w:r><w:t xml:space='preserve'> but</w:t></w:r></w:p>",
    )
    assert said(document.units[0].source) == "All of this is bold< but>"
    body = members(document.fill_targets({0: ("Fett",)}))["word/document.xml"].decode()
    assert f'<w:p><w:r>{BOLD}<w:t xml:space="preserve">Fett</w:t></w:r></w:p>' in body


def field(instruction: str, result: str) -> str:
    def mark(kind: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    return f"{mark('begin')}<w:r><w:instrText>{instruction}</w:instrText></w:r>{mark('separate')}{result}{mark('end')}"


WORDS = "<w:r><w:t>words</w:t></w:r>"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (f"{WORDS}{field(' HYPERLINK &quot;x&quot; ', WORDS)}", "words<words>"),
        (f"{WORDS}{field(' DATE ', WORDS)}", "words*"),
        (f"{WORDS}{field(' HYPERLINK x ', WORDS + field(' REF y ', WORDS))}", "words<words*>"),
        (f'{WORDS}<w:r><w:fldChar w:fldCharType="end"/></w:r>', "words*"),
        (f'<w:r><w:fldChar w:fldCharType="begin"/></w:r>{WORDS}', "*words"),
        (f"{WORDS}<w:fldSimple w:instr=' PAGE '>{WORDS}</w:fldSimple>", "words*"),
        (f"<w:sdt><w:sdtPr/><w:sdtContent>{WORDS}</w:sdtContent></w:sdt>", "<words>"),
        (f"{WORDS}<w:sdt><w:sdtPr><w:date/></w:sdtPr><w:sdtContent>{WORDS}</w:sdtContent></w:sdt>", "words*"),
        (f"<w:smartTag><w:smartTagPr/>{WORDS}</w:smartTag>", "<words>"),
        (f"{WORDS}<w:moveFrom>{WORDS}</w:moveFrom><w:moveTo>{WORDS}</w:moveTo>", "words*<words>"),
        ("<w:r><w:t>on</w:t><w:noBreakHyphen/><w:t>going</w:t><w:tab/><w:t>  x  </w:t></w:r>", "on\u2011going/x"),
        ("<w:r><w:t>up\n to</w:t><w:lastRenderedPageBreak/><w:sym w:char='F0FC'/></w:r>", "up to*"),
        (f"{WORDS}<m:oMath xmlns:m='m'><m:r><m:t>x</m:t></m:r></m:oMath>", "words*"),
    ],
)
def test_parts_of_paragraphs_of_word(tmp_path: Path, body: str, sentence: str) -> None:
    document = docx(tmp_path / "a.docx", f"<w:p><w:pPr/>{body}</w:p>")
    assert [said(unit.source) for unit in document.units if unit.location.rpartition("/")[2] == "document.xml:1"] == [
        sentence
    ]
    source = document.units[0].source
    again = tmp_path / "b.docx"
    again.write_bytes(document.fill_targets({0: shouted(source)}))
    found = read_document(again).units[0].source
    assert said(found) == said(shouted(source))
    assert has_same_codes(shouted(source), found)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<text:p>a <text:span text:style-name='T2'>b</text:span> c</text:p>", "a <b> c"),
        ("<text:p><text:span text:style-name='T1'>a<text:span text:style-name='T2'>b</text:span></text:span></text:p>",
         "a<b>"),
        ("<text:p><text:span text:style-name='T2'>a</text:span><text:a>b</text:a></text:p>", "<a><b>"),
        ("<text:p><text:span text:style-name='Own'>a</text:span></text:p>", "<a>"),
        ("<text:p>a\n  b<text:tab/>c<text:s/><text:s text:c='2'/>d<text:soft-page-break/></text:p>", "a b/c   d"),
        ("<text:p>a<text:s text:c='99999999999'/></text:p>", "a" + " " * 1000),
        ("<text:p>a<text:bookmark text:name='x'/><text:date>May</text:date></text:p>", "a**"),
    ],
)  # fmt: skip
def test_parts_of_paragraphs_of_opendocument(tmp_path: Path, text: str, sentence: str) -> None:
    document = odt(tmp_path / "a.odt", text)
    assert said(document.units[0].source) == sentence
    again = tmp_path / "b.odt"
    again.write_bytes(document.fill_targets({0: shouted(document.units[0].source)}))
    assert said(read_document(again).units[0].source) == sentence.upper()


def test_spaces_that_opendocument_would_not_show(tmp_path: Path) -> None:
    document = odt(tmp_path / "a.odt", "<text:p>a</text:p>")
    content = members(document.fill_targets({0: (" b  c\nd",)}))["content.xml"].decode()
    assert '<text:p> <text:s text:c="1"/>b <text:s text:c="1"/>c d</text:p>' in content


def test_random_translations_stay_well_formed(office: Path, tmp_path: Path) -> None:
    """Codes in any order that keeps pairs: what is written is read as the same."""
    dice, again = random.Random(3), tmp_path / f"b{office.suffix}"
    document = read_document(office)
    for _ in range(60):
        targets: dict[int, Segment] = {}
        for number, unit in enumerate(document.units):
            alone = [code for code in list_codes(unit.source) if code.role == "alone"]
            pairs = [part for part in unit.source if not (isinstance(part, InlineCode) and part.role == "alone")]
            dice.shuffle(alone)
            for code in alone:
                pairs.insert(dice.randint(0, len(pairs)), code)
            targets[number] = tuple(part.upper() if isinstance(part, str) else part for part in pairs)
        again.write_bytes(document.fill_targets(targets))
        found = read_document(again).units
        assert len(found) == len(document.units)
        for number, unit in enumerate(found):
            texts = "".join(part for part in unit.source if isinstance(part, str)).split()
            assert texts == "".join(part for part in targets[number] if isinstance(part, str)).split()


def test_damage_is_a_sentence(office: Path) -> None:
    chance, whole = random.Random(5), office.read_bytes()
    refused = 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(data))
            if chance.random() < 0.3:
                data = data[:place] or data
            else:
                data[place] = chance.randrange(256)
        office.write_bytes(data)
        try:
            with warnings.catch_warnings(action="ignore"):
                document = read_document(office)
                document.fill_targets({n: shouted(unit.source) for n, unit in enumerate(document.units)})
        except DataError as error:
            assert str(office) in str(error)
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("name", "members", "sentence"),
    [
        ("a.docx", {"x": "y"}, "[Content_Types].xml"),
        ("a.docx", {"[Content_Types].xml": "<Types/>"}, "not a Word document"),
        ("a.docx", {"[Content_Types].xml": DOCX["[Content_Types].xml"]}, "has no word/document.xml"),
        ("a.docx", {**DOCX, "word/document.xml": "<html/>"}, "not an element of Word"),
        ("a.docx", {**DOCX, "word/document.xml": "<w:document"}, "not well-formed"),
        ("a.docx", {**DOCX, "word/document.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}, "entit"),
        ("a.odt", {"mimetype": "x"}, "has no content.xml"),
        ("a.odt", {"content.xml": "<html/>"}, "no OpenDocument text"),
        ("a.odt", {**ODT, "META-INF/manifest.xml": "<m><f><encryption-data/></f></m>"}, "without a password"),
    ],
)
def test_what_is_wrong_is_said(write, name: str, members: Mapping[str, str | bytes], sentence: str) -> None:
    with pytest.raises(DataError, match=name) as caught:
        read_document(write(name, build_zip(members)))
    assert sentence in str(caught.value)


def test_archives_that_are_refused(write, monkeypatch: pytest.MonkeyPatch) -> None:
    good = build_zip(DOCX)
    with pytest.raises(DataError, match="encrypted, or has an older format"):
        read_document(write("a.docx", bytes.fromhex("d0cf11e0a1b11ae1") + b"x" * 600))
    with pytest.raises(DataError, match=r"a\.docx: is not a zip"):
        read_document(write("a.docx", b"hello"))
    place = good.index(b"PK\1\2") + 8
    with pytest.raises(DataError, match="without a password"):
        read_document(write("a.docx", good[:place] + b"\1" + good[place + 1 :]))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("a", "b")
    with pytest.raises(DataError, match="method 12"):
        read_document(write("a.docx", packed.getvalue()))
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(packed, "w") as file:
        file.writestr("a", "b")
        file.writestr("a", "b")
    with pytest.raises(DataError, match="two files with the same name"):
        read_document(write("a.docx", packed.getvalue()))
    monkeypatch.setattr(office_document, "MAX_BYTES", sum(map(len, DOCX.values())))
    read_document(write("a.docx", good))
    with pytest.raises(DataError, match="unpacks to more than"):
        read_document(write("a.docx", build_zip({**DOCX, "bomb": "0" * 10})))
    monkeypatch.setattr(office_document, "MAX_MEMBERS", 2)
    with pytest.raises(DataError, match="files, but at most 2"):
        read_document(write("a.docx", good))


def test_sizes_that_are_said_twice_are_said_anew(write) -> None:
    """Some programs note sizes of 64 bits beside those of 32; what is not about sizes stays."""
    written = io.BytesIO()
    other = struct.pack("<HHI", 0x5455, 4, 7)
    with zipfile.ZipFile(written, "w") as file:
        for name, content in DOCX.items():
            member = zipfile.ZipInfo(name)
            member.extra = struct.pack("<HHQQ", 1, 16, 5, 5) + other
            file.writestr(member, content)
    document = read_document(write("a.docx", written.getvalue()))
    with zipfile.ZipFile(io.BytesIO(document.fill_targets({0: ("x",)}))) as file:
        assert {member.extra for member in file.infolist()} == {other}


def test_endings_of_archives() -> None:
    assert BINARY_SUFFIXES < DOCUMENT_SUFFIXES
