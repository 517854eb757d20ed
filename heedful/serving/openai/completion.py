"""`/v1/completions` of OpenAI's interface: continue prompts with language models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar, final

from pydantic import Field, field_validator

from heedful.serving.capabilities import has_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.openai.generation import (
    FinishReason,
    GenerationPlan,
    OpenAIMessage,
    TextGenerationRequest,
    TokenEntry,
    TokenLogprobs,
    TokenTracker,
    TokenUsage,
    UnsupportedField,
    build_logprobs,
    build_plan,
    check_limits,
    check_texts,
)
from heedful.serving.openai.models import GROUP
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import MAX_INTEGER, HandlerResult, RequestContext, declare_route
from heedful.serving.settings import ServerLimits
from heedful.serving.sse import OPENAI_CHUNKS, stream_response
from heedful.tasks.continuations import TextStream
from heedful.tasks.language.predictor import Continuation, TextGenerator
from heedful.tasks.language.token_predictions import TokenPrediction
from heedful.tasks.predictor import iter_chunks

_DEFAULT_MAX_TOKENS = 16
"""Default number of tokens of a completion, as in OpenAI's interface."""
T = TypeVar("T")
_CHUNK_TOKENS: Final = 256
"""Tokens of a prompt that are read before the deadline is checked again."""


class CompletionRequest(TextGenerationRequest):
    """Prompts for a language model, and how to continue them."""

    prompt: str | list[str] | None = None
    """a text, or several; an empty or missing one begins a document"""
    max_tokens: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    """maximum number of tokens of a completion, 16 by default; 0 with `echo` only scores the prompt"""
    n: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = 1
    """number of completions of each prompt"""
    best_of: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    """number of completions that are generated, of which the `n` with the highest log-probability per token are
    returned"""
    echo: bool | None = None
    """return the prompt before the completion"""
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    """return the tokens, their log-probabilities, and this many most probable tokens at each position"""
    suffix: UnsupportedField = None
    """text after the completion: not supported"""

    @field_validator("prompt", mode="before")
    @classmethod
    def _check_prompt(cls, prompt: Any) -> Any:
        return None if prompt is None else check_texts(prompt)

    @property
    def prompts(self) -> list[str]:
        """The prompts as a list."""
        return self.prompt if isinstance(self.prompt, list) else [self.prompt or ""]

    @property
    def max_completion_tokens(self) -> int:
        """Maximum number of tokens of a completion."""
        return _DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def num_candidates(self) -> int:
        """Number of completions that are generated for each prompt."""
        return self.best_of or self.n or 1


class CompletionChoice(OpenAIMessage):
    """One completion, or a streamed piece of it."""

    index: int
    """index of the completion; those of the first prompt come first"""
    text: str
    logprobs: TokenLogprobs | None
    finish_reason: FinishReason | None
    """stop: the text ended by itself or at a stop string; length: it reached the maximum number of tokens; null: more
    follows"""


