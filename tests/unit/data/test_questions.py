"""Questions and the answers that stand in their contexts."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from external_data import find_external_data

from heedful.data.questions import ExtractiveQuestion, QuestionsJsonl, ReferenceAnswer, SquadReader, SubjQAReader
from heedful.errors import DataError

CONTEXT = "The cat saw the other cat."


def squad(path: Path, *qas: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"version": "x", "data": [{"paragraphs": [{"context": CONTEXT, "qas": list(qas)}]}]}))
    return path


def qa(*answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "q1", "question": "Who?", "answers": found, **more}


def subjqa(path: Path, *rows: tuple[str, str, str, str]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "review", "human_ans_spans", "human_ans_indices", "q_review_id"])
        writer.writerows(("Good?", *row) for row in rows)
    return path


def test_squad_of_both_versions(tmp_path: Path) -> None:
    path = squad(
        tmp_path / "a.json",
        qa(("cat", 4), ("cat", 22), ("cat", 4)),
        qa(is_impossible=True, plausible_answers=[{"text": "dog", "answer_start": 0}]),
        qa(("The cat", 0), is_impossible=False),
    )
    reader = SquadReader(path)
    first, second, third = reader
    place = f"{path} data[0] paragraphs[0] qas[0]"
    assert first == ExtractiveQuestion(
        "Who?", CONTEXT, (ReferenceAnswer("cat", 4), ReferenceAnswer("cat", 22)), "q1", place
    )
    assert second.answers == ()
    assert third.context[third.answers[0].start : third.answers[0].stop] == "The cat"
    assert len(list(reader)) == 3


@pytest.mark.parametrize(("start", "there"), [(5, 4), (0, 4), (-3, 4), (13, 4), (14, 22), (99, 22)])
def test_answers_that_stand_elsewhere(tmp_path: Path, start: int, there: int) -> None:
    path = squad(tmp_path / "a.json", qa(("cat", start), ("saw", 8)))
    with pytest.raises(DataError, match=rf"qas\[0\]: the answer 'cat' is not at {start} but at 4; .*nearest"):
        list(SquadReader(path))
    (question,) = SquadReader(path, misplaced="nearest")
    assert question.answers == (ReferenceAnswer("cat", there), ReferenceAnswer("saw", 8))
    assert question.num_moved == 1


@pytest.mark.parametrize(
    ("qas", "message"),
    [
        (qa(("dog", 4)), "'dog' does not occur in the context"),
        (qa(("", 4)), "an empty answer"),
        (qa(is_impossible=False), "no answers though is_impossible is false"),
        ({"id": 3, "answers": []}, "no field 'question'"),
        (qa(("cat", True)), "field 'answer_start' is bool where a whole number is needed"),  # type: ignore[arg-type]
        (qa(is_impossible="no"), "field 'is_impossible' is str where true or false is needed"),
        ({"id": "x", "question": "?", "answers": {"text": []}}, "field 'answers' is dict where a list of objects"),
    ],
)
def test_squad_that_is_none(tmp_path: Path, qas: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(SquadReader(squad(tmp_path / "a.json", qas), misplaced="nearest"))


def test_files_that_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"data": [\n{]\n}')
    with pytest.raises(DataError, match=r"a\.json:2: not valid JSON"):
        list(SquadReader(path))
    path.write_text("[1]")
    with pytest.raises(DataError, match="a JSON list where an object is needed"):
        list(SquadReader(path))


def test_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    lines = [
        {"question": "", "context": CONTEXT, "answers": [{"text": "saw", "start": 8}], "id": 7},
        {"question": "Why?", "context": CONTEXT},
        {"question": "Why?", "context": "", "answers": []},
    ]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(map(json.dumps, lines)))
    found = list(QuestionsJsonl(path))
    assert [(q.id, q.answers) for q in found] == [("7", (ReferenceAnswer("saw", 8),)), ("2", ()), ("3", ())]
    assert found[1].location == f"{path}:2"


def test_subjqa_drops_the_mark_and_joins_what_several_people_said(tmp_path: Path) -> None:
    review = 'It works,\nand "well". ANSWERNOTFOUND'
    path = subjqa(
        tmp_path / "a.csv",
        (review, "ANSWERNOTFOUND", f"({len(review) - 14}, {len(review)})", "a"),
        (review, "It works ,", "(0, 9)", "a"),
        (review, "and well", f"(10, {len(review)})", "a"),
        (review, "ANSWERNOTFOUND", "(1, 2)", "b"),
    )
    first, second = SubjQAReader(path)
    assert first.context == 'It works,\nand "well".'
    assert first.answers == (ReferenceAnswer("It works,", 0), ReferenceAnswer('and "well".', 10))
    assert (first.num_moved, second.num_moved, second.answers) == (1, 0, ())
    assert (first.location, second.location) == (f"{path}:2", f"{path}:8")


@pytest.mark.parametrize("indices", ["(5, 5)", "(2, 99)", "5, 6", "(30, 31)"])
def test_subjqa_with_answers_outside(tmp_path: Path, indices: str) -> None:
    path = subjqa(tmp_path / "a.csv", ("It works. ANSWERNOTFOUND", "x", indices, "a"))
    with pytest.raises(DataError, match=r"a\.csv:2: the answer .* is not a part of a review of 24 characters"):
        list(SubjQAReader(path))


def test_real_questions() -> None:
    questions = list(SquadReader(find_external_data("xquad/xquad.en.json.gz")))
    assert (len(questions), sum(q.num_moved for q in questions)) == (1190, 0)
    reviews = [q for path in sorted(find_external_data("subjqa").glob("*/*.csv.gz")) for q in SubjQAReader(path)]
    assert len(reviews) == 7681
    assert 0 < sum(q.num_moved for q in reviews) < 50
    assert not any("ANSWERNOTFOUND" in q.context for q in reviews)
    for question in (*questions, *reviews):
        for answer in question.answers:
            assert question.context[answer.start : answer.stop] == answer.text != ""
