"""Ways to find outputs, with one call for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from jaxtyping import Int
from torch import Tensor

from heedful.generation.beam_decoding import run_beam_search
from heedful.generation.beam_state import BeamStep
from heedful.generation.diverse_beam_decoding import run_diverse_beam_search
from heedful.generation.logits_masks import LogitsMask
from heedful.generation.penalties import LengthPenalty, LogitsProcessor
from heedful.generation.prefill import GenerationRequest
from heedful.generation.processors import LogitsPipeline
from heedful.generation.results import Hypotheses, SearchResult
from heedful.generation.samplers import GreedySampler, LogitsFilter, Sampler
from heedful.generation.sampling import run_sampling
from heedful.generation.stopping_criteria import InterruptCondition, StoppingCriterion, never_interrupt
from heedful.models.interface import State, Step
from heedful.tensors import Tokens


class SearchStrategy(ABC):
    """A way to find good outputs."""

    @property
    def rows_per_sentence(self) -> int:
        """Rows of the model that each sentence takes while it is searched for."""
        return 1

    def __call__(
        self,
        step: Step,
        state: State,
        prompt: Tokens,
        *,
        max_new_tokens: Int[Tensor, " B"],
        prefix: Int[Tensor, "B L"] | None,
        rng_streams: Int[Tensor, " B"],
        stop: StoppingCriterion | None = None,
        until: InterruptCondition = never_interrupt,
    ) -> Hypotheses:
        """For each row of the prompt its hypotheses, best first; see `decode_with_state`."""
        return self.decode_request(
            step, state, GenerationRequest(prompt, max_new_tokens, prefix, rng_streams, stop, until)
        ).hypotheses

    def decode_with_state(
        self,
        step: Step,
        state: State,
        prompt: Tokens,
        *,
        max_new_tokens: Int[Tensor, " B"],
        prefix: Int[Tensor, "B L"] | None,
        rng_streams: Int[Tensor, " B"],
        stop: StoppingCriterion | None = None,
        until: InterruptCondition = never_interrupt,
        keep_state: bool = True,
    ) -> SearchResult:
        """For each row of the prompt its hypotheses, best first, and where the model then stands.

        What comes back `after` a search is what the next one begins with: `after.state`, and `after.prompt(tokens)`.
        Penalties know the tokens of their own prompt only. For the arguments see `decode_request` and `GenerationRequest`.
        """
        return self.decode_request(
            step, state, GenerationRequest(prompt, max_new_tokens, prefix, rng_streams, stop, until, keep_state)
        )

    @abstractmethod
    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """`decode_with_state`, of a request.

        Args:
            step: of the engine.
            state: of the engine, before the prompt.
            request: what is asked.
        """


@final
@dataclass(frozen=True)
class GreedySearch(SearchStrategy):
    """The most probable token at each step."""

    eos: int
    filters: Sequence[LogitsFilter] = ()
    penalties: Sequence[LogitsProcessor] = ()
    logits_masks: Sequence[LogitsMask] = ()

    @property
    def sampler(self) -> Sampler:
        """How each token is taken."""
        return GreedySampler(tuple(self.filters))

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """One hypothesis for each row."""
        pipeline = LogitsPipeline.from_request(
            request, eos=self.eos, penalties=self.penalties, logits_masks=self.logits_masks
        )
        return run_sampling(step, state, request, eos=self.eos, sampler=self.sampler, num_samples=1, pipeline=pipeline)


@final
@dataclass(frozen=True)
class BeamSearch(SearchStrategy):
    """The `n_best` of `width` hypotheses that grow side by side; see `beam_search`."""

    eos: int
    width: int
    length_penalty: LengthPenalty
    n_best: int = 1
    filters: Sequence[LogitsFilter] = ()
    on_step: Callable[[BeamStep], None] | None = None
    penalties: Sequence[LogitsProcessor] = ()
    logits_masks: Sequence[LogitsMask] = ()

    @property
    def rows_per_sentence(self) -> int:
        """One for each of its outputs."""
        return self.width

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """`n_best` hypotheses for each row."""
        return run_beam_search(step, state, request, search=self)


@final
@dataclass(frozen=True)
class DiverseBeamSearch(SearchStrategy):
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
    filters: Sequence[LogitsFilter] = ()
    penalties: Sequence[LogitsProcessor] = ()
    logits_masks: Sequence[LogitsMask] = ()
    on_step: Callable[[BeamStep], None] | None = None

    @property
    def rows_per_sentence(self) -> int:
        """One for each of its outputs."""
        return self.width

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """At most `n_best` hypotheses for each row; `RecipeError` where these are to hold terms."""
        return run_diverse_beam_search(step, state, request, search=self)


@final
@dataclass(frozen=True)
class SamplingSearch(SearchStrategy):
    """`num_samples` outputs whose tokens are drawn by `sampler`."""

    eos: int
    sampler: Sampler
    num_samples: int = 1
    penalties: Sequence[LogitsProcessor] = ()
    logits_masks: Sequence[LogitsMask] = ()

    @property
    def rows_per_sentence(self) -> int:
        """One for each of its outputs."""
        return self.num_samples

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """`num_samples` hypotheses for each row."""
        pipeline = LogitsPipeline.from_request(
            request, eos=self.eos, penalties=self.penalties, logits_masks=self.logits_masks
        )
        return run_sampling(
            step, state, request, eos=self.eos, sampler=self.sampler, num_samples=self.num_samples, pipeline=pipeline
        )


def beam_search(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    width: int,
    eos: int,
    max_new_tokens: int | Int[Tensor, " B"],
    length_penalty: LengthPenalty,
    n_best: int = 1,
    prefix: Int[Tensor, "B L"] | None = None,
    filters: Sequence[LogitsFilter] = (),
    penalties: Sequence[LogitsProcessor] = (),
    logits_masks: Sequence[LogitsMask] = (),
    stop: StoppingCriterion | None = None,
    on_step: Callable[[BeamStep], None] | None = None,
    until: InterruptCondition = never_interrupt,
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
        max_new_tokens: most new tokens, the forced prefix and `eos` among them. Where fewer than `n_best` are finished then,
            those still alive are returned behind them, as unfinished.
        length_penalty: how hypotheses of different length compare.
        n_best: answers wanted, at most `width`; fewer come back where fewer exist.
        prefix: ids with which the answers begin, -1 behind them; part of their scores, even if longer than the limit.
        filters: forbid tokens. Log-probabilities are those of the model without filters, what `score` gives.
        penalties: change logits before filters do. Hypotheses are ranked by the probabilities that come of it, which
            add up to one again; `log_probability` stays that of the model.
        logits_masks: forbid tokens in the light of those before; ranking and log-probabilities are as with filters.
        stop: ends hypotheses besides `eos`; the token at which it does is their last, and they are not `finished`.
        on_step: is told of every step; nothing is computed for it unless given.
        until: tells the search to give back the best that it has, ended or not.
    """
    search = BeamSearch(eos, width, length_penalty, n_best, filters, on_step, penalties, logits_masks)
    return search.decode_request(
        step, state, GenerationRequest(prompt, max_new_tokens, prefix, stop=stop, until=until)
    ).hypotheses


