"""What is told of keys of recipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from heedful.registry import list_tasks

Say = Callable[..., Any]


def test_a_key_is_told_with_type_default_and_meaning(say: Say) -> None:
    assert say("recipe", "data.max_length", "--task", "translation").out == (
        "data.max_length\n"
        "  whole number, at least 1; 256 by default\n"
        "  longest sentence, in tokens, end token and tags included; pairs with a longer side are left out of\n"
        "  training\n"
    )


def test_kinds_that_have_a_key_are_named(say: Say) -> None:
    told = say("recipe", "training.schedule.warmup_share", "--task", "tagging").lines
    assert told[0] == "training.schedule.warmup_share"
    assert told[1] == "  number, at least 0, below 1; none by default"
    assert told[-1] == '  where training.schedule.kind = "linear"'


@pytest.mark.parametrize("word", ["lr", "rate", "training.schedule.rate", "training.schedule.rate", "learning-rate"])
def test_a_part_of_a_key_will_do_and_so_will_what_others_call_it(say: Say, word: str) -> None:
    assert say("recipe", word).out.startswith("training.schedule.rate\n  number, above 0; 0.0005 by default\n")


def test_a_table_tells_its_keys(say: Say) -> None:
    told = say("recipe", "training.optimizer", "--task", "translation").out
    assert "  table: adam, sgd, adadelta, adafactor; adam by default" in told
    for key in ("kind", "beta1", "epsilon", "weight_decay"):
        assert f"    training.optimizer.{key} " in told
    assert '    training.optimizer.kind             "adam", "sgd", "adadelta", "adafactor"; "adam" by default\n' in told


def test_tasks_that_share_a_key_are_named(say: Say) -> None:
    assert say("recipe", "training.accumulate").lines[-1] == "  in recipes of all tasks"
    assert "in recipes of glimpses" in say("recipe", "model.patch").out


@pytest.mark.parametrize("task", sorted(list_tasks()))
def test_all_keys_of_a_task_are_listed(say: Say, task: str) -> None:
    lines = say("recipe", "--task", task).lines
    assert any(line.split()[0] == "training.steps" for line in lines)
    assert len({line.split()[0] for line in lines}) == len(lines)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("training.kepe",), "heedful recipe: 'training.kepe' is not a key of a recipe; did you mean training.keep?"),
        (("zzyzx",), "heedful recipe: 'zzyzx' is not a key of a recipe; heedful recipe lists all keys"),
        (("seed", "--task", "ner"), "--task: 'ner' is not a task; did you mean tagging?"),
        (("seed", "--task", "xyzzy"), "--task: 'xyzzy' is not a task; choose one of translation, conversation, "),
    ],
)
def test_mistakes(say: Say, words: tuple[str, ...], complaint: str) -> None:
    assert say("recipe", *words).complaint.startswith(complaint)
