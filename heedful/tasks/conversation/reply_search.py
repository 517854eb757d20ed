"""Search call that generates replies to contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from heedful.generation.prefill import GenerationRequest
from heedful.generation.stopping_criteria import InterruptCondition
from heedful.models.interface import State
from heedful.tasks.batch_executor import SearchCall
from heedful.tasks.conversation.data import DialogueEncoder
from heedful.tasks.stop_strings import ContinuationDecoder, StopStringCriterion, StopStrings
from heedful.tensors import move_to_device


@final
@dataclass(frozen=True)
class ReplyContext:
    """Ids of a dialogue so far, and its number, which selects its random stream."""

    ids: list[int]
    number: int


@final
@dataclass(frozen=True)
class ReplySearchCall(SearchCall[ReplyContext]):
    """Search call that generates replies with common stop strings.

    Attributes:
        encoder: encodes turns as ids.
        speaker: speaker of the replies.
        max_tokens: tokens of a reply at most.
        stop_strings: the stop strings.
        until: stops all replies early.
    """

    encoder: DialogueEncoder
    speaker: str
    max_tokens: int
    stop_strings: tuple[str, ...]
    until: InterruptCondition

    def start_search(self, batch: list[ReplyContext]) -> tuple[State, GenerationRequest]:
        """Encode the contexts and return the decoding state and the request."""
        rows, device = len(batch), self.engine.device
        reply_starts = [[self.encoder.get_speaker_id(self.speaker)] * 2] * rows
        pair_batch = move_to_device(self.encoder.build_batch([context.ids for context in batch], reply_starts), device)
        stop = None
        if self.stop_strings:
            stop = StopStringCriterion(
                StopStrings(self.stop_strings), [ContinuationDecoder(self.encoder.tokenizer, ()) for _ in batch]
            )
        numbers = torch.tensor([context.number for context in batch], device=device)
        limits = torch.full_like(numbers, self.max_tokens)
        state = self.engine.init_state(pair_batch.source)
        return state, GenerationRequest(pair_batch.target, limits, None, numbers, stop, self.until)
