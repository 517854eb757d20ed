"""A language model as its user sees it: prompts in, continuations out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor

from heedful.argument_checks import require_text, to_text_list
from heedful.data.batches import pad_rows, to_tokens
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import DataError
from heedful.generation import Hypothesis, RollingContextEngine, count_kept_tokens, score_target
from heedful.generation.search import GreedySearch, SamplingSearch, SearchStrategy
from heedful.generation.stopping_criteria import InterruptCondition, never_interrupt
from heedful.inspection.attribution_record import VectorSize
from heedful.inspection.record import InspectionRecord
from heedful.models.interface import Engine
from heedful.models.language_model import LanguageModel
from heedful.recipes.generation import ContinuationConfig, SampledContinuationConfig
from heedful.tasks.batch_executor import current_executor
from heedful.tasks.batch_executor import stream_ids as written_ids
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
from heedful.tasks.language.continuation_search import ContinuationPrompt, ContinuationSearchCall
from heedful.tasks.language.token_predictions import IncrementalTokenPredictor, TokenPrediction, TokenPredictor
from heedful.tasks.partial_words import encode_prefix, get_spelling
from heedful.tasks.predictor import InspectRequest, Predictor, TextLineFormat, run_batched
from heedful.tasks.stop_strings import ContinuationDecoder, StopStrings, TextStream
from heedful.tasks.stop_strings import strip_incomplete_character as without_broken
from heedful.tensors import Tokens, move_to_device

_BATCH_TOKENS: Final = 2**16
"""Tokens of prompts that are read at one time."""


@dataclass(frozen=True)
class Continuation:
    """How a prompt goes on.

    Attributes:
        text: what was written, without the prompt, without a stop string, and without a last character of which some
            bytes are missing.
        tokens: everything that was written as pieces of text, those of a stop string too.
        log_probability: of the tokens, and of the end if it came, in nats.
        finished: whether the document ended by itself.
        stop: the stop string that ended it, if one did.
        ids: of the tokens.
        token_log_probabilities: one for each token, and for the end if it came.
    """

    text: str
    tokens: tuple[str, ...]
    log_probability: float
    finished: bool
    stop: str | None = None
    ids: tuple[int, ...] = ()
    token_log_probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class TextLikelihood:
    """How probable a text is: nats over `count` tokens, each given all before it.

    Its end counts where it was asked for; it stands behind `tokens` in `token_log_probabilities` then.
    """

    log_probability: float
    count: int
    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]


@keep_old_names(forgotten="count_dropped_tokens", expected="predict_tokens", reading="build_incremental_predictor")
class TextGenerator(Predictor):
    """A language model with its tokenizer.

    Where positions end, writing goes on with the newer half of the context, read again as if the text began there; see
    `heedful.generation.RollingContextEngine`. A prompt that is too long is read as far as it would then be remembered.

    Args:
        model: in evaluation mode.
        tokenizer: that it was trained with.
        search: how continuations are looked for unless a call says otherwise.
        limit: most tokens of a continuation, likewise.
        stop: strings before which a continuation ends, likewise.
        max_context: tokens that the model's positions are enough for, the one that begins a document included; None
            where they have no end.
        generation: what `search`, `limit` and `stop` were made of.
    """

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
        """Continuations of each prompt, best first; an empty prompt begins a document.

        Prompts of different length are written at the same time, and none depends on its neighbours.

        Args:
            prompts: texts to go on with; a single one is a list of one.
            search: instead of the writer's own.
            limit: likewise.
            stop: likewise; none of them is in a text, and tokens that follow it are never computed.
            first: the number of the first prompt, if many prompts are handed over in parts: it decides their chance.
            until: ends all of them early; what they have then is given back.
            complete: whether the last word of a prompt may be unfinished, unless a space stands behind it. Its tokens
                are written again then, in whatever way is most probable, and count as written; the text does not
                repeat them.
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
        """One continuation as it is written, in pieces of text; what `write` gives for this prompt alone.

        What may yet turn out to be part of a stop string or of a character comes when that is decided. `number` is that
        of the prompt and decides its chance; the other arguments are those of `write`.
        """
        require_text(prompt, name="prompt")
        stop_strings = StopStrings(self.stop if stop is None else stop)
        encoded_prompt = self._encode_prompt(prompt, number, limit=limit, complete=complete)
        ids = written_ids(self._build_search_call(search, stop_strings, until), encoded_prompt)
        return TextStream(ids, decoder=encoded_prompt.decoder, stop_strings=stop_strings)

    def line_format(self) -> GenerationLineFormat:
        """A prompt a line."""
        return GenerationLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """See `inspect`."""
        return self.inspect(
            request.require_single_text("a language model's"), limit=request.max_tokens, scope=request.selection
        )

    def count_dropped_tokens(self, prompt: str) -> int:
        """How many tokens at the left of a prompt the model's positions are not enough for."""
        ids = self.tokenizer.encode(prompt)
        return len(ids) - min(len(ids), len(self._truncate_context(ids)))

    def _encode_prompt(
        self, prompt: str, number: int, *, limit: int | None, complete: bool = False
    ) -> ContinuationPrompt:
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
        until = until if current_executor() is None else never_interrupt  # which ends what nobody waits for by itself
        return ContinuationSearchCall(
            self._engine, search, stop_strings.strings, until, self._to_tokens, self.tokenizer
        )

    def _to_continuation(self, hypothesis: Hypothesis, *, text: str, stop_strings: StopStrings) -> Continuation:
        kept_text, stop = stop_strings.truncate(without_broken(text))
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
        """Everything the model attends to while it reads a prompt and goes on with it.

        Args:
            prompt: may be empty.
            search: instead of the writer's own; the best of its continuations is taken.
            limit: most tokens that are written; 0 reads the prompt alone. Where the model's positions end, so does
                writing.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: nothing to read and nothing to write, or more than the model's positions are enough for.
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
                    self._to_tokens([[self.tokenizer.special.eos, *ids]]),
                    max_new_tokens=torch.tensor([limit], device=self.device),
                    prefix=None,
                    rng_streams=torch.zeros(1, dtype=torch.long, device=self.device),
                )[0][0]
            ids = [*ids, *hypothesis.ids, *([self.tokenizer.special.eos] if hypothesis.finished else [])]
        if not ids:
            raise DataError("nothing to look at: give a prompt, or let something be written")
        inputs = self._to_tokens([[self.tokenizer.special.eos, *ids]]).slice_columns(0, -1)
        pieces = self.tokenizer.to_pieces([self.tokenizer.special.eos, *ids])

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
        """The log-probability of each text as the beginning of a document, or as a whole one that has `ended`.

        Args:
            texts: in any order; a single one is a list of one.
            ended: whether the end of the document counts as well.
            batch_tokens: that are read at one time, padding included.
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
        """What the model expects at each place of documents, which are given as ids, without the one before them.

        Args:
            documents: in any order; none may be empty.
            top_k: ids that are told of each place.
            batch_tokens: that are read at one time, padding included.
        """
        token_predictor = TokenPredictor(self._engine, self.tokenizer.special.eos, top_k)
        return run_batched(documents, token_predictor, size=len, batch_tokens=batch_tokens, max_rows=256)

    def build_incremental_predictor(self, *, top_k: int) -> IncrementalTokenPredictor:
        """The same of one document that is read as it comes."""
        return IncrementalTokenPredictor(self._engine, start_id=self.tokenizer.special.eos, top_k=top_k)

    def _score_batch(self, labels: list[list[int]]) -> Iterator[tuple[float, ...]]:
        """Log-probabilities of ids that begin documents."""
        inputs = self._to_tokens([[self.tokenizer.special.eos, *ids[:-1]] for ids in labels])
        label_tensor = torch.from_numpy(pad_rows(labels)).to(self.device)
        scores = score_target(self._engine.step, self._engine.init_state(None), inputs, labels=label_tensor)
        for ids, row in zip(labels, scores.token_log_probabilities.tolist(), strict=True):
            yield tuple(row[: len(ids)])

    def _limit_tokens(self, num_prompt_tokens: int, *, limit: int) -> tuple[int, tuple[str, ...]]:
        """Tokens that can be written where all must be seen at once, and what to say of it."""
        if self.max_context is None:
            return limit, ()
        available = self.max_context - num_prompt_tokens
        if available < 0:
            raise DataError(
                f"a text of {num_prompt_tokens:,} tokens: the model's positions are enough for {self.max_context:,}"
            )
        if limit <= available:
            return limit, ()
        return available, (f"Writing ended after {available:,} tokens, where the model's positions do.",)

    def _truncate_context(self, ids: list[int]) -> list[int]:
        """What of a document is in the model's context when it is read, the token before the document included."""
        all_ids = [self.tokenizer.special.eos, *ids]
        if self.max_context is None:
            return all_ids
        return all_ids[len(all_ids) - count_kept_tokens(len(all_ids), max_context=self.max_context) :]

    def _to_tokens(self, texts: list[list[int]]) -> Tokens:
        """What is read of each text."""
        return move_to_device(to_tokens(pad_rows(texts)), self.device)


@final
@dataclass(frozen=True)
class GenerationLineFormat(TextLineFormat[tuple[str, Continuation]]):
    """A prompt a line; it and what follows it, with an empty line behind, for each of its continuations.

    Attributes:
        generator: who goes on.
        search: how; the writer's way unless given.
        complete: whether the last words of prompts may be unfinished.
    """

    generator: TextGenerator
    search: SearchStrategy | None = None
    complete: bool = False
    chunk_size: ClassVar = 32

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[tuple[str, Continuation]]:
        """Continuations, those of one prompt behind each other."""
        results = self.generator.write(inputs, search=self.search, first=start - 1, complete=self.complete)
        return [
            (prompt, continuation)
            for prompt, continuations in zip(inputs, results, strict=True)
            for continuation in continuations
        ]

    def to_json(self, answer: tuple[str, Continuation]) -> Any:
        """With tokens and log-probability."""
        prompt, continuation = answer
        return {"prompt": prompt, **asdict(continuation)}

    def format_answer(self, answer: tuple[str, Continuation]) -> str:
        """As one reads it."""
        return f"{answer[0]}{answer[1].text}\n\n"
