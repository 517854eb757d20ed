import errno
import gzip
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from external_data import find_external_data

from heedful.data import chunk_workers
from heedful.data import corpus as corpus_module
from heedful.data.chunk_workers import ChunkWorkers
from heedful.data.corpus import (
    CHARACTERS_PER_TOKEN,
    ArraySpec,
    Corpus,
    EncodingReport,
    ExampleEncoder,
    build_pair_encoder,
    compute_fingerprint,
    write_corpus,
)
from heedful.data.readers import LineAlignedReader, SentencePair
from heedful.data.tokenizers import EOS, CharacterTokenizer, SpecialIds, Tokenizer, WordTokenizer, learn_sentencepiece
from heedful.errors import DataError, RunError

LETTERS = CharacterTokenizer("abcdefghij ", lowercase=False)
CAPITALS = CharacterTokenizer("ABCDEFGHIJ ", lowercase=False)


def make_pairs(count: int, *, longest: int = 20, seed: int = 1) -> list[SentencePair]:
    rng = random.Random(seed)

    def side(letters: str) -> str:
        return "".join(rng.choices(letters, k=rng.randrange(1, longest)))

    return [SentencePair(side("abcdefghij"), side("ABCDEFGHIJ"), f"x:{n}") for n in range(1, count + 1)]


def write(folder: Path, pairs: object, *, max_length: int = 50, **more: object) -> Corpus:
    return write_corpus(
        folder,
        pairs,  # type: ignore[arg-type]
        encoder=build_pair_encoder(LETTERS, CAPITALS, max_length=max_length),
        **more,  # type: ignore[arg-type]
    )


def assert_holds(corpus: Corpus, pairs: list[SentencePair]) -> None:
    expected = [([*LETTERS.encode(p.source), EOS], [*CAPITALS.encode(p.target), EOS]) for p in pairs]
    assert len(corpus) == len(pairs)
    assert [
        (source.tolist(), target.tolist()) for source, target in zip(corpus["source"], corpus["target"], strict=True)
    ] == expected
    assert corpus.lengths.tolist() == [[len(source), len(target)] for source, target in expected]


def test_what_was_written_is_read_in_order(tmp_path: Path) -> None:
    pairs = make_pairs(1000)
    corpus = write(tmp_path / "new" / "corpus", pairs)
    assert corpus.report == EncodingReport(kept=1000, empty=0, too_long=0)
    assert_holds(corpus, pairs)
    assert_holds(Corpus.open(corpus.folder), pairs)
    assert corpus["source"][-1].tolist() == corpus["source"][999].tolist()
    with pytest.raises(IndexError):
        corpus["source"][1000]
    assert corpus["source"][0].dtype == np.uint16
    assert not corpus["source"][0].flags.writeable
    assert [path.name for path in corpus.folder.parent.iterdir()] == ["corpus"], "nothing is left beside it"


def test_ids_beyond_16_bits_survive(tmp_path: Path) -> None:
    for size in (2**16, 2**16 + 1):
        words = WordTokenizer([f"w{i}" for i in range(size - 4)], lowercase=False)
        last = f"w{size - 5}"
        corpus = write_corpus(
            tmp_path / str(size),
            [SentencePair(last, f"a {last}", "x:1")],
            encoder=build_pair_encoder(LETTERS, words, max_length=9),
        )
        assert corpus["target"][0].tolist() == [3, size - 1, EOS]
        assert corpus["target"][0].dtype.itemsize == (2 if size == 2**16 else 4)
        assert corpus["source"][0].dtype.itemsize == 2


def test_dropped_pairs_are_counted_by_reason(tmp_path: Path) -> None:
    pairs = [
        SentencePair("abc", "ABC", "x:1"),
        SentencePair("", "ABC", "x:2"),
        SentencePair("abc", "", "x:3"),
        SentencePair("\u200b", "ABC", "x:4"),
        SentencePair("a" * 9, "A" * 9, "x:5"),
        SentencePair("a" * 10, "A", "x:6"),
        SentencePair("a", "A" * 10, "x:7"),
        SentencePair("a" * 10**6, "A", "x:8"),
        SentencePair("a" * 10**6, "", "x:9"),
    ]
    corpus = write(tmp_path / "c", pairs, max_length=10)
    assert corpus.report == Corpus.open(tmp_path / "c").report == EncodingReport(kept=2, empty=4, too_long=3)
    assert_holds(corpus, [pairs[0], pairs[4]])


