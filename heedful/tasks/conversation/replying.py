"""Contexts that are replied to, and the search for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from heedful.generation.start import Request
from heedful.generation.stopping import Until
from heedful.models.interface import State
from heedful.tasks.conversation.data import Script
from heedful.tasks.finding import Finder
from heedful.tasks.stop_strings import AtString, Ends, Following
from heedful.values import move


@final
@dataclass(frozen=True)
class Context:
    """The ids of a dialogue so far, and its number, which decides its chance."""

    ids: list[int]
    number: int


@final
@dataclass(frozen=True)
class Replying(Finder[Context]):
    """Replies by one way to search, which end before the same strings.

    Attributes:
        script: how turns become ids.
        speaker: as whom.
        limit: most tokens of a reply.
        stops: the strings.
        until: ends all of them early.
    """

    script: Script
    speaker: str
    limit: int
    stops: tuple[str, ...]
    until: Until

    def begun(self, batch: list[Context]) -> tuple[State, Request]:
        """Behind the contexts, before the first word."""
        rows, device = len(batch), self.engine.device
        begins = [[self.script.speaker(self.speaker)] * 2] * rows
        asked = move(self.script.batch([each.ids for each in batch], begins), device)
        stop = None
        if self.stops:
            stop = AtString(Ends(self.stops), [Following(self.script.tokenizer, ()) for _ in batch])
        numbers = torch.tensor([each.number for each in batch], device=device)
        limits = torch.full_like(numbers, self.limit)
        state = self.engine.begin(asked.source)
        return state, Request(asked.target, limits, None, numbers, stop, self.until)
