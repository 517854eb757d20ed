"""Records of answers: what is left out where it says nothing, and what their schema names."""

from __future__ import annotations

import json

from pydantic import TypeAdapter

from heedful.tasks.classification.predictor import ChoiceResult, ClassificationResult
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.pretraining.predictor import FilledText, TokenGuess
from heedful.tasks.records import dump_record
from heedful.tasks.spans.predictor import AnswerSpan, SpanAnswerRecord
from heedful.tasks.tagging.predictor import TaggedWord
from heedful.tasks.translation.translations import TranslationRecord

CANDIDATE = TextCandidate("a b", (1, 2), ("a", "b"), -1.1234567, -0.5, finished=True)


def test_answers_that_are_their_own_records_leave_out_what_is_marked() -> None:
    doubtful = ClassificationResult("good", {"good": 0.75, "bad": 0.25}, cut=2, doubts=("only one text",))
    assert dump_record(doubtful) == {"label": "good", "probabilities": {"good": 0.75, "bad": 0.25}, "cut": 2}
    assert dump_record(ClassificationResult(1.5)) == {"label": 1.5}
    assert dump_record(ChoiceResult(1, (0.25, 0.75))) == {"number": 1, "probabilities": [0.25, 0.75]}
    guess = {"piece": "dog", "id": 3, "probability": 0.5}
    assert dump_record(FilledText("a dog", ((TokenGuess(**guess),),))) == {"text": "a dog", "gaps": [[guess]], "cut": 0}


def test_lists_are_lists_of_records() -> None:
    words = [TaggedWord("Ann", "B-person", 0.75), TaggedWord("runs", "O", 0.5)]
    assert dump_record(words)[1] == {"word": "runs", "name": "O", "probability": 0.5}
    assert dump_record([]) == []


def test_fields_that_were_not_set_are_absent() -> None:
    record = TranslationRecord(source="x", translation="a b", candidates=[CANDIDATE.to_record()], signs=[], cut=0)
    candidate = {"text": "a b", "score": -0.5, "log_probability": -1.12346, "tokens": ["a", "b"], "finished": True}
    assert dump_record(record) == {"source": "x", "translation": "a b", "candidates": [candidate]}
    assert CANDIDATE.json_record == candidate
    whole = record.model_copy(update={"constraints": ["c"], "unmet": [], "parts": [record]})
    assert list(dump_record(whole)) == ["source", "translation", "candidates", "constraints", "unmet", "parts"]
    span = AnswerSpan("b", 2, 3, 1.5, 0.75)
    answered = dump_record(SpanAnswerRecord(answer="b", none=0.25, spans=[span], cut=0))
    assert list(answered) == ["answer", "none", "spans"]


def test_schemas_name_what_is_written_and_nothing_else() -> None:
    schema = json.dumps(TypeAdapter(ClassificationResult).json_schema())
    assert all(f'"{name}"' in schema for name in ("label", "probabilities", "cut"))
    assert "doubts" not in schema
