"""Ways to find outputs, with one call for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from jaxtyping import Int
from torch import Tensor

from heedful.generation.bans import Ban
from heedful.generation.beam import found_by_beams
from heedful.generation.columns import found_by_sampling
from heedful.generation.front import Growth
from heedful.generation.groups import found_by_groups
from heedful.generation.history import Manner
from heedful.generation.hypotheses import Found, Hypotheses
from heedful.generation.penalties import LengthPenalty, Penalty
from heedful.generation.pick import Best, Filter, Pick
from heedful.generation.start import Request
from heedful.generation.stopping import Stop, Until, never
from heedful.models.interface import State, Step
from heedful.values import Tokens


class Search(ABC):
    """A way to find good outputs."""

    @property
    def rows(self) -> int:
        """Rows of the model that each sentence takes while it is searched for."""
        return 1

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
        return self.answer(step, state, Request(prompt, limit, prefix, streams, stop, until)).hypotheses

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
        Penalties know the tokens of their own prompt only. For the arguments see `answer` and `Request`.
        """
        return self.answer(step, state, Request(prompt, limit, prefix, streams, stop, until, keep))

    @abstractmethod
    def answer(self, step: Step, state: State, request: Request) -> Found:
        """`find`, of a request.

        Args:
            step: of the engine.
            state: of the engine, before the prompt.
            request: what is asked.
        """


@final
@dataclass(frozen=True)
class Greedy(Search):
    """The most probable token at each step."""

    eos: int
    filters: Sequence[Filter] = ()
    penalties: Sequence[Penalty] = ()
    bans: Sequence[Ban] = ()

    @property
    def pick(self) -> Pick:
        """How each token is taken."""
        return Best(tuple(self.filters))

    def answer(self, step: Step, state: State, request: Request) -> Found:
        """One hypothesis for each row."""
        manner = Manner.of(request, eos=self.eos, penalties=self.penalties, bans=self.bans)
        return found_by_sampling(step, state, request, eos=self.eos, pick=self.pick, n=1, manner=manner)


@final
@dataclass(frozen=True)
class Beam(Search):
    """The `n_best` of `width` hypotheses that grow side by side; see `beam_search`."""

    eos: int
    width: int
    length_penalty: LengthPenalty
    n_best: int = 1
    filters: Sequence[Filter] = ()
    observe: Callable[[Growth], None] | None = None
    penalties: Sequence[Penalty] = ()
    bans: Sequence[Ban] = ()

    @property
    def rows(self) -> int:
        """One for each of its outputs."""
        return self.width

    def answer(self, step: Step, state: State, request: Request) -> Found:
        """`n_best` hypotheses for each row."""
        return found_by_beams(step, state, request, search=self)


@final
@dataclass(frozen=True)
class Diverse(Search):
    """The `n_best` of `width` hypotheses in `groups` that avoid each other (Vijayakumar et al. 2018).

    Each group is a beam of `width / groups`. At each step the groups choose one after the other, and `diversity` is
    taken off the log-probability of a token for each hypothesis of the groups before that took it at this step (lambda;
    Hamming diversity). It decides what a group goes on with and is forgotten then: totals, scores and the order of the
    answers are the model's own. A group gives as many answers as it has beams, at most, and what several groups find is
    given once. The first group is beam search of its width, and so is the whole with one group.
    """

    eos: int
    width: int
    groups: int
    diversity: float
    length_penalty: LengthPenalty
    n_best: int = 1
    filters: Sequence[Filter] = ()
    penalties: Sequence[Penalty] = ()
    bans: Sequence[Ban] = ()
    observe: Callable[[Growth], None] | None = None

    @property
    def rows(self) -> int:
        """One for each of its outputs."""
        return self.width

    def answer(self, step: Step, state: State, request: Request) -> Found:
        """At most `n_best` hypotheses for each row; `RecipeError` where these are to hold terms."""
        return found_by_groups(step, state, request, search=self)


