# ruff: noqa: RUF001  (wide letters look alike)
"""Sequences and windows."""

from __future__ import annotations

import random

import pytest

from heedful.data.encoder_inputs import build_encoder_input, build_windows
from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizers import SpecialIds, learn_characters, learn_words
from heedful.errors import RecipeError

SPECIAL = SpecialIds(bos=1, eos=2)
ROBERTA = SpecialIds(bos=1, eos=2, doubles_separator=True)


def devlin(a: list[int], b: list[int], room: int) -> tuple[list[int], list[int]]:
    """One id after the other, as the paper's code does it."""
    a, b = list(a), list(b)
    while len(a) + len(b) > room:
        (a if len(a) > len(b) else b).pop()
    return a, b


@pytest.mark.parametrize("special", [SPECIAL, ROBERTA], ids=["BERT", "RoBERTa"])
def test_longest_first(special: SpecialIds) -> None:
    separator = [2, 2] if special is ROBERTA else [2]
    for _ in range(1000):
        a = list(range(10, 10 + random.randrange(12)))
        b = list(range(50, 50 + random.randrange(12)))
        length = random.randrange(4, 30)
        found = build_encoder_input(a, b, special=special, max_length=length)
        first, second = devlin(a, b, length - 2 - len(separator))
        assert list(found.ids) == [1, *first, *separator, *second, 2]
        segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert list(found.segments) == ([0] * len(found.ids) if special is ROBERTA else segments)
        assert found.num_truncated == len(a) + len(b) - len(first) - len(second)


def test_one_text_and_empty_texts() -> None:
    assert build_encoder_input([5, 6, 7], special=SPECIAL, max_length=4).ids == (1, 5, 6, 2)
    assert build_encoder_input([5, 6, 7], special=SPECIAL, max_length=4).num_truncated == 1
    assert build_encoder_input([], special=SPECIAL, max_length=9).ids == (1, 2)
    assert build_encoder_input([], [5], special=SPECIAL, max_length=9).ids == (1, 2, 5, 2)
    assert build_encoder_input([], [], special=SPECIAL, max_length=3).segments == (0, 0, 1)
    for special, needed in ((SPECIAL, 3), (ROBERTA, 4)):
        with pytest.raises(RecipeError, match=f"begin and end alone need {needed}"):
            build_encoder_input([5], [6], special=special, max_length=needed - 1)
    assert build_encoder_input([5], special=ROBERTA, max_length=4).ids == (1, 5, 2)


@pytest.mark.parametrize("special", [SPECIAL, ROBERTA], ids=["BERT", "RoBERTa"])
def test_windows_read_everything_and_keep_their_rules(special: SpecialIds) -> None:
    separator = (2, 2) if special is ROBERTA else (2,)
    for _ in range(400):
        question = list(range(100, 100 + random.randrange(8)))
        context = list(range(1000, 1000 + random.randrange(60)))
        places = [(2 * i, 2 * i + 1) for i in range(len(context))]
        length = random.randrange(10, 30)
        room = length - 2 - len(separator) - min(len(question), 5)
        stride = random.randrange(1, room + 1)
        found = build_windows(
            question, context, places, special=special, max_length=length, stride=stride, max_question=5
        )
        read: list[int] = []
        central: list[int] = []
        for number, window in enumerate(found):
            inside = window.ids[window.context_start : -1]
            assert window.ids == (1, *question[:5], *separator, *inside, 2)
            assert len(window.ids) == len(window.segments) <= length
            second = 0 if special is ROBERTA else 1
            assert window.segments == (0,) * window.context_start + (second,) * (len(inside) + 1)
            assert window.first_index == number * stride
            assert list(inside) == context[window.first_index : window.first_index + room]
            assert window.offsets == tuple(places[window.first_index : window.first_index + len(inside)])
            read += inside
            central += [i for i, best in zip(inside, window.is_most_central, strict=True) if best]
        assert sorted(set(read)) == context
        assert sorted(central) == context  # each in exactly one window
        # No window is needless, and none is missing.
        assert len(found) == 1 or found[-1].first_index - stride + room < len(context)


def test_the_most_central_window_has_the_most_context() -> None:
    context = list(range(10))
    found = build_windows([], context, [(i, i + 1) for i in context], special=SPECIAL, max_length=9, stride=2)
    for place in context:
        room = {}
        for number, window in enumerate(found):
            left, right = place - window.first_index, window.first_index + len(window.offsets) - 1 - place
            if min(left, right) >= 0:
                room[number] = min(left, right)
        (chosen,) = [n for n in room if found[n].is_most_central[place - found[n].first_index]]
        assert room[chosen] == max(room.values())


def test_answers_are_cut_out_of_the_text_as_it_was_written() -> None:
    context = "The ＡＢＣ  café’s\u00a0owner, Émile Zola, was born in 1840."
    for tokenizer in (
        learn_words([context], size=None, lowercase=True),
        learn_characters([context], size=20, lowercase=True),
    ):
        ids, places = tokenizer.encode(context), compute_offsets(tokenizer, context)
        found = build_windows(tokenizer.encode("who?"), ids, places, special=SPECIAL, max_length=32, stride=3)
        for answer in ("Émile Zola", "1840", "ＡＢＣ"):
            start = context.index(answer)
            seen = [window.find_token_span(start, start + len(answer)) for window in found]
            assert any(seen)
            for window, place in zip(found, seen, strict=True):
                if place is not None:
                    assert window.get_text(context, *place) == answer


def test_an_answer_that_is_not_all_in_a_window() -> None:
    places = [(0, 2), (3, 5), (5, 9), (10, 11)]
    first = build_windows([9], [5, 6, 7, 8], places, special=SPECIAL, max_length=7, stride=1)[0]
    assert first.find_token_span(0, 2) == (3, 3)
    assert first.find_token_span(4, 8) == (4, 5)  # with all of the tokens that it touches
    assert first.get_text("ab cdefgh i", 4, 5) == "cdefgh"
    assert first.find_token_span(3, 11) is None
    assert first.find_token_span(2, 3) is None


@pytest.mark.parametrize(
    ("length", "stride", "message"),
    [(5, 1, "leaves no room for context behind a question of 2"), (9, 0, "between 1 and 4"), (9, 5, "between 1 and 4")],
)
def test_windows_that_cannot_be(length: int, stride: int, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        build_windows([7, 8], [5], [(0, 1)], special=SPECIAL, max_length=length, stride=stride)