def test_a_megabyte_is_dropped_without_being_cut_into_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = Tokenizer.encode

    def spy(self: Tokenizer, text: str) -> list[int]:
        seen.append(len(text))
        return original(self, text)

    monkeypatch.setattr(Tokenizer, "encode", spy)
    limit = 10 * CHARACTERS_PER_TOKEN
    pairs = [
        SentencePair("a" * 2**20, "A", "x:1"),
        SentencePair("a" * (limit + 1), "A", "x:2"),
        SentencePair(" " * (limit - 1) + "a", "A", "x:3"),
    ]
    assert write(tmp_path / "c", pairs, max_length=10).report == EncodingReport(kept=1, empty=0, too_long=2)
    assert max(seen) == limit


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([], "there are no examples"),
        (
            [SentencePair("", "A", ""), SentencePair("a" * 60, "A", ""), SentencePair("a", "A" * 60, "")],
            "of 3 examples .*: 1 with an empty",
        ),
        ([SentencePair("a" * 60, "A", ""), SentencePair("a", "A" * 60, "")], "2 with a side that is too long"),
    ],
)
def test_nothing_left_is_an_error_with_the_reasons(tmp_path: Path, pairs: list[SentencePair], words: str) -> None:
    with pytest.raises(DataError, match=words):
        write(tmp_path / "c", pairs)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [DataError("a.en:9: bad"), KeyboardInterrupt(), RuntimeError("bug")])
def test_an_interrupted_write_leaves_the_older_corpus(tmp_path: Path, error: BaseException) -> None:
    def broken() -> Iterator[SentencePair]:
        yield from make_pairs(50, seed=2)
        raise error

    with pytest.raises(type(error)):
        write(tmp_path / "c", broken())
    assert list(tmp_path.iterdir()) == []
    older = make_pairs(9)
    write(tmp_path / "c", older)
    with pytest.raises(type(error)):
        write(tmp_path / "c", broken())
    assert_holds(Corpus.open(tmp_path / "c"), older)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parents[1])]  # what tests share too
from test_corpus import make_pairs, write
def pairs():
    yield from make_pairs(1500)
    os.kill(os.getpid(), signal.SIGKILL)
