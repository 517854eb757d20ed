"""Everything a search with beams looked at, as a tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.generation.beam_state import BeamStep
from heedful.tensors import BeamOutcome


@dataclass(frozen=True)
class BeamTreeNode:
    """A token that was tried.

    Attributes:
        parent: number of the node it continues; -1 for the root, which is what was forced.
        id: the token; -1 for the root.
        total: log-probability of everything up to here, in nats, a forced prefix included; of the root, 0.
        score: what it is ranked by, if it ended; None otherwise.
        fate: what became of it.
    """

    parent: int
    id: int
    total: float
    score: float | None
    fate: BeamOutcome


class BeamTree:
    """Collects the steps of the search for one sentence; its `add_step` is what `observe` of a search asks for.

    Groups of beams grow from one root, each by itself, so what several of them tried stands there several times.

    Args:
        width: of the beam, or of that of each group.
        eos: the token that ends a sentence.
    """

    def __init__(self, *, width: int, eos: int) -> None:
        self.width = width
        self.eos = eos
        self.nodes = [BeamTreeNode(-1, -1, 0.0, None, "lived")]
        self._live: dict[int, list[int]] = {}

    def add_step(self, beam_step: BeamStep) -> None:
        """One more step; a tree has one sentence."""
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
        """Numbers of the nodes that spell these tokens from the root, as far as the tree has them."""
        paths = [[0]]
        for token in ids:
            following = [n for n, node in enumerate(self.nodes) if node.id == token]
            longer = [[*path, n] for path in paths for n in following if self.nodes[n].parent == path[-1]]
            if not longer:
                break
            paths = longer
        return next((path for path in paths if self.nodes[path[-1]].fate != "pruned"), paths[0])
