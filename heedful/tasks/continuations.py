"""Continuations of prompts: stop strings, the text while it is generated, and the search call that generates them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heedful.argument_checks import to_text_list
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.generation.logits_masks import PartialWord
from heedful.generation.prefill import GenerationRequest, InterruptCondition
from heedful.generation.results import Hypothesis
from heedful.models.interface import State
from heedful.tasks.batch_executor import SearchCall
from heedful.tasks.partial_words import build_completions
from heedful.tensors import Tokens

_REPLACEMENT = "\ufffd"
_MAX_REPLACEMENTS = 3
"""Bytes of a four-byte character that may be present without the last one."""


@final
class StopStrings:
    """Strings before which a text ends; a single string is a list of one.

    Raises:
        RecipeError: one is empty.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = tuple(dict.fromkeys(to_text_list(strings, name="stop")))
        if "" in self.strings:
            raise RecipeError("stop string: one is empty, which would end every text at once; leave it out")

    def truncate(self, text: str) -> tuple[str, str | None]:
        """Cut the text before the first stop string, and return it with that string or None; of two at one place
        the shorter one counts.
        """
        matches = [(position, len(string)) for string in self.strings if (position := text.find(string)) >= 0]
        if not matches:
            return text, None
        position, length = min(matches)
        return text[:position], text[position : position + length]

    def certain_prefix(self, text: str) -> str:
        """Return the part of a growing text that cannot change: without a possible beginning of a stop string at
        its end.
        """
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
    """Decodes what follows a prompt, with the space between them if there is one.

    Args:
        tokenizer: tokenizer of both.
        prompt: ids of the prompt.
        num_read: number of prompt ids that the model reads; the continuation writes the others again, in any tokens.
        num_unspelled: characters of the prompt that its ids do not spell, because one of the others is unknown.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int], *, num_read: int | None = None, num_unspelled: int = 0
    ) -> None:
        self._tokenizer = tokenizer
        self._prompt = list(prompt[:num_read])
        self._prompt_length = len(tokenizer.decode(prompt)) + num_unspelled

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids that follow the prompt, without the prompt."""
        return self._tokenizer.decode([*self._prompt, *ids])[self._prompt_length :]


@dataclass(frozen=True)
class _StopState:
    """Generated ids of each row (-1 means no id), the prompt it follows, and whether it has ended."""

    ids: Int[Tensor, "N L"]
    prompts: Int[Tensor, " N"]
    finished: Bool[Tensor, " N"]


@final
class StopStringCriterion:
    """Stopping criterion that ends a row once its text contains a stop string, regardless of token boundaries.

    Args:
        ends: the stop strings.
        decoders: decoder of each row of the batch.
    """

    def __init__(self, ends: StopStrings, decoders: Sequence[ContinuationDecoder]) -> None:
        self._ends = ends
        self._decoders = tuple(decoders)

    def init_state(self, written: Int[Tensor, "N L"], /) -> _StopState:
        """Return the state after a forced prefix `written`, one row per prompt, which counts as generated text."""
        assert len(written) == len(self._decoders), "each row follows a prompt"
        row_indices = torch.arange(len(written), device=written.device)
        return _StopState(written, row_indices, torch.zeros_like(row_indices, dtype=torch.bool))

    def __call__(self, ids: Int[Tensor, " N"], state: _StopState, /) -> tuple[Bool[Tensor, " N"], _StopState]:
        """Decode each row again with its new id, and return which rows have ended, with the new state."""
        written = torch.cat((state.ids, ids.unsqueeze(1)), 1)
        rows = zip(written.tolist(), state.prompts.tolist(), state.finished.tolist(), strict=True)
        finished = torch.tensor(
            [is_done or self._contains_stop(row, prompt) for row, prompt, is_done in rows], dtype=torch.bool
        )
        finished = finished.to(ids.device)
        return finished, _StopState(written, state.prompts, finished)

    def _contains_stop(self, row: list[int], prompt: int) -> bool:
        """Return whether the text of a row of ids that follows the prompt with the index `prompt` contains a stop
        string.
        """
        text = strip_incomplete_character(self._decoders[prompt].decode(number for number in row if number >= 0))
        return self._ends.truncate(text)[1] is not None


def strip_incomplete_character(text: str) -> str:
    """Remove a last character of which some bytes are missing."""
    num_replacements = len(text) - len(text.rstrip(_REPLACEMENT))
    return text[: len(text) - min(num_replacements, _MAX_REPLACEMENTS)]


@final
class TextStream(Iterator[str]):
    """Iterator over pieces of a text while it is generated; parts of a possible stop string or of an incomplete
    character are held back.

    Attributes:
        ids: the ids so far, with the end id.
        text: the text so far.
        stop: the stop string that ended the text, if any.
        hypothesis: the final hypothesis, once the text has ended.
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
        """Decode ids as they are generated, and yield each piece of text that cannot change any more: what `decoder`
        decodes, up to a stop string.
        """
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
        """Pass the ids on and store the generator's result as the hypothesis."""
        self.hypothesis = yield from ids


@final
@dataclass(frozen=True)
class ContinuationPrompt:
    """An encoded prompt.

    Attributes:
        ids: ids of the prompt that the model reads, the first id of a reply included.
        number: selects the random stream.
        max_tokens: tokens of the continuation at most.
        decoder: decodes the continuation.
        partial_word: characters of the prompt that are not read, and with which the continuation must begin.
    """

    ids: list[int]
    number: int
    max_tokens: int
    decoder: ContinuationDecoder
    partial_word: PartialWord | None = None


@final
@dataclass(frozen=True)
class ContinuationSearchCall(SearchCall[ContinuationPrompt]):
    """Search call that generates continuations with common stop strings.

    Attributes:
        stop_strings: the stop strings.
        until: stops all continuations early.
        build_inputs: builds, from the ids of prompts, the source of the model (None if it has none) and the tokens
            that the decoder reads.
        tokenizer: tokenizer of the prompts.
    """

    stop_strings: tuple[str, ...]
    until: InterruptCondition
    build_inputs: Callable[[Sequence[list[int]]], tuple[Any, Tokens]] = field(compare=False)
    tokenizer: Tokenizer = field(compare=False)

    def start_search(self, batch: list[ContinuationPrompt]) -> tuple[State, GenerationRequest]:
        """Return the initial decoding state of a batch of prompts, and the request with their limits and the stop
        strings.
        """
        source, tokens = self.build_inputs([prompt.ids for prompt in batch])
        numbers = torch.tensor([prompt.number for prompt in batch], device=tokens.ids.device)
        limits = torch.tensor([prompt.max_tokens for prompt in batch], device=tokens.ids.device)
        stop = None
        if self.stop_strings:
            stop = StopStringCriterion(StopStrings(self.stop_strings), [prompt.decoder for prompt in batch])
        masks = build_completions([prompt.partial_word for prompt in batch], tokenizer=self.tokenizer)
        request = GenerationRequest(tokens, limits, None, numbers, stop, self.until, logits_masks=masks)
        return self.engine.init_state(source), request
