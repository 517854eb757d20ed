"""How texts are looked for in sounds: token after token, all at once, or the one judged by the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import torch
from torch import Tensor

from heedful.data.batches import padded
from heedful.data.tokenizers import Special
from heedful.errors import RecipeError
from heedful.generation.ctc import BestPath, CTCSearch, PrefixBeam, ctc_loss
from heedful.generation.hypotheses import Hypotheses, Hypothesis
from heedful.generation.penalties import LengthPenalty, NoPenalty, Power, Wu
from heedful.generation.search import Beam, Diverse, Search
from heedful.inspection.record import Answer, Axis, Record
from heedful.models.interface import State
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import BeamConfig, GenerationConfig, GreedyConfig
from heedful.tasks.inspecting import Scope, attributed, best_options, likelihoods, recorded, repeated
from heedful.tasks.searches import Length, build_length, build_search
from heedful.tasks.target import Request, Target
from heedful.values import Memory, Tokens, Vectors

NOTHING: Final = "∅"
"""How the token that says nothing is shown."""
_STEPWISE: Final = ("repetition_penalty", "no_repeat_ngram", "min_ratio", "min_length", "forbid", "groups", "diversity")
"""Keys of searches that write token after token."""
_IMPOSSIBLE: Final = -1e6
"""Log-probability that stands for that of a text which has no path."""


@dataclass(frozen=True)
class _FromMemory:
    """A model whose sources are encoded already."""

    model: SequenceToSequence[Vectors]

    @property
    def device(self) -> torch.device:
        return self.model.device

    def begin(self, source: Memory) -> State:
        return self.model.decoder.begin(source)

    def step(self, tokens: Tokens, state: State) -> tuple[Tensor, State]:
        return self.model.step(tokens, state)


@dataclass(frozen=True)
class Way(ABC):
    """A way from sounds to texts.

    Abstract: each kind of model has its own.

    Attributes:
        length: of texts, by the slots of a sound.
        target: the side that is written.
    """

    length: Length
    target: Target

    def find(self, model: Any, source: Vectors, *, numbers: Sequence[int]) -> Hypotheses:
        """For each sound its texts, best first; its number is its source of chance."""
        with torch.inference_mode():
            memory = model.encoder(source)
            slots = (memory.positions >= 0).sum(1).tolist()
            size = self.length
            requests = [
                Request(size.limit(count), number, least=size.fewest(count))
                for count, number in zip(slots, numbers, strict=True)
            ]
            return self.found(model, memory, requests)

    @abstractmethod
    def found(self, model: Any, memory: Memory, requests: Sequence[Request]) -> Hypotheses:
        """The same of encoded sounds."""

    def look(self, model: Any, source: Vectors, text: str | None, *, scope: Scope, axis: Axis, title: str) -> Record:
        """Everything a model attends to while it reads one sound and writes a text: that, or the best that is found."""
        if text is None:
            wanted = self.find(model, source, numbers=[1])[0][0].ids
        else:
            wanted = tuple(self.target.encode(text, place=f"{title}: its text"))
        nothing = build_search(GreedyConfig(), self.target.tokenizer)  # is left to be found
        return self.target.look(model, source, wanted, search=nothing, scope=scope, axes=[axis], title=title)


@final
@dataclass(frozen=True)
class Attending(Way):
    """Token after token.

    Attributes:
        search: how.
    """

    search: Search

    def found(self, model: Any, memory: Memory, requests: Sequence[Request]) -> Hypotheses:
        """By the decoder."""
        return self.target.find(_FromMemory(model), memory, requests, search=self.search)


@final
@dataclass(frozen=True)
class Labelled(Way):
    """All at once, by what each slot says.

    Attributes:
        search: how.
    """

    search: CTCSearch

    def found(self, model: Any, memory: Memory, requests: Sequence[Request]) -> Hypotheses:
        """By the slots; there is no chance in it."""
        limit = torch.tensor([each.limit for each in requests]).clamp(1, self.target.longest)
        log_probabilities, slots = model.labels(memory)
        return self.search(log_probabilities, slots, limit=limit)

    def look(self, model: Any, source: Vectors, text: str | None, *, scope: Scope, axis: Axis, title: str) -> Record:
        """Nothing is written: what each slot says are answers."""
        if text is not None:
            raise RecipeError("--pair: this model reads no text; leave it out")
        record, (said, slots) = recorded(model, lambda: model(source), scope=scope, axes=[axis], title=title)
        answers = (
            Answer("slot", str(slot), slot, best_options(said[0, slot].exp(), self._names, most=scope.alternatives))
            for slot in range(int(slots))
        )
        best = said[0].argmax(-1)[: int(slots)]

        def values(rows: int) -> Tensor:
            told, _ = model(repeated(source, rows))
            return likelihoods(told[:, : int(slots)], best)

        return attributed(replace(record, answers=tuple(answers)), model, values, scope=scope, about="answers")

    def _names(self, ids: Sequence[int]) -> list[str]:
        pieces = self.target.tokenizer.pieces(ids)
        return [NOTHING if each == self.search.blank else piece for each, piece in zip(ids, pieces, strict=True)]


@final
@dataclass(frozen=True)
class Rescored(Way):
    """Token after token, and ranked by what slots say of the whole as well (Watanabe et al. 2017, rescoring).

    Attributes:
        attending: finds texts.
        weight: of what slots say.
        penalty: how texts of different length compare.
        n_best: texts that are returned.
    """

    attending: Attending
    weight: float
    penalty: LengthPenalty
    n_best: int

    def found(self, model: Any, memory: Memory, requests: Sequence[Request]) -> Hypotheses:
        """By both."""
        found = self.attending.found(model, memory, requests)
        said, slots = model.labels(memory)
        return [
            self._ranked(texts, said[row].expand(len(texts), -1, -1), slots[row].expand(len(texts)))
            for row, texts in enumerate(found)
        ]

    def _ranked(self, texts: Sequence[Hypothesis], said: Tensor, slots: Tensor) -> list[Hypothesis]:
        labels = torch.from_numpy(padded([each.ids for each in texts], width=1)).to(said.device)
        chances = (-ctc_loss(said, slots, labels, blank=self.target.tokenizer.special.bos)).clamp(min=_IMPOSSIBLE)
        lengths = (labels >= 0).sum(1) + 1.0
        judged = (chances / self.penalty.divisor(lengths)).tolist()
        scored = [
            replace(each, score=(1 - self.weight) * each.score + self.weight * other)
            for each, other in zip(texts, judged, strict=True)
        ]
        return sorted(scored, key=lambda each: -each.score)[: self.n_best]


def build_way(config: GenerationConfig, *, target: Target, ctc_weight: float, n_best: int = 1, seed: int = 1) -> Way:
    """How texts are looked for by a model that gives so much weight to CTC.

    Raises:
        RecipeError: what is wanted does not fit such a model.
    """
    length, penalty, special = build_length(config), _penalty(config), target.tokenizer.special
    if getattr(config, "coverage", 0):
        raise RecipeError("coverage: asks what was attended to in a sentence, and nobody wrote one here; leave it out")
    if ctc_weight > 0 and getattr(config, "risk", None) is not None:
        raise RecipeError(
            "generation.risk: is for what is ranked by the decoder alone, and with model.ctc_weight above 0 slots have "
            "their say; leave it out"
        )
    if ctc_weight == 1:
        return Labelled(length, target, _labelled(config, special, penalty=penalty, n_best=n_best))
    search = build_search(config, target.tokenizer, n_best=n_best, seed=seed)
    if ctc_weight == 0:
        return Attending(length, target, search)
    if isinstance(search, Beam | Diverse):  # what the beam holds is what can be ranked anew
        search = replace(search, n_best=search.width)
    return Rescored(length, target, Attending(length, target, search), ctc_weight, penalty, n_best)


def _penalty(config: GenerationConfig) -> LengthPenalty:
    if not isinstance(config, BeamConfig):
        return NoPenalty()
    return Wu(config.length_penalty) if config.normalisation == "wu" else Power(config.length_penalty)


def _labelled(config: GenerationConfig, special: Special, *, penalty: LengthPenalty, n_best: int) -> CTCSearch:
    silent = tuple(sorted(special.silent - {special.bos}))
    for key in _STEPWISE:
        if key in type(config).model_fields and getattr(config, key) != (
            normal := type(config).model_fields[key].get_default()
        ):
            raise RecipeError(
                f"generation.{key}: asks what was written before, and a model with model.ctc_weight = 1 writes all at "
                f"once; leave it at {normal}"
            )
    match config:
        case GreedyConfig():
            if n_best > 1:
                raise RecipeError(f"n-best {n_best}: the best path gives one text; use a beam")
            return BestPath(special.bos, silent)
        case BeamConfig(width=width):
            return PrefixBeam(special.bos, silent, max(width, n_best), penalty, n_best)
    raise RecipeError(
        "sampling: draws token after token, and a model with model.ctc_weight = 1 writes all at once; use a beam or "
        "greedy search"
    )
