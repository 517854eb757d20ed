"""The target side of models that generate text: search, forced scoring, and inspection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

import torch
from torch import Tensor, nn

from heedful.data.batches import pad_rows, to_tokens
from heedful.data.token_offsets import find_continuing_ids
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import DataError
from heedful.generation import Hypotheses, Hypothesis, LogitsMask, MinNewTokens, score_target
from heedful.generation.lexical_constraints import LexicalConstraints
from heedful.generation.logits_masks import PartialWord, SuppressAtStart
from heedful.generation.prefill import AttentionLookup
from heedful.generation.prefill import GenerationRequest as Wish
from heedful.generation.search import SearchStrategy
from heedful.inspection.record import InspectionRecord, MapAxis, VectorSize
from heedful.models.interface import Engine
from heedful.tasks.continuations import build_completions, encode_prefix
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
    watch_copy_gates,
)
from heedful.tasks.predictor import CandidateRecord
from heedful.tensors import Tokens, move_to_device

SourceBatch = TypeVar("SourceBatch")


@keep_old_names(record="json_record")
@dataclass(frozen=True)
class TextCandidate:
    """One of the texts found for a source.

    Attributes:
        text: the decoded text.
        ids: the generated ids, without begin and end.
        tokens: the same as pieces of text.
        log_probability: log-probability of the tokens and the end, in nats.
        score: the score that the search ranked by.
        finished: whether the text ended by itself.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    log_probability: float
    score: float
    finished: bool

    def to_record(self) -> CandidateRecord:
        """Return the record of the candidate."""
        return CandidateRecord(
            text=self.text,
            score=round(self.score, 5),
            log_probability=round(self.log_probability, 5),
            tokens=list(self.tokens),
            finished=self.finished,
        )

    @property
    def json_record(self) -> dict[str, Any]:
        """The record as JSON data."""
        return self.to_record().model_dump()


@dataclass(frozen=True)
class ForcedScore:
    """Log-probability of a given text in nats, its end included, over `count` tokens."""

    log_probability: float
    count: int
    token_log_probabilities: tuple[float, ...]
    tokens: tuple[str, ...]


@final
@dataclass(frozen=True)
class TargetRequest:
    """What to generate for one source.

    Attributes:
        max_tokens: tokens to generate at most, the end included.
        random_stream: number of the random stream used for sampling.
        prefix: ids that the text must begin with.
        min_tokens: tokens to generate at least, the end not included, as far as `max_tokens` allows.
        terms: id sequences that the text must contain, in any order; for beam search only.
        partial_word: characters that must follow the prefix, in any tokens.
    """

    max_tokens: int
    random_stream: int = 1
    prefix: Sequence[int] = ()
    min_tokens: int = 0
    terms: Sequence[tuple[int, ...]] = ()
    partial_word: PartialWord | None = None


