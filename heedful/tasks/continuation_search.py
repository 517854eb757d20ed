"""Search call that generates continuations of prompts, and replies to contexts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch

from heedful.data.tokenizers import Tokenizer
from heedful.generation.completion import PartialWord
from heedful.generation.prefill import GenerationRequest
from heedful.generation.stopping_criteria import InterruptCondition
from heedful.models.interface import State
from heedful.tasks.batch_executor import SearchCall
from heedful.tasks.partial_words import build_completions
from heedful.tasks.stop_strings import ContinuationDecoder, StopStringCriterion, StopStrings
from heedful.tensors import Tokens


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
        """Return the initial decoding state and the request with the prompts."""
        source, tokens = self.build_inputs([prompt.ids for prompt in batch])
        numbers = torch.tensor([prompt.number for prompt in batch], device=tokens.ids.device)
        limits = torch.tensor([prompt.max_tokens for prompt in batch], device=tokens.ids.device)
        stop = None
        if self.stop_strings:
            stop = StopStringCriterion(StopStrings(self.stop_strings), [prompt.decoder for prompt in batch])
        masks = build_completions([prompt.partial_word for prompt in batch], tokenizer=self.tokenizer)
        request = GenerationRequest(tokens, limits, None, numbers, stop, self.until, logits_masks=masks)
        return self.engine.init_state(source), request
