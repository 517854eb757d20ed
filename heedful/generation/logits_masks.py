"""Logits masks that depend on earlier tokens: repeated n-grams, minimum lengths, bad words, and unfinished words."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol, TypeAlias, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.penalties import LogitsProcessor
from heedful.models.interface import State
from heedful.tensors import Tokens

_FORBIDDEN: Final = -1


@runtime_checkable
class LogitsMask(LogitsProcessor, Protocol):
    """Logits processor that only sets logits to minus infinity.

    Hypotheses are ranked by the model's own probabilities of the remaining tokens, as after a filter. If these were
    normalised again, a beam that must not take its most probable token would be ranked as if it had found a better one.
    """

    def __call__(self, logits: Float[Tensor, "N V"], state: State, /) -> Float[Tensor, "N V"]:
        """Return the logits with the forbidden tokens at minus infinity; may overwrite `logits`."""
        ...


@final
@dataclass(frozen=True)
class NoRepeatNGram:
    """Mask that forbids to repeat an n-gram within a row, its prompt included (Paulus et al. 2018, section 2.5).

    Attributes:
        n: length of the n-grams; 1 allows each token once.
        exempt_ids: tokens that are always allowed, such as the end of a text.
    """

    n: int
    exempt_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.n < 1:
            raise RecipeError(f"no repeated n-gram: n is {self.n}; must be at least 1")

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Int[Tensor, "N L"]:
        """Return the tokens that each row has read, in order and right-aligned; -1 to their left."""
        order = tokens.positions.argsort(dim=1, stable=True)
        positions = tokens.positions.gather(1, order)
        return torch.where(positions >= 0, tokens.ids.gather(1, order), -1)

    def __call__(self, logits: Float[Tensor, "N V"], state: Int[Tensor, "N L"], /) -> Float[Tensor, "N V"]:
        """Forbid the tokens that would repeat an n-gram, in place."""
        if state.size(1) < self.n:
            return logits
        grams = state.unfold(1, self.n, 1)
        last_tokens = state[:, state.size(1) - self.n + 1 :]
        is_repeated = (grams[:, :, :-1] == last_tokens.unsqueeze(1)).all(2) & (grams >= 0).all(2)
        ids = grams[:, :, -1]
        for token_id in self.exempt_ids:
            is_repeated &= ids != token_id
        highest_logits = torch.full_like(ids, math.inf, dtype=logits.dtype).masked_fill_(is_repeated, -math.inf)
        return logits.scatter_reduce_(1, ids.clamp(min=0), highest_logits, "amin")

    def extend(self, state: Int[Tensor, "N L"], ids: Int[Tensor, " N"], /) -> Int[Tensor, "N l"]:
        """Append the new token of each row."""
        return torch.cat((state, ids.unsqueeze(1)), 1)


@final
@dataclass(frozen=True)
class MinNewTokens:
    """Mask that forbids `eos` before a row has a minimum number of new tokens, a forced prefix not counted.

    See also `MinimumLength`.
    """

    eos: int
    min_tokens: tuple[int, ...]

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Int[Tensor, " N"]:
        """Return the number of tokens that each row still needs."""
        assert len(self.min_tokens) == len(tokens.ids), "each row has its least length"
        return torch.tensor(self.min_tokens, device=tokens.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Forbid `eos` in rows that still need tokens, in place."""
        logits[:, self.eos].masked_fill_(state > 0, -math.inf)
        return logits

    def extend(self, state: Int[Tensor, " N"], _ids: Int[Tensor, " N"], /) -> Int[Tensor, " N"]:
        """Count one token down."""
        return state - 1


