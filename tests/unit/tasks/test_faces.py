"""What all faces share: batches, and text that stays in its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedful.data.batches import batch_by_length
from heedful.engines.int8 import Int8Linear, Int8Matrix
from heedful.errors import DataError, RecipeError
from heedful.tasks.classification.predictor import ChoiceLineFormat, ChoiceResult, ClassificationResult, ClassLineFormat
from heedful.tasks.decoder_target import ForcedScore, TextCandidate
from heedful.tasks.embedder import EmbeddingLineFormat, TextEmbedding
from heedful.tasks.language.predictor import Continuation, GenerationLineFormat
from heedful.tasks.predictor import (
    READ_IN_PARTS,
    READ_TRUNCATED,
    InspectRequest,
    UnreadableInput,
    answer_readable,
    default_batch_tokens,
    escape_cell,
    iter_chunks,
    run_batched,
)
from heedful.tasks.pretraining.predictor import (
    DetectLineFormat,
    FilledText,
    FillLineFormat,
    ReplacedTokenScore,
    TokenGuess,
)
from heedful.tasks.spans.predictor import QuestionLineFormat, SpanAnswer
from heedful.tasks.tagging.predictor import TaggedWord, TagLineFormat
from heedful.tasks.translation.translations import ScoreLineFormat, Translation, TranslationLineFormat

NOBODY: Any = SimpleNamespace(confidence=None)


def test_batches_are_planned_by_length_and_answers_keep_their_order() -> None:
    examples = ["aaa", "", "a", "aaaaa", "aa", "aaaa"]
    seen = []

    def say(batch: list[str]) -> Iterator[int]:
        assert torch.is_inference_mode_enabled()
        seen.append(batch)
        for each in batch:
            assert torch.is_inference_mode_enabled(), "answers that come one by one are made there too"
            yield len(each)

    assert run_batched(examples, say, size=len, batch_tokens=8, max_rows=2) == [3, 0, 1, 5, 2, 4]
    plan = batch_by_length(np.array([3, 0, 1, 5, 2, 4]), max_tokens=8, max_rows=2)
    assert seen == [[examples[row] for row in rows] for rows in plan]
    assert not torch.is_inference_mode_enabled()


def test_as_many_rows_as_tokens_unless_told_and_nothing_for_nothing() -> None:
    sizes: list[int] = []

    def say(batch: list[str]) -> list[str]:
        sizes.append(len(batch))
        return batch

    assert run_batched([""] * 7, say, size=len, batch_tokens=3) == [""] * 7
    assert sizes == [3, 3, 1]
    assert run_batched([], say, size=len, batch_tokens=3) == []
    with pytest.raises(ValueError, match="zip"):
        run_batched(["a"], lambda batch: [*batch, "b"], size=len, batch_tokens=3)


def test_a_stream_is_read_in_chunks() -> None:
    stream = iter("abcde")
    chunks = iter_chunks(stream, 2)
    assert (next(chunks), next(stream)) == (["a", "b"], "c"), "no more is read than is needed"
    assert list(chunks) == [["d", "e"]]
    assert list(iter_chunks("", 2)) == []


def test_a_cell_is_one_column_of_one_line() -> None:
    assert escape_cell("a\tb\nc\r\\d\u00e9") == "a\\tb\\nc\\r\\d\u00e9"


ODD = "x\ty\nz"
SHORT = Translation("s", ("s",), (TextCandidate("t", (3,), ("t",), -1.0, -1.0, finished=True),))


@pytest.mark.parametrize(
    ("lines", "answer", "rows", "columns"),
    [
        (TagLineFormat(NOBODY), [TaggedWord(ODD, ODD, 0.5), TaggedWord("a", "B", 0.5)], 3, 2),
        (ClassLineFormat(NOBODY), ClassificationResult(ODD, {ODD: 0.75, "b": 0.25}), 1, 2),
        (ClassLineFormat(NOBODY), ClassificationResult(1.5), 1, 1),
        (ChoiceLineFormat(NOBODY), ChoiceResult(1, (0.25, 0.75)), 1, 2),
        (
            FillLineFormat(NOBODY),
            FilledText("t", ((TokenGuess(ODD, 3, 0.5), TokenGuess("b", 4, 0.5)), (TokenGuess(ODD, 3, 0.5),))),
            3,
            1,
        ),
        (DetectLineFormat(NOBODY), [ReplacedTokenScore(ODD, 0.5)], 2, 2),
        (QuestionLineFormat(NOBODY), SpanAnswer(ODD, (), 0.0, 0.0), 1, 1),
        (ScoreLineFormat(NOBODY), ForcedScore(-1.5, 2, (-1.0, -0.5), ("a",)), 1, 2),
        (
            TranslationLineFormat(NOBODY, all_candidates=True),
            (4, Translation("s", ("s",), (TextCandidate(ODD, (3,), (ODD,), -1.0, -1.0, True),) * 2)),
            2,
            3,
        ),
    ],
)
def test_words_and_labels_add_no_rows_and_no_columns(lines: Any, answer: Any, rows: int, columns: int) -> None:
    told = lines.format_answer(answer)
    assert told.endswith("\n")
    assert told.count("\n") == rows
    assert {line.count("\t") + 1 for line in told.splitlines() if line} == {columns}


def test_how_answers_are_told() -> None:
    filled = FilledText("a b", ((TokenGuess("a", 3, 0.5), TokenGuess("c", 4, 0.25)),))
    assert FillLineFormat(NOBODY).format_answer(filled) == "a b\n  a 0.500  c 0.250\n"
    assert (
        FillLineFormat(NOBODY).format_answer(FilledText("a b", filled.gaps * 2)).splitlines()[2]
        == "  gap 2: a 0.500  c 0.250"
    )
    assert EmbeddingLineFormat(NOBODY).format_answer(TextEmbedding(np.array([0.12345678, -1]))) == "[0.123457, -1.0]\n"
    assert GenerationLineFormat(NOBODY).format_answer(("a", Continuation("b", ("b",), -1.0, True))) == "ab\n\n"
    assert ClassLineFormat(NOBODY).to_json(ClassificationResult("a", {"a": 1.0}, cut=2)) == {
        "label": "a",
        "probabilities": {"a": 1.0},
        "cut": 2,
    }
    assert ClassLineFormat(NOBODY).to_json(ClassificationResult(1.5)) == {"label": 1.5}


@pytest.mark.parametrize(
    ("lines", "answer", "notes"),
    [
        (TranslationLineFormat(NOBODY), (1, SHORT), []),
        (TranslationLineFormat(NOBODY), (1, replace(SHORT, parts=(SHORT, SHORT))), [READ_IN_PARTS]),
        (TranslationLineFormat(NOBODY), (1, replace(SHORT, cut=3)), [READ_TRUNCATED]),
        (
            TranslationLineFormat(NOBODY),
            (1, replace(SHORT, parts=(SHORT, SHORT), cut=3)),
            [READ_IN_PARTS, READ_TRUNCATED],
        ),
        (ClassLineFormat(NOBODY), ClassificationResult("a", {"a": 1.0}), []),
        (ClassLineFormat(NOBODY), ClassificationResult("a", {"a": 1.0}, cut=2), [READ_TRUNCATED]),
        (ChoiceLineFormat(NOBODY), ChoiceResult(0, (1.0,)), []),
        (ChoiceLineFormat(NOBODY), ChoiceResult(0, (1.0,), cut=2), [READ_TRUNCATED]),
        (EmbeddingLineFormat(NOBODY), TextEmbedding(np.zeros(1)), []),
        (EmbeddingLineFormat(NOBODY), TextEmbedding(np.zeros(1), cut=True), [READ_TRUNCATED]),
        (FillLineFormat(NOBODY), FilledText("a", ()), []),
        (FillLineFormat(NOBODY), FilledText("a", (), cut=1), [READ_TRUNCATED]),
        (QuestionLineFormat(NOBODY), SpanAnswer("a", (), 0.0, 0.0), []),
        (QuestionLineFormat(NOBODY), SpanAnswer("a", (), 0.0, 0.0, cut=1), [READ_TRUNCATED]),
        (TagLineFormat(NOBODY), [TaggedWord("a", "B", 0.5)], []),
    ],
)
def test_what_was_not_read_as_it_was_given_is_noted(lines: Any, answer: Any, notes: list[str]) -> None:
    assert list(lines.input_notes(answer)) == notes
    record = lines.to_json(answer)
    assert (isinstance(record, dict) and record.get("cut", 0) > 0) == (
        READ_TRUNCATED in notes and "Embed" not in str(lines)
    )


def test_what_cannot_be_read_loses_no_other_answer() -> None:
    broken = {0: UnreadableInput("no"), 2: UnreadableInput("never")}
    assert answer_readable("abcd", broken, lambda each: [letter.upper() for letter in each]) == [
        broken[0],
        "B",
        broken[2],
        "D",
    ]


def test_lines_that_say_nothing_name_their_place() -> None:
    for lines, text, complaint in (
        (ClassLineFormat(NOBODY), "a\tb\tc", "f:2: 3 texts; write one, or two with a tab between them"),
        (ChoiceLineFormat(NOBODY), "a", "f:2: has no candidates; write a text and its candidates"),
        (ScoreLineFormat(NOBODY), "a", "f:2: no translation; write it behind its sentence"),
        (QuestionLineFormat(NOBODY), "{", "f:2: not valid JSON"),
    ):
        good = '{"question": "a", "context": "b"}' if isinstance(lines, QuestionLineFormat) else "a\tb"
        inputs = lines.parse_lines([good, text], source_name="f")  # type: ignore[attr-defined]
        assert next(inputs) == ("a", "b")
        with pytest.raises(DataError, match=complaint):
            next(inputs)
    assert list(TagLineFormat(NOBODY).parse_lines(["a  b", ""], source_name="f")) == [["a", "b"], []]
    assert list(QuestionLineFormat(NOBODY).parse_lines(["", " "], source_name="f")) == []


def test_models_that_only_read_are_told_nothing_of_writing() -> None:
    asked = InspectRequest("a", "b")
    assert asked.require_no_generation() is asked
    assert InspectRequest("a").require_single_text("a tagger's") == "a"
    for odd, name in ((InspectRequest("a", beam=2), "--beam"), (InspectRequest("a", max_tokens=0), "--tokens")):
        with pytest.raises(RecipeError, match=f"{name}: this model does not write text; leave it out"):
            odd.require_no_generation()
    complaint = "--pair: is an option of other models; give a tagger's text with --text alone"
    with pytest.raises(RecipeError, match=complaint):
        asked.require_single_text("a tagger's")


def test_wide_models_read_few_tokens_at_one_time_and_more_threads_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    expected = {32: 4096, 128: 2048, 384: 682, 768: 341, 4096: 256}
    for width, tokens in expected.items():
        wide = nn.ModuleList([nn.Linear(width, 4 * width, device="meta"), nn.Linear(8, 8)])
        assert default_batch_tokens(wide[1]) == 4096
        assert default_batch_tokens(nn.ModuleList([wide[1], Sized(width)])) == tokens
        assert default_batch_tokens(wide) == 16384, "it computes elsewhere"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert default_batch_tokens(nn.ModuleList([nn.Linear(8, 8), Sized(384)])) == 2 * 682
    rounded = nn.ModuleList([nn.LayerNorm(3), Int8Linear(Int8Matrix.from_weight(torch.ones(768, 384)), None)])
    assert default_batch_tokens(rounded) == 2 * 682


class Sized(nn.Linear):
    """As wide as wanted, without the memory."""

    def __init__(self, width: int) -> None:
        super().__init__(1, 1)
        self.in_features, self.out_features = width, 4 * width
