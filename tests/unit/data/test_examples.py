"""Labelled texts and choices as ids, and windows of contexts."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from heedful.data.corpus import Corpus, write_corpus
from heedful.data.labelled import Choice, Labelled
from heedful.data.labels import Labels
from heedful.data.questions import Answer, Question
from heedful.data.tokenizers import Characters
from heedful.errors import DataError
from heedful.tasks.classification.examples import collate_examples, example_encoding, example_lengths
from heedful.tasks.classification.recipe import Verdict
from heedful.tasks.spans.windows import NOWHERE, Cutting, collate_windows, target_encoding, targets
from heedful.tasks.tagging.data import stretches

LETTERS = Characters("abcdefg ", lowercase=False)
BOS, EOS = LETTERS.special.bos, LETTERS.special.eos


def written(folder: Path, examples: list[Labelled | Choice], *, answered: Verdict, labels: Labels | None) -> Corpus:
    encoding = example_encoding(LETTERS, labels, answered=answered, max_length=12)
    return write_corpus(folder, examples, encoding=encoding)


def word(dice: random.Random) -> str:
    return "".join(dice.choices("abcdefg", k=dice.randint(0, 9)))


def test_batches_hold_the_texts_their_parts_and_their_classes(tmp_path: Path) -> None:
    dice, labels = random.Random(1), Labels(["x", "y"])
    examples: list[Labelled | Choice] = [
        Labelled(tuple(word(dice) for _ in range(dice.randint(1, 2))), dice.choice("xy"), f"f:{n}") for n in range(40)
    ]
    text = written(tmp_path / "c", examples, answered="class", labels=labels)
    rows = np.array([3, 17, 5, 39])
    batch = collate_examples(text, rows, answered="class")
    assert batch.counts.tolist() == [1] * 4
    for row, at in enumerate(rows.tolist()):
        example = examples[at]
        assert isinstance(example, Labelled)
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
    text = written(tmp_path / "c", [Labelled(("a",), number, "f:1")], answered="number", labels=None)
    batch = collate_examples(text, np.array([0]), answered="number")
    assert batch.labels.tolist() == [float(np.float32(number))]


def test_choices_are_rows_side_by_side(tmp_path: Path) -> None:
    choices: list[Labelled | Choice] = [
        Choice((("ab", "c"), ("ab", "dddd"), ("ab", "e")), ("c", "d", "e"), (0, 2), ("c",), "f:1"),
        Choice((("a", "b"), ("a", "c")), ("b", "c"), (), (), "f:2"),
        Choice((("g", "b"), ("g", "c")), ("b", "c"), (1,), ("c",), "f:3"),
    ]
    text = written(tmp_path / "c", choices, answered="choice", labels=None)
    assert (text.report.kept, text.report.empty) == (2, 1), "what has no right candidate teaches nothing"
    batch = collate_examples(text, np.array([1, 0]), answered="choice")
    assert batch.counts.tolist() == [2, 3]
    assert batch.labels.tolist() == [0, 1, 1, 0, 1]
    assert (batch.tokens.positions >= 0).sum(1).tolist() == [5, 5, 6, 9, 6]
    assert example_lengths(text).tolist() == [[27, 27], [10, 10]], "rows times the longest of them"


@pytest.mark.parametrize(
    ("example", "answered", "message"),
    [
        (Labelled(("a",), None, "f:7"), "class", "f:7: no label; only texts with labels"),
        (Labelled(("a",), "z", "f:7"), "class", "f:7: the label 'z' does not occur in the training text"),
        (Choice((("a",),), ("a",), None, (), "f:7"), "choice", "f:7: no label"),
    ],
)
def test_labels_that_are_not_known(tmp_path: Path, example: Labelled | Choice, answered: Verdict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        written(tmp_path / "c", [example], answered=answered, labels=Labels(["x"]))


@pytest.mark.parametrize("seed", range(30))
def test_windows_mark_answers_that_they_hold(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    context = "".join(dice.choices("abcdefg", k=dice.randint(3, 40)))
    start = dice.randrange(len(context))
    answer = context[start : start + dice.randint(1, 5)]
    answers = (Answer(answer, start),) if dice.random() < 0.8 else ()
    question = Question("ab", context, answers, "1", "f:1")
    cutting = Cutting(max_length=16, stride=dice.randint(1, 11), max_question=8)
    found = list(targets(LETTERS, [question], cutting=cutting))
    text = write_corpus(tmp_path / "c", found, encoding=target_encoding(LETTERS, max_length=16))
    batch = collate_windows(text, np.arange(len(text)))
    for row, target in enumerate(found):
        first, last = int(batch.first[row]), int(batch.last[row])
        window = target.window
        read = range(window.first, window.first + len(window.offsets))
        held = bool(answers) and start in read and start + len(answer) - 1 in read
        assert (first != NOWHERE) == held
        if held:
            assert LETTERS.decode(batch.tokens.ids[row, first : last + 1].tolist()) == answer
        possible = batch.possible[row].nonzero().flatten().tolist()
        assert possible == [0, *range(window.begin, window.begin + len(window.offsets))]


@pytest.mark.parametrize("seed", range(60))
def test_stretches_take_every_word_once_and_leave_it_context(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.randint(1, 4) for _ in range(dice.randint(0, 60))]
    room = dice.randint(1, 30)
    found = stretches(sizes, room=room)
    assert [word for stretch in found for word in stretch.taken] == list(range(len(sizes)))
    for stretch in found:
        assert set(stretch.taken) <= set(stretch.read)
        assert sum(sizes[word] for word in stretch.read) <= room or len(stretch.read) == 1
    if sum(sizes) <= room:
        assert len(found) == bool(sizes)
    elif room >= 16:  # room for enough words on both sides
        for stretch in found:
            before, behind = stretch.taken.start - stretch.read.start, stretch.read.stop - stretch.taken.stop
            assert before > 0 or stretch.read.start == 0
            assert behind > 0 or stretch.read.stop == len(sizes)
