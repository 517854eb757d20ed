"""What a continuation reads like while it grows: where it ends, and how much of it is certain."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heedful.argument_checks import to_text_list
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.generation.results import Hypothesis

_REPLACEMENT = "\ufffd"
_MAX_REPLACEMENTS = 3
"""Bytes of a character of four that may be there while the last is not."""


@final
class StopStrings:
    """Strings at which a text ends, before the first of them; a single string is a list of one.

    Raises:
        RecipeError: one is empty.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = tuple(dict.fromkeys(to_text_list(strings, name="stop")))
        if "" in self.strings:
            raise RecipeError("stop string: one is empty, which would end every text at once; leave it out")

    def truncate(self, text: str) -> tuple[str, str | None]:
        """The text before the first string, and which one that was; of two at one place, the shorter one."""
        matches = [(position, len(string)) for string in self.strings if (position := text.find(string)) >= 0]
        if not matches:
            return text, None
        position, length = min(matches)
        return text[:position], text[position : position + length]

    def certain_prefix(self, text: str) -> str:
        """As much of a growing text as will be in it whatever follows: no beginning of a string that may come."""
        kept, _ = self.truncate(strip_incomplete_character(text))
        partial_sizes = (
            size
            for string in self.strings
            for size in range(1, min(len(string) - 1, len(kept)) + 1)
            if kept.endswith(string[:size])
        )
        return kept[: len(kept) - max(partial_sizes, default=0)]


@final
class ContinuationDecoder:
    """The text of what follows a prompt, with the space between them where there is one.

    Args:
        tokenizer: of both.
        prompt: its ids.
        num_read: how many of them are read; what follows these writes the others again, in whatever tokens.
        num_unspelled: characters of the prompt that its ids do not spell, because one of the others is unknown.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int], *, num_read: int | None = None, num_unspelled: int = 0
    ) -> None:
        self._tokenizer = tokenizer
        self._prompt = list(prompt[:num_read])
        self._prompt_length = len(tokenizer.decode(prompt)) + num_unspelled

    def decode(self, ids: Iterable[int]) -> str:
        """Of these ids behind the prompt."""
        return self._tokenizer.decode([*self._prompt, *ids])[self._prompt_length :]


@dataclass(frozen=True)
class _StopState:
    """What each row has written, -1 where there is nothing; which prompt it follows; whether it has ended."""

    ids: Int[Tensor, "N L"]
    prompts: Int[Tensor, " N"]
    finished: Bool[Tensor, " N"]


@final
class StopStringCriterion:
    """Ends a row as soon as its text holds one of some strings, wherever tokens begin and end.

    Args:
        ends: the strings.
        decoders: how each row of the batch reads.
    """

    def __init__(self, ends: StopStrings, decoders: Sequence[ContinuationDecoder]) -> None:
        self._ends = ends
        self._decoders = tuple(decoders)

    def init_state(self, written: Int[Tensor, "N L"], /) -> _StopState:
        """A forced prefix counts as written."""
        assert len(written) == len(self._decoders), "each row follows a prompt"
        row_indices = torch.arange(len(written), device=written.device)
        return _StopState(written, row_indices, torch.zeros_like(row_indices, dtype=torch.bool))

    def __call__(self, ids: Int[Tensor, " N"], state: _StopState, /) -> tuple[Bool[Tensor, " N"], _StopState]:
        """The whole text is read again, since what an id reads like depends on those beside it."""
        written = torch.cat((state.ids, ids.unsqueeze(1)), 1)
        rows = zip(written.tolist(), state.prompts.tolist(), state.finished.tolist(), strict=True)
        finished = torch.tensor(
            [is_done or self._contains_stop(row, prompt) for row, prompt, is_done in rows], dtype=torch.bool
        )
        finished = finished.to(ids.device)
        return finished, _StopState(written, state.prompts, finished)

    def _contains_stop(self, row: list[int], prompt: int) -> bool:
        text = strip_incomplete_character(self._decoders[prompt].decode(number for number in row if number >= 0))
        return self._ends.truncate(text)[1] is not None


def strip_incomplete_character(text: str) -> str:
    """The text without a character at its end of which some bytes have not come."""
    num_replacements = len(text) - len(text.rstrip(_REPLACEMENT))
    return text[: len(text) - min(num_replacements, _MAX_REPLACEMENTS)]


@final
class TextStream(Iterator[str]):
    """A text as its ids come, in pieces; what may be a part of a stop string or of a character waits.

    Attributes:
        ids: those that have come, with the one that ended the text.
        text: all pieces that have come.
        stop: the stop string that ended the text; None while it grows, and where none did.
        hypothesis: what was found, once it has ended.
    """

    def __init__(
        self, ids: Generator[int, None, Hypothesis], *, decoder: ContinuationDecoder, stop_strings: StopStrings
    ) -> None:
        self.ids: list[int] = []
        self.text = ""
        self.stop: str | None = None
        self.hypothesis: Hypothesis | None = None
        self._pieces = self._iter_pieces(ids, decoder, stop_strings)

    def __next__(self) -> str:
        piece = next(self._pieces)
        self.text += piece
        return piece

    def _iter_pieces(
        self, ids: Generator[int, None, Hypothesis], decoder: ContinuationDecoder, stop_strings: StopStrings
    ) -> Iterator[str]:
        yielded = ""
        for token_id in self._store_hypothesis(ids):
            self.ids.append(token_id)
            text = stop_strings.certain_prefix(decoder.decode(self.ids))
            if len(text) > len(yielded):
                yield text[len(yielded) :]
                yielded = text
        text, self.stop = stop_strings.truncate(strip_incomplete_character(decoder.decode(self.ids)))
        if rest := text[len(yielded) :]:
            yield rest

    def _store_hypothesis(self, ids: Generator[int, None, Hypothesis]) -> Iterator[int]:
        self.hypothesis = yield from ids
