"""Decoding of sounds: by an attention decoder, by CTC, or by both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import torch
from torch import Tensor

from heedful.data.batches import pad_rows
from heedful.data.tokenizers import SpecialIds
from heedful.errors import RecipeError
from heedful.generation.ctc import CTCBestPath, CTCPrefixBeam, CTCSearch, ctc_loss
from heedful.generation.penalties import GNMTLengthPenalty, LengthPenalty, NoLengthPenalty, PowerLengthPenalty
from heedful.generation.results import Hypotheses, Hypothesis
from heedful.generation.search import BeamSearch, DiverseBeamSearch, SearchStrategy
from heedful.inspection.record import InspectionRecord, MapAxis, ModelAnswer
from heedful.models.generative import SequenceToSequence
from heedful.models.interface import State
from heedful.recipes.generation import BeamConfig, GenerationConfig, GreedyConfig, SamplingConfig
from heedful.tasks.decoder_target import DecoderTarget, TargetRequest
from heedful.tasks.inspection_records import (
    InspectionSelection,
    add_attribution,
    gather_log_probs,
    record_attention,
    repeat_rows,
    top_options,
)
from heedful.tasks.search_factory import LengthLimits, build_length_limits, build_search
from heedful.tensors import FeatureBatch, Memory, Tokens

BLANK_SYMBOL: Final = "∅"
"""How the token that says nothing is shown."""
_STEPWISE_KEYS: Final = (
    "repetition_penalty",
    "no_repeat_ngram",
    "min_ratio",
    "min_length",
    "forbid",
    "groups",
    "diversity",
)
"""Keys of searches that write token after token."""
_MIN_LOG_PROBABILITY: Final = -1e6
"""Log-probability that stands for that of a text which has no path."""


@dataclass(frozen=True)
class _EncodedSourceModel:
    """A sequence-to-sequence model whose sources are already encoded."""

    model: SequenceToSequence[FeatureBatch]

    @property
    def device(self) -> torch.device:
        return self.model.device

    def init_state(self, source: Memory) -> State:
        return self.model.decoder.init_state(source)

    def step(self, tokens: Tokens, state: State) -> tuple[Tensor, State]:
        return self.model.step(tokens, state)


@dataclass(frozen=True)
class SpeechDecoding(ABC):
    """Strategy that decodes sounds into texts.

    Abstract: each kind of model has its own.

    Attributes:
        length: length limits of texts, given the slots of a sound.
        target: the side that is generated.
    """

    length: LengthLimits
    target: DecoderTarget

    def decode(self, model: Any, source: FeatureBatch, *, numbers: Sequence[int]) -> Hypotheses:
        """Encode the sounds in a source batch and return each one's text candidates, best first; `numbers` seed their
        random numbers.
        """
        with torch.inference_mode():
            memory = model.encoder(source)
            return self.decode_memory(model, memory, self.build_requests(model, memory, numbers=numbers))

    def build_requests(self, model: Any, memory: Memory, *, numbers: Sequence[int]) -> list[TargetRequest]:
        """Return what to generate for each encoded sound in a memory; `numbers` seed their random numbers."""
        slots = (memory.positions >= 0).sum(1).tolist()
        return [
            TargetRequest(self.length.max_tokens(count), number, min_tokens=self.length.min_tokens(count))
            for count, number in zip(slots, numbers, strict=True)
        ]

    @property
    def growing_search(self) -> SearchStrategy | None:
        """The search over texts that generates token after token; None if a model finds whole texts at once."""
        return None

    @property
    def num_prompt_ids(self) -> int:
        """Number of ids before each text that are not part of it."""
        return 0

    @abstractmethod
    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """Return the text candidates of each encoded sound in a memory, best first; requests limit their length."""

    def inspect(
        self,
        model: Any,
        source: FeatureBatch,
        text: str | None,
        *,
        selection: InspectionSelection,
        axis: MapAxis,
        title: str,
    ) -> InspectionRecord:
        """Record the model's attention while it reads one sound, a source batch of one row, and generates the given
        text, or the best one found if it is None. `selection` says what to record, and `axis` has the slots of the
        sound.
        """
        if text is None:
            target_ids = self.decode(model, source, numbers=[1])[0][0].ids
        else:
            target_ids = tuple(self.target.encode(text, name=f"{title}: its text"))
        greedy = build_search(GreedyConfig(), self.target.tokenizer)  # is left to be found
        return self.target.inspect(
            model, source, target_ids, search=greedy, selection=selection, axes=[axis], title=title
        )


@final
@dataclass(frozen=True)
class AttentionDecoding(SpeechDecoding):
    """Autoregressive decoding with the attention decoder.

    Attributes:
        search: the search over texts.
    """

    search: SearchStrategy

    @property
    def growing_search(self) -> SearchStrategy:
        """The search over texts."""
        return self.search

    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """Search the text candidates of each encoded sound with the attention decoder."""
        return self.target.search_targets(_EncodedSourceModel(model), memory, requests, search=self.search)


@final
@dataclass(frozen=True)
class CTCDecoding(SpeechDecoding):
    """Non-autoregressive decoding from the CTC label probabilities of the slots.

    Attributes:
        search: the search over label sequences.
    """

    search: CTCSearch

    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """Search the text candidates of each encoded sound in the label probabilities; the result is deterministic."""
        limit = torch.tensor([request.max_tokens for request in requests]).clamp(1, self.target.max_length)
        log_probabilities, slots = model.labels(memory)
        return self.search(log_probabilities, slots, max_lengths=limit)

    def inspect(
        self,
        model: Any,
        source: FeatureBatch,
        text: str | None,
        *,
        selection: InspectionSelection,
        axis: MapAxis,
        title: str,
    ) -> InspectionRecord:
        """Record the model's attention while it reads one sound, a source batch of one row. Its answers are the labels
        of the slots, since it generates no text; raise `RecipeError` if a text is given.
        """
        if text is not None:
            raise RecipeError("--pair: this model reads no text; leave it out")
        record, (log_probabilities, slots) = record_attention(
            model, lambda: model(source), selection=selection, axes=[axis], title=title
        )
        answers = (
            ModelAnswer(
                "slot",
                str(slot),
                slot,
                top_options(log_probabilities[0, slot].exp(), self._name_labels, max_options=selection.alternatives),
            )
            for slot in range(int(slots))
        )
        best = log_probabilities[0].argmax(-1)[: int(slots)]

        def score_answers(rows: int) -> Tensor:
            """Return the log-probability of each slot's best label in `rows` copies of the input."""
            log_probabilities, _ = model(repeat_rows(source, rows))
            return gather_log_probs(log_probabilities[:, : int(slots)], best)

        return add_attribution(
            replace(record, answers=tuple(answers)), model, score_answers, selection=selection, about="answers"
        )

    def _name_labels(self, ids: Sequence[int]) -> list[str]:
        pieces = self.target.tokenizer.to_pieces(ids)
        return [BLANK_SYMBOL if label == self.search.blank else piece for label, piece in zip(ids, pieces, strict=True)]


