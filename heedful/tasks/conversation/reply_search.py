"""Contexts that are replied to, and the search for it."""

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
    """The ids of a dialogue so far, and its number, which decides its chance."""

    ids: list[int]
    number: int


@final
@dataclass(frozen=True)
class ReplySearchCall(SearchCall[ReplyContext]):
    """Replies by one way to search, which end before the same strings.

    Attributes:
        encoder: how turns become ids.
        speaker: as whom.
        max_tokens: most tokens of a reply.
        stop_strings: the strings.
        until: ends all of them early.
    """

    encoder: DialogueEncoder
    speaker: str
    max_tokens: int
    stop_strings: tuple[str, ...]
    until: InterruptCondition

    def start_search(self, batch: list[ReplyContext]) -> tuple[State, GenerationRequest]:
        """Behind the contexts, before the first word."""
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
