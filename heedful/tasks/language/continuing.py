"""Prompts that are gone on with, and the search for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch

from heedful.data.tokenizers import Tokenizer
from heedful.generation.completion import PartialWord
from heedful.generation.start import Request
from heedful.generation.stopping import Until
from heedful.models.interface import State
from heedful.tasks.finding import Finder
from heedful.tasks.partial_words import completions
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
        word: characters of the prompt that are not read, and with which what follows must begin.
    """

    read: list[int]
    number: int
    limit: int
    following: Following
    word: PartialWord | None = None


@final
@dataclass(frozen=True)
class Continuing(Finder[Prompt]):
    """Continuations by one way to search, which end before the same strings.

    Attributes:
        stops: the strings.
        until: ends all of them early.
        tokens: what is read of prompts as a batch.
        tokenizer: of the prompts.
    """

    stops: tuple[str, ...]
    until: Until
    tokens: Callable[[list[list[int]]], Tokens] = field(compare=False)
    tokenizer: Tokenizer = field(compare=False)

    def begun(self, batch: list[Prompt]) -> tuple[State, Request]:
        """Before the prompts."""
        read = self.tokens([each.read for each in batch])
        numbers = torch.tensor([each.number for each in batch], device=read.ids.device)
        limits = torch.tensor([each.limit for each in batch], device=read.ids.device)
        stop = AtString(Ends(self.stops), [each.following for each in batch]) if self.stops else None
        bans = completions([each.word for each in batch], tokenizer=self.tokenizer)
        return self.engine.begin(None), Request(read, limits, None, numbers, stop, self.until, bans=bans)