class CompletionResponse(OpenAIMessage):
    """The response to a completion request, or one event of its stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenUsage | None = None
    notes: list[str] | None = None
    """differences between the request and what the model read (not part of OpenAI's interface)"""


@declare_route(
    "/v1/completions",
    "a language model continues prompts",
    response_type=CompletionResponse,
    group=GROUP,
    examples=({"prompt": "Once upon a time", "max_tokens": 20, "temperature": 0}, {"prompt": "", "seed": 1}),
    is_served=partial(has_capable_model, capability="generate"),
)
async def _answer_completion(context: RequestContext, message: CompletionRequest) -> HandlerResult:
    """Continue the prompts of a request, and return the completions or, if a stream is requested, a response that
    streams them.
    """
    model = context.registry.get_model(TextGenerator, message.model, action="write")
    predictor: TextGenerator = model.predictor
    limits = _check_request(context, message)
    plan = build_plan(
        message,
        predictor.generation,
        special=predictor.tokenizer.special,
        vocab_size=predictor.tokenizer.size,
        max_tokens=min(message.max_completion_tokens, limits.tokens),
        stream_index=0,
        num_texts=message.num_candidates,
    )
    job = CompletionJob(context, message, model, plan)
    if message.stream:
        return await stream_response(context, model, job.stream, event_format=OPENAI_CHUNKS)
    return await model.run(context.deadline, job.run)


def _check_request(context: RequestContext, message: CompletionRequest) -> ServerLimits:
    """Return the server's limits; raise an `HTTPError` if the fields of a completion request contradict each other, as
    a `best_of` below `n`, or if the request exceeds the limits.
    """
    limits = check_limits(context, message, message.prompts, requested_tokens={"max_tokens": message.max_tokens})
    field_name = "n" if message.best_of is None else "best_of"
    if message.num_candidates < (message.n or 1):
        raise bad_request(
            f"best_of: {message.num_candidates} completions to choose {message.n} from; ask for more", param="best_of"
        )
    if message.num_candidates > limits.alternatives + 1:
        raise bad_request(
            f"{field_name}: {message.num_candidates}; at most {limits.alternatives + 1} are written here",
            param=field_name,
        )
    if (count := len(message.prompts) * message.num_candidates) > limits.batch:
        raise bad_request(
            f"{count:,} completions; a request may have {limits.batch:,}: send fewer prompts", param="prompt"
        )
    if message.stream and message.num_candidates > 1:
        raise bad_request(
            f"{field_name}: a stream has one completion of each prompt; ask for 1, or without stream", param=field_name
        )
    if not message.max_completion_tokens and not message.echo:
        raise bad_request("max_tokens: 0 writes nothing; ask for 1 or more, or for echo", param="max_tokens")
    return limits


@final
@dataclass(frozen=True)
class CompletionJob:
    """A validated completion request, which runs in a worker thread."""

    context: RequestContext
    message: CompletionRequest
    model: LoadedModel[TextGenerator]
    plan: GenerationPlan
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def predictor(self) -> TextGenerator:
        """The language model's predictor."""
        return self.model.predictor

    def is_over(self) -> bool:
        """Return whether the request's deadline is over or its client has disconnected."""
        return self.context.deadline.is_over

    def run(self) -> Mapping[str, Any]:
        """Generate all completions and return the complete response."""
        prompts, n = self.message.prompts, self.message.n or 1
        generated = self._generate(prompts)
        self.context.deadline.raise_if_over()
        chosen = [
            (prompt, continuation)
            for prompt, candidates in zip(prompts, generated, strict=True)
            for continuation in candidates[:n]
        ]
        trackers = [TokenTracker(self.predictor.tokenizer, prompt) for prompt, _ in chosen]
        all_logprobs = self._compute_logprobs(trackers, [continuation for _, continuation in chosen])
        self.context.deadline.raise_if_over()
        choices = [
            CompletionChoice(
                index=index,
                text=(prompt if self.message.echo else "") + continuation.text,
                logprobs=logprobs,
                finish_reason="stop" if continuation.finished or continuation.stop is not None else "length",
            )
            for index, ((prompt, continuation), logprobs) in enumerate(zip(chosen, all_logprobs, strict=True))
        ]
        num_prompt_tokens = sum(len(tracker.prompt_ids) for tracker in trackers[::n])
        usage = TokenUsage.from_counts(
            num_prompt_tokens, sum(len(continuation.ids) for candidates in generated for continuation in candidates)
        )
        return self._build_response(choices, usage=usage, **self._find_notes())

    def stream(self, emit: Callable[[Mapping[str, Any]], None]) -> None:
        """Generate the completions of all prompts at the same time, and call `emit` with a chunk for each new piece, in
        turn; a last chunk has the usage if it was requested.
        """
        streams = [_CompletionStream(self, prompt, index) for index, prompt in enumerate(self.message.prompts)]
        usage, notes = {"usage": None} if self.message.includes_usage else {}, self._find_notes()
        active = [(completion_stream, completion_stream.iter_choices()) for completion_stream in streams]
        while active:
            for entry in tuple(active):
                choice = next(entry[1], None)
                if choice is None:
                    active.remove(entry)
                else:
                    emit(self._build_response([choice], **usage, **notes))
                    notes = {}
        if self.message.includes_usage:
            num_prompt_tokens = sum(len(completion_stream.tracker.prompt_ids) for completion_stream in streams)
            emit(
                self._build_response(
                    [],
                    usage=TokenUsage.from_counts(
                        num_prompt_tokens, sum(completion_stream.num_written for completion_stream in streams)
                    ),
                )
            )

    def _generate(self, prompts: Sequence[str]) -> list[list[Continuation]]:
        """Generate the completions of each prompt; if `best_of` is given, sort them by mean log-probability, best
        first.
        """
        if not self.message.max_completion_tokens:
            return [[Continuation("", (), 0.0, finished=False)] * self.message.num_candidates for _ in prompts]
        plan = self.plan
        generated = self.predictor.write(
            prompts, search=plan.search, limit=plan.limit, stop=plan.stop, first=plan.stream_index, until=self.is_over
        )
        if self.message.best_of is None:
            return generated
        return [sorted(candidates, key=_mean_log_probability, reverse=True) for candidates in generated]

    def _compute_logprobs(
        self, trackers: Sequence[TokenTracker], chosen: Sequence[Continuation]
    ) -> Sequence[TokenLogprobs | None]:
        """Return the log-probabilities of the tokens of each chosen completion, and of its prompt if that is echoed;
        None for each if they were not requested. `trackers` hold the tokens of the prompt of each.
        """
        num_likeliest, echo = self.message.logprobs, bool(self.message.echo)
        if num_likeliest is None:
            return [None] * len(chosen)
        all_predictions: Iterator[list[TokenPrediction]] = iter(())
        if num_likeliest or echo:
            documents = (
                [*tracker.prompt_ids, *continuation.ids] for tracker, continuation in zip(trackers, chosen, strict=True)
            )
            all_predictions = iter(
                self.predictor.predict_tokens([ids for ids in documents if ids], top_k=num_likeliest)
            )
        results = []
        for tracker, continuation in zip(trackers, chosen, strict=True):
            count = len(tracker.prompt_ids)
            if num_likeliest or echo:
                predictions = next(all_predictions) if tracker.prompt_ids or continuation.ids else []
                before, after = predictions[:count], predictions[count:]
            else:
                before, after = (
                    [],
                    [
                        TokenPrediction(value, ())
                        for value in continuation.token_log_probabilities[: len(continuation.ids)]
                    ],
                )
            entries = tracker.prompt_entries(self.iter_while_awaited(before)) if echo else []
            continuation_entries = tracker.add_tokens(continuation.ids, self.iter_while_awaited(after))
            end = len(tracker.text) + len(continuation.text)
            entries += (
                continuation_entries
                if continuation.stop is None
                else (entry for entry in continuation_entries if entry.start < end)
            )
            results.append(build_logprobs(entries, num_likeliest=num_likeliest))
        return results

    def iter_while_awaited(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and raise an error as soon as the deadline is over."""
        for item in items:
            self.context.deadline.raise_if_over()
            yield item

    def _build_response(self, choices: Sequence[CompletionChoice], **fields: Any) -> Mapping[str, Any]:
        """Build the response, or one event of its stream, as a JSON object with these choices and further fields."""
        response = CompletionResponse(
            id=f"cmpl-{self.context.id}",
            object="text_completion",
            created=self.created,
            model=self.model.name,
            choices=list(choices),
            **fields,
        )
        return response.model_dump(mode="json", exclude_unset=True)

    def _find_notes(self) -> dict[str, list[str]]:
        """Return notes about prompts that are longer than the model's context; empty if there are none."""
        if not self.message.max_completion_tokens:
            return {}
        dropped_counts = (
            (number, self.predictor.count_dropped_tokens(prompt))
            for number, prompt in enumerate(self.message.prompts, 1)
        )
        notes = [
            f"prompt {number} is too long for the model's {self.predictor.max_context:,} positions; its first "
            f"{count:,} tokens are not read"
            for number, count in dropped_counts
            if count
        ]
        return {"notes": notes} if notes else {}


def _mean_log_probability(continuation: Continuation) -> float:
    return continuation.log_probability / max(1, len(continuation.token_log_probabilities))


@final
class _CompletionStream:
    """One streamed completion.

    Attributes:
        tracker: of its tokens.
        num_written: generated tokens so far.
    """

    def __init__(self, job: CompletionJob, prompt: str, index: int) -> None:
        self.tracker = TokenTracker(job.predictor.tokenizer, prompt)
        self.num_written = 0
        self._job = job
        self._index = index
        num_likeliest = job.message.logprobs
        self._prediction_reader = (
            None if num_likeliest is None else job.predictor.build_incremental_predictor(top_k=num_likeliest)
        )

    def iter_choices(self) -> Iterator[CompletionChoice]:
        """Yield choices with the prompt if it is to be echoed, with the text as it is generated, and with the finish
        reason.
        """
        message, prompt = self._job.message, self.tracker.text
        before = self._predict(self.tracker.prompt_ids)
        if message.echo and prompt:
            with_logprobs = self._prediction_reader is not None
            yield self._build_choice(
                prompt, self.tracker.prompt_entries(self._job.iter_while_awaited(before)) if with_logprobs else []
            )
        if not message.max_completion_tokens:
            yield self._build_choice("", [], finish_reason="length")
            return
        plan, num_shown, pending = self._job.plan, len(prompt), list[TokenEntry]()
        text_stream = self._job.predictor.stream(
            prompt,
            search=plan.search,
            limit=plan.limit,
            stop=plan.stop,
            number=plan.stream_index + self._index,
            until=self._job.is_over,
        )
        for piece in text_stream:
            pending += self._take_new_tokens(text_stream)
            num_shown += len(piece)
            yield self._build_choice(piece, [entry for entry in pending if entry.start < num_shown])
            pending = [entry for entry in pending if entry.start >= num_shown]
        self._job.context.deadline.raise_if_over()
        pending += self._take_new_tokens(text_stream)
        is_stopped = text_stream.stop is not None or self.num_written < len(text_stream.ids)
        yield self._build_choice(
            "", pending if text_stream.stop is None else [], finish_reason="stop" if is_stopped else "length"
        )

    def _take_new_tokens(self, text_stream: TextStream) -> list[TokenEntry]:
        """Return the entries of the tokens of a text stream that are new since the last call, without the end token;
        empty if no log-probabilities are requested.
        """
        eos = self._job.predictor.tokenizer.special.eos
        ids = [number for number in text_stream.ids[self.num_written :] if number != eos]
        self.num_written += len(ids)
        return [] if self._prediction_reader is None else self.tracker.add_tokens(ids, self._predict(ids))

    def _predict(self, ids: Sequence[int]) -> list[TokenPrediction]:
        """Read token ids in chunks, and return what the model predicted at each; empty if no log-probabilities are
        requested.
        """
        if self._prediction_reader is None:
            return []
        return [
            prediction
            for chunk in self._job.iter_while_awaited(iter_chunks(ids, _CHUNK_TOKENS))
            for prediction in self._prediction_reader.predict_next(chunk)
        ]

    def _build_choice(
        self, text: str, entries: Sequence[TokenEntry], *, finish_reason: FinishReason | None = None
    ) -> CompletionChoice:
        """Build the choice for a new piece of text with the entries of its tokens; `finish_reason` is None while more
        follows.
        """
        num_likeliest = self._job.message.logprobs
        logprobs = None if num_likeliest is None else build_logprobs(entries, num_likeliest=num_likeliest)
        return CompletionChoice(index=self._index, text=text, logprobs=logprobs, finish_reason=finish_reason)
