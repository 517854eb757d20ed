"""Indices of passages: written, searched, damaged, measured."""

from __future__ import annotations

import json
import math
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import heedful
from heedful import DataError, MissingExtraError, RecipeError, RunError
from heedful.retrieval.bm25 import K1, B, extract_terms
from heedful.retrieval.index import measure_search
from heedful.retrieval.index_folder import build_index, read_index_manifest
from heedful.retrieval.passages import JudgedQuestion, SearchPassage

pytest.importorskip("bm25s", reason="the extra [search] is not installed")

WORDS = ("cat", "dog", "sat", "mat", "Ran", "the", "a", "it", "Moon", "ß", "東京都")


class Letters:
    """A vector counts letters, late ones a little more, so that no two texts are equally near; texts of more than
    `longest` characters are cut.
    """

    def __init__(self, *, longest: int = 1000, size: int = 16) -> None:
        self.longest = longest
        self.size = size

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int = 4096,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        rows = np.full((len(texts), self.size), 0.5)
        for number, text in enumerate(texts):
            if len(text) > self.longest and cut is not None:
                cut(first + number)
            for place, letter in enumerate(text[: self.longest]):
                rows[number, ord(letter) % self.size] += 1 + place / 100
        return rows


def passages(count: int = 30, *, seed: int = 1) -> list[tuple[str, SearchPassage]]:
    dice = random.Random(seed)
    texts = [" ".join(dice.choices(WORDS, k=dice.randint(1, 12))) for _ in range(count)]
    return [(f"file:{n}", SearchPassage(f"p{n}", text, "A moon" if n % 5 == 0 else "")) for n, text in enumerate(texts)]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    build_index(tmp_path / "index", passages(), encoder=Letters())
    return tmp_path / "index"


def bm25_longhand(texts: Sequence[str], query: str) -> list[float]:
    """Lucene's BM25 with the parameters of heedful."""
    documents = [Counter(term.text for term in extract_terms(text)) for text in texts]
    mean = sum(document.total() for document in documents) / len(documents)
    found = []
    for document in documents:
        score = 0.0
        for term in (each.text for each in extract_terms(query)):
            holding = sum(term in each for each in documents)
            if holding:
                weight = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
                often = document[term]
                score += weight * often / (often + K1 * (1 - B + B * document.total() / mean))
        found.append(score)
    return found


@pytest.mark.parametrize("query", ["the cat", "CAT cat ran", "東京", "strasse ß moon", "nothing here", "?!", "it"])
def test_scores_are_bm25_and_cosines(made: Path, query: str) -> None:
    wholes = [passage.full_text for _, passage in passages()]
    index = heedful.load_index(made, model=Letters())
    (scores,) = index.iter_scores([query])
    assert scores.bm25 == pytest.approx(bm25_longhand(wholes, query), rel=1e-5, abs=1e-6)
    known, sought = Letters().embed(wholes), Letters().embed([query])[0]
    cosines = known @ sought / np.linalg.norm(known, axis=1) / np.linalg.norm(sought)
    assert scores.cosine == pytest.approx(cosines, abs=1e-6)
    best = index.search(query, top=5, by="encoder")
    assert [hit.cosine for hit in best] == pytest.approx(sorted(cosines, reverse=True)[:5], abs=1e-6)


def test_passages_come_back_as_they_were(made: Path) -> None:
    index = heedful.load_index(made, model=Letters())
    assert len(index) == 30
    assert [index[row] for row in range(30)] == [passage for _, passage in passages()]
    assert index.rows_by_id["p7"] == 7


def test_an_index_says_what_it_is(made: Path) -> None:
    index = heedful.load_index(made, model=Letters())
    dimensions = Letters().embed(["a"]).shape[1]
    assert repr(index) == f"PassageIndex({str(made)!r}, {len(index)} passages with vectors of {dimensions} numbers)"


def test_unless_told_otherwise_the_product_orders(made: Path) -> None:
    index = heedful.load_index(made, model=Letters())
    assert index.search("the cat", top=4) == index.search("the cat", top=4, by="product")
    assert [hit.rank for hit in index.search("the cat", top=4)] == [1, 2, 3, 4]
    assert len(index.search("the cat", top=99)) == 30


