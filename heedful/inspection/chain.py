"""The most probable chains of facts, by what is known of each two neighbours."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

Chain = tuple[tuple[int, ...], float]
"""What each step chose, and how probable all of it is together."""


def likeliest(nodes: Float[np.ndarray, "Q K"], edges: Float[np.ndarray, "Q-1 K K"], *, most: int = 3) -> list[Chain]:
    """The most probable sequences of a Markov chain, best first (list Viterbi; Seshadri and Sundberg 1994).

    Args:
        nodes: how probable each choice of each step is.
        edges: how probable the choices of each two neighbouring steps are together.
        most: how many there are, at most.
    """
    best: list[list[Chain]] = [[((key,), float(chance))] for key, chance in enumerate(nodes[0])]
    for step, joint in enumerate(edges.astype(np.float64)):
        before = nodes[step].astype(np.float64)
        given = np.divide(joint, before[:, None], out=np.zeros_like(joint), where=before[:, None] > 0)
        best = [
            _first([((*path, key), chance * given[path[-1], key]) for found in best for path, chance in found], most)
            for key in range(joint.shape[1])
        ]
    return _first([chain for found in best for chain in found], most)


def _first(chains: list[Chain], most: int) -> list[Chain]:
    kept = sorted((chain for chain in chains if chain[1] > 0), key=lambda chain: -chain[1])[:most]
    return [(path, float(chance)) for path, chance in kept]