write(Path(sys.argv[2]), pairs())
"""


@pytest.mark.slow
def test_a_killed_write_is_never_taken_for_a_corpus(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(Path(__file__).parent), str(tmp_path / "c")], check=False)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(RunError, match="c: is not a finished corpus"):
        Corpus.open(tmp_path / "c")
    for left in tmp_path.iterdir():
        with pytest.raises(RunError, match="is not a finished corpus"):
            Corpus.open(left)
    pairs = make_pairs(9)
    assert_holds(write(tmp_path / "c", pairs), pairs)


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os if call == "fsync" else Path, call, full)
    with pytest.raises(RunError, match=r"c: cannot be written \(No space left on device\)"):
        write(tmp_path / "c", make_pairs(9))
    assert list(tmp_path.iterdir()) == []


def test_only_a_corpus_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "c"):
        with pytest.raises(RunError, match="cannot be written"):
            write(folder, make_pairs(9))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(RunError, match="mine: contains files but no corpus"):
        write(tmp_path / "mine", make_pairs(9))
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "x"
    (tmp_path / "empty").mkdir()
    for count in (9, 5):
        assert_holds(write(tmp_path / "empty", make_pairs(count)), make_pairs(count))


def test_an_open_corpus_outlives_its_replacement(tmp_path: Path) -> None:
    older = make_pairs(200)
    corpus = write(tmp_path / "c", older)
    write(tmp_path / "c", make_pairs(3, seed=5))
    assert_holds(corpus, older)


def test_a_corpus_of_another_fingerprint_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "c", make_pairs(9), fingerprint="abc")
    assert len(Corpus.open(tmp_path / "c")) == len(Corpus.open(tmp_path / "c", fingerprint="abc")) == 9
    with pytest.raises(RunError, match="made from other text or by other tokenizers"):
        Corpus.open(tmp_path / "c", fingerprint="abd")
    write(tmp_path / "d", make_pairs(9))
    with pytest.raises(RunError, match="made from other text"):
        Corpus.open(tmp_path / "d", fingerprint="abc")


def test_a_missing_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="gone: is not a finished corpus"):
        Corpus.open(tmp_path / "gone")


@pytest.mark.parametrize("name", ["source.ids", "source.starts", "target.ids", "target.starts", "digests"])
@pytest.mark.parametrize("damage", ["cut", "longer", "gone"])
def test_a_damaged_array_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    write(tmp_path / "c", make_pairs(9))
    path = tmp_path / "c" / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-2] if damage == "cut" else path.read_bytes() + b"\0\0")
    with pytest.raises(RunError, match=f"c: damaged corpus .*{name}"):
        Corpus.open(tmp_path / "c")


def test_starts_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "c", make_pairs(9))
    path = tmp_path / "c" / "target.starts"
    whole = np.frombuffer(path.read_bytes(), dtype="<i8")
    for place, value in ((0, 1), (9, whole[-1] - 1), (4, whole[6]), (4, -1)):
        wrong = whole.copy()
        wrong[place] = value
        path.write_bytes(wrong.tobytes())
        with pytest.raises(RunError, match=r"target.starts has changed since it was written"):
            Corpus.open(tmp_path / "c")


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "c", make_pairs(9))
    path = tmp_path / "c" / "corpus.json"
    good = json.loads(path.read_text())
    assert good["format"] == 2
    sides = good["sides"]
    wrongs: list[object] = [
        {**good, "report": {"kept": 9}},
        {**good, "report": {"kept": "9", "empty": 0, "too_long": 0}},
        {**good, "report": None},
        {**good, "sides": {**sides, "source": {"dtype": "no such", "tokens": 5}}},
        {**good, "sides": {**sides, "source": {**sides["source"], "tokens": "many"}}},
        {**good, "sides": {**sides, "target": {}}},
        {**good, "sides": {}},
        {**good, "sides": []},
        {key: value for key, value in good.items() if key != "sides"},
        {},
        [],
        5,
    ]
    for text in [*map(json.dumps, wrongs), "", "{", "[" * 100_000, path.read_text()[:-9]]:
        path.write_text(text)
        with pytest.raises(RunError, match="damaged"):
            Corpus.open(tmp_path / "c")
    path.write_text(json.dumps({**good, "format": 3}))
    with pytest.raises(RunError, match="corpus format 3, but this heedful reads 2"):
        Corpus.open(tmp_path / "c")


class Instant(Tokenizer):
    _has_leading_spaces = False

    """The same thousand ids for every text, so that tracing its memory does not take long."""

    IDS = [4] * 1000

    def _normalise_text(self, text: str) -> str:
        return text

    def _encode_text(self, text: str) -> list[int]:
        return self.IDS

    def _split_surfaces(self, text: str) -> list[str]:
        return [text]

    def _decode_ids(self, ids: list[int]) -> str:
        return ""

    def _get_piece(self, token_id: int) -> str:
        return ""

    def _is_continuation(self, token_id: int) -> bool:
        return False

    def _to_bytes(self) -> bytes:
        return b""


def test_writing_takes_memory_that_does_not_grow(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        pairs = itertools.repeat(SentencePair("a", "b", "x"), count)
        instant = Instant(size=5, special=SpecialIds(1, 2))
        tracemalloc.start()
        write_corpus(tmp_path / str(count), pairs, encoder=build_pair_encoder(instant, instant, max_length=1001))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    small, large = peak(50), peak(1000)
    assert large < small + 500_000, "950 pairs more are 3.8 MB on the disk"


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks so small that few pairs are shared among processes, and saved after each."""
    monkeypatch.setattr(corpus_module, "ChunkWorkers", partial(ChunkWorkers, chunks_alone=2))
    monkeypatch.setattr(corpus_module, "_CHUNK_OF_ONE_PROCESS", 8)
    monkeypatch.setattr(chunk_workers, "_CHUNK_CHARACTERS", 300)
    monkeypatch.setattr(corpus_module, "_SECONDS_BETWEEN_SAVES", -1.0)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("processes", [2, 3])
