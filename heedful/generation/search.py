"""Search strategies with one interface: greedy, beam, diverse beam, sampling, and reranking by coverage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from jaxtyping import Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.beam_decoding import BeamBatch, BeamGroup, BeamOptions, compute_length_divisors
from heedful.generation.beam_state import BeamStep
from heedful.generation.continuous_batch import generate
from heedful.generation.decode_batch import BatchableSearch, build_merge_key
from heedful.generation.diverse_beam_decoding import DiverseBeamBatch
from heedful.generation.logits_masks import LogitsMask
from heedful.generation.penalties import LengthPenalty, LogitsProcessor
from heedful.generation.prefill import GenerationRequest, InterruptCondition, StoppingCriterion, never_interrupt
from heedful.generation.processors import LogitsPipeline
from heedful.generation.results import Hypotheses, PrefillOutput, SearchResult
from heedful.generation.samplers import GreedySampler, LogitsFilter, Sampler
from heedful.generation.sampling import SamplingBatch, SamplingOptions
from heedful.models.interface import State, Step
from heedful.tensors import Tokens


class SearchStrategy(ABC):
    """Abstract base of search strategies."""

    @property
    def rows_per_sentence(self) -> int:
        """Number of model rows that each sentence needs during the search."""
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
        """Return the hypotheses for each row of the prompt, best first. `prefix` has the ids with which they must
        begin, `stop` ends single rows, and `until` interrupts the search when it returns True; see `decode_with_state`.
        """
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
        """Return the hypotheses for each row of the prompt, best first, and the model state after them. `prefix` has
        the ids with which they must begin, `stop` ends single rows, and `until` interrupts the search when it returns
        True.

        The next search can go on from the result: its state is `resume_state.state`, its prompt
        `resume_state.build_prompt(tokens)`. Penalties know the tokens of their own prompt only. For the arguments see
        `decode_request` and `GenerationRequest`.
        """
        return self.decode_request(
            step, state, GenerationRequest(prompt, max_new_tokens, prefix, rng_streams, stop, until, keep_state)
        )

    @abstractmethod
    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """Run the search for a generation request.

        Args:
            step: `Engine.step` of the model.
            state: engine state before the prompt.
            request: prompt, limits and options.
        """


class BatchSearch(SearchStrategy, BatchableSearch):
    """Abstract base of searches that run in a `ContinuousBatch`, to which a whole search belongs alone."""

    @final
    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """Return the hypotheses for each row; see `generate`."""
        return generate(step, state, request, self)


@final
@dataclass(frozen=True)
class GreedySearch(BatchSearch):
    """Search that takes the most probable token at each step."""

    eos: int
    filters: Sequence[LogitsFilter] = ()
    penalties: Sequence[LogitsProcessor] = ()
    logits_masks: Sequence[LogitsMask] = ()

    @property
    def sampler(self) -> Sampler:
        """Sampler that takes each token."""
        return GreedySampler(tuple(self.filters))

    def check_request(self, request: GenerationRequest) -> None:
        """Raise `RecipeError` if the request has lexical constraints."""
        _forbid_constraints(request)

    def init_batch(self, request: GenerationRequest, prefill: PrefillOutput, state: State) -> SamplingBatch:
        """Return the batch before its first token, with one row for each sentence."""
        return _init_samples(self, request, prefill)


@final
@dataclass(frozen=True)
class BeamSearch(BatchSearch):
    """Beam search: the `n_best` best of `width` hypotheses that are extended together; see `beam_search`."""

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
        """Number of model rows of each sentence: the beam width."""
        return self.width

    def check_request(self, request: GenerationRequest) -> None:
        """Raise `RecipeError` unless `width` is at least 1 and `n_best` is from 1 to `width`."""
        if self.width < 1:
            raise RecipeError(f"beam width: {self.width}; must be at least 1")
        _check_n_best(self.n_best, self.width)

    def init_batch(self, request: GenerationRequest, prefill: PrefillOutput, state: State) -> BeamBatch:
        """Return the batch of a request before its first token. `prefill` is what was read of the sentences, and
        `state` is the model state after that.
        """
        merge_key, group, options = _init_beams(self, request, prefill, width=self.width)
        constraints, prompt_state = request.constraints, state if request.keep_state else None
        banks = None if constraints is None else constraints.init_banks(prefill, eos=self.eos)
        return BeamBatch(self.width, merge_key, group, options, banks, prompt_state)


@final
@dataclass(frozen=True)
class DiverseBeamSearch(BatchSearch):
    """Diverse beam search: `groups` of beams that avoid each other's tokens (Vijayakumar et al. 2018).

    Each group is a beam of `width / groups`. At each step the groups choose one after the other. A token's
    log-probability is reduced by `diversity` (lambda; Hamming diversity) for each hypothesis of an earlier group that
    took it at this step. The reduction only decides which hypotheses a group keeps: totals, scores and the final order
    are the model's own. A group gives at most as many hypotheses as it has beams; one that several groups find is given
    once. The first group is a beam search of its width, and so is the whole search with one group.
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
        """Number of model rows of each sentence: the beams of all groups."""
        return self.width

    def check_request(self, request: GenerationRequest) -> None:
        """Raise `RecipeError` unless the groups divide the beam width evenly, `n_best` is from 1 to the width, and the
        request has no lexical constraints.
        """
        if self.groups < 1 or self.width % self.groups:
            raise RecipeError(
                f"groups: {self.groups} cannot share a beam of {self.width} evenly; give a width that they divide"
            )
        _check_n_best(self.n_best, self.width)
        if request.constraints is not None:
            raise RecipeError(
                "terms that must be written: groups of beams that avoid each other cannot search for them; leave the "
                "groups out (--groups 1), or the terms"
            )

    def init_batch(self, request: GenerationRequest, prefill: PrefillOutput, state: State) -> DiverseBeamBatch:
        """Return the batch of a request before its first token. `prefill` is what was read of the sentences, and
        `state` is the model state after that.
        """
        merge_key, group, options = _init_beams(self, request, prefill, width=self.width // self.groups)
        prompt_state = state if request.keep_state else None
        groups = (group,) * self.groups
        return DiverseBeamBatch(self.width, merge_key, groups, options, self.diversity, self.n_best, prompt_state)


@final
@dataclass(frozen=True)
class SamplingSearch(BatchSearch):
    """Search that draws `num_samples` outputs of each sentence with a sampler."""

    eos: int
    sampler: Sampler
    num_samples: int = 1
    penalties: Sequence[LogitsProcessor] = ()
    logits_masks: Sequence[LogitsMask] = ()

    @property
    def rows_per_sentence(self) -> int:
        """Number of model rows of each sentence: one for each sample."""
        return self.num_samples

    def check_request(self, request: GenerationRequest) -> None:
        """Raise `RecipeError` if the request has lexical constraints, or there are no samples."""
        _forbid_constraints(request)
        if self.num_samples < 1:
            raise RecipeError(f"samples: {self.num_samples} of each sentence; must be at least 1")

    def init_batch(self, request: GenerationRequest, prefill: PrefillOutput, state: State) -> SamplingBatch:
        """Return the batch before its first token, with `num_samples` rows for each sentence."""
        return _init_samples(self, request, prefill)


def _init_beams(
    search: BeamSearch | DiverseBeamSearch, request: GenerationRequest, prefill: PrefillOutput, *, width: int
) -> tuple[Any, BeamGroup, BeamOptions]:
    """Return the merge key of a batch, a group of `width` beams before its first token, and the options of all beams.
    `prefill` is what was read of the sentences of the request.
    """
    pipeline = LogitsPipeline.from_request(
        request, eos=search.eos, penalties=search.penalties, logits_masks=search.logits_masks
    )
    merge_key = None if search.on_step else build_merge_key(search, request, prefill, pipeline)
    group = BeamGroup.from_prefill(prefill, request, pipeline, width=width, n_best=min(width, search.n_best))
    divisors = compute_length_divisors(prefill, search.length_penalty)
    return merge_key, group, BeamOptions(search.eos, pipeline, search.filters, divisors, search.on_step)


def _init_samples(
    search: GreedySearch | SamplingSearch, request: GenerationRequest, prefill: PrefillOutput
) -> SamplingBatch:
    """Return the batch of a search before its first token. `prefill` is what was read for the request."""
    pipeline = LogitsPipeline.from_request(
        request, eos=search.eos, penalties=search.penalties, logits_masks=search.logits_masks
    )
    options = SamplingOptions(search.eos, search.sampler, pipeline)
    merge_key = build_merge_key(search, request, prefill, pipeline)
    return SamplingBatch.from_prefill(
        prefill, request, options, num_samples=search.rows_per_sentence, merge_key=merge_key
    )


def _check_n_best(n_best: int, width: int) -> None:
    """Raise `RecipeError` unless `n_best` is from 1 to the beam width."""
    if not 1 <= n_best <= width:
        raise RecipeError(f"n-best: {n_best} of a beam of width {width}; must be from 1 to the width")


def _forbid_constraints(request: GenerationRequest) -> None:
    """Raise `RecipeError` if the request has lexical constraints, which only beam search can meet."""
    if request.constraints is not None:
        raise RecipeError(
            "terms that must be written: only beam search can search for them; give it a width, as in --beam 5"
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
    """Decode each sentence with beam search; return its `n_best` best hypotheses.

    At each step the 2 * width best continuations of a sentence are ranked. Those that end the sentence and are among
    the first `width` are finished; the best `width` others live on. A sentence is done when it has `n_best` finished
    hypotheses and no live one can beat the worst of them: no future score exceeds the present one divided by the
    largest divisor to come.

    Args:
        step: see `Engine.step`; any function that keeps its laws.
        state: one row for each sentence.
        prompt: what stands before the output, at least the begin of sentence; may be padded anywhere.
        width: number of live hypotheses of each sentence.
        eos: the token that ends a sentence.
        max_new_tokens: largest number of new tokens, the forced prefix and `eos` included. Where fewer than `n_best`
            hypotheses are finished then, the best live ones follow them, as unfinished.
        length_penalty: makes hypotheses of different lengths comparable.
        n_best: number of hypotheses, at most `width`; fewer are returned where fewer exist.
        prefix: ids with which the outputs begin, -1 after them; part of their scores, even if longer than the limit.
        filters: forbid tokens. Log-probabilities are those of the model without filters, as `score_target` gives them.
        penalties: change logits before the filters. Hypotheses are ranked by the resulting probabilities, which are
            normalised again; `log_probability` stays that of the model.
        logits_masks: forbid tokens depending on earlier ones; ranking and log-probabilities are as with filters.
        stop: ends hypotheses besides `eos`; the token at which it does so is their last, and they are not `finished`.
        on_step: called with every step; its argument is computed only if it is given.
        until: when it returns True, the search returns the best hypotheses so far, ended or not.
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
    """Decode each sentence with greedy search, the most probable token at each step; return one hypothesis for each.
    `step` and `state` are those of the model before the prompt; all arguments are as in `beam_search`.
    """
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
    """Draw `num_samples` outputs for each sentence, best first. `step` and `state` are those of the model before the
    prompt; other arguments are as in `beam_search`.

    Scores are log-probabilities of the model before penalties, temperature and filters. `rng_streams` gives each
    sentence the number of its own random stream, by default its row. A caller that batches sentences in another order
    passes the original numbers, and every output stays the same.
    """
    search = SamplingSearch(eos, sampler, num_samples, penalties, logits_masks)
    return search.decode_request(
        step, state, GenerationRequest(prompt, max_new_tokens, prefix, rng_streams, stop, until)
    ).hypotheses


_MIN_ATTENTION: Final = 1e-4
"""Lower bound of a source token's attention; hard attention can give it 0, whose logarithm is infinite."""


@final
@dataclass(frozen=True)
class CoverageReranker(SearchStrategy):
    """Search that reranks the hypotheses of another one by score and coverage (Wu et al. 2016, equation 14).

    A score is increased by beta * sum_i log(min(sum_j p_ij, 1)), where p_ij is the attention of target token j to
    source token i. The finished texts are read once more to get it, so coverage does not influence the search itself.
    Unfinished hypotheses stay behind finished ones.
    """

    search: SearchStrategy
    beta: float
    n_best: int = 1

    @property
    def rows_per_sentence(self) -> int:
        """Number of model rows of each sentence: that of the inner search."""
        return self.search.rows_per_sentence

    def decode_request(self, step: Step, state: State, request: GenerationRequest) -> SearchResult:
        """Run the inner search and return at most `n_best` hypotheses for each row, best first by score and coverage.

        Raises:
            RecipeError: the request has no attention lookup.
        """
        if request.attention_lookup is None:
            raise RecipeError("coverage: needs attention to a source text, which only translation has; leave it out")
        result = self.search.decode_request(step, state, replace(request, attention_lookup=None))
        rows = [row for row, hypotheses in enumerate(result.hypotheses) for _ in hypotheses]
        weights = iter(
            request.attention_lookup(
                rows, [hypothesis.ids for hypotheses in result.hypotheses for hypothesis in hypotheses]
            )
        )
        order = []
        for hypotheses in result.hypotheses:
            scores = [hypothesis.score + self.beta * compute_coverage(next(weights)) for hypothesis in hypotheses]
            ranking = sorted(
                (not hypothesis.finished, -score, index)
                for index, (hypothesis, score) in enumerate(zip(hypotheses, scores, strict=True))
            )
            order.append([(index, scores[index]) for *_, index in ranking[: self.n_best]])
        return result.rerank(order)


def compute_coverage(attention: Float[Tensor, "T S"]) -> float:
    """Return sum_i log(min(sum_j p_ij, 1)); 0 where every source token has a total attention of at least 1."""
    return float(attention.sum(0).clamp(_MIN_ATTENTION, 1).log().sum())
