"""All candidates of a beam search as a tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.generation.beam_state import BeamStep
from heedful.tensors import BeamOutcome


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
        """Return the numbers of the nodes that spell these tokens from the root, as far as the tree contains them."""
        paths = [[0]]
        for token in ids:
            following = [n for n, node in enumerate(self.nodes) if node.id == token]
            longer = [[*path, n] for path in paths for n in following if self.nodes[n].parent == path[-1]]
            if not longer:
                break
            paths = longer
        return next((path for path in paths if self.nodes[path[-1]].fate != "pruned"), paths[0])
