"""Terms that hypotheses must hold: beam search by dynamic beam allocation (Post and Vilar 2018)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.generation.front import Candidates, Front
from heedful.generation.start import Start

Term: TypeAlias = tuple[int, ...]
"""The ids of a term, in one cutting."""


@final
@dataclass(frozen=True)
class Terms:
    """What the hypotheses of each sentence must hold.

    Attributes:
        rows: the terms of each sentence; none where it is free.
        joined: tokens that go on with the word before them. Behind such a token a term has been part of another word.
    """

    rows: tuple[tuple[Term, ...], ...]
    joined: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        assert all(term for terms in self.rows for term in terms), "a term has ids"

    def begin(self, start: Start, *, eos: int) -> Banks | None:
        """Where the one hypothesis of each sentence stands behind what was forced; None where all are free."""
        states: dict[int, tuple[Progress, ...]] = {}
        for sentence, (terms, prefix, size) in enumerate(zip(self.rows, start.prefix, start.lengths, strict=True)):
            if terms:
                progress = Progress(terms)
                for token in prefix[: int(size)].tolist():
                    progress = progress.extend(token, joined=self.joined)
                states[sentence] = (progress,)
        return Banks(self, states, eos) if states else None


@final
@dataclass(frozen=True)
class Progress:
    """How much of its terms a hypothesis holds.

    Attributes:
        terms: all of them.
        met: numbers of those that it holds, whatever follows.
        begun: terms that its end may be the beginning of, and how many ids of each are there; with all of them a term
            is met unless a token follows that makes another word of it.
    """

    terms: tuple[Term, ...]
    met: frozenset[int] = frozenset()
    begun: frozenset[tuple[int, int]] = frozenset()

    @property
    def written(self) -> frozenset[int]:
        """Terms that are met if the hypothesis ends here."""
        return self.met | {term for term, size in self.begun if size == len(self.terms[term])}

    @property
    def complete(self) -> bool:
        """Whether these are all."""
        return len(self.written) == len(self.terms)

    @property
    def bank(self) -> int:
        """Ids of terms that are written, and those of the one that is nearest to be so."""
        written = self.written
        open_ = (size for term, size in self.begun if term not in written)
        return sum(len(self.terms[term]) for term in written) + max(open_, default=0)

    @property
    def advancing(self) -> frozenset[int]:
        """Tokens that begin a term that is missing, or go on with one."""
        written = self.written
        going = {self.terms[term][size] for term, size in self.begun if term not in written}
        return frozenset(going | {term[0] for number, term in enumerate(self.terms) if number not in written})

    @property
    def closes(self) -> bool:
        """Whether a term ends here, which the next token should not make longer."""
        return bool(self.written - self.met)

    def extend(self, token: int, *, joined: frozenset[int]) -> Progress:
        """With one more token."""
        met = self.met if token in joined else self.written
        going = {(term, size + 1) for term, size in self.begun if self.terms[term][size : size + 1] == (token,)}
        going |= {(number, 1) for number, term in enumerate(self.terms) if term[0] == token}
        return Progress(self.terms, met, frozenset(each for each in going if each[0] not in met))


@dataclass(frozen=True)
class _Candidate:
    """A continuation of a beam: its log-probability, that of the token, and how much of its terms it then holds."""

    total: float
    value: float
    beam: int
    id: int
    progress: Progress


@final
@dataclass(frozen=True)
class Banks:
    """How the beams of each sentence that has terms stand, by the sentence's number.

    To the best continuations of all beams come the best of each beam, its end if it holds all terms, and all that bring
    a term further, so that some hypothesis can always hold all of them. Continuations lie in banks, by how many ids of
    terms they hold; the beam is shared out evenly among the banks that have any (in the paper among all that there can
    be), and what is left over goes to the best. None ends before it holds all.
    """

    terms: Terms
    states: Mapping[int, tuple[Progress, ...]]
    eos: int

    def dealt(
        self,
        found: Candidates,
        front: Front,
        *,
        changed: Float[Tensor, "N V"],
        offsets: Float[Tensor, "G rows"],
        of: tuple[Float[Tensor, "N V"], Float[Tensor, " N"]],
    ) -> Candidates:
        """The continuations, where sentences have terms in another choice and order: ended ones, then those to live.

        Args:
            found: the 2 * width best.
            front: before them.
            changed: logits after penalties, bans and filters.
            offsets: what makes log-probabilities of whole hypotheses of them.
            of: the model's logits, and their normalisers.
        """
        rows, sentences = offsets.size(1), front.sentences.tolist()
        done, live = front.done.tolist(), front.live.tolist()
        groups = [group for group, number in enumerate(sentences) if number in self.states and not done[group]]
        if not groups:
            return found
        beams = [
            (group * rows + beam, progress)
            for group in groups
            for beam, progress in enumerate(self.states[sentences[group]][:rows])
            if live[group][beam] > -math.inf
        ]
        pairs = [(row, token) for row, progress in beams for token in progress.advancing]
        pairs += [(row, self.eos) for row, progress in beams if progress.complete]
        pairs += self._best(beams, changed)
        further = self._further(pairs, changed=changed, offsets=offsets, of=of)
        lists = [part.tolist() for part in found.fields()[:4]]
        fields = [part.clone() for part in found.fields()]
        for group in groups:
            best = zip(*(part[group] for part in lists), strict=True)
            own = {
                (beam, token): (total, value)
                for total, value, beam, token in (*further[group], *best)
                if total > -math.inf
            }
            given = self._given(own, self.states[sentences[group]])
            last = int(front.forced[group] + front.counts[group]) + 1 >= int(front.limits[group])
            kept = self._shared(given, width=front.live.size(1), last=last)
            for place in range(found.ids.size(1)):
                each = kept[place] if place < len(kept) else None
                values = (-math.inf, 0.0, 0, 0) if each is None else (each.total, each.value, each.beam, each.id)
                for field, value in zip(fields, values, strict=False):
                    field[group, place] = value
        return Candidates(*fields)

    def followed(self, chosen: Candidates, front: Front) -> Banks:
        """Of the beams that live on; `front` is that after them."""
        sentences, beams, ids = front.sentences.tolist(), chosen.beams.tolist(), chosen.ids.tolist()
        states = {
            number: tuple(
                self.states[number][beam].extend(token, joined=self.terms.joined)
                for beam, token in zip(beams[group], ids[group], strict=True)
            )
            for group, number in enumerate(sentences)
            if number in self.states
        }
        return Banks(self.terms, states, self.eos)

    def _given(
        self, own: Mapping[tuple[int, int], tuple[float, float]], states: Sequence[Progress]
    ) -> list[_Candidate]:
        """The possible ones, by beam and token, with what they then hold; none ends that lacks a term."""
        return [
            _Candidate(total, value, beam, token, states[beam].extend(token, joined=self.terms.joined))
            for (beam, token), (total, value) in own.items()
            if token != self.eos or states[beam].complete
        ]

    def _best(self, beams: Sequence[tuple[int, Progress]], changed: Float[Tensor, "N V"]) -> list[tuple[int, int]]:
        """Each row with its best token that does not end it, and behind a term also with the best that lets it be."""

        def best(rows: Sequence[int], without: Sequence[int]) -> list[tuple[int, int]]:
            if not rows:
                return []
            left = changed[torch.tensor(rows, device=changed.device)]
            left.index_fill_(1, torch.tensor(without, device=changed.device), -math.inf)
            return list(zip(rows, left.argmax(1).tolist(), strict=True))

        closing = [row for row, progress in beams if progress.closes]
        return best([row for row, _ in beams], [self.eos]) + best(closing, [self.eos, *self.terms.joined])

    def _further(
        self,
        pairs: Sequence[tuple[int, int]],
        *,
        changed: Float[Tensor, "N V"],
        offsets: Float[Tensor, "G rows"],
        of: tuple[Float[Tensor, "N V"], Float[Tensor, " N"]],
    ) -> Mapping[int, list[tuple[float, float, int, int]]]:
        """Of each group its continuations by these rows and tokens."""
        rows, ids = torch.tensor(pairs, dtype=torch.long, device=changed.device).view(-1, 2).unbind(1)
        totals = changed[rows, ids] + offsets.flatten()[rows]
        values = of[0][rows, ids] - of[1][rows]
        found = defaultdict[int, list[tuple[float, float, int, int]]](list)
        for (row, token), total, value in zip(pairs, totals.tolist(), values.tolist(), strict=True):
            group, beam = divmod(row, offsets.size(1))
            found[group].append((total, value, beam, token))
        return found

    def _shared(self, given: Sequence[_Candidate], *, width: int, last: bool) -> list[_Candidate]:
        """The continuations that end among the best of the fullest bank, then `width` that live, best first.

        Where the limit cuts what lives after this step, nothing is in the way of those that hold most.
        """
        banks = defaultdict[int, list[_Candidate]](list)
        for each in sorted(given, key=lambda each: -each.total):
            banks[each.progress.bank].append(each)
        order = sorted(banks, reverse=True)
        ended = [each for number in order for each in banks[number] if each.id == self.eos]
        first = {id(each) for number in order[:1] for each in banks[number][:width]}
        ended = [each for each in ended if id(each) in first]
        lives = {number: [each for each in banks[number] if each.id != self.eos] for number in order}
        order = [number for number in order if lives[number]]
        if last:
            order = order[:1]
        share = max(1, width // max(1, len(order)))
        kept = [each for number in order for each in lives[number][:share]][:width]
        rest = [each for number in order for each in lives[number][share:]]
        kept += sorted(rest, key=lambda each: -each.total)[: width - len(kept)]
        return ended + sorted(kept, key=lambda each: -each.total)
