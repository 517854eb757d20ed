"""Tags: pieces of a vocabulary that no text has, and that no model writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from heedful.data.corpus import build_pair_encoder
from heedful.data.readers import SentencePair
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.data.word_vectors import VocabularyMapping
from heedful.errors import RecipeError
from heedful.recipes.text import TokenizerConfig

TEXTS = ["a red fox sees <2de> a dog", "two dogs and one fox"] * 4
TAGS = ("<2de>", "<captions>")


@pytest.fixture(params=["bpe", "unigram", "characters", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return TokenizerConfig(kind=request.param, size=50).learn_tokenizer(TEXTS, tags=TAGS)


def test_no_text_is_read_as_a_tag(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a <2de> fox <captions>")
    assert not set(tokenizer.tag_ids.values()) & set(ids)
    assert len(tokenizer.tag_ids) == 2


def test_tags_stand_before_a_text_and_are_silent(tokenizer: Tokenizer) -> None:
    opened = tokenizer.with_tags(TAGS)
    plain = tokenizer.encode("two dogs")
    assert opened.encode("two dogs") == [*(tokenizer.tag_ids[tag] for tag in TAGS), *plain]
    assert opened.encode("") == []
    assert opened.decode(opened.encode("two dogs")) == tokenizer.decode(plain)
    assert opened.get_surfaces("two dogs") == ["", "", *tokenizer.get_surfaces("two dogs")]
    assert opened.to_pieces(opened.encode("two dogs"))[:2] == list(TAGS)
    assert tokenizer.encode("two dogs") == plain, "the one that was opened stays as it was"
    assert tokenizer.with_tags([]).encode("two dogs") == plain


def test_no_model_writes_a_tag(tokenizer: Tokenizer) -> None:
    assert set(tokenizer.tag_ids.values()) <= set(tokenizer.special.suppressed_ids)


def test_they_are_stored(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "t")
    again = load_tokenizer(tmp_path / "t")
    assert dict(again.tag_ids) == dict(tokenizer.tag_ids)
    assert again.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])
    assert again.special == tokenizer.special


def test_an_unknown_tag_is_told_with_those_that_are_known(tokenizer: Tokenizer) -> None:
    with pytest.raises(RecipeError, match=r"<2fr>: is not a tag of this vocabulary.*<2de>, <captions>"):
        tokenizer.with_tags(["<2fr>"])


def test_an_old_vocabulary_hands_its_tags_on(tokenizer: Tokenizer) -> None:
    new = TokenizerConfig(kind="words", size=40).learn_tokenizer(TEXTS, tags=("<captions>", "<help>"))
    found = VocabularyMapping.from_tokenizers([tokenizer], new)
    parts = {tag: [int(part) for part in found.old_ids[found.new_ids == number]] for tag, number in new.tag_ids.items()}
    assert parts == {"<captions>": [tokenizer.tag_ids["<captions>"]], "<help>": []}


def test_they_count_in_the_length_of_a_pair(tokenizer: Tokenizer) -> None:
    size = len(tokenizer.encode("two dogs")) + 1
    encode = build_pair_encoder(tokenizer, tokenizer, max_length=size + 1).encode
    assert encode(SentencePair("two dogs", "two dogs", "", ("<2de>",)))[0] is not None
    assert encode(SentencePair("two dogs", "two dogs", "", TAGS))[0] is None
    assert encode(SentencePair("two dogs", "two dogs", "", TAGS))[1] is not None