def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path, processes: int) -> None:
    texts = [make_pairs(300, longest=60, seed=seed) for seed in (1, 2)]
    for number in (1, processes):
        corpus = write(tmp_path / str(number), texts[0], more_texts=texts[1:], fingerprint="x", processes=number)
        assert corpus.report.too_long > 0
    assert read_files(tmp_path / "1") == read_files(tmp_path / str(processes))


@pytest.mark.usefixtures("small_chunks")
def test_errors_of_examples_are_the_same_in_other_processes(tmp_path: Path) -> None:
    pairs = make_pairs(200)
    pairs[150] = pairs[150]._replace(source="\ud800")
    errors = []
    for processes in (1, 2):
        with pytest.raises(DataError, match="half a surrogate pair") as caught:
            write(tmp_path / "c", pairs, processes=processes, fingerprint="x")
        errors.append(str(caught.value))
        assert list(tmp_path.iterdir()) == [], "a text that must be corrected is not continued"
    assert len(set(errors)) == 1


class CountedPairs:
    """Pairs that stop after some, and know how many were taken."""

    def __init__(self, pairs: list[SentencePair], stop: int | None = None) -> None:
        self.pairs, self.stop = pairs, stop

    def __iter__(self) -> Iterator[SentencePair]:
        yield from self.pairs[: self.stop]
        if self.stop is not None:
            raise KeyboardInterrupt


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("stopped_text", [0, 1])
def test_an_interrupted_write_goes_on_where_it_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, stopped_text: int
) -> None:
    texts = [make_pairs(200, longest=60, seed=seed) for seed in (1, 2)]
    whole = write(tmp_path / "whole", texts[0], more_texts=texts[1:], fingerprint="x")
    stopped = [CountedPairs(text, 100 if number == stopped_text else None) for number, text in enumerate(texts)]
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "c", stopped[0], more_texts=stopped[1:], fingerprint="x", processes=processes)
    assert not (tmp_path / "c").exists()
    unfinished = tmp_path / ".c.unfinished"
    with pytest.raises(RunError, match="is not a finished corpus"):
        Corpus.open(unfinished)
    with (unfinished / "source.ids").open("ab") as file:
        file.write(b"written after it was saved")
    encoded: list[int] = []
    original = CharacterTokenizer.encode
    monkeypatch.setattr(CharacterTokenizer, "encode", lambda self, text: encoded.append(1) or original(self, text))
    steps: list[tuple[int, int]] = []
    write(
        tmp_path / "c",
        texts[0],
        more_texts=texts[1:],
        fingerprint="x",
        on_progress=lambda done, earlier: steps.append((done, earlier)),
    )
    assert read_files(tmp_path / "c") == read_files(whole.folder)
    (first, earlier), *_ = steps
    assert first == earlier > 200 * stopped_text + 20
    assert steps[-1] == (400, earlier)
    assert len(encoded) <= 2 * (400 - earlier)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "whole"]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("change", ["fingerprint", "bytes", "state", "cut"])
def test_what_was_not_saved_like_this_is_written_anew(tmp_path: Path, change: str) -> None:
    pairs = make_pairs(200)
    whole = write(tmp_path / "whole", pairs, fingerprint="y")
    with pytest.raises(KeyboardInterrupt):
        earlier_key = "x" if change == "fingerprint" else "y"
        write(tmp_path / "c", CountedPairs(make_pairs(200, seed=9), 100), fingerprint=earlier_key)
    unfinished = tmp_path / ".c.unfinished"
    if change == "state":
        (unfinished / "unfinished.json").write_text("{")
    elif change != "fingerprint":
        path = unfinished / "target.ids"
        content = path.read_bytes()
        path.write_bytes(b"\xff" + content[1:] if change == "bytes" else content[:9])
    steps: list[tuple[int, int]] = []
    write(tmp_path / "c", pairs, fingerprint="y", on_progress=lambda done, earlier: steps.append((done, earlier)))
    assert {earlier for _, earlier in steps} == {0}
    assert read_files(tmp_path / "c") == read_files(whole.folder)


