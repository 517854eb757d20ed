"""Data structures of beam search: beam state, candidates, how beams are traced back, and the tree of candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.generation.results import PrefillOutput
from heedful.generation.topk import TopKResult
from heedful.tensors import BeamOutcome

_MAX_LIST_SENTENCES: Final = 8
"""Sentences up to which lists are faster than tensors to trace beams."""


@dataclass(frozen=True)
class BeamState:
    """State of beam search for the sentences still searched, each with `width` live hypotheses of equal length.

    Attributes:
        prefill: what was read before the search.
        counts: number of tokens generated so far.
        live_scores: log-probabilities of the live hypotheses, in falling order; minus infinity where there is none.
        done: True where nothing can change the result any more; all other fields of that sentence then stay as they
            are.
        finished: for each kept finished hypothesis its score, its log-probability and that of its last token.
        finished_indices: for each of them `tokens * width + beam`, which says after how many tokens of which beam it
            ended.
        last_tokens: the token at which each of them ended.
    """

    prefill: PrefillOutput
    counts: Int[Tensor, " G"]
    live_scores: Float[Tensor, "G width"]
    done: Bool[Tensor, " G"]
    finished: Float[Tensor, "G n 3"]
    finished_indices: Int[Tensor, "G n"]
    last_tokens: Int[Tensor, "G n"]

    @classmethod
    def from_prefill(cls, prefill: PrefillOutput, *, width: int, n_best: int) -> BeamState:
        """Return the first state: one live hypothesis for each sentence, the forced prefix, with room for `width` live
        and `n_best` finished ones.
        """
        prefix_scores = prefill.prefix_log_probabilities.sum(1, keepdim=True)
        indices = prefill.positions.new_zeros(len(prefix_scores), n_best)
        return cls(
            prefill=prefill,
            counts=torch.zeros_like(prefill.positions),
            live_scores=functional.pad(prefix_scores, (0, width - 1), value=-math.inf),
            done=prefill.prefix_lengths >= prefill.limits,
            finished=prefix_scores.new_full((len(prefix_scores), n_best, 3), -math.inf),
            finished_indices=indices,
            last_tokens=indices,
        )

    @property
    def lengths(self) -> Int[Tensor, " G"]:
        """Number of tokens of the live hypotheses, the forced prefix included."""
        return self.prefill.prefix_lengths + self.counts

    @property
    def input_positions(self) -> Int[Tensor, " G"]:
        """Position of the newest token of each live hypothesis; -1 where the sentence is done."""
        return torch.where(self.done, -1, self.prefill.positions + self.counts - 1)

    def get_dynamic_fields(self) -> tuple[Tensor, ...]:
        """Return the fields that each step changes."""
        return self.counts, self.live_scores, self.done, self.finished, self.finished_indices, self.last_tokens

    def with_dynamic_fields(self, fields: tuple[Tensor, ...]) -> BeamState:
        """Return the state with the fields that each step changes replaced, in the order of `get_dynamic_fields`."""
        return BeamState(self.prefill, *fields)


@dataclass(frozen=True)
class BeamCandidates:
    """Candidate continuations of live hypotheses.

    Attributes:
        totals: log-probabilities of the whole hypotheses.
        values: log-probabilities of the new tokens.
        beams: the live hypothesis that is continued.
        ids: the new token.
        ends: whether the hypothesis ends with it.
        ranks: the rank of the candidate before any selection.
    """

    totals: Float[Tensor, "G k"]
    values: Float[Tensor, "G k"]
    beams: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]
    ends: Bool[Tensor, "G k"]
    ranks: Int[Tensor, "G k"]

    @classmethod
    def from_top_k(cls, values: Float[Tensor, "G k"], top: TopKResult, *, num_candidates: int) -> BeamCandidates:
        """Build candidates from a top-k result over whole hypotheses, padded with impossible ones up to
        `num_candidates`. `values` are the log-probabilities of the new tokens.
        """
        padding = (0, num_candidates - top.ids.size(1))
        totals, beams, ids = top.values, top.members, top.ids
        if padding[1]:
            totals = functional.pad(totals, padding, value=-math.inf)
            values, beams, ids = (functional.pad(part, padding) for part in (values, beams, ids))
        ranks = torch.arange(num_candidates, device=values.device).expand(len(values), -1)
        return cls(totals, values, beams, ids, torch.zeros_like(ids, dtype=torch.bool), ranks)

    def to_tuple(self) -> tuple[Tensor, ...]:
        """Return all fields, in the order of the attributes."""
        return self.totals, self.values, self.beams, self.ids, self.ends, self.ranks

    def take(self, indices: Int[Tensor, "G m"]) -> BeamCandidates:
        """Select candidates by index, in the given order."""
        return BeamCandidates(*(part.gather(1, indices) for part in self.to_tuple()))


@dataclass(frozen=True)
class BeamStep:
    """One step of beam search: the 2 * width best continuations of each sentence, best first.

    Those that end the sentence and are among the first `width` are finished; the best `width` others live on, and are
    the beams of the next step, in the order of their totals.

    Attributes:
        sentence_indices: rows of the prompt that are still searched.
        done: whether the search of that sentence had ended before; its other fields then mean nothing.
        beams: the live hypothesis that is continued.
        ids: the new token.
        totals: log-probabilities of the whole hypotheses; minus infinity where there is none.
        scores: the score of a hypothesis that ends here.
        group: number of the beam group, in diverse beam search.
    """

    sentence_indices: Int[Tensor, " G"]
    done: Bool[Tensor, " G"]
    beams: Int[Tensor, "G k"]
    ids: Int[Tensor, "G k"]
    totals: Float[Tensor, "G k"]
    scores: Float[Tensor, "G k"]
    group: int = 0


def trace_beams(
    origins: Int[Tensor, "B T width"],
    ids: Int[Tensor, "B T width"],
    values: Float[Tensor, "B T width"],
    *,
    beams: Int[Tensor, "B n"],
    counts: Int[Tensor, "B n"],
) -> tuple[Int[Tensor, "B n t"], Float[Tensor, "B n t"]]:
    """Follow back-pointers: return the ids that led to `beams` after `counts` tokens, and their log-probabilities.
    `origins`, `ids` and `values` have, for each beam and step, the beam that it continued, its token and the token's
    log-probability.

    A column more than there are steps is left free at the end; the entries from `counts` on mean nothing.

    Args:
        origins: the beam that each beam continued at each step.
        ids: the token that it took.
        values: the log-probability of that token.
        beams: the beams to trace.
        counts: number of tokens of each.
    """
    trace = _trace_with_lists if len(beams) <= _MAX_LIST_SENTENCES else _trace_with_tensors
    return trace(origins, ids, values, beams, counts)


def _trace_with_tensors(
    origins: Int[Tensor, "B T width"],
    ids: Int[Tensor, "B T width"],
    values: Float[Tensor, "B T width"],
    beams: Int[Tensor, "B n"],
    counts: Int[Tensor, "B n"],
) -> tuple[Int[Tensor, "B n t"], Float[Tensor, "B n t"]]:
    """Follow back-pointers with tensor operations, which is fast for many sentences; see `trace_beams`."""
    size = ids.size(1)
    traced_ids = beams.new_zeros(*beams.shape, size + 1)
    traced_values = values.new_zeros(*beams.shape, size + 1)
    for step in reversed(range(size)):
        traced_ids[:, :, step] = ids[:, step].gather(1, beams)
        traced_values[:, :, step] = values[:, step].gather(1, beams)
        beams = torch.where(step < counts, origins[:, step].gather(1, beams), beams)
    return traced_ids, traced_values


def _trace_with_lists(
    origins: Int[Tensor, "B T width"],
    ids: Int[Tensor, "B T width"],
    values: Float[Tensor, "B T width"],
    beams: Int[Tensor, "B n"],
    counts: Int[Tensor, "B n"],
) -> tuple[Int[Tensor, "B n t"], Float[Tensor, "B n t"]]:
    """Follow back-pointers in lists, which is fast for few sentences; see `trace_beams`."""
    shape = (*beams.shape, ids.size(1) + 1)
    traced_ids, traced_values = list[int](), list[float]()
    sentences = zip(
        *(column.tolist() for column in (origins, ids, values)), beams.tolist(), counts.tolist(), strict=True
    )
    for origin_steps, id_steps, value_steps, last_beams, sizes in sentences:
        for last_beam, count in zip(last_beams, sizes, strict=True):
            path, beam = list[int](), last_beam
            for step in reversed(range(count)):
                path.append(beam)
                beam = origin_steps[step][beam]
            path.reverse()
            padding = shape[2] - count
            traced_ids += [*(id_steps[step][beam] for step, beam in enumerate(path)), *[0] * padding]
            traced_values += [*(value_steps[step][beam] for step, beam in enumerate(path)), *[0.0] * padding]
    return (
        torch.tensor(traced_ids, dtype=torch.long, device=beams.device).view(shape),
        torch.tensor(traced_values, dtype=values.dtype, device=beams.device).view(shape),
    )


@dataclass(frozen=True)
class BeamTreeNode:
    """A candidate token of a beam search.

    Attributes:
        parent: number of the node that it continues; -1 for the root, which is the forced prefix.
        id: the token; -1 for the root.
        total: log-probability of the whole hypothesis, in nats, a forced prefix included; 0 for the root.
        score: the ranking score, if the hypothesis ended here; else None.
        fate: whether it lived on, ended, or was pruned.
    """

    parent: int
    id: int
    total: float
    score: float | None
    fate: BeamOutcome


class BeamTree:
    """Tree of the steps of the search for one sentence; pass its `add_step` as `on_step` of a search.

    Groups of beams grow from one root, each by itself; a token that several groups tried occurs several times.

    Args:
        width: beam width, or that of each group.
        eos: the token that ends a sentence.
    """

    def __init__(self, *, width: int, eos: int) -> None:
        self.width = width
        self.eos = eos
        self.nodes = [BeamTreeNode(-1, -1, 0.0, None, "lived")]
        self._live: dict[int, list[int]] = {}

    def add_step(self, beam_step: BeamStep) -> None:
        """Add one step of the search, which must be for a single sentence."""
        assert len(beam_step.sentence_indices) == 1, "a tree belongs to one sentence"
        if bool(beam_step.done[0]):
            return
        columns = (beam_step.beams[0], beam_step.ids[0], beam_step.totals[0], beam_step.scores[0])
        parents, live_nodes = self._live.get(beam_step.group, [0]), list[int]()
        for rank, (beam, token, total, score) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            if not math.isfinite(total):
                continue
            ends = token == self.eos
            fate: BeamOutcome = "pruned"
            if ends and rank < self.width:
                fate = "ended"
            elif not ends and len(live_nodes) < self.width:
                fate = "lived"
                live_nodes.append(len(self.nodes))
            self.nodes.append(BeamTreeNode(parents[beam], token, total, score if ends else None, fate))
        self._live[beam_step.group] = sorted(live_nodes, key=lambda number: -self.nodes[number].total)

    def find_path(self, ids: Sequence[int]) -> list[int]:
        """Return the numbers of the nodes that spell the tokens `ids` from the root, as far as the tree contains them.
        Among several paths, one whose last node was not pruned is preferred.
        """
        paths = [[0]]
        for token in ids:
            following = [n for n, node in enumerate(self.nodes) if node.id == token]
            longer = [[*path, n] for path in paths for n in following if self.nodes[n].parent == path[-1]]
            if not longer:
                break
            paths = longer
        return next((path for path in paths if self.nodes[path[-1]].fate != "pruned"), paths[0])
