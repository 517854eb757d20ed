"""Predictor that continues prompts with a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final, final

import torch
from pydantic.json_schema import SkipJsonSchema
from torch import Tensor

from heedful.argument_checks import require_text, to_text_list
from heedful.data.batches import pad_rows, to_tokens
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import DataError
from heedful.generation import Hypothesis, RollingContextEngine, count_kept_tokens, score_target
from heedful.generation.prefill import InterruptCondition, never_interrupt
from heedful.generation.search import GreedySearch, SamplingSearch, SearchStrategy
from heedful.inspection.record import InspectionRecord, VectorSize
from heedful.models.generative import LanguageModel
from heedful.models.interface import Engine
from heedful.recipes.generation import ContinuationConfig, SampledContinuationConfig
from heedful.tasks.batch_executor import current_executor, stream_ids
from heedful.tasks.continuations import (
    ContinuationDecoder,
    ContinuationPrompt,
    ContinuationSearchCall,
    StopStrings,
    TextStream,
    encode_prefix,
    get_spelling,
    strip_incomplete_character,
)
from heedful.tasks.inspection_records import (
    InspectionSelection,
    add_attribution,
    build_branches,
    build_text_axes,
    describe_tokens,
    gather_log_probs,
    record_attention,
    repeat_rows,
    trace_beam,
)
from heedful.tasks.language.token_predictions import IncrementalTokenPredictor, TokenPrediction, TokenPredictor
from heedful.tasks.predictor import AnswerRecord, InspectRequest, Predictor, TextLineFormat, run_batched
from heedful.tensors import Tokens, move_to_device

_BATCH_TOKENS: Final = 2**16
"""Prompt tokens in a batch."""


@dataclass(frozen=True)
class Continuation:
    """A continuation of a prompt.

    Attributes:
        text: the text, without the prompt, without a stop string, and without an incomplete last character.
        tokens: all generated tokens as pieces of text, those of a stop string too.
        log_probability: log-probability of the tokens, and of the end if it came, in nats.
        finished: whether the document ended by itself.
        stop: the stop string that ended it, if any.
        ids: ids of the tokens.
        token_log_probabilities: one for each token, and for the end if it came.
    """

    text: str
    tokens: tuple[str, ...]
    log_probability: float
    finished: bool
    stop: str | None = None
    ids: tuple[int, ...] = ()
    token_log_probabilities: tuple[float, ...] = ()


class ContinuationRecord(AnswerRecord):
    """A continuation, as `heedful generate --format jsonl` writes it."""

    prompt: str
    text: str
    tokens: list[str]
    log_probability: float
    finished: bool
    """whether the document ended by itself"""
    stop: str | None = None
    """the stop string that ended it"""
    ids: SkipJsonSchema[list[int]]
    token_log_probabilities: SkipJsonSchema[list[float]]


@dataclass(frozen=True)
class TextLikelihood:
    """Log-probability of a text in nats over `count` tokens, each given all before it.

    If the end of the document counts, its log-probability is the last of `token_log_probabilities`.
    """

    log_probability: float
    count: int
    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]


@keep_old_names(forgotten="count_dropped_tokens", expected="predict_tokens", reading="build_incremental_predictor")
class TextGenerator(Predictor):
    """A language model with its tokenizer that continues prompts.

    If positions are limited, generation goes on with the newer half of the context, read again as if the text began
    there; see `heedful.generation.RollingContextEngine`. A prompt that is too long is truncated on the left in the same
    way.

    Args:
        model: the model in evaluation mode.
        tokenizer: tokenizer it was trained with.
        search: default search algorithm.
        limit: default maximum tokens of a continuation.
        stop: default stop strings.
        max_context: number of positions, the token that begins a document included; None if unlimited.
        generation: config that `search`, `limit` and `stop` were built from.
    """

    command = "generate"

    def __init__(
        self,
        model: LanguageModel,
        *,
        tokenizer: Tokenizer,
        search: SearchStrategy,
        limit: int,
        stop: Sequence[str] = (),
        max_context: int | None = None,
        generation: ContinuationConfig = SampledContinuationConfig(),  # noqa: B008 - frozen
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.search = search
        self.limit = limit
        self.stop = tuple(stop)
        self.max_context = max_context
        self.generation = generation
        self.device = next(model.parameters()).device
        self._engine: Engine[None] = model
        if max_context is not None:
            self._engine = RollingContextEngine(model, max_context=max_context)

    def write(
        self,
        prompts: Sequence[str],
        *,
        search: SearchStrategy | None = None,
        limit: int | None = None,
        stop: Sequence[str] | None = None,
        first: int = 0,
        until: InterruptCondition = never_interrupt,
        complete: bool = False,
    ) -> list[list[Continuation]]:
        """Generate continuations of each prompt, best first; an empty prompt begins a document. `limit` is the maximum
        number of tokens, `first` the number of the first prompt, and `complete` says that the last word may be
        unfinished.

        Prompts of different length are continued in one batch, and do not influence each other.

        Args:
            prompts: texts to continue; a single one is a list of one.
            search: search algorithm instead of the default.
            limit: maximum tokens instead of the default.
            stop: stop strings instead of the default; they are not in the texts, and tokens after them are never
                computed.
            first: number of the first prompt, if many prompts are processed in parts: it selects the random stream.
            until: stops all continuations early; what was generated so far is returned.
            complete: whether the last word of a prompt may be unfinished, unless a space follows it. Its tokens are
                then generated again, in the most probable way, and count as generated; the text does not repeat them.
        """
        stop_strings = StopStrings(self.stop if stop is None else stop)
        inputs = to_text_list(prompts, name="prompts")
        encoded_prompts = [
            self._encode_prompt(text, number, limit=limit, complete=complete)
            for number, text in enumerate(inputs, first)
        ]
        results = run_batched(
            encoded_prompts,
            self._build_search_call(search or self.search, stop_strings, until),
            size=lambda hypothesis: len(hypothesis.ids),
            batch_tokens=_BATCH_TOKENS,
            max_rows=64,
        )
        return [
            [
                self._to_continuation(hypothesis, text=prompt.decoder.decode(hypothesis.ids), stop_strings=stop_strings)
                for hypothesis in hypotheses
            ]
            for hypotheses, prompt in zip(results, encoded_prompts, strict=True)
        ]

    def stream(
        self,
        prompt: str,
        *,
        search: GreedySearch | SamplingSearch,
        limit: int | None = None,
        stop: Sequence[str] | None = None,
        number: int = 0,
        until: InterruptCondition = never_interrupt,
        complete: bool = False,
    ) -> TextStream:
        """Generate one continuation by the given search as a stream of text pieces, at most `limit` tokens; the result
        is that of `write` for this prompt alone. `until` can end it early.

        Text that may be part of a stop string or of an incomplete character is held back. `number` is the prompt's
        number, which selects the random stream; the other arguments are those of `write`.
        """
        require_text(prompt, name="prompt")
        stop_strings = StopStrings(self.stop if stop is None else stop)
        encoded_prompt = self._encode_prompt(prompt, number, limit=limit, complete=complete)
        ids = stream_ids(self._build_search_call(search, stop_strings, until), encoded_prompt)
        return TextStream(ids, decoder=encoded_prompt.decoder, stop_strings=stop_strings)

    def line_format(self) -> GenerationLineFormat:
        """Return the line format with one prompt per line."""
        return GenerationLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's prompt."""
        return self.inspect(
            request.require_single_text("a language model's"), limit=request.max_tokens, scope=request.selection
        )

    def count_dropped_tokens(self, prompt: str) -> int:
        """Return how many tokens on the left of a prompt are dropped because positions are limited."""
        ids = self.tokenizer.encode(prompt)
        return len(ids) - min(len(ids), len(self._truncate_context(ids)))

    def _encode_prompt(
        self, prompt: str, number: int, *, limit: int | None, complete: bool = False
    ) -> ContinuationPrompt:
        """Encode a prompt, shortened to the model's context, for a search of at most `limit` tokens; `number` selects
        the random stream. With `complete`, the ids of an unfinished last word are left out, so that they are generated
        again.
        """
        ids, limit = self.tokenizer.encode(prompt), limit or self.limit
        read_ids, partial_word = encode_prefix(self.tokenizer, prompt) if complete else (ids, None)
        repeated_tokens, num_unspelled = 0, 0
        if partial_word is not None and not partial_word.may_end:
            repeated_tokens, spelling = partial_word.max_tokens, get_spelling(self.tokenizer)
            num_unspelled = len(partial_word.characters) - sum(
                len(spelling.token_texts[number]) for number in ids[len(read_ids) :]
            )
        following = ContinuationDecoder(self.tokenizer, ids, num_read=len(read_ids), num_unspelled=num_unspelled)
        return ContinuationPrompt(
            self._truncate_context(read_ids), number, limit + repeated_tokens, following, partial_word
        )

    def _build_search_call(
        self, search: SearchStrategy, stop_strings: StopStrings, until: InterruptCondition
    ) -> ContinuationSearchCall:
        """Build the call that searches continuations; `until` is ignored if an executor runs it, which ends searches
        that no caller needs.
        """
        # an executor itself ends searches that no caller needs
        until = until if current_executor() is None else never_interrupt
        return ContinuationSearchCall(
            self._engine, search, stop_strings.strings, until, self._build_inputs, self.tokenizer
        )

    def _to_continuation(self, hypothesis: Hypothesis, *, text: str, stop_strings: StopStrings) -> Continuation:
        """Convert a hypothesis and its decoded text to a continuation, cut before the first stop string."""
        kept_text, stop = stop_strings.truncate(strip_incomplete_character(text))
        pieces = tuple(self.tokenizer.to_pieces(hypothesis.ids))
        token_log_probs = hypothesis.token_log_probabilities
        return Continuation(
            kept_text, pieces, hypothesis.log_probability, hypothesis.finished, stop, hypothesis.ids, token_log_probs
        )

    def inspect(
        self,
        prompt: str,
        *,
        search: SearchStrategy | None = None,
        limit: int | None = None,
        scope: InspectionSelection | None = None,
    ) -> InspectionRecord:
        """Record everything the model attends to while it reads a prompt and continues it.

        Args:
            prompt: the prompt; may be empty.
            search: search algorithm instead of the default; its best continuation is used.
            limit: tokens to generate at most; 0 only reads the prompt. If positions are limited, generation stops
                there.
            scope: layers, heads and details to record; all by default.

        Raises:
            DataError: no prompt and nothing to generate, or more tokens than positions.
            RecipeError: no such layer or head.
        """
        require_text(prompt, name="prompt")
        scope, ids = scope or InspectionSelection(), self.tokenizer.encode(prompt)
        num_prompt_tokens, beam_tree = len(ids), None
        limit, notes = self._limit_tokens(num_prompt_tokens, limit=self.limit if limit is None else limit)
        if limit > 0:
            search, beam_tree = trace_beam(search or self.search)
            with torch.inference_mode():
                hypothesis = search(
                    self.model.step,
                    self.model.init_state(),
                    self._to_tokens([[self.tokenizer.special.document_start, *ids]]),
                    max_new_tokens=torch.tensor([limit], device=self.device),
                    prefix=None,
                    rng_streams=torch.zeros(1, dtype=torch.long, device=self.device),
                )[0][0]
            ids = [*ids, *hypothesis.ids, *([self.tokenizer.special.eos] if hypothesis.finished else [])]
        if not ids:
            raise DataError("there is nothing to show: give a prompt, or let the model write something")
        inputs = self._to_tokens([[self.tokenizer.special.document_start, *ids]]).slice_columns(0, -1)
        pieces = self.tokenizer.to_pieces([self.tokenizer.special.document_start, *ids])

        def run_model() -> Tensor:
            logits, _ = self.model.step(inputs, self.model.init_state())
            return logits

        axes = build_text_axes(input_pieces=pieces[:-1], output_pieces=pieces[1:])
        text = self.tokenizer.decode(ids)
        record, logits = record_attention(self.model, run_model, selection=scope, axes=axes, title=text)
        if 0 < num_prompt_tokens < len(ids):
            notes = (*notes, f"The first {num_prompt_tokens:,} tokens were given, the others written.")
        record = replace(
            record,
            written=describe_tokens(logits, ids, tokenizer=self.tokenizer, alternatives=scope.alternatives),
            tree=()
            if beam_tree is None
            else build_branches(beam_tree, ids[num_prompt_tokens:], tokenizer=self.tokenizer),
            notes=(*record.notes, *notes),
            widths=(*record.widths, VectorSize("output", "decoder", logits.size(-1))),
        )
        first_scored = num_prompt_tokens if num_prompt_tokens < len(ids) else 0

        def compute_values(rows: int) -> Tensor:
            logits, _ = self.model.step(repeat_rows(inputs, rows), self.model.init_state())
            return gather_log_probs(logits, ids)[:, first_scored:]

        return add_attribution(
            record, self.model, compute_values, selection=scope, about="written", indices=range(first_scored, len(ids))
        )

    def surprise(self, texts: Sequence[str], *, ended: bool = False, batch_tokens: int = 4096) -> list[TextLikelihood]:
        """Return the log-probability of each text as the beginning of a document, or with `ended` as a whole document.

        Args:
            texts: texts in any order; a single one is a list of one.
            ended: whether the end of the document counts as well.
            batch_tokens: padded tokens in a batch.
        """
        eos = self.tokenizer.special.eos
        labels = [[*self.tokenizer.encode(text), *([eos] if ended else [])] for text in to_text_list(texts)]
        nonempty = [ids for ids in labels if ids]
        scores = iter(run_batched(nonempty, self._score_batch, size=len, batch_tokens=batch_tokens, max_rows=256))
        scored = ((ids, next(scores) if ids else ()) for ids in labels)
        return [
            TextLikelihood(
                sum(log_probs, 0.0), len(ids), tuple(self.tokenizer.to_pieces(ids[: len(ids) - ended])), log_probs
            )
            for ids, log_probs in scored
        ]

    def predict_tokens(
        self, documents: Sequence[Sequence[int]], *, top_k: int, batch_tokens: int = 4096
    ) -> list[list[TokenPrediction]]:
        """Return the log-probability of each token of the documents, and the most probable tokens at its position.
        Documents are ids without the start id.

        Args:
            documents: documents in any order; none may be empty.
            top_k: number of top tokens at each position.
            batch_tokens: padded tokens in a batch.
        """
        token_predictor = TokenPredictor(self._engine, self.tokenizer.special.document_start, top_k)
        return run_batched(documents, token_predictor, size=len, batch_tokens=batch_tokens, max_rows=256)

    def build_incremental_predictor(self, *, top_k: int) -> IncrementalTokenPredictor:
        """Build a predictor of the `top_k` most probable tokens at each position of a document that comes in parts."""
        return IncrementalTokenPredictor(self._engine, start_id=self.tokenizer.special.document_start, top_k=top_k)

    def _score_batch(self, labels: list[list[int]]) -> Iterator[tuple[float, ...]]:
        """Yield the log-probabilities of the ids of each text, each id given those before it."""
        inputs = self._to_tokens([[self.tokenizer.special.document_start, *ids[:-1]] for ids in labels])
        label_tensor = torch.from_numpy(pad_rows(labels)).to(self.device)
        scores = score_target(self._engine.step, self._engine.init_state(None), inputs, labels=label_tensor)
        for ids, row in zip(labels, scores.token_log_probabilities.tolist(), strict=True):
            yield tuple(row[: len(ids)])

    def _limit_tokens(self, num_prompt_tokens: int, *, limit: int) -> tuple[int, tuple[str, ...]]:
        """Return how many of `limit` tokens can be generated if prompt and tokens must fit into the positions, and a
        note if that is fewer. Raise `DataError` if the prompt itself does not fit.
        """
        if self.max_context is None:
            return limit, ()
        available = self.max_context - num_prompt_tokens
        if available < 0:
            raise DataError(
                f"the text has {num_prompt_tokens:,} tokens, but this model has positions only for {self.max_context:,}"
            )
        if limit <= available:
            return limit, ()
        return available, (f"Writing ended after {available:,} tokens, because the model has no more positions.",)

    def _truncate_context(self, ids: list[int]) -> list[int]:
        """Return the last ids of a document that fit into the model's context; the start id comes first and counts as
        one of them.
        """
        all_ids = [self.tokenizer.special.document_start, *ids]
        if self.max_context is None:
            return all_ids
        return all_ids[len(all_ids) - count_kept_tokens(len(all_ids), max_context=self.max_context) :]

    def _build_inputs(self, texts: Sequence[list[int]]) -> tuple[None, Tokens]:
        return None, self._to_tokens(texts)

    def _to_tokens(self, texts: Sequence[list[int]]) -> Tokens:
        """Pad texts of ids to a batch on the model's device."""
        return move_to_device(to_tokens(pad_rows(texts)), self.device)


