"""Records of answers: what is left out where it says nothing, and what their schema names."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, cast

import numpy as np
import pytest
from pydantic import TypeAdapter

from heedful.inspection.record import AnswerOption, Glimpse
from heedful.tasks.captioning.predictor import (
    CaptionAttention,
    Captioner,
    CaptionLineFormat,
    CaptionResult,
    VideoCaptioner,
)
from heedful.tasks.classification.predictor import ChoiceResult, ClassificationResult
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.glimpses.predictor import GlimpsePrediction, PictureLineFormat
from heedful.tasks.language.predictor import Continuation, ContinuationRecord, GenerationLineFormat
from heedful.tasks.predictor import dump_record
from heedful.tasks.pretraining.predictor import FilledText, TokenGuess
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


def test_records_of_continuations_and_glimpses_have_all_fields_of_the_answers() -> None:
    continuation = Continuation("b c", ("b", "c"), -1.5, True, None, (1, 2), (-0.5, -1.0))
    written = GenerationLineFormat(cast(Any, None)).to_json(("a", continuation))
    assert written == {"prompt": "a", **json.loads(json.dumps(asdict(continuation)))}
    described = ContinuationRecord.model_json_schema()["properties"]
    assert list(written) == [*described, "ids", "token_log_probabilities"]
    options = (AnswerOption("cat", 0.75), AnswerOption("dog", 0.25))
    prediction = GlimpsePrediction({"cat": 0.75, "dog": 0.25}, ("cat",), (Glimpse(0.5, 0.25, (0.1, 0.2), options),))
    seen = PictureLineFormat(cast(Any, None)).to_json(("1", prediction))
    assert list(seen) == ["picture", "class", "probabilities", "glimpses"]
    assert seen["glimpses"] == [json.loads(json.dumps(asdict(glimpse))) for glimpse in prediction.glimpses]


@pytest.mark.parametrize("captioner", [Captioner, VideoCaptioner])
def test_a_caption_names_what_it_describes(captioner: Any) -> None:
    lines = CaptionLineFormat(captioner.__new__(captioner), cast(Any, None), cast(Any, None))
    record = lines.to_record(CaptionResult("7", (CANDIDATE,)))
    written = {captioner.input_noun: "7", "caption": "a b", "candidates": [CANDIDATE.json_record]}
    assert list(dump_record(record).items()) == list(written.items())
    attention = CaptionAttention(("a", "</s>"), np.array([[0.25, 0.75], [0.12345, 0.87655]]))
    looked = {"tokens": ["a", "</s>"], "weights": [[0.25, 0.75], [0.1234, 0.8766]]}
    assert dump_record(record.model_copy(update={"looked": attention.to_record()})) == {**written, "looked": looked}
    assert dump_record(attention.to_record(frames=[0, 4])) == {**looked, "frames": [0, 4]}
