"""What the beginning of a file shows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.data.detect.column_profiles import build_profiles, has_header
from heedful.data.detect.registry import sniff_file
from heedful.data.detect.sniff import (
    BinaryShape,
    FileSniff,
    FolderShape,
    JsonObjectsShape,
    JsonValueShape,
    PlainLinesShape,
    TableShape,
    WordLinesShape,
    read_json_objects,
    read_table_rows,
)
from heedful.errors import DataError

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(name: str, content: str | bytes) -> Path:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return put


def test_lines_of_text(write: Write) -> None:
    found = sniff_file(write("a.txt", "one\n\ntwo\n")).shape
    assert isinstance(found, PlainLinesShape)
    assert found.lines == ["one", "", "two"]


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.tsv.gz", "a"])
def test_tabs_make_a_table_whatever_the_name(write: Write, name: str) -> None:
    found = sniff_file(write(name, "a good film\t1\na bad film\t0\n" * 20)).shape
    assert isinstance(found, TableShape)
    assert (found.delimiter, found.has_header, len(found.columns)) == ("\t", False, 2)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_csv_is_found(write: Write, delimiter: str) -> None:
    text = "".join(f'"yes{delimiter} indeed, number; {n}"{delimiter}{n % 2}\n' for n in range(30))
    found = sniff_file(write("a.csv", f"text{delimiter}label\n{text}")).shape
    assert isinstance(found, TableShape)
    assert (found.delimiter, found.has_header, [column.name for column in found.columns]) == (
        delimiter,
        True,
        ["text", "label"],
    )


def test_commas_inside_of_texts_do_not_part_them(write: Write) -> None:
    """What gives all rows equally many columns goes before what gives most rows more of them."""
    text = "".join(f"well, yes, {n}, and so on;{n % 2}\n" if n % 3 else f"number {n};{n % 2}\n" for n in range(60))
    found = sniff_file(write("a.csv", text)).shape
    assert isinstance(found, TableShape)
    assert (found.delimiter, len(found.columns)) == (";", 2)


def test_csv_may_hold_line_ends(write: Write) -> None:
    path = write("a.csv", 'text,label\n"two\nlines",1\nnext,0\n')
    assert list(read_table_rows(path, ",")) == [(1, ["text", "label"]), (2, ["two\nlines", "1"]), (4, ["next", "0"])]


def test_broken_quotes_of_csv_are_told(write: Write) -> None:
    with pytest.raises(DataError, match=r"a\.csv:1: not valid CSV .*; correct the quotes of this row"):
        sniff_file(write("a.csv", '"never closed,1\nmore,2\n'))


def test_lines_of_json(write: Write) -> None:
    rows = [{"text": f"number {n}", "label": n % 2, "extra": [1], "gone": None} for n in range(30)]
    found = sniff_file(write("a.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))).shape
    assert isinstance(found, JsonObjectsShape)
    assert [column.name for column in found.columns] == ["text", "label", "gone"]
    assert found.nested == {"extra"}
    assert found.columns[1].is_label


def test_one_json_value(write: Write) -> None:
    found = sniff_file(write("a.json", json.dumps({"data": [1, 2]}, indent=1))).shape
    assert isinstance(found, JsonValueShape)
    assert found.value == {"data": [1, 2]}


def test_a_list_of_json(write: Write) -> None:
    rows = [{"text": f"{{number}} {n}", "extra": {"n": [n]}} for n in range(30)]
    path = write("a.json", "# from somewhere\n" + json.dumps(rows, indent=1))
    found = sniff_file(path).shape
    assert isinstance(found, JsonObjectsShape)
    assert found.is_list
    assert found.nested == {"extra"}
    read = list(read_json_objects(path))
    assert [record.fields for _, record in read] == rows
    lines = path.read_text(encoding="utf-8").splitlines()
    assert all(lines[number - 1].strip() == "{" for number, _ in read)


@pytest.mark.parametrize("value", [[], [1, 2], [{"a": 1}, 2], "text"], ids=str)
def test_other_lists_are_one_value(write: Write, value: object) -> None:
    assert sniff_file(write("a.json", json.dumps(value))).shape == JsonValueShape(value)


def test_a_broken_line_among_json_is_told(write: Write) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl:2: not a JSON object like the other lines: '\{broken'; correct it"):
        sniff_file(write("a.jsonl", '{"a": 1}\n{broken\n{"a": 2}\n{"a": 3}\n'))


def test_a_line_of_another_json_value_is_told(write: Write) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl:2: not a JSON object like the other lines: '17'; correct it"):
        sniff_file(write("a.jsonl", '# a comment\n17\n{"a": 2}\n{"a": 3}\n'))


@pytest.mark.parametrize("space", ["\t", " "])
def test_words_in_columns(write: Write, space: str) -> None:
    found = sniff_file(write("a.txt", f"The{space}DET\ndog{space}NOUN\nruns{space}VERB\n.{space}PUNCT\n\n" * 5)).shape
    assert isinstance(found, WordLinesShape)
    assert (found.is_conllu, len(found.columns)) == (False, 2)


def test_conllu_is_known_by_its_columns(write: Write) -> None:
    word = "1\tdogs\tdog\tNOUN\tNNS\t_\t0\troot\t_\t_\n"
    found = sniff_file(write("a.txt", f"# text = dogs\n{word}\n" * 3)).shape
    assert isinstance(found, WordLinesShape)
    assert found.is_conllu


def test_verses_are_no_words_in_columns(write: Write) -> None:
    assert isinstance(sniff_file(write("a.txt", "two words\n\nmore words\n\nlast ones\n")).shape, PlainLinesShape)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x89PNG\r\n\x1a\n", "a picture"),
        (b"RIFF\0\0\0\0WAVE", "a sound or a film"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\0" * 257 + b"ustar\x00", "a tar archive"),
        (b"PAR1\0\0", "a Parquet table"),
    ],
)
def test_what_is_no_text(write: Write, content: bytes, what: str) -> None:
    found = sniff_file(write("a", content)).shape
    assert isinstance(found, BinaryShape)
    assert found.kind.startswith(what)


def test_a_folder_is_told_by_what_is_in_it(write: Write, tmp_path: Path) -> None:
    write("a.wav", b"RIFF")
    found = sniff_file(tmp_path).shape
    assert isinstance(found, FolderShape)
    assert found.ending_counts == {".wav": 1}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "a.txt: the file is empty; is it the right one?"),
        ("a.txt", b"\n \n", "a.txt: the file is empty; is it the right one?"),
        (
            "a.txt",
            b"gut\nsch\xf6n\nso\nm\xfcde",
            "a.txt:2: this line is not UTF-8 (and 1 more line); probably it is CP1252 (Western Europe): convert it, as "
            "with: iconv -f CP1252 -t UTF-8 a.txt > utf8-a.txt",
        ),
        (
            "a.txt.gz",
            b"sch\xf6n\n",
            "a.txt.gz:1: this line is not UTF-8; probably it is CP1252 (Western Europe): convert it, as with: zcat "
            "a.txt.gz | iconv -f CP1252 -t UTF-8 > utf8-a.txt",
        ),
        (
            "a.txt",
            "schön\n".encode("utf-16"),
            "a.txt: is UTF-16 and must be UTF-8; convert it, as with: iconv -f UTF-16 -t UTF-8 a.txt > utf8-a.txt",
        ),
    ],
)
def test_what_is_no_utf8_is_told_with_the_line_and_the_remedy(
    write: Write, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(DataError) as told:
        sniff_file(write(name, content))
    assert str(told.value).replace(f"{tmp_path}/", "") == message


@pytest.mark.parametrize("line", [1, 200_000, 399_999])
def test_the_line_at_fault_is_counted_from_the_beginning_of_a_large_file(write: Write, line: int) -> None:
    lines = [b"plain text"] * 400_000
    lines[line - 1] = b"sch\xf6n"
    with pytest.raises(DataError, match=rf"a\.txt:{line}: this line is not UTF-8; "):
        sniff_file(write("a.txt", b"\n".join(lines)))


def test_letters_that_blocks_cut_in_two_are_whole(write: Write) -> None:
    line = "é" * 1000
    assert isinstance(sniff_file(write("a.txt", f"a{line}\n" * 1100)).shape, PlainLinesShape)


def test_missing_and_damaged_files(write: Write, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file; check the path"):
        sniff_file(tmp_path / "nowhere")
    damaged = write("a.gz", "text\n" * 1000)
    damaged.write_bytes(damaged.read_bytes()[:20])
    with pytest.raises(DataError, match="damaged gzip file"):
        sniff_file(damaged)


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([["sentence", "label"], ["a good film", "1"], ["bad", "0"]], True),
        ([["Quality", "#1 ID", "#1 String"], ["1", "702", "He said so."], ["0", "703", "She did."]], True),
        ([["en", "de", "x"], ["a good film", "ein guter Film", "x"], ["so is it", "so ist es", "x"]], True),
        ([["words", "score"], ["a good film", "1.5"]], True),
        ([["height", "weight"], ["1.78", "70"], ["1.64", "58.5"]], True),
        ([["a good film", "1"], ["a bad film", "0"]], False),
        ([["How are you?", "Wie geht es dir?"], ["Hello", "Hallo"]], False),
        ([["Hi.", "Hallo!"], ["Run!", "Lauf!"]], False),
        ([["1", "2"], ["3", "4"]], False),
        ([["one row"]], False),
    ],
)
def test_headers(rows: list[list[str]], header: bool) -> None:
    assert has_header(rows) is header


def kinds(values: list[str], name: str = "0") -> set[str]:
    (profile,) = build_profiles([name], [[value] for value in values])
    return {kind for kind in ("is_id", "is_label", "is_text", "is_number") if getattr(profile, kind)}


def test_columns_are_what_their_values_are_like() -> None:
    assert kinds([f"this is sentence {n} of a text" for n in range(100)]) == {"is_text"}
    assert kinds(["good", "bad"] * 50) == {"is_label"}
    assert kinds([str(n) for n in range(100)]) == {"is_id"}
    assert kinds([f"a{n:04x}" for n in range(100)]) == {"is_id"}
    assert kinds([f"{n * 0.37 % 5:.2f}" for n in range(100)]) == {"is_number"}
    assert kinds(["0", "1"] * 50) == {"is_label", "is_number"}
    assert kinds([*["0", "1"] * 50, ""]) == {"is_label", "is_number"}, "one was forgotten"
    assert kinds([*["0", "1"] * 50, "n/a"]) == {"is_label", "is_number"}
    assert kinds([str(n * 7 % 100) for n in range(100)], "item_id") == {"is_id"}
    assert kinds([""] * 90 + ["x y z"] * 10) == set()


def test_a_glance_tells_itself(write: Write) -> None:
    assert sniff_file(write("train.txt", "text\n")).description == "lines of text, for train by its name"
    assert isinstance(sniff_file(write("a.txt", "text\n")), FileSniff)
