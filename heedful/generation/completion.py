"""Complete a word whose first characters are given: the next tokens must spell these characters."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.models.interface import State
from heedful.tensors import Tokens

_IMPOSSIBLE: Final = 2**30
_BEYOND: Final = chr(0x10FFFF)


@final
@dataclass(frozen=True)
class PartialWord:
    """Characters that the next tokens of a text must begin with.

    Attributes:
        characters: as token texts spell them, the space before a word included.
        max_tokens: largest number of tokens that may spell them.
        may_end: whether the text may end instead.
    """

    characters: str
    max_tokens: int
    may_end: bool = False


@final
class TokenSpelling:
    """Index of token texts that finds the tokens which spell the beginning of a string.

    Args:
        token_texts: text of each token; empty for those without text.
    """

    def __init__(self, token_texts: Sequence[str]) -> None:
        self.token_texts = tuple(token_texts)
        self.longest = max(map(len, self.token_texts), default=0)
        self._sorted = sorted(
            (token_text, token_id) for token_id, token_text in enumerate(self.token_texts) if token_text
        )
        self._by_text = defaultdict[str, list[int]](list)
        for token_text, token_id in self._sorted:
            self._by_text[token_text].append(token_id)

    def find_covering_tokens(self, characters: str) -> list[int]:
        """Return the tokens that begin with all these characters."""
        first = bisect_left(self._sorted, (characters, -1))
        last = bisect_left(self._sorted, (characters + _BEYOND, -1))
        return [token_id for _, token_id in self._sorted[first:last]]

    def iter_prefix_tokens(self, characters: str) -> Iterator[tuple[int, list[int]]]:
        """Yield each length of a proper prefix of the characters that is a token text, with those tokens."""
        for size in range(1, min(len(characters) - 1, self.longest) + 1):
            if token_ids := self._by_text.get(characters[:size]):
                yield size, token_ids

    def count_fewest_tokens(self, characters: str) -> list[int]:
        """Return the least number of tokens that spell the characters from each index on; a huge number where none
        do.
        """
        counts = [_IMPOSSIBLE] * len(characters)
        for index in reversed(range(len(characters))):
            rest = characters[index:]
            if self.find_covering_tokens(rest):
                counts[index] = 1
            else:
                options = (counts[index + size] for size, _ in self.iter_prefix_tokens(rest))
                counts[index] = min(1 + min(options, default=_IMPOSSIBLE), _IMPOSSIBLE)
        return counts

    def list_choices(self, word: PartialWord) -> dict[int, PartialWord | None]:
        """Return the tokens that may come next, each with what must still be spelled after it, or None."""
        choices: dict[int, PartialWord | None] = {}
        if word.max_tokens > 0:
            choices |= dict.fromkeys(self.find_covering_tokens(word.characters))
            fewest = self.count_fewest_tokens(word.characters)
            for size, token_ids in self.iter_prefix_tokens(word.characters):
                if fewest[size] < word.max_tokens:
                    choices |= dict.fromkeys(token_ids, PartialWord(word.characters[size:], word.max_tokens - 1))
        return choices


@final
class WordCompletionMask:
    """Logits mask that forces each row to spell its given characters.

    The given characters are not forced in the tokens into which they would be split as a whole word, because the model
    may write the full word in other tokens: `Ju` and `li` where it has learned `Juli`. The search finds the tokens.

    Args:
        words: of each row; None where it is free.
        spelling: of the vocabulary.
        eos: the token that ends a text.
    """

    def __init__(self, words: Sequence[PartialWord | None], *, spelling: TokenSpelling, eos: int) -> None:
        self._words = tuple(words)
        self._spelling = spelling
        self._eos = eos
        self._state_ids: dict[PartialWord | None, int] = {None: 0}
        self._states: list[PartialWord | None] = [None]
        self._choices: dict[int, dict[int, PartialWord | None]] = {}

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Int[Tensor, " N"]:
        """Return the state number of each row's word."""
        assert len(self._words) == len(tokens.ids), "each row has its word"
        assert len(self._spelling.token_texts) == vocab_size, "each token has its surface"
        return torch.tensor([self._get_state_id(word) for word in self._words], device=tokens.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: State, /) -> Float[Tensor, "N V"]:
        """Forbid all tokens that do not spell the given characters, in place."""
        for row, state_id in enumerate(state.tolist()):
            if state_id:
                allowed = list(self._get_choices(state_id))
                allowed_logits = logits[row, allowed]
                logits[row] = -math.inf
                logits[row, allowed] = allowed_logits
        return logits

    def extend(self, state: State, ids: Int[Tensor, " N"], /) -> Int[Tensor, " N"]:
        """Return the state after these tokens; the free state after a forbidden one."""
        next_states = [
            self._get_state_id(self._get_choices(state_id).get(token)) if state_id else 0
            for state_id, token in zip(state.tolist(), ids.tolist(), strict=True)
        ]
        return torch.tensor(next_states, dtype=torch.long, device=ids.device)

    def _get_state_id(self, word: PartialWord | None) -> int:
        """Return the number of a state, adding it if it is new."""
        if word not in self._state_ids:
            self._state_ids[word] = len(self._states)
            self._states.append(word)
        return self._state_ids[word]

    def _get_choices(self, state_id: int) -> dict[int, PartialWord | None]:
        """Return the allowed tokens of a state with their next words."""
        if state_id not in self._choices:
            word = self._states[state_id]
            assert word is not None, "the first state has no word"
            end_choice: dict[int, PartialWord | None] = {self._eos: None} if word.may_end else {}
            self._choices[state_id] = self._spelling.list_choices(word) | end_choice
        return self._choices[state_id]
