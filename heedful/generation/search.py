"""Ways to find outputs, with one call for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from jaxtyping import Int
from torch import Tensor

from heedful.generation.beam import found_by_beams
from heedful.generation.filters import Filter
from heedful.generation.growth import Growth
from heedful.generation.hypotheses import Found, Hypotheses
from heedful.generation.penalties import LengthPenalty
from heedful.generation.pick import Best, Pick
from heedful.generation.repetition import Penalty
from heedful.generation.sampling import found_by_sampling
from heedful.generation.stopping import Stop, Until, never
from heedful.models.interface import State, Step
from heedful.values import Tokens


class Search(ABC):
    """A way to find good outputs."""

    def __call__(
        self,
        step: Step,
        state: State,
        prompt: Tokens,
        *,
        limit: Int[Tensor, " B"],
        prefix: Int[Tensor, "B L"] | None,
        streams: Int[Tensor, " B"],
        stop: Stop | None = None,
        until: Until = never,
    ) -> Hypotheses:
        """For each row of the prompt its hypotheses, best first; see `find`."""
        found = self.find(
            step, state, prompt, limit=limit, prefix=prefix, streams=streams, stop=stop, until=until, keep=False
        )
        return found.hypotheses

    @abstractmethod
    def find(
        self,
        step: Step,
        state: State,
        prompt: Tokens,
        *,
        limit: Int[Tensor, " B"],
        prefix: Int[Tensor, "B L"] | None,
        streams: Int[Tensor, " B"],
        stop: Stop | None = None,
        until: Until = never,
        keep: bool = True,
    ) -> Found:
        """For each row of the prompt its hypotheses, best first, and where the model then stands.

        What comes back `after` a search is what the next one begins with: `after.state`, and `after.prompt(tokens)`.
        Penalties know the tokens of their own prompt only.

        Args:
            step: of the engine.
            state: of the engine, before the prompt.
            prompt: what is read before anything is written.
            limit: most tokens written in each row.
            prefix: ids with which each output must begin, -1 behind them.
            streams: a number for each row that decides its chance, however rows are batched.
            stop: ends rows besides the end of sentence.
            until: tells the search to give back what it has.
            keep: where the model stands is wanted.
        """


@final
@dataclass(frozen=True)
class Greedy(Search):
    """The most probable token at each step."""

    eos: int
    filters: Sequence[Filter] = ()
    penalties: Sequence[Penalty] = ()

    @property
    def pick(self) -> Pick:
        """How each token is taken."""
        return Best(tuple(self.filters))

    def find(
        self,
        step: Step,
        state: State,
        prompt: Tokens,
        *,
        limit: Int[Tensor, " B"],
        prefix: Int[Tensor, "B L"] | None,
        streams: Int[Tensor, " B"],
        stop: Stop | None = None,
        until: Until = never,
        keep: bool = True,
    ) -> Found:
        """One hypothesis for each row."""
        return found_by_sampling(
            step,
            state,
            prompt,
            eos=self.eos,
            limit=limit,
            pick=self.pick,
            n=1,
            prefix=prefix,
            streams=None,
            penalties=self.penalties,
            stop=stop,
            until=until,
            keep=keep,
        )


@final
@dataclass(frozen=True)
class Beam(Search):
    """The `n_best` of `width` hypotheses that grow side by side."""

    eos: int
    width: int
    length_penalty: LengthPenalty
    n_best: int = 1
    filters: Sequence[Filter] = ()
    observe: Callable[[Growth], None] | None = None
    penalties: Sequence[Penalty] = ()

    def find(
        self,
        step: Step,
        state: State,
        prompt: Tokens,
        *,
        limit: Int[Tensor, " B"],
        prefix: Int[Tensor, "B L"] | None,
        streams: Int[Tensor, " B"],
        stop: Stop | None = None,
        until: Until = never,
        keep: bool = True,
    ) -> Found:
        """`n_best` hypotheses for each row."""
        return found_by_beams(
            step,
            state,
            prompt,
            width=self.width,
            eos=self.eos,
            limit=limit,
            length_penalty=self.length_penalty,
            n_best=self.n_best,
            prefix=prefix,
            filters=self.filters,
            penalties=self.penalties,
            stop=stop,
            observe=self.observe,
            until=until,
            keep=keep,
        )


@final
@dataclass(frozen=True)
class Sampling(Search):
    """`n` outputs whose tokens are drawn by `pick`."""

    eos: int
    pick: Pick
    n: int = field(default=1)
    penalties: Sequence[Penalty] = ()

    def find(
        self,
        step: Step,
        state: State,
        prompt: Tokens,
        *,
        limit: Int[Tensor, " B"],
        prefix: Int[Tensor, "B L"] | None,
        streams: Int[Tensor, " B"],
        stop: Stop | None = None,
        until: Until = never,
        keep: bool = True,
    ) -> Found:
        """`n` hypotheses for each row."""
        return found_by_sampling(
            step,
            state,
            prompt,
            eos=self.eos,
            limit=limit,
            pick=self.pick,
            n=self.n,
            prefix=prefix,
            streams=streams,
            penalties=self.penalties,
            stop=stop,
            until=until,
            keep=keep,
        )
