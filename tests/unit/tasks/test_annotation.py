"""Terms in the text that is read: where they are written, and which translations are said to have them."""

from __future__ import annotations

import pytest

from heedful.data.tokenizers import learn_characters, learn_sentencepiece, learn_words
from heedful.errors import RecipeError
from heedful.tasks.translation.glossary import AnnotationMarks, TermAnnotator, TermGlossary, contains_term

GLOSSARY = TermGlossary(
    [(1, "cat", "Katze"), (2, "black cats", "schwarze Katze"), (3, "Duck", "Ente"), (4, "dog", "Hund")], path="x"
)


@pytest.mark.parametrize(
    ("text", "append", "replace"),
    [
        ("a cat", "a ⟦ cat ⟶ Katze ⟧", "a ⟦ Katze ⟧"),
        ("Cat, (dog).", "⟦ Cat ⟶ Katze ⟧ , ( ⟦ dog ⟶ Hund ⟧ ).", "⟦ Katze ⟧ , ( ⟦ Hund ⟧ )."),
        ("two  black cats  sit", "two  ⟦ black cats ⟶ schwarze Katze ⟧  sit", "two  ⟦ schwarze Katze ⟧  sit"),
        ("dog cat dog", "⟦ dog ⟶ Hund ⟧ ⟦ cat ⟶ Katze ⟧ ⟦ dog ⟶ Hund ⟧", "⟦ Hund ⟧ ⟦ Katze ⟧ ⟦ Hund ⟧"),
        (
            "a cat, black cats",
            "a ⟦ cat ⟶ Katze ⟧ , ⟦ black cats ⟶ schwarze Katze ⟧",
            "a ⟦ Katze ⟧ , ⟦ schwarze Katze ⟧",
        ),
        ("Duck and duck", "⟦ Duck ⟶ Ente ⟧ and duck", "⟦ Ente ⟧ and duck"),
        ("cats, dogs", "cats, dogs", "cats, dogs"),
        ("", "", ""),
        ("a cat ⟧", "a cat ⟧", "a cat ⟧"),
        ("dog-cat", "⟦ dog ⟶ Hund ⟧ - ⟦ cat ⟶ Katze ⟧", "⟦ Hund ⟧ - ⟦ Katze ⟧"),
    ],
)
def test_terms_stand_behind_their_sources_or_in_their_place(text: str, append: str, replace: str) -> None:
    assert TermAnnotator(GLOSSARY).annotate_sentence(text) == append
    assert TermAnnotator(GLOSSARY, "replace").annotate_sentence(text) == replace


def test_a_pair_gets_those_terms_that_its_target_has() -> None:
    annotation = TermAnnotator(GLOSSARY)
    assert annotation.annotate_source("a cat and a dog", "zwei Katzen und ein Wolf") == "a ⟦ cat ⟶ Katze ⟧ and a dog"
    assert annotation.annotate_source("black cats", "der schwarzen Katzen") == "⟦ black cats ⟶ schwarze Katze ⟧"
    assert annotation.annotate_source("black cats", "die Katzen sind schwarz") == "black cats"
    assert annotation.annotate_source("a cat", "") == "a cat"


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("ein Hund", "Hund"),
        ("DES HUNDES!", "Hund"),
        ("die Häuser", "Haus"),
        ("ein Haus", "Häuser"),
        ("mit schwarzen Katzen,", "schwarze Katze"),
        ("Daten", "Datum"),
        ("alten", "alt"),
        ("我爱北京", "北京"),
        ("C++ ist", "C++"),
        ("los gatos", "gato"),
        ("мышами", "мышь"),
    ],
)
def test_a_text_has_a_term_with_another_ending(text: str, term: str) -> None:
    assert contains_term(text, term)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("Schäferhund", "Hund"),
        ("Hundehütte", "Hund"),
        ("Kindheit", "Kind"),
        ("er ist", "es"),
        ("so ein", "an"),
        ("Katzen schwarze", "schwarze Katze"),
        ("schwarze", "schwarze Katze"),
        ("Katalog", "Katze"),
        ("", "Hund"),
        ("ab", "abc"),
        ("…", "!"),
    ],
)
def test_a_text_has_not_what_is_another_word(text: str, term: str) -> None:
    assert not contains_term(text, term)


def test_marks_are_single_pieces_of_every_vocabulary_that_has_read_them() -> None:
    texts = ["two ⟦ black cats ⟶ schwarze Katze ⟧ and a dog", "a ⟦ dog ⟶ Hund ⟧", "cats and dogs"] * 30
    marks = AnnotationMarks()
    learned = [
        learn_sentencepiece(texts, kind="bpe", size=70, lowercase=True),
        learn_sentencepiece(texts, kind="unigram", size=60, lowercase=False),
        learn_words(texts, size=None, lowercase=True),
        learn_characters(texts, size=None, lowercase=False),
    ]
    for tokenizer in learned:
        marks.require_known(tokenizer)
        surfaces = [each for each in tokenizer.get_surfaces(texts[0]) if each]
        for mark in (marks.begin, marks.between, marks.end):
            assert surfaces.count(mark) == 1
    ignorant = learn_words(["cats and dogs"], size=None, lowercase=False)
    with pytest.raises(RecipeError, match="'⟦' is not a piece of the source vocabulary, so the model was not trained"):
        marks.require_known(ignorant)
    appended = learn_words(["⟦ a ⟧"], size=None, lowercase=False)
    with pytest.raises(RecipeError, match="'⟶' is not a piece"):
        marks.require_known(appended)
