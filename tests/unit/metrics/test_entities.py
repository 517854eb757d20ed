"""Spans of tags against seqeval, and against the spans from which tags are written in four schemes."""

from __future__ import annotations

import random
import warnings

import pytest
from external_data import find_external_data
from seqeval import metrics

from heedful.data.tagged import TaggedColumnsReader
from heedful.errors import DataError
from heedful.metrics.spans import EntitySpan, compute_entity_metrics, extract_spans

TYPES = ("person", "creative-work", "location")


def some_spans(words: int) -> list[EntitySpan]:
    found, place = [], 0
    while place < words:
        stop = min(words, place + random.randrange(1, 4))
        if random.random() < 0.6:
            found.append(EntitySpan(place, stop, random.choice(TYPES)))
        place = stop
    return found


def written(found: list[EntitySpan], words: int, *, scheme: str) -> list[str]:
    tags = ["O"] * words
    last, unit = {"BILOU": ("L", "U"), "IOBES": ("E", "S")}.get(scheme, ("I", "B"))
    for before, span in zip([None, *found], found, strict=False):
        for place in range(span.start, span.stop):
            tags[place] = f"I-{span.type}"
        touches = before is not None and before.stop == span.start and before.type == span.type
        if scheme != "IOB1" or touches:
            tags[span.start] = f"B-{span.type}"
        if scheme in ("BILOU", "IOBES"):
            tags[span.stop - 1] = f"{last}-{span.type}"
            if span.stop - span.start == 1:
                tags[span.start] = f"{unit}-{span.type}"
    return tags


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOBES", "BILOU"])
def test_every_scheme_gives_its_spans_back(scheme: str) -> None:
    for _ in range(300):
        words = random.randrange(12)
        found = some_spans(words)
        assert extract_spans(written(found, words, scheme=scheme)) == found


@pytest.mark.parametrize("prefixes", ["BI", "BIES"])
def test_as_seqeval_whatever_a_model_tags(prefixes: str) -> None:
    tags = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in TYPES)]
    for _ in range(60):
        lengths = [random.randrange(1, 9) for _ in range(random.randrange(1, 6))]
        gold = [random.choices(tags, k=n) for n in lengths]
        mine = [[g if random.random() < 0.6 else random.choice(tags) for g in row] for row in gold]
        scores = {name: metric.value for name, metric in compute_entity_metrics(mine, gold).items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where precision or recall is undefined
            micro = [f(gold, mine) for f in (metrics.precision_score, metrics.recall_score, metrics.f1_score)]
        assert [scores[name] for name in ("precision", "recall", "f1")] == pytest.approx(micro)


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("I-a I-a I-b O I-b B-b", [(0, 2, "a"), (2, 3, "b"), (4, 5, "b"), (5, 6, "b")]),
        ("U-a L-a I-a L-a I-a", [(0, 1, "a"), (1, 2, "a"), (2, 4, "a"), (4, 5, "a")]),
        ("B-a B-a I-b-c L-b-c", [(0, 1, "a"), (1, 2, "a"), (2, 4, "b-c")]),
        ("O I-a O", [(1, 2, "a")]),
        ("", []),
    ],
)
def test_conlleval_longhand(tags: str, wanted: list[tuple[int, int, str]]) -> None:
    assert extract_spans(tags.split()) == wanted


def test_an_entity_is_right_as_a_whole() -> None:
    scores = compute_entity_metrics([["B-a", "I-a", "O", "B-b"]], [["B-a", "O", "O", "B-b"]])
    assert (scores["precision"].value, scores["recall"].value) == (0.5, 0.5)


@pytest.mark.parametrize("tag", ["", "X-a", "o", "B-", "I_a"])
def test_what_is_no_tag(tag: str) -> None:
    with pytest.raises(DataError, match="is not an entity tag"):
        extract_spans(["O", tag])


def test_tags_that_do_not_match() -> None:
    with pytest.raises(DataError, match="sentence 2 has 1 tags for 2 words"):
        compute_entity_metrics([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(DataError, match="no words"):
        compute_entity_metrics([[]], [[]])


@pytest.mark.parametrize(
    ("file", "sentences"),
    [("wnut17train.conll.gz", 3394), ("emerging.dev.conll.gz", 1009), ("emerging.test.annotated.gz", 1287)],
)
def test_wnut17(file: str, sentences: int) -> None:
    tags = [sentence.tags for sentence in TaggedColumnsReader(find_external_data(f"wnut17/{file}"))]
    assert len(tags) == sentences
    assert compute_entity_metrics(tags, tags)["f1"].value == 1
    found = [span for row in tags for span in extract_spans(row)]
    # IOB2: whatever begins is an entity, and nothing else is.
    assert len(found) == sum(tag.startswith("B-") for row in tags for tag in row)
    assert {span.type for span in found} == {"corporation", "creative-work", "group", "location", "person", "product"}
