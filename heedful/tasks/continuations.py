"""Continuations of prompts: prompts that end inside a word, stop strings, the text while it is generated, and the
search call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heedful.argument_checks import to_text_list
from heedful.data.token_offsets import get_added_texts
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation.logits_masks import PartialWord, TokenSpelling, WordCompletionMask
from heedful.generation.prefill import GenerationRequest, InterruptCondition
from heedful.generation.results import Hypothesis
from heedful.models.interface import State
from heedful.tasks.batch_executor import SearchCall
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
