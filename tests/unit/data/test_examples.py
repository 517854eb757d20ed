"""Labelled texts and choices as ids, and windows of contexts."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from heedful.data.corpus import Corpus, write_corpus
from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.labels import LabelVocabulary
from heedful.data.questions import ExtractiveQuestion, ReferenceAnswer
from heedful.data.tokenizers import CharacterTokenizer
from heedful.errors import DataError
from heedful.tasks.classification.data import build_example_encoding, collate_examples, compute_lengths
from heedful.tasks.classification.recipe import AnswerType
from heedful.tasks.spans.data import NO_ANSWER, WindowSettings, build_window_encoding, collate_windows, label_windows
from heedful.tasks.tagging.data import make_overlapping_windows

LETTERS = CharacterTokenizer("abcdefg ", lowercase=False)
BOS, EOS = LETTERS.special.bos, LETTERS.special.eos


def written(
    folder: Path,
    examples: list[LabelledExample | MultipleChoiceExample],
    *,
    answered: AnswerType,
    labels: LabelVocabulary | None,
) -> Corpus:
    encoding = build_example_encoding(LETTERS, labels, answer_type=answered, max_length=12)
    return write_corpus(folder, examples, encoder=encoding)


def word(dice: random.Random) -> str:
    return "".join(dice.choices("abcdefg", k=dice.randint(0, 9)))


def test_batches_hold_the_texts_their_parts_and_their_classes(tmp_path: Path) -> None:
    dice, labels = random.Random(1), LabelVocabulary(["x", "y"])
    examples: list[LabelledExample | MultipleChoiceExample] = [
        LabelledExample(tuple(word(dice) for _ in range(dice.randint(1, 2))), dice.choice("xy"), f"f:{n}")
        for n in range(40)
    ]
    text = written(tmp_path / "c", examples, answered="class", labels=labels)
    rows = np.array([3, 17, 5, 39])
    batch = collate_examples(text, rows, answer_type="class")
    assert batch.counts.tolist() == [1] * 4
    for row, at in enumerate(rows.tolist()):
        example = examples[at]
        assert isinstance(example, LabelledExample)
        real = batch.tokens.positions[row] >= 0
        ids = batch.tokens.ids[row][real].tolist()
        assert batch.tokens.segments is not None
        segments = batch.tokens.segments[row][real].tolist()
        assert (ids[0], ids[-1]) == (BOS, EOS)
        assert segments == [0] * (ids.index(EOS) + 1) + [1] * (len(ids) - ids.index(EOS) - 1)
        assert len(ids) <= 12
        assert text["cut"][at][0] == max(0, sum(map(len, example.texts)) + 1 + len(example.texts) - 12)
        assert labels.names[batch.labels[row]] == example.label


@pytest.mark.parametrize("number", [0.0, -2.5, 1e-7, 4.2, 3e20])
def test_numbers_come_back_as_they_are_in_single_precision(tmp_path: Path, number: float) -> None:
    text = written(tmp_path / "c", [LabelledExample(("a",), number, "f:1")], answered="number", labels=None)
    batch = collate_examples(text, np.array([0]), answer_type="number")
    assert batch.labels.tolist() == [float(np.float32(number))]


def test_choices_are_rows_side_by_side(tmp_path: Path) -> None:
    choices: list[LabelledExample | MultipleChoiceExample] = [
        MultipleChoiceExample((("ab", "c"), ("ab", "dddd"), ("ab", "e")), ("c", "d", "e"), (0, 2), ("c",), "f:1"),
        MultipleChoiceExample((("a", "b"), ("a", "c")), ("b", "c"), (), (), "f:2"),
        MultipleChoiceExample((("g", "b"), ("g", "c")), ("b", "c"), (1,), ("c",), "f:3"),
    ]
    text = written(tmp_path / "c", choices, answered="choice", labels=None)
    assert (text.report.kept, text.report.empty) == (2, 1), "what has no right candidate teaches nothing"
    batch = collate_examples(text, np.array([1, 0]), answer_type="choice")
    assert batch.counts.tolist() == [2, 3]
    assert batch.labels.tolist() == [0, 1, 1, 0, 1]
    assert (batch.tokens.positions >= 0).sum(1).tolist() == [5, 5, 6, 9, 6]
    assert compute_lengths(text).tolist() == [[27, 27], [10, 10]], "rows times the longest of them"


@pytest.mark.parametrize(
    ("example", "answered", "message"),
    [
        (LabelledExample(("a",), None, "f:7"), "class", "f:7: has no label; only texts with labels"),
        (LabelledExample(("a",), "z", "f:7"), "class", "f:7: the label 'z' does not occur in the training text"),
        (MultipleChoiceExample((("a",),), ("a",), None, (), "f:7"), "choice", "f:7: has no label"),
    ],
)
def test_labels_that_are_not_known(
    tmp_path: Path, example: LabelledExample | MultipleChoiceExample, answered: AnswerType, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        written(tmp_path / "c", [example], answered=answered, labels=LabelVocabulary(["x"]))


@pytest.mark.parametrize("seed", range(30))
def test_windows_mark_answers_that_they_hold(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    context = "".join(dice.choices("abcdefg", k=dice.randint(3, 40)))
    start = dice.randrange(len(context))
    answer = context[start : start + dice.randint(1, 5)]
    answers = (ReferenceAnswer(answer, start),) if dice.random() < 0.8 else ()
    question = ExtractiveQuestion("ab", context, answers, "1", "f:1")
    cutting = WindowSettings(max_length=16, stride=dice.randint(1, 11), max_question=8)
    found = list(label_windows(LETTERS, [question], settings=cutting))
    text = write_corpus(tmp_path / "c", found, encoder=build_window_encoding(LETTERS, max_length=16))
    batch = collate_windows(text, np.arange(len(text)))
    for row, target in enumerate(found):
        first, last = int(batch.answer_starts[row]), int(batch.answer_ends[row])
        window = target.window
        read = range(window.first_index, window.first_index + len(window.offsets))
        held = bool(answers) and start in read and start + len(answer) - 1 in read
        assert (first != NO_ANSWER) == held
        if held:
            assert LETTERS.decode(batch.tokens.ids[row, first : last + 1].tolist()) == answer
        possible = batch.answer_mask[row].nonzero().flatten().tolist()
        assert possible == [0, *range(window.context_start, window.context_start + len(window.offsets))]
        assert batch.tokens.segments is not None
        assert batch.tokens.segments[row, : len(window.ids)].tolist() == list(window.segments)
    joined = collate_windows(text, np.arange(len(text)), in_one_segment=True)
    assert joined.tokens.segments is not None
    assert not joined.tokens.segments.any()
    assert joined.answer_mask.equal(batch.answer_mask)


@pytest.mark.parametrize("seed", range(60))
def test_stretches_take_every_word_once_and_leave_it_context(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.randint(1, 4) for _ in range(dice.randint(0, 60))]
    room = dice.randint(1, 30)
    found = make_overlapping_windows(sizes, max_ids=room)
    assert [word for stretch in found for word in stretch.kept] == list(range(len(sizes)))
    for stretch in found:
        assert set(stretch.kept) <= set(stretch.words)
        assert sum(sizes[word] for word in stretch.words) <= room or len(stretch.words) == 1
    if sum(sizes) <= room:
        assert len(found) == bool(sizes)
    elif room >= 16:  # room for enough words on both sides
        for stretch in found:
            before, behind = stretch.kept.start - stretch.words.start, stretch.words.stop - stretch.kept.stop
            assert before > 0 or stretch.words.start == 0
            assert behind > 0 or stretch.words.stop == len(sizes)
