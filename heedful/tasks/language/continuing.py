"""Prompts that are gone on with, and the search for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch

from heedful.generation.start import Request
from heedful.generation.stopping import Until
from heedful.models.interface import State
from heedful.tasks.finding import Finder
from heedful.tasks.stop_strings import AtString, Ends, Following
from heedful.values import Tokens


@final
@dataclass(frozen=True)
class Prompt:
    """One prompt.

    Attributes:
        read: ids that the model reads of it.
        number: decides its chance.
        limit: most tokens that follow it.
        following: how what follows it reads.
    """

    read: list[int]
    number: int
    limit: int
    following: Following


@final
@dataclass(frozen=True)
class Continuing(Finder[Prompt]):
    """Continuations by one way to search, which end before the same strings.

    Attributes:
        stops: the strings.
        until: ends all of them early.
        tokens: what is read of prompts as a batch.
    """

    stops: tuple[str, ...]
    until: Until
    tokens: Callable[[list[list[int]]], Tokens] = field(compare=False)

    def begun(self, batch: list[Prompt]) -> tuple[State, Request]:
        """Before the prompts."""
        read = self.tokens([each.read for each in batch])
        numbers = torch.tensor([each.number for each in batch], device=read.ids.device)
        limits = torch.tensor([each.limit for each in batch], device=read.ids.device)
        stop = AtString(Ends(self.stops), [each.following for each in batch]) if self.stops else None
        return self.engine.begin(None), Request(read, limits, None, numbers, stop, self.until)