@final
@dataclass(frozen=True)
class SuppressAtStart:
    """Mask that forbids tokens as the first new one of each row, behind its forced prefix.

    Attributes:
        ids: the forbidden tokens.
    """

    ids: tuple[int, ...]

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Int[Tensor, " N"]:
        """Return the number of new tokens of each row: none."""
        return torch.zeros(len(tokens.ids), dtype=torch.long, device=tokens.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Forbid the tokens in rows without new tokens, in place."""
        logits[:, list(self.ids)] = logits[:, list(self.ids)].masked_fill((state == 0).unsqueeze(1), -math.inf)
        return logits

    def extend(self, state: Int[Tensor, " N"], _ids: Int[Tensor, " N"], /) -> Int[Tensor, " N"]:
        """Count one token more."""
        return state + 1


_PartialMatches: TypeAlias = frozenset[tuple[int, int]]
"""Words that the end of a text may begin: pairs of word number and number of matched characters."""
_MatchState: TypeAlias = tuple[_PartialMatches, bool]
"""Partial matches, and whether the last character is a word character."""


@final
@dataclass(frozen=True)
class BadWord:
    """A word or phrase that a text must not contain.

    Attributes:
        text: matches only where it is not part of a longer word.
        ignore_case: whether case is ignored; `text` is in lower case then.
        is_prefix: whether longer words that begin with `text` match as well.
    """

    text: str
    ignore_case: bool = False
    is_prefix: bool = False

    def matches_at(self, index: int, character: str) -> bool:
        """Return whether a character matches that of the word at this index."""
        return self.text[index] == (character.lower() if self.ignore_case else character)


@final
class BadWords:
    """Mask that forbids words, however they are split into tokens.

    Texts are read character by character by an automaton whose states are the partial matches. A word is complete when
    a character follows that does not continue it, or the end: so `cat` does not forbid `category`, unless no token of
    the vocabulary continues it. A text that is cut at the length limit may therefore end in such a word.

    Args:
        words: the forbidden words.
        token_texts: text of each token.
        word_characters: characters that continue a word when they follow each other.
        eos: the token that ends a text.
    """

    def __init__(
        self, words: Iterable[BadWord], *, token_texts: Sequence[str], word_characters: frozenset[str], eos: int
    ) -> None:
        self.words = tuple(dict.fromkeys(words))
        if any(not word.text for word in self.words):
            raise RecipeError("forbidden word: one is empty; leave it out")
        self._token_texts = tuple(token_texts)
        self._word_characters = word_characters
        self._eos = eos
        self._lock = Lock()
        self._state_ids: dict[_MatchState, int] = {}
        self._states: list[_MatchState] = []
        self._raw_transitions: dict[int, list[int]] = {}
        self._transitions: dict[int, Int[Tensor, " V"]] = {}
        self._words_by_first = defaultdict[str, list[int]](list)
        for number, word in enumerate(self.words):
            for character in {word.text[0], word.text[0].upper()} if word.ignore_case else {word.text[0]}:
                self._words_by_first[character].append(number)
        self._tokens_by_first = defaultdict[str, list[int]](list)
        for number, surface in enumerate(self._token_texts):
            self._tokens_by_first[surface[:1]].append(number)
        self._get_state_id((frozenset(), False))

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Int[Tensor, " N"]:
        """Return the automaton state of each row after what it has read."""
        assert len(self._token_texts) == vocab_size, "each token has its surface"
        rows = zip(tokens.ids.tolist(), tokens.positions.tolist(), strict=True)
        return torch.tensor([self._read_row(*row) for row in rows], device=tokens.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Forbid the tokens that would complete a bad word, in place."""
        return logits.masked_fill_(self._stack_transitions(state).to(logits.device) == _FORBIDDEN, -math.inf)

    def extend(self, state: Int[Tensor, " N"], ids: Int[Tensor, " N"], /) -> Int[Tensor, " N"]:
        """Return the state after the new tokens; the start state after a forbidden one."""
        next_state = self._stack_transitions(state).gather(1, ids.cpu().unsqueeze(1)).squeeze(1)
        return next_state.clamp(min=0).to(ids.device)

    def _stack_transitions(self, state: Int[Tensor, " N"]) -> Int[Tensor, "N V"]:
        """Return the transition table of each row's state."""
        return torch.stack([self._get_transitions(state_id) for state_id in state.tolist()])

    def _read_row(self, ids: list[int], positions: list[int]) -> int:
        """Return the automaton state after the tokens of one row, in the order of their positions; those with position
        -1 are skipped.
        """
        state_id = 0
        for _, token in sorted(
            (position, token) for position, token in zip(positions, ids, strict=True) if position >= 0
        ):
            state_id = max(0, int(self._get_transitions(state_id)[token]))
        return state_id

    def _get_state_id(self, state: _MatchState) -> int:
        """Return the number of a state, adding it if it is new."""
        if state not in self._state_ids:
            self._state_ids[state] = len(self._states)
            self._states.append(state)
        return self._state_ids[state]

    def _get_transitions(self, state_id: int) -> Int[Tensor, " V"]:
        """Return the state that each token leads to from a state; -1 where the token is forbidden."""
        transitions = self._transitions.get(state_id)
        if transitions is None:
            with self._lock, torch.inference_mode(False):  # stays in memory for later calls
                row = self._get_raw_transitions(state_id)
                dead_ends = {target for target in set(row) if target != _FORBIDDEN and self._is_dead_end(target)}
                transitions = self._transitions[state_id] = torch.tensor(
                    [_FORBIDDEN if target in dead_ends else target for target in row]
                )
        return transitions

    def _has_complete_word(self, state: _MatchState) -> bool:
        """Return whether a bad word is complete up to the character that must follow it."""
        return any(length == len(self.words[word].text) for word, length in state[0])

    def _is_dead_end(self, state_id: int) -> bool:
        """Return whether nothing may follow in the automaton state of this number: neither the end, nor a token that
        continues the bad word.
        """
        if not self._has_complete_word(self._states[state_id]):
            return False
        return all(
            target == _FORBIDDEN or not text
            for target, text in zip(self._get_raw_transitions(state_id), self._token_texts, strict=True)
        )

    def _get_raw_transitions(self, state_id: int) -> list[int]:
        """Return the state that each token leads to from a state; -1 where it completes a bad word. States after which
        nothing may follow are included.
        """
        if state_id not in self._raw_transitions:
            self._raw_transitions[state_id] = self._compute_transitions(self._states[state_id])
        return self._raw_transitions[state_id]

    def _compute_transitions(self, state: _MatchState) -> list[int]:
        """Compute the number of the state that each token leads to from a state; -1 where the token is forbidden."""
        matches, in_word = state
        empty_state: _MatchState = (frozenset(), in_word)
        if not matches:
            tokens: Iterable[int] = range(len(self._token_texts))
            row = [0] * len(self._token_texts)
        else:  # tokens that do not continue the term lead where they lead from its start
            row = list(self._get_raw_transitions(self._get_state_id(empty_state)))
            tokens = [
                token_id
                for first, same_first in self._tokens_by_first.items()
                if self._affects_matches(first, matches)
                for token_id in same_first
            ]
        for token in tokens:
            row[token] = self._advance(state, self._token_texts[token])
        if self._has_complete_word(state):
            row[self._eos] = _FORBIDDEN
        return row

    def _affects_matches(self, first_character: str, matches: _PartialMatches) -> bool:
        """Return whether a token that begins with `first_character` continues or ends a partial match; empty tokens
        always do.
        """
        return not first_character or any(
            self.words[word].matches_at(length, first_character)
            if length < len(self.words[word].text)
            else not self._continues_word(word, first_character)
            for word, length in matches
        )

    def _continues_word(self, word: int, character: str) -> bool:
        """Return whether the character continues the bad word of this number, so that it is part of a longer word."""
        return self.words[word].text[-1] in self._word_characters and character in self._word_characters

    def _advance(self, state: _MatchState, token_text: str) -> int:
        """Return the state after the text of a token, or -1 where it completes a bad word."""
        matches, in_word = state
        for character in token_text:
            is_word_character, next_matches = character in self._word_characters, set()
            for word, length in matches:
                if length == len(self.words[word].text):
                    if not self._continues_word(word, character):
                        return _FORBIDDEN
                elif self.words[word].matches_at(length, character):
                    next_matches.add((word, length + 1))
            for word in self._words_by_first.get(character, ()):
                if not (in_word and is_word_character):
                    next_matches.add((word, 1))
            if any(
                self._is_certain_match(word) for word, length in next_matches if length == len(self.words[word].text)
            ):
                return _FORBIDDEN
            matches, in_word = frozenset(next_matches), is_word_character
        return self._get_state_id((matches, in_word))

    def _is_certain_match(self, word: int) -> bool:
        """Return whether a complete match of the bad word of this number can no longer become part of a longer, allowed
        word.
        """
        return self.words[word].is_prefix or self.words[word].text[-1] not in self._word_characters


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
        """Return the tokens that may come next where `word` must be spelled, each with what must still be spelled after
        it, or None if nothing must.
        """
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
        """Forbid, in place, all tokens with which a row would not spell the characters that its state still requires.
        Rows in the free state, 0, do not change.
        """
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
        """Return the number of the state in which `word` must be spelled (0 for None, the free state), adding it if it
        is new.
        """
        if word not in self._state_ids:
            self._state_ids[word] = len(self._states)
            self._states.append(word)
        return self._state_ids[word]

    def _get_choices(self, state_id: int) -> dict[int, PartialWord | None]:
        """Return the allowed tokens of a state, each with what must still be spelled after it, or None if nothing."""
        if state_id not in self._choices:
            word = self._states[state_id]
            assert word is not None, "the first state has no word"
            end_choice: dict[int, PartialWord | None] = {self._eos: None} if word.may_end else {}
            self._choices[state_id] = self._spelling.list_choices(word) | end_choice
        return self._choices[state_id]