@final
class DecoderTarget:
    """The target side of a model: its tokenizer, with methods to generate and score texts.

    Args:
        tokenizer: tokenizer of the target.
        device: the models' device.
        max_length: tokens of the longest text, its end included; None if positions are unlimited.
    """

    def __init__(self, tokenizer: Tokenizer, *, device: torch.device, max_length: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.device = device
        self.max_length = max_length

    def with_tokenizer(self, tokenizer: Tokenizer) -> DecoderTarget:
        """Return the target side with another tokenizer of the same ids, such as one that begins with a language."""
        return DecoderTarget(tokenizer, device=self.device, max_length=self.max_length)

    def search_targets(
        self,
        model: Engine[SourceBatch],
        source: SourceBatch,
        requests: Sequence[TargetRequest],
        *,
        search: SearchStrategy,
        attention_lookup: AttentionLookup | None = None,
    ) -> Hypotheses:
        """Generate the texts of each source row by a search, in inference mode. `attention_lookup` returns what
        generated texts attended to, for searches that need it.

        Args:
            model: the engine.
            source: the source batch.
            requests: what to generate for each row.
            search: the search algorithm.
            attention_lookup: returns what generated texts attended to, for searches that need it.
        """
        request = self.build_generation_request(requests, attention_lookup=attention_lookup)
        with torch.inference_mode():
            return search.decode_request(model.step, model.init_state(source), request).hypotheses

    def build_generation_request(
        self, requests: Sequence[TargetRequest], *, attention_lookup: AttentionLookup | None = None
    ) -> Wish:
        """Build the generation request of a search from one target request per source row. `attention_lookup` returns
        what generated texts attended to, for searches that need it.
        """
        limit = torch.tensor([request.max_tokens for request in requests], device=self.device).clamp(
            min=1, max=self.max_length
        )
        prefix = torch.from_numpy(pad_rows([request.prefix for request in requests])).to(self.device)
        prompt = Tokens(
            torch.full((len(requests), 1), self.tokenizer.special.bos, device=self.device),
            torch.zeros(len(requests), 1, dtype=torch.long, device=self.device),
        )
        word_tokens = [0 if request.partial_word is None else request.partial_word.max_tokens for request in requests]
        limit = torch.maximum(limit, (prefix >= 0).sum(1) + torch.tensor(word_tokens, device=self.device) + 1)
        return Wish(
            prompt,
            limit,
            prefix if prefix.numel() else None,
            rng_streams=torch.tensor([request.random_stream for request in requests], device=self.device),
            logits_masks=self._build_bans(requests, limits=limit.tolist()),
            constraints=self._build_constraints(requests),
            attention_lookup=attention_lookup,
        )

    def _build_bans(self, requests: Sequence[TargetRequest], *, limits: Sequence[int]) -> tuple[LogitsMask, ...]:
        """Build the logits masks that enforce the minimum lengths, the partial words and the possible first tokens of
        the requests; `limits` are their maximum lengths.
        """
        missing = tuple(
            min(request.min_tokens, limit - 1) - len(request.prefix)
            for request, limit in zip(requests, limits, strict=True)
        )
        end_bans = (MinNewTokens(self.tokenizer.special.eos, missing),) if max(missing, default=0) > 0 else ()
        start_ids = self.tokenizer.special.suppressed_start_ids
        start_bans = (SuppressAtStart(start_ids),) if start_ids else ()
        completions = build_completions([request.partial_word for request in requests], tokenizer=self.tokenizer)
        return (*completions, *end_bans, *start_bans)

    def _build_constraints(self, requests: Sequence[TargetRequest]) -> LexicalConstraints | None:
        """Build the lexical constraints; None if no request has terms."""
        if not any(request.terms for request in requests):
            return None
        return LexicalConstraints(
            tuple(tuple(request.terms) for request in requests), find_continuing_ids(self.tokenizer)
        )

    def to_candidate(self, hypothesis: Hypothesis) -> TextCandidate:
        """Decode a hypothesis into a text candidate."""
        text, pieces = self.tokenizer.decode(hypothesis.ids), tuple(self.tokenizer.to_pieces(hypothesis.ids))
        return TextCandidate(
            text, hypothesis.ids, pieces, hypothesis.log_probability, hypothesis.score, hypothesis.finished
        )

    def to_growing_candidate(self, ids: Sequence[int]) -> TextCandidate:
        """Decode the ids of a text that is still generated into a text candidate, whose probability and score are
        0.
        """
        return self.to_candidate(Hypothesis(tuple(ids), 0.0, 0.0, (), finished=False))

    def encode(self, text: str, *, name: str) -> list[int]:
        """Encode a given text without its end; raise `DataError` if it is too long, with `name` as the name of the
        text.
        """
        ids = self.tokenizer.encode(text)
        if self.max_length is not None and len(ids) >= self.max_length:
            raise DataError(
                f"{name} is given {len(ids)} tokens, this model reads at most {self.max_length - 1}; split it"
            )
        return ids

    def encode_prefix(self, text: str, *, name: str) -> tuple[list[int], PartialWord | None]:
        """Encode the beginning of a text; return its ids, without the last word if that may be unfinished, and this
        word or None. Raise `DataError` if the text is too long, with `name` as the name of the text.
        """
        self.encode(text, name=name)
        return encode_prefix(self.tokenizer, text)

    def build_forced_batch(self, texts: Sequence[Sequence[int]]) -> tuple[Tokens, Tensor]:
        """Return encoded texts as decoder inputs, and the labels that follow them; -1 means no label."""
        special = self.tokenizer.special
        inputs = to_tokens(pad_rows([[special.bos, *ids] for ids in texts]))
        return move_to_device((inputs, torch.from_numpy(pad_rows([[*ids, special.eos] for ids in texts]))), self.device)

    def score_texts(
        self, model: Engine[SourceBatch], source: SourceBatch, texts: Sequence[Sequence[int]]
    ) -> Iterator[ForcedScore]:
        """Yield the log-probability of each given text of ids; the source batch has one row for each."""
        inputs, labels = self.build_forced_batch(texts)
        scores = score_target(
            model.step, model.init_state(source), inputs, labels=labels
        ).token_log_probabilities.tolist()
        for ids, row in zip(texts, scores, strict=True):
            log_probs = tuple(row[: len(ids) + 1])
            yield ForcedScore(sum(log_probs), len(log_probs), log_probs, tuple(self.tokenizer.to_pieces(ids)))

    def inspect(
        self,
        model: nn.Module,
        source: Any,
        target: Sequence[int] | TargetRequest,
        *,
        search: SearchStrategy,
        selection: InspectionSelection,
        axes: Sequence[MapAxis],
        title: str,
        attention_lookup: AttentionLookup | None = None,
    ) -> InspectionRecord:
        """Record everything a model attends to while it reads one source and generates or reads a target text.

        Args:
            model: the model in evaluation mode; it must be an Engine.
            source: a batch of one row.
            target: ids of a given text, or a request to generate one, whose beam is recorded too.
            search: search algorithm for a request.
            selection: what to record.
            axes: axes of the source.
            title: the source text, for people.
            attention_lookup: returns what generated texts attended to, for searches that need it.

        Raises:
            RecipeError: no such layer or head.
        """
        engine: Engine[Any] = model  # type: ignore[assignment]  # a module that is an Engine; mypy has no type for both
        beam_tree = None
        if isinstance(target, TargetRequest):
            search, beam_tree = trace_beam(search)
            ids = list(
                self.search_targets(engine, source, [target], search=search, attention_lookup=attention_lookup)[0][
                    0
                ].ids
            )
        else:
            ids = list(target)
        inputs, labels = self.build_forced_batch([ids])

        def run_decoder() -> Tensor:
            """Run the decoder on the target text and return its logits."""
            logits, _ = engine.step(inputs, engine.init_state(source))
            return logits

        pieces = self.tokenizer.to_pieces(ids)
        all_axes = [*axes, *build_text_axes(input_pieces=["<s>", *pieces], output_pieces=[*pieces, "</s>"])]
        with watch_copy_gates(model) as gate_logits:
            record, logits = record_attention(model, run_decoder, selection=selection, axes=all_axes, title=title)
        labels_list = labels[0].tolist()
        token_records = describe_tokens(
            logits,
            labels_list,
            tokenizer=self.tokenizer,
            alternatives=selection.alternatives,
            copy_probabilities=torch.sigmoid(-gate_logits[0][0, :, 0].float()).tolist() if gate_logits else None,
        )
        tree = () if beam_tree is None else build_branches(beam_tree, labels_list, tokenizer=self.tokenizer)
        widths = (*record.widths, VectorSize("output", "decoder", logits.size(-1)))
        record = replace(record, written=token_records, tree=tree, said=self.tokenizer.decode(ids), widths=widths)

        def compute_values(rows: int) -> Tensor:
            """Return the log-probability of each target token in a batch of copies."""
            logits, _ = engine.step(repeat_rows(inputs, rows), engine.init_state(repeat_rows(source, rows)))
            return gather_log_probs(logits, labels_list)

        return add_attribution(record, model, compute_values, selection=selection, about="written")
