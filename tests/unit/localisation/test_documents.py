"""What all formats promise: nothing is touched but what is filled, and damage is told in a sentence."""

from __future__ import annotations

import codecs
import gzip
import random
from pathlib import Path

import pytest

from heedful.errors import DataError
from heedful.localisation.documents import TranslatableDocument
from heedful.localisation.files import DOCUMENT_SUFFIXES, is_document_path, read_document
from heedful.localisation.segments import Segment, list_codes
from heedful.localisation.tmx_document import list_languages

LANGUAGES = {"source": "en", "target": "de"}


def read(path: Path) -> TranslatableDocument:
    return read_document(path, **LANGUAGES)


def shouted(segment: Segment) -> Segment:
    return tuple(part.upper() if isinstance(part, str) else part for part in segment)


def changed(before: bytes, after: bytes) -> tuple[bytes, bytes]:
    """The parts that differ."""
    start = next((n for n, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(before))
    most = min(len(before), len(after)) - start
    end = next((n for n in range(most) if before[-1 - n] != after[-1 - n]), most)
    return before[start : len(before) - end], after[start : len(after) - end]


def test_nothing_filled_is_nothing_changed(sample: Path) -> None:
    assert read(sample).fill_targets({}) == sample.read_bytes()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "crlf", "iso-8859-1"])
def test_bytes_stay_in_every_encoding(sample: Path, encoding: str) -> None:
    text = sample.read_text(encoding="utf-8").replace("my page", "Größe")
    if encoding == "crlf":
        data = text.replace("\n", "\r\n").encode()
    elif encoding == "iso-8859-1":
        text = text.replace("UTF-8", encoding).replace('version="1.0"?', f'version="1.0" encoding="{encoding}"?')
        data = (
            text.replace("<head>", f"<head><meta charset={encoding}>").replace("big", "gr\xf6\xdfer").encode(encoding)
        )
        if sample.suffix == ".srt":
            return  # which cannot say so
    else:
        data = text.replace(' encoding="UTF-8"', "").encode(encoding)
    sample.write_bytes(data)
    document = read(sample)
    assert document.fill_targets({}) == data
    first = next(n for n, unit in enumerate(document.units) if unit.translatable)
    sample.write_bytes(document.fill_targets({first: ("gr\xf6\xdfer",)}))
    again = read(sample).units[first]
    assert (again.target or again.source) == ("gr\xf6\xdfer",)


def test_each_unit_can_be_filled_alone(sample: Path) -> None:
    before = sample.read_bytes()
    document = read(sample)
    for number, unit in enumerate(document.units):
        if not unit.translatable:
            continue
        after = document.fill_targets({number: shouted(unit.source)})
        sample.write_bytes(after)
        again = read(sample)
        sample.write_bytes(before)
        assert len(again.units) == len(document.units)
        if document.keeps_source:
            assert again.units[number].source == unit.source
            assert again.units[number].state == "review"
            filled = again.units[number].target
        else:
            filled = again.units[number].source
        assert filled is not None
        assert [part for part in filled if isinstance(part, str)] == [
            part for part in shouted(unit.source) if isinstance(part, str)
        ]
        assert [code.raw for code in list_codes(filled)] == [code.raw for code in list_codes(unit.source)]
        for other, (one, two) in enumerate(zip(document.units, again.units, strict=True)):
            same = other == number or (one.source, one.target) == (two.source, two.target)
            inside = any("title" in code.raw for code in list_codes(one.source))  # an attribute in a tag of this text
            assert same or inside, (number, other)
        assert sum(map(len, changed(before, after))) < 500, "one unit was filled, and bytes far from it changed"


def test_all_can_be_filled_at_once(sample: Path) -> None:
    document = read(sample)
    targets = {n: shouted(unit.source) for n, unit in enumerate(document.units) if unit.translatable}
    sample.write_bytes(document.fill_targets(targets))
    again = read(sample)
    for number in targets:
        unit = again.units[number]
        texts = [
            part for part in (unit.target if document.keeps_source else unit.source) or () if isinstance(part, str)
        ]
        assert texts
        assert all(text == text.upper() for text in texts)


def test_what_markup_means_something_is_escaped(sample: Path) -> None:
    hard = "a < b & \"c\" \\ 'd' > %s"
    document = read(sample)
    number = next(n for n, unit in enumerate(document.units) if unit.translatable and not list_codes(unit.source))
    sample.write_bytes(document.fill_targets({number: (hard,)}))
    unit = read(sample).units[number]
    assert (unit.target or unit.source) == (hard,)


def test_places_name_lines(sample: Path) -> None:
    for unit in read(sample).units:
        path, _, line = unit.location.rpartition(":")
        assert path == str(sample)
        assert 1 <= int(line) <= len(sample.read_text().splitlines()) + 1


