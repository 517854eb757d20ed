"""What examples and labels are called, of which each task speaks in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from heedful.data.corpus import ArraySpec, ExampleEncoder, write_corpus
from heedful.recipes.recipe import get_recipe_class
from heedful.registry import list_tasks, load_object
from heedful.tasks.objective import UnitNames

NOT_TEXTS = {"captioning": "pictures", "video": "clips", "speech": "recordings", "glimpses": "pictures"}


def counted(task: str) -> UnitNames:
    found: UnitNames = load_object(get_recipe_class(task).made_by, context=task).unit_names
    return found


@pytest.mark.parametrize("task", list_tasks())
def test_what_is_seen_or_heard_is_not_called_tokens(task: str) -> None:
    words = counted(task)
    if task in NOT_TEXTS:
        assert words.corpus_examples == NOT_TEXTS[task]
        assert words.examples != "examples"
    assert words.describe_speed(labels=1234, examples=5.55).endswith(f"5.5 {words.examples}/s")
    assert words.describe_speed(labels=1234, examples=5.55).startswith("1,234") is (words.labels != words.examples)


def test_contents_are_those_of_a_side(tmp_path: Path) -> None:
    """Frames behind a text are no tokens; a class of a picture is nothing to be counted."""
    encoding: ExampleEncoder[int] = ExampleEncoder(
        {"text": 9, "frames": ArraySpec("<f4", (2,))}, lambda n: ([1] * n, [[0, 0]] * 50)
    )
    corpus = write_corpus(tmp_path / "corpus", [3, 4], encoder=encoding)
    assert UnitNames().describe_size(corpus, "training") == "2 training examples, 100 tokens"
    assert (
        UnitNames(corpus_examples="recordings", contents_side="text").describe_size(corpus, "training")
        == "2 training recordings, 7 tokens"
    )
    assert (
        UnitNames(corpus_examples="pictures", contents_side="").describe_size(corpus, "training")
        == "2 training pictures"
    )