@pytest.mark.usefixtures("small_chunks")
def test_two_processes_do_not_write_into_one_folder(tmp_path: Path) -> None:
    pairs = make_pairs(100)

    def write_within() -> Iterator[SentencePair]:
        yield from pairs[:50]
        write(tmp_path / "c", pairs, fingerprint="x")
        yield from pairs[50:]

    write(tmp_path / "c", write_within(), fingerprint="x")
    assert_holds(Corpus.open(tmp_path / "c"), pairs)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


KILLED_LATER = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parents[1])]
from test_corpus import make_pairs, write
import heedful.data.corpus as corpus_module
corpus_module._SECONDS_BETWEEN_SAVES = -1.0
def pairs():
    yield from make_pairs(60000)[:40000]
    os.kill(os.getpid(), signal.SIGKILL)
write(Path(sys.argv[2]), pairs(), fingerprint="x", processes=2)
"""


@pytest.mark.slow
def test_a_killed_write_goes_on(tmp_path: Path) -> None:
    code = [sys.executable, "-c", KILLED_LATER, str(Path(__file__).parent), str(tmp_path / "c")]
    assert subprocess.run(code, check=False).returncode == -signal.SIGKILL
    time.sleep(1)  # until its processes have noticed
    pairs, steps = make_pairs(60_000), list[tuple[int, int]]()
    write(tmp_path / "c", pairs, fingerprint="x", on_progress=lambda done, earlier: steps.append((done, earlier)))
    assert steps[0][1] > 20_000
    assert read_files(tmp_path / "c") == read_files(write(tmp_path / "whole", pairs, fingerprint="x").folder)


def test_padded_rows_equal_the_sentences_one_by_one(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", make_pairs(200))
    rng = np.random.default_rng(4)
    for pad_to in (1, 4, 8):
        rows = rng.integers(0, 200, size=17)
        block = corpus["target"].collate_ids(rows, pad_to=pad_to)
        longest = max(len(corpus["target"][row]) for row in rows)
        assert block.dtype == np.int64
        assert longest <= block.shape[1] < longest + pad_to
        assert block.shape[1] % pad_to == 0
        for line, row in zip(block, rows, strict=True):
            ids = corpus["target"][row].tolist()
            assert line.tolist() == ids + [-1] * (block.shape[1] - len(ids))
    assert corpus["source"].collate_ids(np.array([], dtype=np.int64), pad_to=8).shape == (0, 8)


def test_fingerprints_follow_contents_order_and_options(tmp_path: Path) -> None:
    one, two, three = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    for path, content in ((one, b"a"), (two, b"b"), (three, b"a")):
        path.write_bytes(content)
    different = {
        compute_fingerprint([one, two]),
        compute_fingerprint([two, one]),
        compute_fingerprint([one]),
        compute_fingerprint([one], "b"),
        compute_fingerprint([], "a", "b"),
        compute_fingerprint([], "ab"),
        compute_fingerprint([], "b", "a"),
        compute_fingerprint([]),
    }
    assert len(different) == 8
    assert compute_fingerprint([one, two], "x") == compute_fingerprint([three, two], "x")
    assert all(len(text) == 64 for text in different)
    with pytest.raises(DataError, match="gone: cannot be read"):
        compute_fingerprint([tmp_path / "gone"])


def test_real_text_survives_the_way_to_ids_and_back(tmp_path: Path) -> None:
    names = [find_external_data(f"multi30k/val.{language}.gz") for language in ("en", "de")]
    reader = LineAlignedReader(*names)
    texts = [text for pair in reader for text in (pair.source, pair.target)]
    tokenizer = learn_sentencepiece(texts, kind="bpe", size=2000, lowercase=False)
    corpus = write_corpus(tmp_path / "c", reader, encoder=build_pair_encoder(tokenizer, tokenizer, max_length=100))
    english, german = (gzip.decompress(name.read_bytes()).decode().split("\n")[:-1] for name in names)
    assert len(corpus) == len(english) == 1014
    for row in range(len(corpus)):
        source, target = (tokenizer.decode(ids) for ids in (corpus["source"][row], corpus["target"][row]))
        assert source == tokenizer.normalise(english[row])
        assert target == tokenizer.normalise(german[row])


def pictures(count: int, *, seed: int = 1) -> list[tuple[np.ndarray, list[int]]]:
    """Features of regions, 2 x 3 each, any number of regions, and a caption."""
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(int(rng.integers(1, 5)), 2, 3)).astype(np.float32), rng.integers(1, 9, size=2).tolist())
        for _ in range(count)
    ]


def write_pictures(folder: Path, examples: list[tuple[np.ndarray, list[int]]]) -> Corpus:
    encoding = ExampleEncoder[tuple[np.ndarray, list[int]]](
        {"regions": ArraySpec("<f4", (2, 3)), "caption": 9}, lambda each: each
    )
    return write_corpus(folder, examples, encoder=encoding)


def test_a_side_may_hold_arrays(tmp_path: Path) -> None:
    examples = pictures(200)
    corpus = write_pictures(tmp_path / "corpus", examples)
    for again in (corpus, Corpus.open(corpus.folder)):
        assert all(np.array_equal(again["regions"][row], each) for row, (each, _) in enumerate(examples))
        assert [again["caption"][row].tolist() for row in range(200)] == [caption for _, caption in examples]
        assert again["regions"].stream.shape == (sum(len(each) for each, _ in examples), 2, 3)
        assert again.lengths[:, 0].tolist() == [len(each) for each, _ in examples]


def test_arrays_of_several_examples_stand_side_by_side_with_zeros_behind(tmp_path: Path) -> None:
    examples = pictures(50)
    rows = np.array([7, 3, 3, 49])
    block, numbers = write_pictures(tmp_path / "corpus", examples)["regions"].collate_arrays(rows, pad_to=4)
    assert block.shape == (4, 4, 2, 3)
    assert block.dtype == np.float32
    for row, found, positions in zip(rows, block, numbers, strict=True):
        mine = examples[row][0]
        assert np.array_equal(found[: len(mine)], mine)
        assert not found[len(mine) :].any()
        assert positions.tolist() == [*range(len(mine)), *[-1] * (4 - len(mine))]


def test_a_picture_without_regions_is_left_out(tmp_path: Path) -> None:
    empty = (np.zeros((0, 2, 3), dtype=np.float32), [1])
    assert write_pictures(tmp_path / "corpus", [*pictures(3), empty]).report == EncodingReport(
        kept=3, empty=1, too_long=0
    )


@pytest.mark.parametrize("name", ["source.ids", "target.ids", "source.starts", "digests"])
def test_a_changed_byte_is_noticed(tmp_path: Path, name: str) -> None:
    corpus = write(tmp_path / "corpus", make_pairs(50))
    content = bytearray((corpus.folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (corpus.folder / name).write_bytes(content)
    with pytest.raises(RunError, match=r"damaged corpus .*encode the text again"):
        Corpus.open(corpus.folder)


def test_examples_that_occur_in_another_corpus_are_counted(tmp_path: Path) -> None:
    """Both sides must be the same, each of several counts, and what was left out of either does not."""
    train = [
        SentencePair("abc", "ABC", "x:1"),
        SentencePair("bcd", "BCD", "x:2"),
        SentencePair("bcd", "BCD", "x:3"),
        SentencePair("ab", "CAB", "x:4"),
        SentencePair("a" * 40, "A", "x:5"),
    ]
    validation = [
        SentencePair("abc", "ABC", "y:1"),
        SentencePair("abc", "ABC", "y:2"),
        SentencePair("bcd", "BCD", "y:3"),
        SentencePair("abc", "BCD", "y:4"),
        SentencePair("a", "bCAB", "y:5"),
        SentencePair("a" * 40, "A", "y:6"),
        SentencePair("", "ABC", "y:7"),
    ]
    first, second = (write(tmp_path / name, part, max_length=10) for name, part in (("t", train), ("v", validation)))
    assert second.count_shared_examples(first) == 3
    assert first.count_shared_examples(second) == 3, "the pair that stands twice in it counts twice"
    assert first.count_shared_examples(first) == len(first) == 4


def test_unknown_words_do_not_make_examples_the_same(tmp_path: Path) -> None:
    words = WordTokenizer(["a"], lowercase=False)
    first, second = (
        write_corpus(
            tmp_path / text, [SentencePair(text, "A", "x:1")], encoder=build_pair_encoder(words, CAPITALS, max_length=9)
        )
        for text in ("b", "c")
    )
    assert first["source"][0].tolist() == second["source"][0].tolist()
    assert second.count_shared_examples(first) == 0


def test_corpora_without_digests_are_read_and_nothing_is_known_of_them(tmp_path: Path) -> None:
    """As older versions wrote them, and those of pictures."""
    corpus = write(tmp_path / "corpus", make_pairs(50))
    path = corpus.folder / "corpus.json"
    about = json.loads(path.read_text())
    del about["digests"]
    path.write_text(json.dumps(about))
    (corpus.folder / "digests").unlink()
    older = Corpus.open(corpus.folder)
    assert_holds(older, make_pairs(50))
    assert (older.count_shared_examples(corpus), corpus.count_shared_examples(older)) == (0, 0)
    seen = write_pictures(tmp_path / "pictures", pictures(3))
    assert seen.digests is None


def test_a_corpus_of_an_older_version_has_no_digests_and_is_read(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", make_pairs(50))
    path = corpus.folder / "corpus.json"
    about = json.loads(path.read_text())
    for side in about["sides"].values():
        del side["sha256"]
    path.write_text(json.dumps(about))
    assert_holds(Corpus.open(corpus.folder), make_pairs(50))


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for process in (gone.pid, os.getppid()):
        (tmp_path / f".corpus.{process}").mkdir()
    write(tmp_path / "corpus", make_pairs(5))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [f".corpus.{os.getppid()}"]


def test_further_texts_stand_behind_the_first_and_are_told_apart(tmp_path: Path) -> None:
    texts = [make_pairs(count, longest=longest, seed=count) for count, longest in ((30, 9), (20, 60), (5, 9))]
    corpus = write(tmp_path / "c", texts[0], more_texts=texts[1:], max_length=40)
    kept = [[pair for pair in text if max(len(pair.source), len(pair.target)) < 40] for text in texts]
    assert len(kept[1]) < 20
    assert_holds(corpus, [pair for text in kept for pair in text])
    assert corpus.text_reports == tuple(
        EncodingReport(len(k), 0, len(t) - len(k)) for k, t in zip(kept, texts, strict=True)
    )
    assert corpus.report == EncodingReport(sum(map(len, kept)), 0, 55 - sum(map(len, kept)))
    assert Corpus.open(corpus.folder).text_reports == corpus.text_reports
    alone = write(tmp_path / "alone", texts[0])
    assert alone.text_reports == (alone.report,)
    assert "texts" not in json.loads((alone.folder / "corpus.json").read_text())


def test_each_text_must_have_something_to_learn_from(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no examples; check the files"):
        write(tmp_path / "c", make_pairs(3), more_texts=[[]])
    with pytest.raises(DataError, match="none of 1 examples can be used"):
        write(tmp_path / "c", make_pairs(3), more_texts=[[SentencePair("", "A", "x:1")]])
    assert not (tmp_path / "c").exists()


def test_texts_that_do_not_add_up_are_damage(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", make_pairs(3), more_texts=[make_pairs(4)])
    path = corpus.folder / "corpus.json"
    about = json.loads(path.read_text())
    about["texts"][0]["kept"] = 4
    path.write_text(json.dumps(about))
    with pytest.raises(RunError, match="damaged corpus"):
        Corpus.open(corpus.folder)