def test_many_queries_are_searched_as_one_by_one(made: Path) -> None:
    index = heedful.load_index(made, model=Letters())
    queries = [text.text for _, text in passages(150, seed=4)]
    for query, found in zip(queries, index.search_all(queries, top=3, by="bm25"), strict=True):
        assert found == index.search(query, top=3, by="bm25")
    for row in (0, 63, 64, 149):
        together, alone = index.search_all(queries, top=3)[row], index.search(queries[row], top=3)
        assert [hit.passage for hit in together] == [hit.passage for hit in alone]


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_finds_nothing(made: Path, query: str) -> None:
    index = heedful.load_index(made, model=Letters())
    assert all(not found for found in next(index.compare_orderings([query])).values())


def test_an_index_of_words_needs_no_model(tmp_path: Path) -> None:
    build_index(tmp_path, passages())
    index = heedful.load_index(tmp_path)
    assert index.search("cat", top=1)[0].cosine is None
    with pytest.raises(RecipeError, match="no vectors"):
        index.search("cat", by="product")
    assert not (tmp_path / "1" / "vectors.npy").exists()


def test_another_model_is_noticed(made: Path) -> None:
    for other in (Letters(size=8), Letters(longest=2)):
        with pytest.raises(RunError, match="another model computed the vectors"):
            heedful.load_index(made, model=other).search("cat")
    with pytest.raises(RunError, match="--model"):
        heedful.load_index(made).search("cat")
    with pytest.raises(RunError, match="does not exist there"):
        heedful.load_index(made, model=made.parent / "gone").search("cat")
    assert heedful.load_index(made).search("cat", by="bm25"), "words alone need no model"


def test_long_passages_are_cut_and_counted(tmp_path: Path) -> None:
    manifest = build_index(tmp_path, passages(), encoder=Letters(longest=20))
    assert manifest.cut == sum(len(passage.full_text) > 20 for _, passage in passages()) > 0
    assert heedful.load_index(tmp_path, model=Letters(longest=20)).search("cat")


def test_words_that_most_passages_have_tell_nothing(tmp_path: Path) -> None:
    texts = ["the cat", "the dog", "The mat", "a dog"]
    build_index(tmp_path, [(f"f:{n}", SearchPassage(str(n), text)) for n, text in enumerate(texts)])
    index = heedful.load_index(tmp_path)
    assert index.select_rare_terms("The dog, the unknown cat?") == {"dog", "cat", "unknown"}
    assert index.select_rare_terms("THE") == {"the"}
    assert index.select_rare_terms("") == set()


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    build_index(tmp_path, passages(600), encoder=Letters(), on_progress=lambda *at: told.append(at))
    assert told == [(256, 600), (512, 600), (600, 600)]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", "manifest.json"))


def test_nothing_is_pickled(made: Path) -> None:
    assert {path.suffix for path in files(made)} == {".npy", ".json", ".jsonl"}
    for path in files(made):
        if path.suffix == ".npy":
            assert np.load(path).dtype.kind in "fi"  # which refuses objects