@final
@dataclass(frozen=True)
class CTCRescoring(SpeechDecoding):
    """Attention decoding whose candidates are reranked with their CTC scores (Watanabe et al. 2017, rescoring).

    Attributes:
        attention_decoding: finds the candidates.
        weight: of the CTC score.
        penalty: length normalisation of the CTC score.
        n_best: number of returned candidates.
    """

    attention_decoding: AttentionDecoding
    weight: float
    penalty: LengthPenalty
    n_best: int

    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """Decode each encoded sound with attention, as the requests say, and rerank the candidates."""
        return self.rerank(model, memory, self.attention_decoding.decode_memory(model, memory, requests))

    @property
    def growing_search(self) -> SearchStrategy:
        """The search over texts, whose results are reranked."""
        return self.attention_decoding.search

    def rerank(self, model: Any, memory: Memory, candidates: Hypotheses) -> Hypotheses:
        """Rank the candidates of each encoded sound by attention and CTC score."""
        log_probabilities, slots = model.labels(memory)
        return [
            self._rerank(texts, log_probabilities[row].expand(len(texts), -1, -1), slots[row].expand(len(texts)))
            for row, texts in enumerate(candidates)
        ]

    def _rerank(self, texts: Sequence[Hypothesis], log_probabilities: Tensor, slots: Tensor) -> list[Hypothesis]:
        """Return the best candidates of one sound, ranked by attention and CTC score; the CTC label probabilities and
        the number of slots are repeated for each candidate.
        """
        labels = torch.from_numpy(pad_rows([hypothesis.ids for hypothesis in texts], min_width=1)).to(
            log_probabilities.device
        )
        ctc_scores = (-ctc_loss(log_probabilities, slots, labels, blank=self.target.tokenizer.special.bos)).clamp(
            min=_MIN_LOG_PROBABILITY
        )
        lengths = (labels >= 0).sum(1) + 1.0
        normalised_scores = (ctc_scores / self.penalty.compute_divisors(lengths)).tolist()
        scored = [
            replace(hypothesis, score=(1 - self.weight) * hypothesis.score + self.weight * other)
            for hypothesis, other in zip(texts, normalised_scores, strict=True)
        ]
        return sorted(scored, key=lambda hypothesis: -hypothesis.score)[: self.n_best]


