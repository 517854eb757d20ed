"""How texts are looked for in sounds: token after token, all at once, or the one judged by the other."""

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
from heedful.models.interface import State
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import BeamConfig, GenerationConfig, GreedyConfig
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
    """A model whose sources are encoded already."""

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
    """A way from sounds to texts.

    Abstract: each kind of model has its own.

    Attributes:
        length: of texts, by the slots of a sound.
        target: the side that is written.
    """

    length: LengthLimits
    target: DecoderTarget

    def decode(self, model: Any, source: FeatureBatch, *, numbers: Sequence[int]) -> Hypotheses:
        """For each sound its texts, best first; its number is its source of chance."""
        with torch.inference_mode():
            memory = model.encoder(source)
            slots = (memory.positions >= 0).sum(1).tolist()
            length_limits = self.length
            requests = [
                TargetRequest(length_limits.max_tokens(count), number, min_tokens=length_limits.min_tokens(count))
                for count, number in zip(slots, numbers, strict=True)
            ]
            return self.decode_memory(model, memory, requests)

    @abstractmethod
    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """The same of encoded sounds."""

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
        """Everything a model attends to while it reads one sound and writes a text: that, or the best that is found."""
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
    """Token after token.

    Attributes:
        search: how.
    """

    search: SearchStrategy

    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """By the decoder."""
        return self.target.search_targets(_EncodedSourceModel(model), memory, requests, search=self.search)


@final
@dataclass(frozen=True)
class CTCDecoding(SpeechDecoding):
    """All at once, by what each slot says.

    Attributes:
        search: how.
    """

    search: CTCSearch

    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """By the slots; there is no chance in it."""
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
        """Nothing is written: what each slot says are answers."""
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
    """Token after token, and ranked by what slots say of the whole as well (Watanabe et al. 2017, rescoring).

    Attributes:
        attention_decoding: finds texts.
        weight: of what slots say.
        penalty: how texts of different length compare.
        n_best: texts that are returned.
    """

    attention_decoding: AttentionDecoding
    weight: float
    penalty: LengthPenalty
    n_best: int

    def decode_memory(self, model: Any, memory: Memory, requests: Sequence[TargetRequest]) -> Hypotheses:
        """By both."""
        candidates = self.attention_decoding.decode_memory(model, memory, requests)
        log_probabilities, slots = model.labels(memory)
        return [
            self._rerank(texts, log_probabilities[row].expand(len(texts), -1, -1), slots[row].expand(len(texts)))
            for row, texts in enumerate(candidates)
        ]

    def _rerank(self, texts: Sequence[Hypothesis], log_probabilities: Tensor, slots: Tensor) -> list[Hypothesis]:
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


def build_decoding(
    config: GenerationConfig, *, target: DecoderTarget, ctc_weight: float, n_best: int = 1, seed: int = 1
) -> SpeechDecoding:
    """How texts are looked for by a model that gives so much weight to CTC.

    Raises:
        RecipeError: what is wanted does not fit such a model.
    """
    length, penalty, special = build_length_limits(config), _build_length_penalty(config), target.tokenizer.special
    if getattr(config, "coverage", 0):
        raise RecipeError("coverage: asks what was attended to in a sentence, and nobody wrote one here; leave it out")
    if ctc_weight > 0 and getattr(config, "risk", None) is not None:
        raise RecipeError(
            "generation.risk: is for what is ranked by the decoder alone, and with model.ctc_weight above 0 slots have "
            "their say; leave it out"
        )
    if ctc_weight == 1:
        return CTCDecoding(length, target, _build_ctc_search(config, special, penalty=penalty, n_best=n_best))
    search = build_search(config, target.tokenizer, n_best=n_best, seed=seed)
    if ctc_weight == 0:
        return AttentionDecoding(length, target, search)
    if isinstance(search, BeamSearch | DiverseBeamSearch):  # what the beam holds is what can be ranked anew
        search = replace(search, n_best=search.width)
    return CTCRescoring(length, target, AttentionDecoding(length, target, search), ctc_weight, penalty, n_best)


def _build_length_penalty(config: GenerationConfig) -> LengthPenalty:
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
    forbidden = tuple(sorted(special.skipped_ids - {special.bos}))
    for key in _STEPWISE_KEYS:
        if key in type(config).model_fields and getattr(config, key) != (
            default := type(config).model_fields[key].get_default()
        ):
            raise RecipeError(
                f"generation.{key}: asks what was written before, and a model with model.ctc_weight = 1 writes all at "
                f"once; leave it at {default}"
            )
    match config:
        case GreedyConfig():
            if n_best > 1:
                raise RecipeError(f"n-best {n_best}: the best path gives one text; use a beam")
            return CTCBestPath(special.bos, forbidden)
        case BeamConfig(width=width):
            return CTCPrefixBeam(special.bos, forbidden, max(width, n_best), penalty, n_best)
    raise RecipeError(
        "sampling: draws token after token, and a model with model.ctc_weight = 1 writes all at once; use a beam or "
        "greedy search"
    )
