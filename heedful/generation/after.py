"""Where a model stands behind what it has written, so that a conversation goes on without reading its history again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from heedful.models.interface import State
from heedful.values import Tokens


@dataclass(frozen=True)
class After:
    """A model behind the hypotheses of a search: a row for each, those of a sentence one after the other, best first.

    Searches run in torch's inference mode, so the state is one for inference mode.

    Attributes:
        state: of the model, which has read everything but the last token of each hypothesis.
        unread: that token; position -1 where nothing was written.
        positions: of what comes next.
    """

    state: State
    unread: Tokens
    positions: Int[Tensor, " N"]

    @classmethod
    def of(cls, state: State, written: Tokens, *, first: Int[Tensor, " N"]) -> After:
        """Behind what was written, of which the last token is unread; `first` is where it began."""
        sizes = (written.positions >= 0).sum(1)
        last = (sizes - 1).clamp(min=0).unsqueeze(1)
        segments = None if written.segments is None else written.segments.gather(1, last)
        unread = Tokens(written.ids.gather(1, last), written.positions.gather(1, last), segments)
        return cls(state, unread, first + sizes)

    def prompt(self, tokens: Tokens) -> Tokens:
        """What the next search begins with, together with `state`: the unread token and then these, counted from 0."""
        positions = torch.where(tokens.positions >= 0, self.positions.unsqueeze(1) + tokens.positions, -1)
        segments = None
        if self.unread.segments is not None or tokens.segments is not None:
            parts = (self.unread, tokens)
            given = [torch.zeros_like(part.ids) if part.segments is None else part.segments for part in parts]
            segments = torch.cat(given, 1)
        together = torch.cat((self.unread.ids, tokens.ids), 1)
        return Tokens(together, torch.cat((self.unread.positions, positions), 1), segments)
