"""How a text goes on whose last word was begun: its tokens must write the characters that were given."""

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
    """Characters that the next tokens of a text must write first, whatever these tokens add behind them.

    Attributes:
        characters: as the surfaces of tokens spell them, the space before a word included.
        max_tokens: at most so many tokens write them.
        may_end: whether the text may end instead.
    """

    characters: str
    max_tokens: int
    may_end: bool = False


@final
class TokenSpelling:
    """Which tokens write the beginning of a string.

    Args:
        token_texts: what each token adds to a text; empty for those that add nothing.
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
        """Tokens that begin with all these characters."""
        first = bisect_left(self._sorted, (characters, -1))
        last = bisect_left(self._sorted, (characters + _BEYOND, -1))
        return [token_id for _, token_id in self._sorted[first:last]]

    def iter_prefix_tokens(self, characters: str) -> Iterator[tuple[int, list[int]]]:
        """How many of the first characters, but not all of them, are written by some token, and by which ones."""
        for size in range(1, min(len(characters) - 1, self.longest) + 1):
            if token_ids := self._by_text.get(characters[:size]):
                yield size, token_ids

    def count_fewest_tokens(self, characters: str) -> list[int]:
        """The least number of tokens that write all characters from each place on; very large where none do."""
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
        """The tokens that may come next, each with what must be written behind it; None where nothing must."""
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
    """A `LogitsMask` on all tokens that do not write the characters with which each row must go on.

    A word that was begun is not forced in the tokens into which it would be cut if it ended there, because the model
    may write the whole word in others: `Ju` and `li` where it has learned `Juli`. The search finds the tokens.

    Args:
        words: of each row; None where it is free.
        spelling: of the vocabulary.
        eos: what ends a text.
    """

    def __init__(self, words: Sequence[PartialWord | None], *, spelling: TokenSpelling, eos: int) -> None:
        self._words = tuple(words)
        self._spelling = spelling
        self._eos = eos
        self._state_ids: dict[PartialWord | None, int] = {None: 0}
        self._states: list[PartialWord | None] = [None]
        self._choices: dict[int, dict[int, PartialWord | None]] = {}

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Int[Tensor, " N"]:
        """The number of each row's word."""
        assert len(self._words) == len(tokens.ids), "each row has its word"
        assert len(self._spelling.token_texts) == vocab_size, "each token has its surface"
        return torch.tensor([self._get_state_id(word) for word in self._words], device=tokens.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: State, /) -> Float[Tensor, "N V"]:
        """In place."""
        for row, state_id in enumerate(state.tolist()):
            if state_id:
                allowed = list(self._get_choices(state_id))
                allowed_logits = logits[row, allowed]
                logits[row] = -math.inf
                logits[row, allowed] = allowed_logits
        return logits

    def extend(self, state: State, ids: Int[Tensor, " N"], /) -> Int[Tensor, " N"]:
        """What must be written behind these tokens; nothing behind one that was not allowed."""
        next_states = [
            self._get_state_id(self._get_choices(state_id).get(token)) if state_id else 0
            for state_id, token in zip(state.tolist(), ids.tolist(), strict=True)
        ]
        return torch.tensor(next_states, dtype=torch.long, device=ids.device)

    def _get_state_id(self, word: PartialWord | None) -> int:
        if word not in self._state_ids:
            self._state_ids[word] = len(self._states)
            self._states.append(word)
        return self._state_ids[word]

    def _get_choices(self, state_id: int) -> dict[int, PartialWord | None]:
        if state_id not in self._choices:
            word = self._states[state_id]
            assert word is not None, "the first state has no word"
            end_choice: dict[int, PartialWord | None] = {self._eos: None} if word.may_end else {}
            self._choices[state_id] = self._spelling.list_choices(word) | end_choice
        return self._choices[state_id]
