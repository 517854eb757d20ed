"""What examples and labels are called, of which each task speaks in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from heedful.catalogue import find, recipe_of, tasks
from heedful.data.corpus import Encoding, Items, write_corpus
from heedful.tasks.counted import Counted

NOT_TEXTS = {"captioning": "pictures", "video": "clips", "speech": "recordings", "glimpses": "pictures"}


def counted(task: str) -> Counted:
    found: Counted = find(recipe_of(task).made_by, about=task).counted
    return found


@pytest.mark.parametrize("task", tasks())
def test_what_is_seen_or_heard_is_not_called_tokens(task: str) -> None:
    words = counted(task)
    if task in NOT_TEXTS:
        assert words.stored == NOT_TEXTS[task]
        assert words.examples != "examples"
    assert words.speed(labels=1234, examples=5.55).endswith(f"5.5 {words.examples}/s")
    assert words.speed(labels=1234, examples=5.55).startswith("1,234") is (words.labels != words.examples)


def test_contents_are_those_of_a_side(tmp_path: Path) -> None:
    """Frames behind a text are no tokens; a class of a picture is nothing to be counted."""
    encoding: Encoding[int] = Encoding({"text": 9, "frames": Items("<f4", (2,))}, lambda n: ([1] * n, [[0, 0]] * 50))
    corpus = write_corpus(tmp_path / "corpus", [3, 4], encoding=encoding)
    assert Counted().size(corpus, "training") == "2 training examples, 100 tokens"
    assert Counted(stored="recordings", side="text").size(corpus, "training") == "2 training recordings, 7 tokens"
    assert Counted(stored="pictures", side="").size(corpus, "training") == "2 training pictures"