def test_damage_is_a_sentence_or_harmless(sample: Path) -> None:
    """Random cuts, doubled and exchanged bytes: an error that names the file, or a document that stays as it is."""
    chance, whole = random.Random(sample.name), sample.read_bytes()
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data = data[:place] or data
                case 1:
                    data[place] = chance.choice(b'<>&"\\/#\n =\xff0m')
                case 2:
                    del data[place : place + chance.randint(1, 20)]
                case _:
                    data[place:place] = data[place : place + chance.randint(1, 30)]
            if not data:
                break
        sample.write_bytes(data)
        try:
            document = read(sample)
        except DataError as error:
            assert str(sample) in str(error)
            refused += 1
            continue
        assert document.fill_targets({}) == bytes(data)
        targets = {n: shouted(unit.source) for n, unit in enumerate(document.units) if unit.translatable}
        document.fill_targets(targets)
    assert refused > 10 or sample.suffix in (".html", ".srt")


@pytest.mark.parametrize("ending", sorted(DOCUMENT_SUFFIXES))
def test_files_that_are_none(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    with pytest.raises(DataError, match="no such file"):
        read(path)
    path.write_bytes(b" \n")
    with pytest.raises(DataError, match="empty"):
        read(path)
    path.write_bytes(b"\xff\xfea")
    with pytest.raises(DataError, match=path.name):
        read(path)
    path.write_bytes(b"caf\xe9 <a")
    with pytest.raises(DataError, match=path.name):
        read(path)
    path.write_bytes(gzip.compress(b"x" * 99)[:-9])
    with pytest.raises(DataError, match="gzip"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match="folder"):
        read(path)


def test_which_files_are_documents(tmp_path: Path) -> None:
    assert is_document_path(Path("a.PO"))
    assert not is_document_path(Path("a.txt"))
    with pytest.raises(DataError, match="is not one of"):
        read(tmp_path / "a.txt")


BOMB = """<?xml version="1.0"?><!DOCTYPE {root} [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<{root} version="1.2">&b;</{root}>"""
OUTSIDE = (
    '<?xml version="1.0"?><!DOCTYPE {root} [<!ENTITY a SYSTEM "file:///etc/passwd">]><{root} version="1.2">&a;</{root}>'
)
PARAMETER = '<!DOCTYPE {root} [<!ENTITY % a SYSTEM "http://127.0.0.1/x"> %a;]><{root} version="1.2"/>'
UNKNOWN = '<?xml version="1.0"?><!DOCTYPE {root} SYSTEM "x.dtd"><{root} version="1.2">&nbsp;</{root}>'


@pytest.mark.parametrize("text", [BOMB, OUTSIDE, PARAMETER, UNKNOWN])
@pytest.mark.parametrize(("name", "root"), [("a.xlf", "xliff"), ("a.tmx", "tmx")])
def test_entities_are_refused(write, text: str, name: str, root: str) -> None:
    with pytest.raises(DataError, match="entit"):
        read(write(name, text.replace("{root}", root)))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.xlf", "<xliff version='1.2'>" + "<g>" * 500 + "</g>" * 500 + "</xliff>", "inside each other"),
        ("a.xlf", "<html/>", "<xliff> is needed"),
        ("a.xlf", "<xliff version='3'/>", "version '3'"),
        ("a.xlf", "<xliff version='1.2'>", "a.xlf:1: not well-formed"),
        (
            "a.xlf",
            '<?xml version="1.1"?><xliff version="1.2"><a>&#x1F;</a></xliff>',
            "is XML 1.1, but only 1.0",
        ),
        ("a.tmx", "<?xml version = '1.1' encoding='UTF-8'?>\n<tmx/>", "is XML 1.1"),
        ("a.xlf", b"\xff\xfe" + "<?xml version='1.1'?><xliff/>".encode("utf-16-le"), "is XML 1.1"),
        *(
            (name, text % encoding, f"declares the encoding {encoding!r}")
            for encoding in ("idna", "punycode", "rot13", "unicode_escape", "utf-7", "hex", "undefined", "cp037")
            for name, text in (
                ("a.po", 'msgid ""\nmsgstr "charset=%s\\n"\n'),
                ("a.html", "<meta charset='%s'><p>a"),
            )
        ),
        ("a.po", 'msgid ""\nmsgstr "charset=a\0b\\n"\n', "declares the encoding"),
        ("a.xlf", "<xliff version='1.2'><trans-unit id='1'/></xliff>", "without a source"),
        ("a.xlf", '<?xml version="1.0" encoding="klingon"?><xliff version="1.2"/>', "encoding"),
        ("a.tmx", "<tmx><body/></tmx>", "no unit in 'en'"),
        ("a.tmx", "<tmx><tu><tuv xml:lang='fr'><seg>a</seg></tuv></tu></tmx>", "available: fr"),
        ("a.po", 'msgid "a"\nmsgstr "b', "a.po:2: a string without its closing"),
        ("a.po", 'msgid "a"\n\nmsgid "b"\nmsgstr ""\n', "occurs twice"),
        ("a.po", 'msgid "a"\n', "no msgstr"),
        ("a.po", 'msgstr "a"\n', "without a msgid"),
        ("a.po", 'msgid "a"\nmsgstr[1] "b"\n', "no msgid_plural"),
        ("a.po", "hello\n", "not a line of a PO file"),
        ("a.po", 'msgid ""\nmsgstr "charset=klingon\\n"\n', "unknown"),
        ("a.srt", "hello\n", "a.srt:1: 'hello' where"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nA\n\nB\n", "a.srt:5: 'B' where"),
    ],
)
def test_what_is_wrong_is_said(write, name: str, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=name) as caught:
        read(write(name, text))
    assert sentence in str(caught.value)


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "latin1", "windows-1252", "Shift_JIS", "big5", "KOI8-R", "gb18030"])
def test_encodings_of_documents_are_read(write, name: str) -> None:
    text = f'msgid ""\nmsgstr "charset={name}\\n"\n\nmsgid "a"\nmsgstr ""\n'
    document = read(write("a.po", text))
    assert len(document.units) == 1
    assert document.fill_targets({}) == text.encode()