@final
@dataclass(frozen=True)
class Sampling(Search):
    """`n` outputs whose tokens are drawn by `pick`."""

    eos: int
    pick: Pick
    n: int = 1
    penalties: Sequence[Penalty] = ()
    bans: Sequence[Ban] = ()

    @property
    def rows(self) -> int:
        """One for each of its outputs."""
        return self.n

    def answer(self, step: Step, state: State, request: Request) -> Found:
        """`n` hypotheses for each row."""
        manner = Manner.of(request, eos=self.eos, penalties=self.penalties, bans=self.bans)
        return found_by_sampling(step, state, request, eos=self.eos, pick=self.pick, n=self.n, manner=manner)


def beam_search(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    width: int,
    eos: int,
    limit: int | Int[Tensor, " B"],
    length_penalty: LengthPenalty,
    n_best: int = 1,
    prefix: Int[Tensor, "B L"] | None = None,
    filters: Sequence[Filter] = (),
    penalties: Sequence[Penalty] = (),
    bans: Sequence[Ban] = (),
    stop: Stop | None = None,
    observe: Callable[[Growth], None] | None = None,
    until: Until = never,
) -> Hypotheses:
    """The `n_best` best answers of each sentence that `width` hypotheses growing side by side can find.

    At each step the 2 * width best continuations of a sentence are ranked. Those that end it and are among the first
    `width` are finished; the best `width` others live on. A sentence is done when it has `n_best` finished ones and no
    live one can beat the worst of them: no score will exceed the present one divided by the largest divisor to come.

    Args:
        step: see `Engine.step`; anything that obeys its laws.
        state: one row for each sentence.
        prompt: what stands before the answer, at least the begin of sentence; may be padded anywhere.
        width: live hypotheses of each sentence.
        eos: the token that ends a sentence.
        limit: most new tokens, the forced prefix and `eos` among them. Where fewer than `n_best` are finished then,
            those still alive are returned behind them, as unfinished.
        length_penalty: how hypotheses of different length compare.
        n_best: answers wanted, at most `width`; fewer come back where fewer exist.
        prefix: ids with which the answers begin, -1 behind them; part of their scores, even if longer than the limit.
        filters: forbid tokens. Log-probabilities are those of the model without filters, what `score` gives.
        penalties: change logits before filters do. Hypotheses are ranked by the probabilities that come of it, which
            add up to one again; `log_probability` stays that of the model.
        bans: forbid tokens in the light of those before; ranking and log-probabilities are as with filters.
        stop: ends hypotheses besides `eos`; the token at which it does is their last, and they are not `finished`.
        observe: is told of every step; nothing is computed for it unless given.
        until: tells the search to give back the best that it has, ended or not.
    """
    search = Beam(eos, width, length_penalty, n_best, filters, observe, penalties, bans)
    return search.answer(step, state, Request(prompt, limit, prefix, stop=stop, until=until)).hypotheses


def greedy_search(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    eos: int,
    limit: int | Int[Tensor, " B"],
    prefix: Int[Tensor, "B L"] | None = None,
    filters: Sequence[Filter] = (),
    penalties: Sequence[Penalty] = (),
    bans: Sequence[Ban] = (),
    stop: Stop | None = None,
    until: Until = never,
) -> Hypotheses:
    """One answer for each sentence, each token the most probable one; arguments as in `beam_search`."""
    search = Greedy(eos, filters, penalties, bans)
    return search.answer(step, state, Request(prompt, limit, prefix, stop=stop, until=until)).hypotheses


def sampled_search(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    eos: int,
    limit: int | Int[Tensor, " B"],
    pick: Pick,
    n: int = 1,
    prefix: Int[Tensor, "B L"] | None = None,
    streams: Int[Tensor, " B"] | None = None,
    penalties: Sequence[Penalty] = (),
    bans: Sequence[Ban] = (),
    stop: Stop | None = None,
    until: Until = never,
) -> Hypotheses:
    """`n` answers for each sentence, best first; other arguments as in `beam_search`.

    Scores are log-probabilities, those of the model before penalties, temperature and filters. `streams` gives each
    sentence the number of its own source of chance, by default its row: a caller that batches sentences in another
    order passes their numbers in the original one, and every answer stays the same.
    """
    search = Sampling(eos, pick, n, penalties, bans)
    return search.answer(step, state, Request(prompt, limit, prefix, streams, stop, until)).hypotheses
