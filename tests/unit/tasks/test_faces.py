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

from heedful.data.bucketing import plan_by_length
from heedful.engines.int8 import Bytes, Int8Linear
from heedful.errors import DataError, RecipeError
from heedful.tasks.classification.face import ChoiceLines, Chosen, Classified, ClassLines
from heedful.tasks.embedder import Embedded, EmbedLines
from heedful.tasks.faces import CUT, IN_PARTS, Asked, Unread, at_once, cell, chunked, despite, in_batches
from heedful.tasks.language.face import Continuation, WriteLines
from heedful.tasks.pretraining.face import DetectLines, Filled, FillLines, Guess, Suspicion
from heedful.tasks.spans.face import Answered, AnswerLines
from heedful.tasks.tagging.face import Tag, TagLines
from heedful.tasks.target import Candidate, ForcedScore
from heedful.tasks.translation.translations import ScoreLines, Translation, TranslationLines

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

    assert in_batches(examples, say, size=len, tokens=8, rows=2) == [3, 0, 1, 5, 2, 4]
    plan = plan_by_length(np.array([3, 0, 1, 5, 2, 4]), tokens=8, rows=2)
    assert seen == [[examples[row] for row in rows] for rows in plan]
    assert not torch.is_inference_mode_enabled()


def test_as_many_rows_as_tokens_unless_told_and_nothing_for_nothing() -> None:
    sizes: list[int] = []

    def say(batch: list[str]) -> list[str]:
        sizes.append(len(batch))
        return batch

    assert in_batches([""] * 7, say, size=len, tokens=3) == [""] * 7
    assert sizes == [3, 3, 1]
    assert in_batches([], say, size=len, tokens=3) == []
    with pytest.raises(ValueError, match="zip"):
        in_batches(["a"], lambda batch: [*batch, "b"], size=len, tokens=3)


def test_a_stream_is_read_in_chunks() -> None:
    stream = iter("abcde")
    chunks = chunked(stream, 2)
    assert (next(chunks), next(stream)) == (["a", "b"], "c"), "no more is read than is needed"
    assert list(chunks) == [["d", "e"]]
    assert list(chunked("", 2)) == []


def test_a_cell_is_one_column_of_one_line() -> None:
    assert cell("a\tb\nc\r\\d\u00e9") == "a\\tb\\nc\\r\\d\u00e9"


ODD = "x\ty\nz"
SHORT = Translation("s", ("s",), (Candidate("t", (3,), ("t",), -1.0, -1.0, finished=True),))


@pytest.mark.parametrize(
    ("lines", "answer", "rows", "columns"),
    [
        (TagLines(NOBODY), [Tag(ODD, ODD, 0.5), Tag("a", "B", 0.5)], 3, 2),
        (ClassLines(NOBODY), Classified(ODD, {ODD: 0.75, "b": 0.25}), 1, 2),
        (ClassLines(NOBODY), Classified(1.5), 1, 1),
        (ChoiceLines(NOBODY), Chosen(1, (0.25, 0.75)), 1, 2),
        (FillLines(NOBODY), Filled("t", ((Guess(ODD, 3, 0.5), Guess("b", 4, 0.5)), (Guess(ODD, 3, 0.5),))), 3, 1),
        (DetectLines(NOBODY), [Suspicion(ODD, 0.5)], 2, 2),
        (AnswerLines(NOBODY), Answered(ODD, (), 0.0, 0.0), 1, 1),
        (ScoreLines(NOBODY), ForcedScore(-1.5, 2, (-1.0, -0.5), ("a",)), 1, 2),
        (
            TranslationLines(NOBODY, several=True),
            (4, Translation("s", ("s",), (Candidate(ODD, (3,), (ODD,), -1.0, -1.0, True),) * 2)),
            2,
            3,
        ),
    ],
)
def test_words_and_labels_add_no_rows_and_no_columns(lines: Any, answer: Any, rows: int, columns: int) -> None:
    told = lines.text(answer)
    assert told.endswith("\n")
    assert told.count("\n") == rows
    assert {line.count("\t") + 1 for line in told.splitlines() if line} == {columns}


def test_how_answers_are_told() -> None:
    filled = Filled("a b", ((Guess("a", 3, 0.5), Guess("c", 4, 0.25)),))
    assert FillLines(NOBODY).text(filled) == "a b\n  a 0.500  c 0.250\n"
    assert FillLines(NOBODY).text(Filled("a b", filled.gaps * 2)).splitlines()[2] == "  gap 2: a 0.500  c 0.250"
    assert EmbedLines(NOBODY).text(Embedded(np.array([0.12345678, -1]))) == "[0.123457, -1.0]\n"
    assert WriteLines(NOBODY).text(("a", Continuation("b", ("b",), -1.0, True))) == "ab\n\n"
    assert ClassLines(NOBODY).record(Classified("a", {"a": 1.0}, cut=2)) == {
        "label": "a",
        "probabilities": {"a": 1.0},
        "cut": 2,
    }
    assert ClassLines(NOBODY).record(Classified(1.5)) == {"label": 1.5}


