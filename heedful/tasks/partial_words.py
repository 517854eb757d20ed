"""The beginning of a text that may end inside a word: which of its tokens are certain, and what is only characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from heedful.data.spelling import surfaces
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.generation.completion import Completion, PartialWord, Spelling


@lru_cache(maxsize=8)
def spelling_of(tokenizer: Tokenizer) -> Spelling:
    """How the tokens of a vocabulary spell; those of one without letters and words spell nothing."""
    try:
        return Spelling(surfaces(tokenizer))
    except DataError:
        return Spelling([""] * tokenizer.size)


def completions(words: Sequence[PartialWord | None], *, tokenizer: Tokenizer) -> tuple[Completion, ...]:
    """What forbids each row to begin otherwise than with the characters of its word; nothing where none has one."""
    if all(word is None for word in words):
        return ()
    return (Completion(words, spelling=spelling_of(tokenizer), eos=tokenizer.special.eos),)


def begun(tokenizer: Tokenizer, text: str) -> tuple[list[int], PartialWord | None]:
    """The ids with which a text surely begins that begins with these characters, and what must be written behind them.

    The last word may be unfinished, so its tokens are left to the search, as many of them as a token of the vocabulary
    might reach across. They are certain nevertheless where nothing else writes these characters, as with a vocabulary
    of characters. Behind a space at the end the last word is finished: another one follows, or the text ends.

    Args:
        tokenizer: of what is written.
        text: how it must begin.

    Raises:
        DataError: the text is not valid Unicode.
    """
    ids = tokenizer.encode(text)
    given = len(tokenizer.opening) if ids else 0
    if len(ids) == given:
        return ids, None
    spelling = spelling_of(tokenizer)
    if text[-1:].isspace() and not tokenizer.decode(ids)[-1:].isspace():
        return ids, PartialWord(" ", 1, may_end=True) if spelling.covering(" ") else None
    spelled = _spelled(tokenizer, text, ids)
    for first in range(_first_uncertain(spelled, spelling, given), len(ids)):
        word = PartialWord("".join(spelled[first:]), len(ids) - first)
        choices = spelling.choices(word)
        if choices and [*choices] != [ids[first]]:
            return ids[:first], word
    return ids, None


def _first_uncertain(spelled: list[str], spelling: Spelling, given: int) -> int:
    """Where the last word begins, or where no token reaches from before that place beyond the end."""
    first, size = len(spelled), 0
    while first > given and size < spelling.longest:
        first -= 1
        size += len(spelled[first])
        if spelled[first][:1].isspace():
            break
    return first


def _spelled(tokenizer: Tokenizer, text: str, ids: list[int]) -> list[str]:
    """What each id adds to the text; where it says too little of that, the text that it stands for."""
    added = spelling_of(tokenizer).surfaces
    found = []
    for number, surface in zip(ids, tokenizer.surfaces(text), strict=True):
        if number == tokenizer.special.unk:
            found.append(surface if _continues(tokenizer, number) else f" {surface}")
        else:
            found.append(surface if "\ufffd" in added[number] else added[number])
    return found


def _continues(tokenizer: Tokenizer, number: int) -> bool:
    return bool(_continuing(tokenizer)[number])


@lru_cache(maxsize=8)
def _continuing(tokenizer: Tokenizer) -> tuple[bool, ...]:
    return tuple(tokenizer.continues().tolist())
