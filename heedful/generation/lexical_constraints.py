"""Lexically constrained beam search by dynamic beam allocation (Post and Vilar 2018)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.generation.beam_state import BeamCandidates, BeamState
from heedful.generation.results import PrefillOutput

ConstraintIds: TypeAlias = tuple[int, ...]
"""Token ids of one term that must occur."""


@final
@dataclass(frozen=True)
class LexicalConstraints:
    """Terms that the hypotheses of each sentence must contain.

    Attributes:
        terms_by_row: the terms of each sentence; empty where it has none.
        continuation_ids: tokens that continue the word before them. A term followed by such a token was part of another
            word.
    """

    terms_by_row: tuple[tuple[ConstraintIds, ...], ...]
    continuation_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        assert all(term for terms in self.terms_by_row for term in terms), "a term has ids"

    def init_banks(self, prefill: PrefillOutput, *, eos: int) -> ConstraintBanks | None:
        """Return the constraint progress of each sentence after its forced prefix, which is in `prefill`; None if no
        sentence has terms.
        """
        states: dict[int, tuple[ConstraintProgress, ...]] = {}
        for sentence, (terms, prefix, length) in enumerate(
            zip(self.terms_by_row, prefill.prefix, prefill.prefix_lengths, strict=True)
        ):
            if terms:
                progress = ConstraintProgress(terms)
                for token in prefix[: int(length)].tolist():
                    progress = progress.extend(token, continuation_ids=self.continuation_ids)
                states[sentence] = (progress,)
        return ConstraintBanks(self, states, eos) if states else None


@final
@dataclass(frozen=True)
class ConstraintProgress:
    """How many of its terms a hypothesis contains.

    Attributes:
        terms: all terms of the sentence.
        met_terms: numbers of the terms that it contains, whatever follows.
        partial_matches: partial matches at its end: number of the term and number of matched ids. A term with all ids
            matched is met
            unless a token follows that makes it part of another word.
    """

    terms: tuple[ConstraintIds, ...]
    met_terms: frozenset[int] = frozenset()
    partial_matches: frozenset[tuple[int, int]] = frozenset()

    @property
    def satisfied_terms(self) -> frozenset[int]:
        """Numbers of the terms that are met if the hypothesis ends here."""
        return self.met_terms | {term for term, size in self.partial_matches if size == len(self.terms[term])}

    @property
    def is_complete(self) -> bool:
        """Whether all terms are met if the hypothesis ends here."""
        return len(self.satisfied_terms) == len(self.terms)

    @property
    def bank_index(self) -> int:
        """Number of matched ids: those of all satisfied terms, and those of the longest partial match."""
        satisfied = self.satisfied_terms
        partial_sizes = (size for term, size in self.partial_matches if term not in satisfied)
        return sum(len(self.terms[term]) for term in satisfied) + max(partial_sizes, default=0)

    @property
    def advancing_ids(self) -> frozenset[int]:
        """Tokens that begin or continue a term that is missing."""
        satisfied = self.satisfied_terms
        next_ids = {self.terms[term][size] for term, size in self.partial_matches if term not in satisfied}
        return frozenset(
            next_ids | {term[0] for term_number, term in enumerate(self.terms) if term_number not in satisfied}
        )

    @property
    def ends_with_term(self) -> bool:
        """Whether a term ends here, so that the next token should not extend the word."""
        return bool(self.satisfied_terms - self.met_terms)

    def extend(self, token: int, *, continuation_ids: frozenset[int]) -> ConstraintProgress:
        """Return the progress after one more token. If the token is one of `continuation_ids`, it continues the word
        before it, so a term that ended there is not met.
        """
        met_terms = self.met_terms if token in continuation_ids else self.satisfied_terms
        matches = {
            (term, size + 1) for term, size in self.partial_matches if self.terms[term][size : size + 1] == (token,)
        }
        matches |= {(term_number, 1) for term_number, term in enumerate(self.terms) if term[0] == token}
        return ConstraintProgress(
            self.terms, met_terms, frozenset(match for match in matches if match[0] not in met_terms)
        )


@dataclass(frozen=True)
class _ConstrainedCandidate:
    """A continuation of a beam, with the constraint progress after it.

    `total` is its log-probability, `value` that of the token alone.
    """

    total: float
    value: float
    beam: int
    id: int
    progress: ConstraintProgress


@final
@dataclass(frozen=True)
class ConstraintBanks:
    """Constraint progress of the beams of each sentence that has terms, by sentence number.

    The candidates are the best continuations of all beams, the best one of each beam, its end if all terms are met, and
    all tokens that advance a term, so that some hypothesis can always meet all terms. Candidates are grouped into banks
    by the number of matched ids. The beam is divided evenly among the non-empty banks (in the paper among all possible
    ones), and the remaining places go to the best candidates. No hypothesis ends before it meets all terms.
    """

    constraints: LexicalConstraints
    states: Mapping[int, tuple[ConstraintProgress, ...]]
    eos: int

    def allocate(
        self,
        candidates: BeamCandidates,
        beam_state: BeamState,
        *,
        processed: Float[Tensor, "N V"],
        offsets: Float[Tensor, "G rows"],
        model_logits: tuple[Float[Tensor, "N V"], Float[Tensor, " N"]],
    ) -> BeamCandidates:
        """Choose the candidates of constrained sentences by dynamic beam allocation; others stay unchanged. `processed`
        are the logits after penalties, masks and filters; with `offsets` added, they are log-probabilities of
        hypotheses.

        In those sentences, candidates that end a hypothesis come first, then those that live on.

        Args:
            candidates: the 2 * width best candidates.
            beam_state: beam state before them.
            processed: logits after penalties, masks and filters.
            offsets: added to the logits to get log-probabilities of whole hypotheses.
            model_logits: the model's logits and their logsumexp.
        """
        rows, sentence_numbers = offsets.size(1), beam_state.prefill.sentence_indices.tolist()
        is_done, live_scores = beam_state.done.tolist(), beam_state.live_scores.tolist()
        sentences = [
            sentence
            for sentence, number in enumerate(sentence_numbers)
            if number in self.states and not is_done[sentence]
        ]
        if not sentences:
            return candidates
        beams = [
            (sentence * rows + beam, progress)
            for sentence in sentences
            for beam, progress in enumerate(self.states[sentence_numbers[sentence]][:rows])
            if live_scores[sentence][beam] > -math.inf
        ]
        pairs = [(row, token) for row, progress in beams for token in progress.advancing_ids]
        pairs += [(row, self.eos) for row, progress in beams if progress.is_complete]
        pairs += self._best_per_beam(beams, processed)
        further = self._score_pairs(pairs, processed=processed, offsets=offsets, model_logits=model_logits)
        columns = [part.tolist() for part in candidates.to_tuple()[:4]]
        fields = [part.clone() for part in candidates.to_tuple()]
        for sentence in sentences:
            best_candidates = zip(*(part[sentence] for part in columns), strict=True)
            totals_and_values = {
                (beam, token): (total, value)
                for total, value, beam, token in (*further[sentence], *best_candidates)
                if total > -math.inf
            }
            allowed = self._list_allowed(totals_and_values, self.states[sentence_numbers[sentence]])
            is_last_step = int(beam_state.lengths[sentence]) + 1 >= int(beam_state.prefill.limits[sentence])
            chosen = self._divide_beam(allowed, width=beam_state.live_scores.size(1), is_last_step=is_last_step)
            for index in range(candidates.ids.size(1)):
                candidate = chosen[index] if index < len(chosen) else None
                values = (
                    (-math.inf, 0.0, 0, 0)
                    if candidate is None
                    else (candidate.total, candidate.value, candidate.beam, candidate.id)
                )
                for field, value in zip(fields, values, strict=False):
                    field[sentence, index] = value
        return BeamCandidates(*fields)

    def select_beams(self, selected: BeamCandidates, beam_state: BeamState) -> ConstraintBanks:
        """Return the constraint progress of the beams that live on. `selected` are the candidates that they took;
        `beam_state` is the beam state after the step.
        """
        sentences, beams, ids = (
            beam_state.prefill.sentence_indices.tolist(),
            selected.beams.tolist(),
            selected.ids.tolist(),
        )
        states = {
            sentence: tuple(
                self.states[sentence][beam].extend(token, continuation_ids=self.constraints.continuation_ids)
                for beam, token in zip(beams[group], ids[group], strict=True)
            )
            for group, sentence in enumerate(sentences)
            if sentence in self.states
        }
        return ConstraintBanks(self.constraints, states, self.eos)

    def _list_allowed(
        self, totals_and_values: Mapping[tuple[int, int], tuple[float, float]], progress: Sequence[ConstraintProgress]
    ) -> list[_ConstrainedCandidate]:
        """List the possible candidates of a sentence with their progress; a hypothesis that lacks a term must not end.
        The mapping has the log-probabilities of hypothesis and token by (beam, token); `progress` is that of each beam.
        """
        return [
            _ConstrainedCandidate(
                total,
                value,
                beam,
                token,
                progress[beam].extend(token, continuation_ids=self.constraints.continuation_ids),
            )
            for (beam, token), (total, value) in totals_and_values.items()
            if token != self.eos or progress[beam].is_complete
        ]

    def _best_per_beam(
        self, beams: Sequence[tuple[int, ConstraintProgress]], processed: Float[Tensor, "N V"]
    ) -> list[tuple[int, int]]:
        """Return the row of each beam with its best token other than `eos`; after a term also with the best that does
        not continue the word. `beams` has row and progress of each beam, and `processed` the changed logits of all
        rows.
        """

        def pick_best(rows: Sequence[int], excluded_ids: Sequence[int]) -> list[tuple[int, int]]:
            """Return each row with its best token outside of `excluded_ids`."""
            if not rows:
                return []
            remaining = processed[torch.tensor(rows, device=processed.device)]
            remaining.index_fill_(1, torch.tensor(excluded_ids, device=processed.device), -math.inf)
            return list(zip(rows, remaining.argmax(1).tolist(), strict=True))

        rows_after_term = [row for row, progress in beams if progress.ends_with_term]
        return pick_best([row for row, _ in beams], [self.eos]) + pick_best(
            rows_after_term, [self.eos, *self.constraints.continuation_ids]
        )

    def _score_pairs(
        self,
        pairs: Sequence[tuple[int, int]],
        *,
        processed: Float[Tensor, "N V"],
        offsets: Float[Tensor, "G rows"],
        model_logits: tuple[Float[Tensor, "N V"], Float[Tensor, " N"]],
    ) -> Mapping[int, list[tuple[float, float, int, int]]]:
        """Return for each sentence the candidates among `pairs` of row and token: log-probability of hypothesis and
        token, beam, and token. `offsets` turns `processed` into log-probabilities of hypotheses; `model_logits` has the
        model's logits and their logsumexp.
        """
        rows, ids = torch.tensor(pairs, dtype=torch.long, device=processed.device).view(-1, 2).unbind(1)
        totals = processed[rows, ids] + offsets.flatten()[rows]
        values = model_logits[0][rows, ids] - model_logits[1][rows]
        scored = defaultdict[int, list[tuple[float, float, int, int]]](list)
        for (row, token), total, value in zip(pairs, totals.tolist(), values.tolist(), strict=True):
            group, beam = divmod(row, offsets.size(1))
            scored[group].append((total, value, beam, token))
        return scored

    def _divide_beam(
        self, allowed: Sequence[_ConstrainedCandidate], *, width: int, is_last_step: bool
    ) -> list[_ConstrainedCandidate]:
        """Divide the beam of one sentence among the banks of its allowed candidates: return those that end, then
        `width` that live, best first.

        Only candidates among the best of the fullest bank may end. At the last step before the length limit, only the
        fullest bank is used.
        """
        banks = defaultdict[int, list[_ConstrainedCandidate]](list)
        for candidate in sorted(allowed, key=lambda candidate: -candidate.total):
            banks[candidate.progress.bank_index].append(candidate)
        bank_order = sorted(banks, reverse=True)
        ending = [candidate for bank in bank_order for candidate in banks[bank] if candidate.id == self.eos]
        best_ids = {id(candidate) for bank in bank_order[:1] for candidate in banks[bank][:width]}
        ending = [candidate for candidate in ending if id(candidate) in best_ids]
        living = {bank: [candidate for candidate in banks[bank] if candidate.id != self.eos] for bank in bank_order}
        bank_order = [bank for bank in bank_order if living[bank]]
        if is_last_step:
            bank_order = bank_order[:1]
        share = max(1, width // max(1, len(bank_order)))
        chosen = [candidate for bank in bank_order for candidate in living[bank][:share]][:width]
        remaining = [candidate for bank in bank_order for candidate in living[bank][share:]]
        chosen += sorted(remaining, key=lambda candidate: -candidate.total)[: width - len(chosen)]
        return ending + sorted(chosen, key=lambda candidate: -candidate.total)