def remove_prompts(found: Hypotheses, num_ids: int) -> Hypotheses:
    """Return hypotheses without their first `num_ids` ids, which are a prompt and no part of the text."""
    return [[replace(hypothesis, ids=hypothesis.ids[num_ids:]) for hypothesis in texts] for texts in found]


def build_decoding(
    config: GenerationConfig, *, target: DecoderTarget, ctc_weight: float, n_best: int = 1, seed: int = 1
) -> SpeechDecoding:
    """Build the decoding of texts in `target`'s vocabulary: with CTC if `ctc_weight` is 1, with the attention decoder
    if it is 0, else with both. It returns the `n_best` texts.

    Raises:
        RecipeError: the search settings do not fit the model.
    """
    check_speech_search(config, ctc_weight=ctc_weight)
    length, penalty, special = build_length_limits(config), _build_length_penalty(config), target.tokenizer.special
    if ctc_weight == 1:
        return CTCDecoding(length, target, _build_ctc_search(config, special, penalty=penalty, n_best=n_best))
    search = build_search(config, target.tokenizer, n_best=n_best, seed=seed)
    if ctc_weight == 0:
        return AttentionDecoding(length, target, search)
    if isinstance(search, BeamSearch | DiverseBeamSearch):  # what the beam holds is what can be ranked anew
        search = replace(search, n_best=search.width)
    return CTCRescoring(length, target, AttentionDecoding(length, target, search), ctc_weight, penalty, n_best)


def check_speech_search(config: GenerationConfig, *, ctc_weight: float) -> None:
    """Raise `RecipeError` if search settings do not fit a model with a given CTC weight.

    Raises:
        RecipeError: a setting needs a decoder that writes token by token, or a source text.
    """
    if getattr(config, "coverage", 0):
        raise RecipeError("coverage: needs attention to a source text, which only translation has; leave it out")
    if ctc_weight > 0 and getattr(config, "risk", None) is not None:
        raise RecipeError(
            "generation.risk: is for outputs that only the decoder ranks, but with model.ctc_weight above 0 CTC ranks "
            "them too; leave it out"
        )
    if ctc_weight == 1:
        for key in _STEPWISE_KEYS:
            if key in type(config).model_fields and getattr(config, key) != (
                default := type(config).model_fields[key].get_default()
            ):
                raise RecipeError(
                    f"generation.{key}: depends on the tokens that were written before, and a model with "
                    f"model.ctc_weight = 1 writes all at once; leave it at {default}"
                )
        if isinstance(config, SamplingConfig):
            raise RecipeError(
                "sampling: draws token after token, and a model with model.ctc_weight = 1 writes all at once; use a "
                "beam or greedy search"
            )


def _build_length_penalty(config: GenerationConfig) -> LengthPenalty:
    """Build the length penalty that the config of a beam search chooses; none for other searches."""
    if not isinstance(config, BeamConfig):
        return NoLengthPenalty()
    return (
        GNMTLengthPenalty(config.length_penalty)
        if config.normalisation == "wu"
        else PowerLengthPenalty(config.length_penalty)
    )


def _build_ctc_search(
    config: GenerationConfig, special: SpecialIds, *, penalty: LengthPenalty, n_best: int
) -> CTCSearch:
    """Build the CTC search from settings that `check_speech_search` accepts: best path if greedy, which finds one text,
    else a prefix beam that ranks with `penalty` and returns `n_best` texts.
    """
    forbidden = tuple(sorted(special.skipped_ids - {special.bos}))
    if isinstance(config, GreedyConfig):
        if n_best > 1:
            raise RecipeError(f"n-best {n_best}: the best path gives one text; use a beam")
        return CTCBestPath(special.bos, forbidden)
    assert isinstance(config, BeamConfig), "`check_speech_search` refuses sampling"
    return CTCPrefixBeam(special.bos, forbidden, max(config.width, n_best), penalty, n_best)
