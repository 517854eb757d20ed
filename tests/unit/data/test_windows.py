"""Questions as windows: where an answer may begin and end, and where it does."""

from __future__ import annotations

from heedful.data.questions import ExtractiveQuestion, ReferenceAnswer
from heedful.data.tokenizers import BOS, EOS, WordTokenizer
from heedful.tasks.spans.data import (
    NO_ANSWER,
    WindowSettings,
    batch_unlabelled_windows,
    label_windows,
    split_into_windows,
)

WORDS = WordTokenizer(["who", "sat", "a", "cat", "dog", "here"], lowercase=False)
CUTTING = WindowSettings(max_length=8, stride=2, max_question=2)


def test_an_answer_lies_in_the_context_or_nowhere() -> None:
    """Neither in the question nor at one of the two ends; padding is no place either."""
    short, long = (
        split_into_windows(WORDS, question, context, settings=CUTTING, location="here")[0]
        for question, context in (("who", "a cat"), ("who sat", "a cat sat"))
    )
    batch = batch_unlabelled_windows([short, long])
    assert batch.tokens.ids[0, :6].tolist() == [BOS, *WORDS.encode("who"), EOS, *WORDS.encode("a cat"), EOS]
    assert batch.answer_mask.int().tolist() == [[1, 0, 0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 1, 1, 1, 0]]


def test_the_first_answer_that_is_whole_counts_in_each_window() -> None:
    context = "a cat sat here a dog"
    answers = (ReferenceAnswer("here a", 10), ReferenceAnswer("cat", 2))
    found = list(label_windows(WORDS, [ExtractiveQuestion("who", context, answers, "1", "f:1")], settings=CUTTING))
    assert [target.window.first_index for target in found] == [0, 2]
    told = [[WORDS.to_pieces(target.window.ids[target.answer_start : target.answer_end + 1])] for target in found]
    assert [target.answer_start == NO_ANSWER for target in found] == [False, False]
    assert told == [[["cat"]], [["here", "a"]]]
