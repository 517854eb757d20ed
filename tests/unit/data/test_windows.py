"""Questions as windows: where an answer may begin and end, and where it does."""

from __future__ import annotations

from heedful.data.questions import Answer, Question
from heedful.data.tokenizers import BOS, EOS, Words
from heedful.tasks.spans.windows import NOWHERE, Cutting, question_windows, read_windows, targets

WORDS = Words(["who", "sat", "a", "cat", "dog", "here"], lowercase=False)
CUTTING = Cutting(max_length=8, stride=2, max_question=2)


def test_an_answer_lies_in_the_context_or_nowhere() -> None:
    """Neither in the question nor at one of the two ends; padding is no place either."""
    short, long = (
        question_windows(WORDS, question, context, cutting=CUTTING, place="here")[0]
        for question, context in (("who", "a cat"), ("who sat", "a cat sat"))
    )
    batch = read_windows([short, long])
    assert batch.tokens.ids[0, :6].tolist() == [BOS, *WORDS.encode("who"), EOS, *WORDS.encode("a cat"), EOS]
    assert batch.possible.int().tolist() == [[1, 0, 0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 1, 1, 1, 0]]


def test_the_first_answer_that_is_whole_counts_in_each_window() -> None:
    context = "a cat sat here a dog"
    answers = (Answer("here a", 10), Answer("cat", 2))
    found = list(targets(WORDS, [Question("who", context, answers, "1", "f:1")], cutting=CUTTING))
    assert [target.window.first for target in found] == [0, 2]
    told = [[WORDS.pieces(target.window.ids[target.first : target.last + 1])] for target in found]
    assert [target.first == NOWHERE for target in found] == [False, False]
    assert told == [[["cat"]], [["here", "a"]]]
