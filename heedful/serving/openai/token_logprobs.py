"""Tokens of a text with their offsets and log-probabilities, in the format of OpenAI's interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizers import Tokenizer
from heedful.serving.openai.generation import OpenAIMessage
from heedful.tasks.continuations import ContinuationDecoder, strip_incomplete_character
from heedful.tasks.language.token_predictions import TokenPrediction

_REPLACEMENT: Final = "\ufffd"
_CONTEXT_TOKENS: Final = 4
"""Number of preceding tokens that decide the text of a token; a character has at most four bytes."""


class TokenLogprobs(OpenAIMessage):
    """The tokens of a text and their log-probabilities, in order."""

    tokens: list[str]
    """the text that each token adds, or its name in the vocabulary if that is not a whole character"""
    token_logprobs: list[float]
    """natural logarithm of each token's probability, given all tokens before it"""
    top_logprobs: list[dict[str, float]] | None
    """the most probable tokens at each position, including the token itself; null if none were requested"""
    text_offset: list[int]
    """number of characters before each token, including those of the prompt even if it is not returned"""


@dataclass(frozen=True)
class TokenEntry:
    """A token: its text, the number of characters before it, its log-probability and the most probable tokens at
    its position.
    """

    text: str
    start: int
    log_probability: float
    top_tokens: dict[str, float]


@final
class TokenTracker:
    """Tracks the tokens of a prompt and its continuation, and the piece of text that each adds.

    Args:
        tokenizer: of both.
        prompt: text of the prompt.

    Attributes:
        text: the prompt.
        prompt_ids: its token ids.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: str) -> None:
        self.prompt_ids = tokenizer.encode(prompt)
        self._tokenizer = tokenizer
        self.text = prompt
        self._following = ContinuationDecoder(tokenizer, self.prompt_ids)
        self._ids: list[int] = []
        self._length = 0

    def prompt_entries(self, predictions: Iterable[TokenPrediction]) -> list[TokenEntry]:
        """Return an entry for each token of the prompt, with the prediction at its position; the texts of the entries
        add up to the prompt.

        Raises:
            DataError: the tokens cannot be located in the prompt.
        """
        entries: list[TokenEntry] = []
        start = 0
        for index, (token_id, text, prediction) in enumerate(
            zip(self.prompt_ids, self._split_prompt(), predictions, strict=True)
        ):
            entries.append(
                self._build_entry(
                    token_id, text, start, prediction, self.prompt_ids[max(0, index - _CONTEXT_TOKENS) : index]
                )
            )
            start += len(text)
        return entries

    def _split_prompt(self) -> list[str]:
        """Split the prompt into the piece of each token, with the spaces before it."""
        pieces = list(_iter_added_texts(self._tokenizer, self.prompt_ids))
        if "".join(pieces) == self.text or not pieces:
            return pieces
        spans = compute_offsets(self._tokenizer, self.text)
        # a piece that is only a space gets all spaces up to the next piece
        stops = [next_span[0] if start == stop else stop for (start, stop), next_span in pairwise(spans)]
        return [self.text[start:stop] for start, stop in pairwise([0, *stops, len(self.text)])]

    def add_tokens(self, ids: Sequence[int], predictions: Iterable[TokenPrediction]) -> list[TokenEntry]:
        """Add generated tokens and return their entries."""
        return list(self._iter_new_entries(ids, predictions))

    def _iter_new_entries(self, ids: Sequence[int], predictions: Iterable[TokenPrediction]) -> Iterator[TokenEntry]:
        """Add generated tokens one by one, and yield an entry for each, with the prediction at its position."""
        for token_id, prediction in zip(ids, predictions, strict=True):
            context = [*self.prompt_ids[-_CONTEXT_TOKENS:], *self._ids[-_CONTEXT_TOKENS:]]
            self._ids.append(token_id)
            text = strip_incomplete_character(self._following.decode(self._ids))
            start = len(self.text) + self._length
            yield self._build_entry(token_id, text[self._length :], start, prediction, context)
            self._length = max(self._length, len(text))

    def _build_entry(
        self, token_id: int, text: str, start: int, prediction: TokenPrediction, context: Sequence[int]
    ) -> TokenEntry:
        """Build the entry of a token that adds `text` behind `start` characters; its name in the tokenizer replaces an
        empty text. The most probable tokens come from the prediction, and `context` are the ids before the token.
        """
        name = text or self._tokenizer.to_pieces([token_id])[0]
        likeliest: dict[str, float] = {}
        for other_id, value in prediction.top_tokens:
            likeliest.setdefault(name if other_id == token_id else self._name_token(other_id, context), value)
        if prediction.top_tokens:  # other pieces with the same text
            likeliest[name] = prediction.log_probability
        return TokenEntry(name, start, prediction.log_probability, likeliest)

    def _name_token(self, token_id: int, context: Sequence[int]) -> str:
        """Return the text that a token would add behind a context, or its name in the tokenizer if that is not a whole
        character.
        """
        nearest = context[-_CONTEXT_TOKENS:]
        text = self._tokenizer.decode([*nearest, token_id])[len(self._tokenizer.decode(nearest)) :]
        return self._tokenizer.to_pieces([token_id])[0] if not text or _REPLACEMENT in text else text


def _iter_added_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[str]:
    """Yield the text that each id adds behind the ids before it, decoding only as far back as needed."""
    # `ids[complete_stop:stop]` end inside a character; `num_shown` of their characters were yielded before
    first = complete_stop = num_shown = 0
    for stop in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[first:stop])
        complete_text = strip_incomplete_character(text)
        num_known = len(tokenizer.decode(ids[first:complete_stop])) + num_shown
        yield complete_text[num_known:]
        num_shown += max(0, len(complete_text) - num_known)
        if complete_text == text:
            first, complete_stop, num_shown = complete_stop, stop, 0


def build_logprobs(entries: Sequence[TokenEntry], *, num_likeliest: int) -> TokenLogprobs:
    """Convert token entries to OpenAI's format, with the most probable tokens at each position unless `num_likeliest`,
    the requested number of them, is 0.
    """
    return TokenLogprobs(
        tokens=[entry.text for entry in entries],
        token_logprobs=[entry.log_probability for entry in entries],
        top_logprobs=[entry.top_tokens for entry in entries] if num_likeliest else None,
        text_offset=[entry.start for entry in entries],
    )
