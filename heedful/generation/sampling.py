"""Greedy search, sampling and token streams, and the decoding loop that they share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation import native_kernels
from heedful.generation.logits_masks import LogitsMask
from heedful.generation.penalties import LogitsProcessor
from heedful.generation.prefill import GenerationRequest, PrefillOutput, prefill_prompt
from heedful.generation.processors import LogitsPipeline, PipelineState
from heedful.generation.results import HypothesisBatch, NoTokenError, ResumeState, SearchResult
from heedful.generation.samplers import GreedySampler, Sampler, SamplerContext, SuppressTokens
from heedful.generation.scoring import upcast_logits
from heedful.generation.stopping_criteria import InterruptCondition, StopOnToken, StoppingCriterion, never_interrupt
from heedful.generation.topk import compute_logsumexp
from heedful.models.interface import MultiStepDecoder, State, Step
from heedful.tensors import MultiStepLimits, RowSelection, Tokens, concat_rows, select_rows

_COMPACTION_THRESHOLD = 0.25  # of the sentences done, as in beam search
_LOOKAHEAD_TOKENS: Final = 64
"""Tokens of all rows that are found at one time, where the engine knows how; rows that are done are dropped between."""


@dataclass(frozen=True)
class RowState:
    """State of the rows that are still decoded; `limits` and `lengths` count the forced prefix."""

    row_indices: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    lengths: Int[Tensor, " N"]
    limits: Int[Tensor, " N"]
    rng_streams: Int[Tensor, " N"]
    done: Bool[Tensor, " N"]
    segments: Int[Tensor, "N 1"] | None


@dataclass(frozen=True)
class SampledTokens:
    """One new token of each row; `positions` is -1 in rows that had ended."""

    row_indices: Int[Tensor, " N"]
    ids: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    log_probabilities: Float[Tensor, " N"]


@dataclass(frozen=True)
class SamplingEnd:
    """State after the last token.

    Attributes:
        states: model states with the rows to which they belong; only the last ones unless all were to be kept.
        interrupted: rows that were interrupted before they ended.
    """

    states: tuple[tuple[Int[Tensor, " _"], State], ...]
    interrupted: Int[Tensor, " _"]

    def collect_state(self, order: Int[Tensor, " M"]) -> State:
        """Return the model state of the rows in this order; each row must occur once."""
        rows = torch.cat([rows for rows, _ in self.states])
        joined_state = concat_rows([state for _, state in self.states])
        indices = rows.argsort()[order]
        if torch.equal(indices, torch.arange(len(indices), device=indices.device)):
            return joined_state
        return select_rows(joined_state, indices)


@final
class _SampledSteps:
    """Iterator over sampled tokens that keeps the generator's return value as `end`."""

    end: SamplingEnd

    def __init__(self, steps: Generator[SampledTokens, None, SamplingEnd]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[SampledTokens]:
        self.end = yield from self._steps


@torch.inference_mode()
def run_sampling(
    step: Step,
    state: State,
    request: GenerationRequest,
    *,
    eos: int,
    sampler: Sampler,
    num_samples: int,
    pipeline: LogitsPipeline,
) -> SearchResult:
    """Draw `num_samples` outputs for each sentence; return them and, if requested, the model state after each."""
    if request.constraints is not None:
        raise RecipeError(
            "terms that must be written: only beam search can search for them; give it a width, as in --beam 5"
        )
    if num_samples < 1:
        raise RecipeError(f"samples: {num_samples} of each sentence; must be at least 1")
    prefill, state = prefill_prompt(step, state, request, eos=eos)
    sampled_steps = _SampledSteps(
        _generate_tokens(
            step,
            state,
            request,
            prefill=prefill,
            num_samples=num_samples,
            sampler=sampler,
            pipeline=pipeline,
            allow_multi_step=True,
        )
    )
    hypotheses, order = _collect_hypotheses(
        list(sampled_steps), sampled_steps.end, prefill, eos=eos, num_samples=num_samples
    )
    if not request.keep_state:
        return SearchResult(hypotheses.to_hypotheses(prefill))
    first_positions = prefill.positions.repeat_interleave(num_samples)
    return SearchResult(
        hypotheses.to_hypotheses(prefill),
        ResumeState.from_generated(
            sampled_steps.end.collect_state(order), hypotheses.to_tokens(prefill), first_positions=first_positions
        ),
    )


def _generate_tokens(
    step: Step,
    model_state: State,
    request: GenerationRequest,
    *,
    prefill: PrefillOutput,
    num_samples: int,
    sampler: Sampler,
    pipeline: LogitsPipeline,
    allow_multi_step: bool,
) -> Generator[SampledTokens, None, SamplingEnd]:
    """Yield one token for every live row until all rows have ended; drop ended sentences on the way.

    Args:
        step: `Engine.step` of the model.
        model_state: the engine state after the prompts.
        request: prompt, limits and options.
        prefill: output of the prefill.
        num_samples: rows of each sentence.
        sampler: takes each token.
        pipeline: logits processors and stopping criteria.
        allow_multi_step: whether several tokens may be decoded before the first of them is yielded.
    """
    row_state, pipeline_state = (
        init_rows(prefill, rng_streams=request.rng_streams),
        pipeline.init_state(request.prompt, prefill),
    )
    multi_step = (
        _build_multi_step(step, request, sampler=sampler, pipeline=pipeline)
        if allow_multi_step and num_samples == 1
        else None
    )
    logits, dropped_states, until = prefill.logits, [], request.until
    if num_samples > 1:
        branches = RowSelection.expand(len(logits), num_samples, device=logits.device)
        model_state, row_state, pipeline_state, logits = select_rows(
            (model_state, row_state, pipeline_state, logits), branches
        )
        rows = torch.arange(len(logits), device=logits.device)
        row_state = replace(row_state, row_indices=rows, rng_streams=row_state.rng_streams + rows % num_samples)
    is_running, multi_step_result = not bool(row_state.done.all()) and not until(), None
    while is_running:
        if multi_step_result is None:
            row_state, sampled, pipeline_state, (num_done, failed_row) = sample_step(
                row_state,
                upcast_logits(logits),
                pipeline_state,
                sampler=sampler,
                pipeline=pipeline,
                num_samples=num_samples,
            )
            sampled_steps = [sampled]
        else:
            row_state, sampled_steps, model_state, (num_done, failed_row) = multi_step_result
        yield from sampled_steps if failed_row < 0 else sampled_steps[:-1]
        if failed_row >= 0:
            raise NoTokenError(int(row_state.row_indices[failed_row]) // num_samples)
        sampled = sampled_steps[-1]
        num_sentences = len(row_state.done) // num_samples
        is_running = num_done < num_sentences and not until()
        if is_running:
            if num_done >= _COMPACTION_THRESHOLD * num_sentences:
                sentences = row_state.done.view(-1, num_samples).all(1)
                if request.keep_state and num_done:
                    dropped_states.append(
                        select_rows(
                            (row_state.row_indices, model_state),
                            RowSelection.keep_groups(sentences.nonzero().squeeze(1), num_samples),
                        )
                    )
                active = RowSelection.keep_groups((~sentences).nonzero().squeeze(1), num_samples)
                row_state, sampled, model_state, pipeline_state = select_rows(
                    (row_state, sampled, model_state, pipeline_state), active
                )
            multi_step_result = None if multi_step is None else multi_step(row_state, sampled, model_state)
            if multi_step_result is None:
                logits, model_state = step(_build_inputs(row_state, sampled), model_state)
                logits = logits[:, -1]
    return SamplingEnd((*dropped_states, (row_state.row_indices, model_state)), row_state.row_indices[~row_state.done])


def init_rows(prefill: PrefillOutput, *, rng_streams: Int[Tensor, " B"] | None) -> RowState:
    """Return the state of one row for each sentence after its prompt.

    A sentence without a random stream of its own uses its row number.
    """
    rows = torch.arange(len(prefill.prefix_lengths), device=prefill.prefix_lengths.device)
    # far apart, so that the samples of one sentence are not the first ones of the next
    stream_offsets = (rows if rng_streams is None else rng_streams) << 20
    done = prefill.prefix_lengths >= prefill.limits
    return RowState(
        rows, prefill.positions, prefill.prefix_lengths, prefill.limits, stream_offsets, done, prefill.segments
    )


_MultiStepResult: TypeAlias = tuple[RowState, list[SampledTokens], State, list[int]]


def _build_multi_step(
    step: Step, request: GenerationRequest, *, sampler: Sampler, pipeline: LogitsPipeline
) -> Callable[[RowState, SampledTokens, State], _MultiStepResult | None] | None:
    """Return a function that decodes several greedy tokens in one engine call, or None where that is not possible.

    It needs greedy search without callbacks between the tokens, and an engine with multi-step decoding.
    """
    engine, stop = getattr(step, "__self__", None), pipeline.stop
    needs_single_steps = request.until is not never_interrupt or not pipeline.is_stateless
    if needs_single_steps or not (
        isinstance(engine, MultiStepDecoder) and isinstance(stop, StopOnToken) and isinstance(sampler, GreedySampler)
    ):
        return None
    if not all(isinstance(item, SuppressTokens) for item in sampler.filters):
        return None
    ids = sorted(
        {item for suppress in sampler.filters if isinstance(suppress, SuppressTokens) for item in suppress.ids}
    )
    forbidden = torch.tensor(ids, dtype=torch.long)

    def run_steps(row_state: RowState, sampled: SampledTokens, model_state: State) -> _MultiStepResult | None:
        """Decode several tokens of each row; None where the engine cannot do it."""
        steps = min(_LOOKAHEAD_TOKENS // len(row_state.done), int((row_state.limits - row_state.lengths).amax()))
        if steps < 2:
            return None
        step_limits = MultiStepLimits(
            row_state.positions, row_state.lengths, row_state.limits, row_state.done, stop.token_id, forbidden, steps
        )
        result = engine.decode_greedy(_build_inputs(row_state, sampled), model_state, limits=step_limits)
        if result is None:
            return None
        output, model_state = result
        num_steps, done_mask = len(output.ids), output.done
        summary = [int(done_mask.sum()), output.failed_row]
        next_rows = replace(
            row_state, positions=row_state.positions + num_steps, lengths=row_state.lengths + num_steps, done=done_mask
        )
        step_fields = zip(output.ids, output.positions, output.log_probabilities, strict=True)
        return (
            next_rows,
            [SampledTokens(row_state.row_indices, *fields) for fields in step_fields],
            model_state,
            summary,
        )

    return run_steps


def _build_inputs(row_state: RowState, sampled: SampledTokens) -> Tokens:
    """Build the next input tokens from the sampled ones; position -1 in rows that are done."""
    positions = torch.where(row_state.done, -1, sampled.positions).unsqueeze(1)
    return Tokens(sampled.ids.unsqueeze(1), positions, row_state.segments)


def sample_step(
    row_state: RowState,
    logits: Float[Tensor, "N V"],
    pipeline_state: PipelineState,
    *,
    sampler: Sampler,
    pipeline: LogitsPipeline,
    num_samples: int,
) -> tuple[RowState, SampledTokens, PipelineState, list[int]]:
    """Sample one token of each row from the logits.

    Returns the new rows, the tokens, the new pipeline state, and the number of done sentences with the first row
    without a token, or -1.
    """
    log_normalizers = compute_logsumexp(logits)
    processed = pipeline.apply_masks(pipeline.apply_penalties(logits, pipeline_state), pipeline_state)
    sampled_ids = sampler(processed, SamplerContext(row_state.lengths, row_state.rng_streams))
    ids = sampled_ids.clamp(min=0)
    has_ended, pipeline_state = pipeline.update(ids, pipeline_state)
    fields_before = row_state.positions, row_state.lengths, row_state.done
    if (library := native_kernels.find_library_for(logits)) is not None:
        fields_after, values, sampled_positions, summary = native_kernels.update_rows(
            library,
            logits,
            log_normalizers,
            sampled_ids=sampled_ids,
            has_ended=has_ended,
            limits=row_state.limits,
            fields_before=fields_before,
            num_samples=num_samples,
        )
    else:
        values = logits.gather(1, ids.unsqueeze(1)).squeeze(1) - log_normalizers
        sampled_positions = torch.where(row_state.done, -1, row_state.positions)
        lengths = row_state.lengths + 1
        fields_after = row_state.positions + 1, lengths, row_state.done | has_ended | (lengths >= row_state.limits)
        impossible = (sampled_ids < 0) & ~row_state.done
        first = torch.where(impossible.any(), impossible.byte().argmax(), -1)
        summary = torch.stack((fields_after[2].view(-1, num_samples).all(1).sum(), first)).tolist()
    positions, lengths, done = fields_after
    row_state = RowState(
        row_state.row_indices, positions, lengths, row_state.limits, row_state.rng_streams, done, row_state.segments
    )
    return row_state, SampledTokens(row_state.row_indices, ids, sampled_positions, values), pipeline_state, summary


def _to_tuple(sampled: SampledTokens) -> tuple[Tensor, ...]:
    """Return row indices, ids, positions and log-probabilities."""
    return sampled.row_indices, sampled.ids, sampled.positions, sampled.log_probabilities


def _collect_hypotheses(
    sampled_steps: list[SampledTokens], end: SamplingEnd, prefill: PrefillOutput, *, eos: int, num_samples: int
) -> tuple[HypothesisBatch, Int[Tensor, " N"]]:
    """Build the hypotheses, best first in each sentence, and return them with the rows they came from."""
    rows = len(prefill.prefix_lengths) * num_samples
    ids = prefill.positions.new_zeros(rows, len(sampled_steps) + 1)
    values = prefill.prefix_log_probabilities.new_zeros(ids.shape)
    token_counts = ids.new_zeros(rows)
    if sampled_steps:
        row_indices, tokens, positions, scores = (
            torch.cat(parts) for parts in zip(*map(_to_tuple, sampled_steps), strict=True)
        )
        counts = torch.tensor([len(sampled.ids) for sampled in sampled_steps], device=ids.device)
        numbers = torch.arange(len(sampled_steps), device=ids.device).repeat_interleave(counts)
        is_token = positions >= 0
        ids[row_indices, numbers] = tokens
        values[row_indices, numbers] = scores.where(is_token, 0.0)
        token_counts.index_add_(0, row_indices, is_token.long())
    finished = (token_counts > 0) & (ids.gather(1, (token_counts - 1).clamp(min=0).unsqueeze(1)).squeeze(1) == eos)
    prefix_scores = prefill.prefix_log_probabilities.sum(1).repeat_interleave(num_samples)
    totals = (prefix_scores + values.sum(1)).view(-1, num_samples)
    order = totals.sort(dim=1, descending=True, stable=True).indices
    row_order = torch.arange(len(order), device=ids.device).unsqueeze(1) * num_samples + order
    totals = totals.gather(1, order)
    interrupted = torch.zeros_like(finished).index_fill_(0, end.interrupted, True)
    counts = (token_counts - finished.long())[row_order]
    return HypothesisBatch(
        counts, finished[row_order], totals, totals, ids[row_order], values[row_order], interrupted[row_order]
    ), row_order.flatten()


@final
class TokenStream(Iterator[Tokens]):
    """Iterator over the tokens of all rows as they are sampled, one column [B, 1] at a time.

    A row that has ended goes on with position -1.

    Attributes:
        cut: mask of the rows that were interrupted; None while tokens come.
    """

    def __init__(
        self, step: Step, state: State, request: GenerationRequest, *, sampler: Sampler, pipeline: LogitsPipeline
    ) -> None:
        self.interrupted: Bool[Tensor, " B"] | None = None
        self._end: tuple[SamplingEnd, Tokens, Int[Tensor, " B"]] | None = None
        self._tokens = self._stream_tokens(step, state, request, sampler=sampler, pipeline=pipeline)

    def __next__(self) -> Tokens:
        return next(self._tokens)

    @property
    @torch.inference_mode()
    def resume_state(self) -> ResumeState | None:
        """Model state after all tokens, computed on access; None while tokens come."""
        if self._end is None:
            return None
        end, pending_tokens, positions = self._end
        return ResumeState(
            end.collect_state(torch.arange(len(positions), device=positions.device)), pending_tokens, positions
        )

    @torch.inference_mode()
    def _stream_tokens(
        self, step: Step, state: State, request: GenerationRequest, *, sampler: Sampler, pipeline: LogitsPipeline
    ) -> Generator[Tokens, None, None]:
        """Yield the tokens of each step, and store the end state."""
        prefill, state = prefill_prompt(step, state, request)
        sampled_steps = _SampledSteps(
            _generate_tokens(
                step,
                state,
                request,
                prefill=prefill,
                num_samples=1,
                sampler=sampler,
                pipeline=pipeline,
                allow_multi_step=False,
            )
        )
        pending_tokens, token_counts = torch.zeros_like(prefill.limits), torch.zeros_like(prefill.limits)
        for sampled in sampled_steps:
            ids = torch.zeros_like(prefill.limits).index_copy_(0, sampled.row_indices, sampled.ids)
            positions = torch.full_like(prefill.limits, -1).index_copy_(0, sampled.row_indices, sampled.positions)
            pending_tokens, token_counts = (
                torch.where(positions >= 0, ids, pending_tokens),
                token_counts + (positions >= 0),
            )
            yield Tokens(ids.unsqueeze(1), positions.unsqueeze(1), prefill.segments)
        last_positions = torch.where(token_counts > 0, prefill.positions + token_counts - 1, -1).unsqueeze(1)
        self.interrupted = torch.zeros_like(prefill.limits, dtype=torch.bool).index_fill_(
            0, sampled_steps.end.interrupted, True
        )
        self._end = (
            sampled_steps.end,
            Tokens(pending_tokens.unsqueeze(1), last_positions, prefill.segments),
            prefill.positions + token_counts,
        )


def stream_samples(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    sampler: Sampler,
    stop: StoppingCriterion,
    max_new_tokens: int | Int[Tensor, " B"],
    penalties: Sequence[LogitsProcessor] = (),
    logits_masks: Sequence[LogitsMask] = (),
    prefix: Int[Tensor, "B L"] | None = None,
    rng_streams: Int[Tensor, " B"] | None = None,
    until: InterruptCondition = never_interrupt,
) -> TokenStream:
    """Return a stream of tokens as they are sampled: the outputs of `sampling_search`, column by column.

    The token at which `stop` ends a row is the row's last one. Penalties and masks change the logits before sampling.
    The prompt is read when the first column is requested. A forced prefix is read, but not returned again.
    """
    request = GenerationRequest(prompt, max_new_tokens, prefix, rng_streams, until=until, keep_state=True)
    return TokenStream(step, state, request, sampler=sampler, pipeline=LogitsPipeline(stop, penalties, logits_masks))
