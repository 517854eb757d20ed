"""Parts that are split off: by the texts alone, in sensible sizes, and no text in two of them."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from heedful.data.chunk_workers import ChunkWorkers
from heedful.data.detect import dataset_report
from heedful.data.detect.dataset_report import build_report, describe_dataset
from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import CsvPartWriter, DetectedDataset, JsonlPartWriter, LinePartWriter, SquadPartWriter
from heedful.data.detect.hash_sample import (
    DatasetSplitter,
    HashSample,
    HashSet,
    Histogram,
    SplitPlan,
    TextSample,
    build_default_plan,
    get_part_size,
    hash_texts,
    normalise_text,
    write_parts,
)
from heedful.data.detect.parallel import ParallelColumnsFormat, ParallelLinesFormat
from heedful.data.detect.registry import sniff_file
from heedful.errors import DataError


def parts_of(texts: Sequence[str], *, parts: int = 2, limit: int = 2**16) -> dict[str, int | None]:
    """The part of each text."""
    splitter = DatasetSplitter(limit)
    for text in texts:
        splitter.add_example((text,))
    split = splitter.split([None] * parts, noun="texts")
    return {text: split.find_part((text,)) for text in texts}


@pytest.mark.parametrize("size", [3, 4, 10, 100, 1000, 12_345, 60_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_parts_have_sensible_sizes(size: int, seed: int) -> None:
    texts = [f"{seed} {number}" for number in range(size)]
    counts = Counter(parts_of(texts).values())
    assert counts[0] == counts[1] == get_part_size(size)
    assert counts[None] == size - 2 * counts[0]
    assert counts[0] <= max(1, size // 10)
    if size >= 5000:
        assert 500 <= counts[0] <= 2000


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_lines_does_not_matter(seed: int) -> None:
    draw = random.Random(seed)
    texts = [f"text {draw.randrange(300)}" for _ in range(1000)]
    shuffled = draw.sample(texts, len(texts))
    assert parts_of(texts) == parts_of(shuffled)
    assert parts_of(texts, limit=64) == parts_of(shuffled, limit=64)


@pytest.mark.parametrize("seed", range(8))
def test_repeated_texts_stay_together_and_parts_stay_small(seed: int) -> None:
    draw = random.Random(seed)
    texts = [f"text {int(draw.paretovariate(0.7)) % 400}" for _ in range(2000)]
    found = parts_of(texts)
    counts = Counter(found[text] for text in texts)
    assert 0 < counts[0] <= 200
    assert 0 < counts[1] <= 200


def test_case_and_white_space_make_no_other_text() -> None:
    assert normalise_text(" A\tDog  runs ") == "a dog runs"
    assert hash_texts("A dog") == hash_texts("a  DOG ") != hash_texts("a dig")
    assert hash_texts("a", "b") != hash_texts("a b")
    assert hash_texts("e\u0301") == hash_texts("\u00e9")


def test_few_more_lines_move_few_texts() -> None:
    texts = [str(number) for number in range(1000)]
    before, after = parts_of(texts), parts_of([*texts, *(f"new {number}" for number in range(20))])
    assert sum(before[text] != after[text] for text in texts) <= 20


@pytest.mark.parametrize("texts", [[], ["a"], ["a", "b"], ["a"] * 100])
def test_what_cannot_be_split_is_told(texts: Sequence[str]) -> None:
    with pytest.raises(DataError, match="cannot be split into 3 parts without the same text in two of them"):
        parts_of(texts)


def test_a_finer_key_is_taken_where_the_first_does_not_split() -> None:
    splitter = DatasetSplitter()
    for number in range(100):
        splitter.add_example(("the same question", f"text {number}"))
    split = splitter.split([None] * 2, noun="texts")
    counts = Counter(split.find_part(("the same question", f"text {number}")) for number in range(100))
    assert counts == {None: 80, 0: 10, 1: 10}


def test_a_sketch_keeps_the_smallest_and_knows_all_of_them() -> None:
    sketch: HashSample[int] = HashSample(limit=100)
    marks = [hash_texts(str(number)) for number in range(10_000)]
    for mark in [*marks, *reversed(marks)]:
        if sketch.should_keep(mark):
            sketch.set_value(mark, (sketch.get_value(mark) or 0) + 1)
    kept = dict(sketch.get_items())
    assert 25 <= len(sketch) <= 100
    assert set(kept) == {mark for mark in marks if mark < sketch.bound}
    assert list(kept) == sorted(kept)
    # a fair sample: the share of what is kept is what the bound says, give or take five standard deviations
    assert abs(len(sketch) - 10_000 * sketch.sampling_rate) < 5 * (10_000 * sketch.sampling_rate) ** 0.5


def test_a_sample_is_spread_over_everything() -> None:
    sample = TextSample(10)
    for number in range(1000):
        sample.add_text(str(number))
    numbers = [int(text) for text in sample.texts]
    assert 5 <= len(numbers) <= 10
    assert len({b - a for a, b in pairwise(numbers)}) == 1
    assert numbers[-1] > 800


def test_a_histogram() -> None:
    numbers = Histogram()
    for number in range(1, 101):
        numbers.add_number(number)
    assert (numbers.total, numbers.get_quantile(0.5), numbers.get_quantile(0.95), numbers.count_above(90)) == (
        100,
        50,
        95,
        10,
    )
    assert Histogram().get_quantile(0.5) == 0


def lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().split("\n")[:-1]


def carried_out(todo: SplitPlan, found: DetectedDataset) -> dict[DatasetPart, int]:
    seen = build_report(found)
    return write_parts(todo, found, seen.splitter, seen.example_counts)


def test_a_set_of_hashes_holds_what_was_added_and_takes_little_memory() -> None:
    rng = random.Random(1)
    keys = [rng.getrandbits(rng.choice([3, 12, 64])) for _ in range(20_000)]
    keys += [0, 2**64 - 1, 0, 2**64 - 1, *(number << 58 for number in range(50))]
    hashes, known = HashSet(), set[int]()
    for key in keys:
        assert hashes.add_hash(key) == (key not in known)
        known.add(key)
    assert len(hashes) == len(known)
    keys = [rng.getrandbits(64) for _ in range(11_000)]  # the table has just grown
    tracemalloc.start()
    hashes = HashSet()
    for key in keys:
        hashes.add_hash(key)
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 25.5 * len(keys)
    assert most < 38 * len(keys)


def test_reports_are_the_same_with_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_report, "ChunkWorkers", partial(ChunkWorkers, chunks_alone=2, chunk_examples=50))
    rng = random.Random(2)
    words = {"en": "the dog and a house in which they are", "de": "der Hund und ein Haus in dem sie sind"}
    for side, vocabulary in words.items():
        texts = [" ".join(rng.choices(vocabulary.split(), k=1 + number % 9)) for number in range(600)]
        texts[300:304] = ["the same dog and &amp; the house of which they are not"] * 4
        (tmp_path / f"train.{side}").write_text("".join(f"{text}\n" for text in [*texts, "", *texts[100:130]]))
    (found,) = ParallelLinesFormat().detect([sniff_file(tmp_path / f"train.{side}") for side in words], ())

    def report(processes: int) -> list[object]:
        steps: list[tuple[int, int | None]] = []
        seen = build_report(found, processes=processes, on_progress=lambda *step: steps.append(step))
        assert steps[-1] == (631, None)
        return [seen.example_counts, seen.check_results, seen.longest_examples, *describe_dataset(found, seen)]

    assert report(1) == report(2)
    assert len(build_report(found).check_results) >= 4


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_files_are_split_line_by_line_and_keep_their_order(tmp_path: Path, ending: str) -> None:
    sources = [f"sentence {number % 300}" for number in range(400)]
    targets = [f"Satz {number}" for number in range(400)]
    paths = [tmp_path / f"text.en{ending}", tmp_path / f"text.de{ending}"]
    for path, texts in zip(paths, (sources, targets), strict=True):
        data = "".join(f"{text}\n" for text in texts).encode()
        path.write_bytes(gzip.compress(data) if ending else data)
    (found,) = ParallelLinesFormat().detect([sniff_file(path) for path in paths], ())
    todo = build_default_plan(found, tmp_path)
    counts = carried_out(todo, found)
    pairs = {
        part: list(zip(lines(tmp_path / f"{part}.en{ending}"), lines(tmp_path / f"{part}.de{ending}"), strict=True))
        for part in ("train", "validation", "test")
    }
    assert {part: len(each) for part, each in pairs.items()} == counts
    assert sorted(pair for each in pairs.values() for pair in each) == sorted(zip(sources, targets, strict=True))
    place = {pair: number for number, pair in enumerate(zip(sources, targets, strict=True))}
    for each in pairs.values():
        assert [place[pair] for pair in each] == sorted(place[pair] for pair in each)
    met = [{source for source, _ in each} for each in pairs.values()]
    assert not met[0] & met[1]
    assert not met[0] & met[2]
    assert not met[1] & met[2]


def test_the_same_data_give_the_same_files(tmp_path: Path) -> None:
    path = tmp_path / "text.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"sentence {n}\tSatz {n}\n" for n in range(100)).encode()))
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (found,) = ParallelColumnsFormat().detect([sniff_file(path)], ())
        todo = build_default_plan(found, tmp_path / name)
        carried_out(todo, found)
        written.append([saved.read_bytes() for saved in todo.paths])
    assert written[0] == written[1]


def test_what_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), LinePartWriter(tmp_path / "a", tmp_path / "b.gz") as saver:
        saver.write_example(("one", "two"))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_each_saver_writes_its_form(tmp_path: Path) -> None:
    with CsvPartWriter(tmp_path / "a.csv", header=["text", "label"]) as rows:
        rows.write_example(["two\nlines, and a comma", "1"])
    assert (tmp_path / "a.csv").read_text() == 'text,label\n"two\nlines, and a comma",1\n'
    with JsonlPartWriter(tmp_path / "a.jsonl") as objects:
        objects.write_example({"text": "grün"})
    assert (tmp_path / "a.jsonl").read_text(encoding="utf-8") == '{"text": "grün"}\n'
    with SquadPartWriter(tmp_path / "a.json") as questions:
        for number in range(3):
            questions.write_example(("title", f"context {number // 2}", {"question": str(number)}))
    (article,) = json.loads((tmp_path / "a.json").read_text())["data"]
    assert [len(paragraph["qas"]) for paragraph in article["paragraphs"]] == [2, 1]