def greedy_search(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    eos: int,
    max_new_tokens: int | Int[Tensor, " B"],
    prefix: Int[Tensor, "B L"] | None = None,
    filters: Sequence[LogitsFilter] = (),
    penalties: Sequence[LogitsProcessor] = (),
    logits_masks: Sequence[LogitsMask] = (),
    stop: StoppingCriterion | None = None,
    until: InterruptCondition = never_interrupt,
) -> Hypotheses:
    """One answer for each sentence, each token the most probable one; arguments as in `beam_search`."""
    search = GreedySearch(eos, filters, penalties, logits_masks)
    return search.decode_request(
        step, state, GenerationRequest(prompt, max_new_tokens, prefix, stop=stop, until=until)
    ).hypotheses


def sampling_search(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    eos: int,
    max_new_tokens: int | Int[Tensor, " B"],
    sampler: Sampler,
    num_samples: int = 1,
    prefix: Int[Tensor, "B L"] | None = None,
    rng_streams: Int[Tensor, " B"] | None = None,
    penalties: Sequence[LogitsProcessor] = (),
    logits_masks: Sequence[LogitsMask] = (),
    stop: StoppingCriterion | None = None,
    until: InterruptCondition = never_interrupt,
) -> Hypotheses:
    """`num_samples` answers for each sentence, best first; other arguments as in `beam_search`.

    Scores are log-probabilities, those of the model before penalties, temperature and filters. `rng_streams` gives each
    sentence the number of its own source of chance, by default its row: a caller that batches sentences in another
    order passes their numbers in the original one, and every answer stays the same.
    """
    search = SamplingSearch(eos, sampler, num_samples, penalties, logits_masks)
    return search.decode_request(
        step, state, GenerationRequest(prompt, max_new_tokens, prefix, rng_streams, stop, until)
    ).hypotheses
