"""Encode a text that may end inside a word: its certain tokens, and the remaining characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from heedful.data.token_offsets import get_added_texts
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.generation.logits_masks import PartialWord, TokenSpelling, WordCompletionMask


@lru_cache(maxsize=8)
def get_spelling(tokenizer: Tokenizer) -> TokenSpelling:
    """Return the spelling of a vocabulary's tokens; empty spellings if it has no letters and words."""
    try:
        return TokenSpelling(get_added_texts(tokenizer))
    except DataError:
        return TokenSpelling([""] * tokenizer.size)


def build_completions(words: Sequence[PartialWord | None], *, tokenizer: Tokenizer) -> tuple[WordCompletionMask, ...]:
    """Build the logits mask that makes the text of each row begin with the characters of its partial word; empty if no
    row has a partial word.
    """
    if all(word is None for word in words):
        return ()
    return (WordCompletionMask(words, spelling=get_spelling(tokenizer), eos=tokenizer.special.eos),)


def encode_prefix(tokenizer: Tokenizer, text: str) -> tuple[list[int], PartialWord | None]:
    """Encode the beginning that a text must have: return the ids that are certain, and the characters after them, which
    the following tokens must write; None if there are no such characters.

    The last word may be unfinished, so its tokens are left to the search, as many as one token of the vocabulary might
    span. They are certain if no other tokens can write these characters, as with a vocabulary of characters. A final
    space means that the last word is finished: another word follows, or the text ends.

    Args:
        tokenizer: tokenizer of the generated text.
        text: the required beginning.

    Raises:
        DataError: the text is not valid Unicode.
    """
    ids = tokenizer.encode(text)
    num_opening = len(tokenizer.prefix_ids) if ids else 0
    if len(ids) == num_opening:
        return ids, None
    spelling = get_spelling(tokenizer)
    if text[-1:].isspace() and not tokenizer.decode(ids)[-1:].isspace():
        return ids, PartialWord(" ", 1, may_end=True) if spelling.find_covering_tokens(" ") else None
    texts = _spell_ids(tokenizer, text, ids)
    for position in range(_find_first_uncertain(texts, spelling, num_opening), len(ids)):
        word = PartialWord("".join(texts[position:]), len(ids) - position)
        choices = spelling.list_choices(word)
        if choices and [*choices] != [ids[position]]:
            return ids[:position], word
    return ids, None


def _find_first_uncertain(texts: list[str], spelling: TokenSpelling, num_opening: int) -> int:
    """Return the position where the last word begins, or from which no single token could reach beyond the end, given
    the text of each id. The first `num_opening` ids are always certain.
    """
    position, size = len(texts), 0
    while position > num_opening and size < spelling.longest:
        position -= 1
        size += len(texts[position])
        if texts[position][:1].isspace():
            break
    return position


def _spell_ids(tokenizer: Tokenizer, text: str, ids: list[int]) -> list[str]:
    """Return the characters that each id adds to the text; for an unknown id, the text it stands for."""
    token_texts = get_spelling(tokenizer).token_texts
    texts = []
    for token_id, surface in zip(ids, tokenizer.get_surfaces(text), strict=True):
        if token_id == tokenizer.special.unk:
            texts.append(surface if _continuation_flags(tokenizer)[token_id] else f" {surface}")
        else:
            texts.append(surface if "\ufffd" in token_texts[token_id] else token_texts[token_id])
    return texts


@lru_cache(maxsize=8)
def _continuation_flags(tokenizer: Tokenizer) -> tuple[bool, ...]:
    return tuple(tokenizer.get_continuation_mask().tolist())
