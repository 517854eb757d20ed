import gzip
import io
import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.data import readers
from heedful.data.readers import (
    ExampleReader,
    JsonlPairReader,
    LineAlignedReader,
    SentencePair,
    TsvPairReader,
    read_lines,
)
from heedful.errors import DataError, RecipeError

# Every one of these ends a line for str.splitlines, none does for wc -l.
NO_LINE_ENDS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r"


def put(path: Path, content: bytes, *, zipped: bool = False) -> Path:
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


def random_text(rng: random.Random) -> str:
    letters = "abc äß日本 🙂" + NO_LINE_ENDS
    text = "".join(rng.choices(letters, k=rng.randrange(1, 12)))
    return f"<{text}>"


@pytest.fixture
def pairs() -> list[tuple[str, str]]:
    rng = random.Random(3)
    return [(random_text(rng), random_text(rng)) for _ in range(200)]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False], ids=["ended", "open-ended"])
def test_all_forms_read_the_same_pairs_again_and_again(
    tmp_path: Path, pairs: list[tuple[str, str]], *, zipped: bool, ending: str, start: str, last: bool
) -> None:
    def file(name: str, lines: list[str]) -> Path:
        text = start + ending.join(lines) + (ending if last else "")
        return put(tmp_path / name, text.encode(), zipped=zipped)

    tabs = [f"{number}\t{target}\t{source}" for number, (source, target) in enumerate(pairs)]
    objects = [json.dumps({"fr": target, "x": [1], "en": source}) for source, target in pairs]
    every: list[ExampleReader[SentencePair]] = [
        LineAlignedReader(file("a.en", [s for s, _ in pairs]), file("a.fr", [t for _, t in pairs])),
        TsvPairReader(file("a.tsv", tabs), source_column=2, target_column=1),
        JsonlPairReader(file("a.jsonl", objects), source_field="en", target_field="fr"),
    ]
    for reader in every:
        expected = [SentencePair(s, t, f"{reader.paths[0]}:{n}") for n, (s, t) in enumerate(pairs, 1)]
        assert list(reader) == expected
        assert list(reader) == expected


def test_a_gz_name_and_a_plain_name_may_both_hold_gzip(tmp_path: Path) -> None:
    source = put(tmp_path / "a.gz", b"one\ntwo\n", zipped=True)
    target = put(tmp_path / "b.txt", b"eins\nzwei\n", zipped=True)
    assert [(p.source, p.target) for p in LineAlignedReader(source, target)] == [("one", "eins"), ("two", "zwei")]


def test_only_the_first_mark_of_the_first_line_is_a_byte_order_mark(tmp_path: Path) -> None:
    path = put(tmp_path / "a", "\ufeff\ufeffa\n\ufeffb\n".encode())
    assert list(read_lines(path)) == ["\ufeffa", "\ufeffb"]


def test_a_file_of_nothing_but_a_byte_order_mark_has_no_lines(tmp_path: Path) -> None:
    assert list(read_lines(put(tmp_path / "a", b"\xef\xbb\xbf"))) == []
    assert list(read_lines(put(tmp_path / "b", b""))) == []