@final
@dataclass(frozen=True)
class GenerationLineFormat(TextLineFormat[tuple[str, Continuation]]):
    """Line format of one prompt per line, and for each continuation the prompt, the continuation and an empty line.

    Attributes:
        generator: the predictor.
        search: search algorithm instead of the default.
        complete: whether the last words of prompts may be unfinished.
    """

    generator: TextGenerator
    search: SearchStrategy | None = None
    complete: bool = False
    chunk_size: ClassVar = 32

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[tuple[str, Continuation]]:
        """Generate the continuations and return them with their prompts; those of one prompt follow each other. `start`
        is the number of the first prompt, from 1.
        """
        results = self.generator.write(inputs, search=self.search, first=start - 1, complete=self.complete)
        return [
            (prompt, continuation)
            for prompt, continuations in zip(inputs, results, strict=True)
            for continuation in continuations
        ]

    def to_record(self, answer: tuple[str, Continuation]) -> ContinuationRecord:
        """Return the prompt, and the continuation with tokens and log-probabilities."""
        prompt, continuation = answer
        return ContinuationRecord(prompt=prompt, **asdict(continuation))

    def format_answer(self, answer: tuple[str, Continuation]) -> str:
        """Format the prompt with its continuation."""
        return f"{answer[0]}{answer[1].text}\n\n"