@pytest.mark.parametrize(
    "subset",
    [
        "<!DOCTYPE tmx [<!-- ]> </x> <tmx> -->]>",
        "<!DOCTYPE tmx [<?x ]> </x> <tmx> ?>]>",
        "<!DOCTYPE tmx [<!-- a > b ]> ' \" -->]>",
        "<!DOCTYPE tmx [<!-- > --> <?x ]> ?> <!ELEMENT a (b)> <!-- it's -->\n] >",
        "<!DOCTYPE tmx PUBLIC \"a b\" 'c>d'>",
        '<!DOCTYPE tmx SYSTEM "x" [<!ATTLIST a b CDATA "]>">]>',
        "<!-- > --><!DOCTYPE tmx><!-- <tmx> -->",
    ],
)
def test_what_a_document_type_says_is_no_markup(write, subset: str) -> None:
    text = f'{subset}<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>a</seg></tuv></tu></body></tmx>'
    document = read_document(write("a.tmx", text), source="en", target="de")
    assert [unit.source for unit in document.units] == [("a",)]
    assert document.fill_targets({}) == text.encode()


@pytest.mark.parametrize(
    ("reference", "letter"),
    [
        (f"&#{'0' * 5000}65;", "A"),
        (f"&#x{'0' * 5000}41;", "A"),
        ("&#65;", "A"),
        (f"&#{'9' * 5000};", "\ufffd"),
        (f"&#x{'f' * 5000};", "\ufffd"),
        ("&#99999999", "\ufffd"),
    ],
)
def test_references_of_any_length(write, reference: str, letter: str) -> None:
    page = f"<p title='x {reference}'>y {reference}</p>"
    document = read(write("a.html", page))
    assert sorted(unit.source for unit in document.units) == [(f"x {letter}",), (f"y {letter}",)]
    assert document.fill_targets({}) == page.encode()
    if letter == "A":
        text = f"<xliff version='1.2'><trans-unit id='1'><source>{reference}</source></trans-unit></xliff>"
        assert read(write("a.xlf", text)).units[0].source == ("A",)


def test_letters_that_an_encoding_lacks(write) -> None:
    po = write("a.po", 'msgid ""\nmsgstr "charset=ISO-8859-1\\n"\n\nmsgid "a"\nmsgstr ""\n')
    with pytest.raises(DataError, match=r"has no '\u20ac'"):
        read(po).fill_targets({0: ("\u20ac",)})
    xml = write("a.xlf", XLIFF_LATIN.encode("iso-8859-1"))
    assert b'<target state="needs-review-translation">&#8364;</target>' in read(xml).fill_targets({0: ("\u20ac",)})
    assert codecs.lookup(read(xml).content.encoding).name == "iso8859-1"


XLIFF_LATIN = (
    '<?xml version="1.0" encoding="ISO-8859-1"?><xliff version="1.2"><trans-unit id="1"><source>\xe9</source>'
    "</trans-unit></xliff>"
)


def test_languages_of_a_memory_are_those_of_its_first_units() -> None:
    units = [("en", "de"), ("en", "fr"), ("en", " fr "), ("en", "sw")]
    variants = ["".join(f'<tuv xml:lang="{tag}"><seg>a</seg></tuv>' for tag in tags) for tags in units]
    text = "<tmx><body>" + "".join(f"<tu>{tu}</tu>" for tu in variants) + "</body></tmx>"
    assert list_languages(text) == ["en", "fr", "de", "sw"]
    assert list_languages(text, max_units=3) == ["en", "fr", "de"]
    assert list_languages(text, max_units=1) == ["en", "de"]