def test_sides_without_text_are_empty_pairs_that_keep_their_place(tmp_path: Path) -> None:
    aligned = LineAlignedReader(put(tmp_path / "a", b"x\n \t \n\nx"), put(tmp_path / "b", "\u3000\ny\n\n y ".encode()))
    assert [(p.source, p.target) for p in aligned] == [("x", ""), ("", "y"), ("", ""), ("x", " y ")]
    tabs = TsvPairReader(put(tmp_path / "c", b"x\ty\n\n\t\n \ty\nx\ty\t"))
    assert [(p.source, p.target) for p in tabs] == [("x", "y"), ("", ""), ("", ""), ("", "y"), ("x", "y")]
    assert [p.location.rpartition(":")[2] for p in tabs] == list("12345")
    objects = JsonlPairReader(put(tmp_path / "d", b'{"source": " ", "target": "y"}\n\n'))
    assert [(p.source, p.target) for p in objects] == [("", "y"), ("", "")]


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 2), (2, 0)])
def test_files_of_different_length_are_named_with_their_counts(tmp_path: Path, left: int, right: int) -> None:
    source, target = put(tmp_path / "a.en", b"x\n" * left), put(tmp_path / "a.de", b"x\n" * right)
    with pytest.raises(DataError, match=f"a.en has {left} lines and .*a.de has {right};"):
        list(LineAlignedReader(source, target))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"caf\xe9", "byte 4 of the line .0xe9. is not UTF-8"),
        (b"\xed\xa0\x80", "is not UTF-8"),
        ("ab".encode("utf-16"), "is not UTF-8"),
        (b"a\0b", "NUL"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_bytes_that_are_no_text_are_named_with_file_and_line(
    tmp_path: Path, bad: bytes, words: str, *, zipped: bool
) -> None:
    good, path = put(tmp_path / "good", b"x\n" * 4), tmp_path / "bad"
    put(path, b"x\nx\n" + bad + b"\nx\n", zipped=zipped)
    with pytest.raises(DataError, match=f"bad:3: .*{words}"):
        list(read_lines(path))
    with pytest.raises(DataError, match=f"bad:3: .*{words}"):
        list(LineAlignedReader(good, path))
    put(path, b"x\tx\nx\tx\n" + bad + b"\tx\n", zipped=zipped)
    with pytest.raises(DataError, match=f"bad:3: .*{words}"):
        list(TsvPairReader(path))


@pytest.mark.parametrize(
    "make", [read_lines, TsvPairReader, JsonlPairReader, lambda path: LineAlignedReader(path, path)]
)
def test_missing_files_and_folders_are_reported_before_any_reading(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    with pytest.raises(DataError, match="nowhere: there is no such file"):
        make(tmp_path / "nowhere")
    with pytest.raises(DataError, match="this is a folder"):
        make(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a", b"x\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"a: cannot be read \(Permission denied\)"):
        list(read_lines(path))


def test_damaged_gzip_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(random.Random(1).randbytes(50_000).hex().encode())
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    damages = {
        "cut": whole[:-20],
        "short": whole[:5],
        "flipped": bytes(flipped),
        "trailed": whole + b"junk",
        "checksum": whole[:-8] + b"\0" * 8,
    }
    for name, content in damages.items():
        with pytest.raises(DataError, match=f"{name}: damaged gzip file"):
            list(read_lines(put(tmp_path / name, content)))


@pytest.mark.parametrize("content", [b"plain\n", b""])
def test_a_gz_name_without_gzip_inside_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"a\.gz: not a gzip file"):
        list(read_lines(put(tmp_path / "a.gz", content)))


def test_too_few_columns_are_named_with_line_and_count(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tsv", b"a\tb\tc\na\tb\n")
    assert len(list(TsvPairReader(path))) == 2
    with pytest.raises(DataError, match=r"a.tsv:2: 2 tab-separated columns where 3 are needed"):
        list(TsvPairReader(path, target_column=2))
    with pytest.raises(RecipeError, match="-1"):
        TsvPairReader(path, source_column=-1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"source": "a"', "not valid JSON"),
        ("a\tb", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"source": ' + "1" * 5000 + "}", "not valid JSON"),
        ('["a", "b"]', "a JSON list where an object is needed"),
        ('"a"', "a JSON str where"),
        ('{"source": "a", "tgt": "b"}', r"no field 'target' \(available: 'source', 'tgt'\)"),
        ("{}", r"no field 'source' \(available: none\)"),
        ('{"source": "a", "target": null}', "field 'target' is NoneType where text"),
        ('{"source": 5, "target": "b"}', "field 'source' is int where text"),
        ('{"source": "a\\u0000", "target": "b"}', "field 'source' holds NUL"),
        ('{"source": "a", "target": "\\ud83d"}', "half a surrogate pair"),
    ],
)
def test_json_that_is_no_pair_is_named_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    path = put(tmp_path / "a.jsonl", f'{{"source": "a", "target": "\\ud83d\\ude42"}}\n{line}\n'.encode())
    with pytest.raises(DataError, match=f"a.jsonl:2: .*{words}"):
        list(JsonlPairReader(path))


def test_a_line_of_a_megabyte_is_a_line_and_one_beyond_the_limit_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "a", b"x" * 2**20 + b"\ny\n")
    assert [len(line) for line in read_lines(path)] == [2**20, 1]
    monkeypatch.setattr(readers, "MAX_LINE_BYTES", 2**19)
    with pytest.raises(DataError, match="a:1: a line of more than 524288 bytes"):
        list(read_lines(path))


def test_reading_holds_one_line_at_a_time(tmp_path: Path) -> None:
    line = b"a few words of text " * 50
    path = put(tmp_path / "a.gz", (line + b"\t" + line + b"\n") * 2000, zipped=True)
    tracemalloc.start()
    count = sum(1 for _ in TsvPairReader(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2000
    assert peak < 1_000_000, "of 4 MB"


def test_a_stream_is_read_as_it_arrives() -> None:
    class Typed(io.BytesIO):
        asked = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            self.asked += 1
            return [b"\xef\xbb\xbfone\r\n", b" two \n", b"th\xffree"][self.asked - 1]

    stream = Typed()
    lines = read_lines(stream)
    assert next(lines) == "one"
    assert stream.asked == 1
    assert next(lines) == " two "
    with pytest.raises(DataError, match="standard input:3: byte 3"):
        next(lines)