def test_every_damage_is_noticed(made: Path, tmp_path: Path) -> None:
    assert len(files(made)) == 8
    for number, path in enumerate(files(made)):
        for damage in (lambda content: content[:-3], lambda content: content[:-3] + b"xyz", None):
            copy = tmp_path / f"copy{number}"
            shutil.copytree(made, copy, dirs_exist_ok=True)
            at = copy / path.relative_to(made)
            if damage is None:
                at.unlink()
            else:
                at.write_bytes(damage(at.read_bytes()))
            with pytest.raises(RunError, match=path.name):
                heedful.load_index(copy)
            shutil.rmtree(copy)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ("{}", "does not contain an index"),
        ('{"index": 9}', "has format 9"),
        ('{"index": 1, "build": "1"}', "damaged"),
        ('{"index": 1, "build": "1", "passages": 1, "model": null, "dimensions": 0, "cut": 0, "files": {}}', "damaged"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_damaged_manifests(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(RunError, match=complaint):
        heedful.load_index(tmp_path)


def test_files_outside_of_the_index_are_not_read(made: Path) -> None:
    content = json.loads((made / "manifest.json").read_text())
    content["files"]["../elsewhere"] = "0"
    (made / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match="outside"):
        heedful.load_index(made)


def test_where_there_is_no_index(tmp_path: Path, trained: Path) -> None:
    with pytest.raises(RunError, match="no such index"):
        heedful.load_index(tmp_path / "none")
    with pytest.raises(RunError, match="does not contain an index"):
        heedful.load_index(tmp_path)
    with pytest.raises(RunError, match="does not contain an index"):
        heedful.load_index(trained)


def test_only_an_index_is_replaced_and_only_when_asked(made: Path, tmp_path: Path, trained: Path) -> None:
    with pytest.raises(RunError, match="--rebuild"):
        build_index(made, passages(3))
    build_index(made, passages(3), rebuild=True)
    assert len(heedful.load_index(made)) == 3
    assert sorted(path.name for path in made.iterdir() if path.is_dir()) == ["2"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    for folder in (other, trained):
        with pytest.raises(RunError, match="choose another folder"):
            build_index(folder, passages(3), rebuild=True)


def test_a_damaged_index_can_be_built_again(made: Path) -> None:
    (made / "manifest.json").write_text("{")
    build_index(made, passages(4), rebuild=True)
    assert len(heedful.load_index(made)) == 4


def test_what_fails_leaves_the_index_before(made: Path) -> None:
    def breaking() -> Iterator[tuple[str, SearchPassage]]:
        yield from passages(5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(made, breaking(), rebuild=True)
    assert len(heedful.load_index(made)) == 30
    assert [path.name for path in made.iterdir() if path.is_dir()] == ["1"]


def test_two_do_not_build_at_once(tmp_path: Path) -> None:
    def building() -> Iterator[tuple[str, SearchPassage]]:
        with pytest.raises(RunError, match="another process"):
            build_index(tmp_path, passages(2))
        yield from passages(2)

    assert build_index(tmp_path, building()).passages == 2


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([("f:1", SearchPassage("a", "x")), ("f:2", SearchPassage("a", "y"))], "f:2: the id 'a' is also used in f:1"),
        ([("f:1", SearchPassage("a", "x")), ("f:2", SearchPassage("b", " "))], "f:2: the passage is empty"),
        ([], "the passages contain no words"),
        ([("f:1", SearchPassage("a", "?!"))], "the passages contain no words"),
    ],
)
def test_passages_that_make_no_index(tmp_path: Path, given: list[tuple[str, SearchPassage]], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint.replace("?", r"\?")):
        build_index(tmp_path / "index", given)
    assert not [path for path in (tmp_path / "index").iterdir() if path.is_dir()]


def test_without_the_library(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    for call in (
        lambda: build_index(tmp_path / "new", passages()),
        lambda: heedful.load_index(made).search("cat", by="bm25"),
    ):
        with pytest.raises(MissingExtraError, match=r"heedful\[search\]"):
            call()
    assert not (tmp_path / "new").exists()


def test_the_manifest_says_what_is_there(made: Path) -> None:
    manifest = read_index_manifest(made)
    assert (manifest.passages, manifest.dimensions, manifest.cut, manifest.model) == (30, 16, 0, None)
    assert sorted(manifest.files) == [path.relative_to(made).as_posix() for path in files(made)]


def test_measures_are_those_of_the_orders(made: Path) -> None:
    index = heedful.load_index(made, model=Letters())
    judged = [
        JudgedQuestion(" ".join(passage.text.split()[:3]), (passage.id,), (passage.text,), place)
        for place, passage in passages()
    ]
    found, count = measure_search(index, judged, orderings=("bm25", "encoder", "product"))
    assert count == 30
    for measured in found:
        ranks = []
        for each in judged:
            names = [hit.passage.id for hit in index.search(each.question, top=30, by=measured.ordering)]
            ranks.append(names.index(each.passages[0]) + 1 if each.passages[0] in names else None)
        assert measured.mrr == pytest.approx(sum(1 / rank for rank in ranks if rank) / 30)
        for first, recall in measured.recall.items():
            assert recall == pytest.approx(sum(rank is not None and rank <= first for rank in ranks) / 30)


def test_questions_must_fit_the_index(made: Path) -> None:
    index = heedful.load_index(made, model=Letters())
    with pytest.raises(DataError, match="q:3: the index has no passage 'x'"):
        measure_search(index, [JudgedQuestion("cat", ("x",), (), "q:3")], orderings=("bm25",))
    with pytest.raises(DataError, match="q:4: passage 'p1' has another text"):
        measure_search(index, [JudgedQuestion("cat", ("p1",), ("other",), "q:4")], orderings=("bm25",))
    with pytest.raises(DataError, match="no questions"):
        measure_search(index, [], orderings=("bm25",))
