"""One text where a list is expected, and what is no text, of the models of all tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.argument_checks import to_file_list, to_pair_list, to_text_list, to_word_lists
from heedful.errors import DataError
from heedful.tasks.conversation.data import DialogueTurn

GOLDEN = Path(__file__).parents[2] / "golden"

NOTHING: Any = None
NUMBER: Any = 3
BYTES: Any = b"a"

Call = Callable[[Any, Any], Any]

TEXTS: dict[str, tuple[str, Call, str, str]] = {
    "translate": ("translation-recurrent", lambda face, given: face.translate(given), "sentences", "a dog"),
    "translate, prefixes": (
        "translation-recurrent",
        lambda face, given: face.translate(given, prefixes=["" for _ in given] if isinstance(given, list) else ""),
        "sentences",
        "a dog",
    ),
    "translator's vectors": ("translation-recurrent", lambda face, given: face.embed(given), "texts", "a dog"),
    "write": ("language-lstm", lambda face, given: face.write(given, limit=3), "prompts", "a"),
    "surprise": ("language-lstm", lambda face, given: face.surprise(given), "texts", "a dog"),
    "fill": ("pretraining-hidden-tokens", lambda face, given: face.fill(given), "texts", "a [MASK]"),
    "detect": ("pretraining-replaced-tokens", lambda face, given: face.detect(given), "texts", "a dog"),
    "classify": ("classification", lambda face, given: face.classify(given), "texts", "a dog"),
    "classifier's vectors": ("classification", lambda face, given: face.embed(given), "texts", "a dog"),
    "tag": ("tagging-recurrent", lambda face, given: face.tag(given), "sentences", "a dog runs"),
    "reply": ("conversation-transformer", lambda face, given: face.reply(given, limit=3), "dialogues", "hello"),
}


@pytest.fixture(scope="module")
def loaded() -> Iterator[Callable[[str], Any]]:
    """Models of golden runs, each loaded once."""
    kept: dict[str, Any] = {}

    def load(name: str) -> Any:
        if name not in kept:
            kept[name] = heedful.load(str(GOLDEN / name / "run"), device="cpu")
        return kept[name]

    yield load


def same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


@pytest.mark.parametrize("name", TEXTS)
def test_one_text_is_a_list_of_one(name: str, loaded: Callable[[str], Any], unchecked: None) -> None:
    run, call, _, text = TEXTS[name]
    alone = call(loaded(run), text)
    assert len(alone) == 1
    assert same(alone, call(loaded(run), [text]))


@pytest.mark.parametrize("wrong", [None, 3, float("nan"), b"a dog"], ids=repr)
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_text_is_named_with_its_place(
    name: str, wrong: Any, loaded: Callable[[str], Any], unchecked: None
) -> None:
    run, call, argument, text = TEXTS[name]
    shown = "None" if wrong is None else f"{wrong!r} ({type(wrong).__name__})"
    with pytest.raises(DataError) as caught:
        call(loaded(run), [text, wrong])
    assert str(caught.value).startswith(f"{argument}[1]: {shown} is not a ")
    with pytest.raises(DataError) as caught:
        call(loaded(run), wrong)
    assert f": {shown} is not a " in str(caught.value)


def test_a_dialogue_may_be_turns_or_texts(loaded: Callable[[str], Any], unchecked: None) -> None:
    partner = loaded("conversation-transformer")
    turns = partner.build_turns(["hello", "hi", "a table"])
    expected = partner.reply([turns], limit=3)
    assert partner.reply([["hello", "hi", "a table"]], limit=3) == expected
    assert partner.reply(list(turns), limit=3) == expected
    assert partner.build_turns("hello") == (DialogueTurn(partner.other_speaker, "hello"),)
    with pytest.raises(DataError, match=r"^dialogues\[0\]\[1\]: None is not a turn"):
        partner.reply([["hello", None]])


def test_one_string_is_one_place_to_stop(loaded: Callable[[str], Any], unchecked: None) -> None:
    writer = loaded("language-lstm")
    assert writer.write(["a"], limit=5, stop="xyz") == writer.write(["a"], limit=5, stop=["xyz"])
    with pytest.raises(DataError, match=r"^stop\[0\]: 3 \(int\) is not a text"):
        writer.write(["a"], stop=[3])


@pytest.mark.parametrize(
    ("run", "call", "told"),
    [
        ("translation-recurrent", lambda face: face.score([("a", None)]), "pairs[0][1]: None is not a text"),
        ("translation-recurrent", lambda face: face.score(["a dog"]), "pairs[0]: 'a dog' (str) is not a pair"),
        ("translation-recurrent", lambda face: face.align_all([("a", 3)]), "pairs[0][1]: 3 (int) is not a text"),
        ("translation-recurrent", lambda face: face.inspect(None), "source: None is not a text"),
        ("language-lstm", lambda face: face.inspect(None), "prompt: None is not a text"),
        ("spans", lambda face: face.answer(None, "a"), "question: None is not a text"),
        ("spans", lambda face: face.answer_all([("a",)]), "questions[0]: ('a',) (tuple) is not a pair"),
        ("stories", lambda face: face.ask(["a"], None), "question: None is not a text"),
        ("stories", lambda face: face.answer([(["a", 1], "b")]), "questions[0][0][1]: 1 (int) is not a text"),
        ("speech", lambda face: face.transcribe([None]), "sounds[0]: None is not a file of sound"),
        ("captioning", lambda face: face.caption([None]), "shown[0]: None is not a file or its content"),
        ("video", lambda face: face.caption(3), "shown: 3 (int) is not a file or its content"),
        ("glimpses", lambda face: face.look_at([None]), "pictures[0]: None is not a picture"),
        ("classification", lambda face: face.classify([("a", None)]), "texts[0][1]: None is not a text"),
        ("classification-choice", lambda face: face.choose([["a", None]]), "choices[0][1]: None is not a text"),
        ("tagging-recurrent", lambda face: face.tag([["a", None]]), "sentences[0][1]: None is not a word"),
    ],
)
def test_other_arguments_name_place_and_value(
    run: str, call: Callable[[Any], Any], told: str, loaded: Callable[[str], Any], unchecked: None
) -> None:
    with pytest.raises(DataError) as caught:
        call(loaded(run))
    assert str(caught.value).startswith(told)


def test_one_file_is_a_list_of_one(loaded: Callable[[str], Any], unchecked: None, tmp_path: Path) -> None:
    for run, method in (("speech", "transcribe"), ("captioning", "caption"), ("video", "caption")):
        for missing in (tmp_path / "no.file", str(tmp_path / "no.file")):
            with pytest.raises(DataError, match=r"no\.file"):
                getattr(loaded(run), method)(missing)
    looker = loaded("glimpses")
    black = np.zeros(looker.shape, dtype=np.uint8)
    assert len(looker.look_at(black)) == len(looker.look_at([black])) == 1


def test_lists_of_texts() -> None:
    assert to_text_list("a dog") == ["a dog"]
    assert to_text_list(iter(["a", "b"])) == ["a", "b"]
    assert to_text_list(()) == []
    assert to_word_lists("a dog") == [["a", "dog"]]
    assert to_word_lists(["a dog", ["an", "old dog"]]) == [["a", "dog"], ["an", "old dog"]]
    assert to_pair_list(("a", "b"), name="pairs", parts="two texts") == [("a", "b")]
    assert to_file_list(Path("a"), name="files", noun="file") == [Path("a")]
    with pytest.raises(DataError, match=r"^texts: .*dict. is not a text; give a string"):
        to_text_list({"a": 1})
    with pytest.raises(DataError, match=r"^texts\[0\]: 'x{59}\.\.\. \(Long\) is not a text"):
        to_text_list([Long()])


class Long:
    def __repr__(self) -> str:
        return "'" + "x" * 100


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: heedful.load(NOTHING), "folders[0]: None is not a path; give a string or a Path"),
        (lambda: heedful.load(BYTES), "folders[0]: b'a' (bytes) is not a path"),
        (lambda: heedful.load("a\0b"), "folders[0]: 'a\\x00b' (str) contains a null character"),
        (lambda: heedful.load_recipe(NUMBER), "recipe: 3 (int) is not a path"),
        (lambda: heedful.train(NOTHING), "recipe: None is not a path"),
        (lambda: heedful.quantize("a", NOTHING), "folder: None is not a path"),
        (lambda: heedful.load_index(NOTHING), "folder: None is not a path"),
        (lambda: heedful.load_record(NOTHING), "path: None is not a path"),
        (lambda: heedful.save_record(NOTHING, "a"), "record: None is not a record; give what `inspect` returns"),
    ],
)
def test_paths_of_public_functions(call: Callable[[], Any], told: str, unchecked: None) -> None:
    with pytest.raises(heedful.RecipeError) as caught:
        call()
    assert str(caught.value).startswith(told)


def test_names_of_files_are_paths(tmp_path: Path) -> None:
    missing = tmp_path / "r.toml"
    for recipe in (missing, str(missing)):
        with pytest.raises(heedful.RecipeError, match=r"r\.toml: cannot read this recipe"):
            heedful.train(recipe)


def test_one_translation_is_scored_as_a_list_of_one() -> None:
    alone = heedful.evaluate("ein Hund rennt schnell", "ein Hund rennt hier", samples=2)
    assert alone.bleu == heedful.evaluate(["ein Hund rennt schnell"], ["ein Hund rennt hier"], samples=2).bleu
    with pytest.raises(DataError, match=r"^references\[1\]: None is not a text"):
        heedful.evaluate(["a", "b"], ["a", NOTHING])
