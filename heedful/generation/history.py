"""What a search remembers of its rows besides the model's state: what penalties, bans and stops ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.generation.bans import Ban
from heedful.generation.penalties import Penalty
from heedful.generation.start import Request, Start
from heedful.generation.stopping import AnyOf, AtToken, Stop
from heedful.models.interface import State
from heedful.values import Rows, Tokens, select


@dataclass(frozen=True)
class History:
    """The states of the stop, of each penalty and of each ban, batch-first."""

    stop: State
    penalties: tuple[State, ...]
    bans: tuple[State, ...]

    def of_groups(self, members: Int[Tensor, "G k"], width: int) -> History:
        """That of some rows of each group of `width` rows."""
        if self.stop is None and not self.penalties and not self.bans:
            return self
        groups = torch.arange(len(members), device=members.device).unsqueeze(1)
        return select(self, Rows.any((groups * width + members).flatten()))


@dataclass(frozen=True)
class Manner:
    """By what rows are changed and ended while they grow."""

    stop: Stop
    penalties: Sequence[Penalty] = ()
    bans: Sequence[Ban] = ()

    @classmethod
    def of(cls, request: Request, *, eos: int, penalties: Sequence[Penalty], bans: Sequence[Ban]) -> Manner:
        """Rows end at `eos`, and where the request says so; what it forbids is forbidden, too."""
        stop = AtToken(eos) if request.stop is None else AnyOf((AtToken(eos), request.stop))
        return cls(stop, penalties, (*bans, *request.bans))

    @property
    def free(self) -> bool:
        """Whether nothing depends on what was written before."""
        return not self.penalties and not self.bans

    def begin(self, prompt: Tokens, start: Start) -> History:
        """The history of each row behind its prompt and forced prefix."""
        places = torch.arange(start.prefix.size(1), device=start.prefix.device)
        written = torch.where(places < start.lengths.unsqueeze(1), start.prefix, -1)
        read = Tokens(torch.cat((prompt.ids, start.prefix), 1), torch.cat((prompt.positions, written.clamp(max=0)), 1))
        vocabulary = start.logits.size(1)
        penalties = tuple(penalty.begin(read, vocabulary=vocabulary) for penalty in self.penalties)
        bans = tuple(ban.begin(read, vocabulary=vocabulary) for ban in self.bans)
        return History(self.stop.begin(written), penalties, bans)

    def changed(self, logits: Float[Tensor, "N V"], history: History) -> Float[Tensor, "N V"]:
        """The logits after all penalties in their order; the same tensor where there are none."""
        for penalty, state in zip(self.penalties, history.penalties, strict=True):
            logits = penalty(logits, state)
        return logits

    def allowed(self, logits: Float[Tensor, "N V"], history: History) -> Float[Tensor, "N V"]:
        """The logits without what is banned; may overwrite the given ones."""
        for ban, state in zip(self.bans, history.bans, strict=True):
            logits = ban(logits, state)
        return logits

    def ended(self, ids: Int[Tensor, " N"], history: History) -> tuple[Bool[Tensor, " N"], History]:
        """Which rows end with these tokens, and the history with them."""
        ended, stop = self.stop(ids, history.stop)
        penalties = zip(self.penalties, history.penalties, strict=True)
        bans = zip(self.bans, history.bans, strict=True)
        after = (tuple(each.extend(state, ids) for each, state in part) for part in (penalties, bans))
        return ended, History(stop, *after)

    def tried(
        self, ids: Int[Tensor, "G k"], history: History, *, beams: Int[Tensor, "G k"], rows: int
    ) -> tuple[Bool[Tensor, "G k"], History]:
        """Which continuations of beams would end, `rows` beams in a group, and the history of each of them."""
        ended, after = self.ended(ids.flatten(), history.of_groups(beams, rows))
        return ended.view_as(ids), after


def followed(tried: History, ranks: Int[Tensor, "G width"]) -> History:
    """Of the 2 * width continuations of each group that were tried, those that live on."""
    return tried.of_groups(ranks, 2 * ranks.size(1))