@pytest.mark.parametrize(
    ("lines", "answer", "notes"),
    [
        (TranslationLines(NOBODY), (1, SHORT), []),
        (TranslationLines(NOBODY), (1, replace(SHORT, parts=(SHORT, SHORT))), [IN_PARTS]),
        (TranslationLines(NOBODY), (1, replace(SHORT, cut=3)), [CUT]),
        (TranslationLines(NOBODY), (1, replace(SHORT, parts=(SHORT, SHORT), cut=3)), [IN_PARTS, CUT]),
        (ClassLines(NOBODY), Classified("a", {"a": 1.0}), []),
        (ClassLines(NOBODY), Classified("a", {"a": 1.0}, cut=2), [CUT]),
        (ChoiceLines(NOBODY), Chosen(0, (1.0,)), []),
        (ChoiceLines(NOBODY), Chosen(0, (1.0,), cut=2), [CUT]),
        (EmbedLines(NOBODY), Embedded(np.zeros(1)), []),
        (EmbedLines(NOBODY), Embedded(np.zeros(1), cut=True), [CUT]),
        (FillLines(NOBODY), Filled("a", ()), []),
        (FillLines(NOBODY), Filled("a", (), cut=1), [CUT]),
        (AnswerLines(NOBODY), Answered("a", (), 0.0, 0.0), []),
        (AnswerLines(NOBODY), Answered("a", (), 0.0, 0.0, cut=1), [CUT]),
        (TagLines(NOBODY), [Tag("a", "B", 0.5)], []),
    ],
)
def test_what_was_not_read_as_it_was_given_is_noted(lines: Any, answer: Any, notes: list[str]) -> None:
    assert list(lines.notes(answer)) == notes
    record = lines.record(answer)
    assert (isinstance(record, dict) and record.get("cut", 0) > 0) == (CUT in notes and "Embed" not in str(lines))


def test_what_cannot_be_read_loses_no_other_answer() -> None:
    broken = {0: Unread("no"), 2: Unread("never")}
    assert despite("abcd", broken, lambda each: [letter.upper() for letter in each]) == [
        broken[0],
        "B",
        broken[2],
        "D",
    ]


def test_lines_that_say_nothing_name_their_place() -> None:
    for lines, text, complaint in (
        (ClassLines(NOBODY), "a\tb\tc", "line 2: 3 texts; write one, or two with a tab between them"),
        (ChoiceLines(NOBODY), "a", "line 2: no candidates; write a text and its candidates"),
        (ScoreLines(NOBODY), "a", "f:2: no translation; write it behind its sentence"),
        (AnswerLines(NOBODY), "{", "f:2: not valid JSON"),
    ):
        good = '{"question": "a", "context": "b"}' if isinstance(lines, AnswerLines) else "a\tb"
        inputs = lines.inputs([good, text], name="f")  # type: ignore[attr-defined]
        assert next(inputs) == ("a", "b")
        with pytest.raises(DataError, match=complaint):
            next(inputs)
    assert list(TagLines(NOBODY).inputs(["a  b", ""], name="f")) == [["a", "b"], []]
    assert list(AnswerLines(NOBODY).inputs(["", " "], name="f")) == []


def test_models_that_only_read_are_told_nothing_of_writing() -> None:
    asked = Asked("a", "b")
    assert asked.to_read() is asked
    assert Asked("a").alone("a tagger's") == "a"
    for odd, name in ((Asked("a", beam=2), "--beam"), (Asked("a", tokens=0), "--tokens")):
        with pytest.raises(RecipeError, match=f"{name}: this model writes nothing; leave it out"):
            odd.to_read()
    with pytest.raises(RecipeError, match="--pair: belongs to other models; a tagger's text is all --text"):
        asked.alone("a tagger's")


def test_wide_models_read_few_tokens_at_one_time_and_more_threads_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    expected = {32: 4096, 128: 2048, 384: 682, 768: 341, 4096: 256}
    for width, tokens in expected.items():
        wide = nn.ModuleList([nn.Linear(width, 4 * width, device="meta"), nn.Linear(8, 8)])
        assert at_once(wide[1]) == 4096
        assert at_once(nn.ModuleList([wide[1], Sized(width)])) == tokens
        assert at_once(wide) == 16384, "it computes elsewhere"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert at_once(nn.ModuleList([nn.Linear(8, 8), Sized(384)])) == 2 * 682
    rounded = nn.ModuleList([nn.LayerNorm(3), Int8Linear(Bytes.of(torch.ones(768, 384)), None)])
    assert at_once(rounded) == 2 * 682


class Sized(nn.Linear):
    """As wide as wanted, without the memory."""

    def __init__(self, width: int) -> None:
        super().__init__(1, 1)
        self.in_features, self.out_features = width, 4 * width
