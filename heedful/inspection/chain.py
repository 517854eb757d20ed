"""Most probable chains of facts, from probabilities of neighbouring choices."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

ProbableChain = tuple[tuple[int, ...], float]
"""What each step chose, and how probable all of it is together."""


def find_likeliest_chains(
    nodes: Float[np.ndarray, "Q K"], edges: Float[np.ndarray, "Q-1 K K"], *, max_chains: int = 3
) -> list[ProbableChain]:
    """Return the most probable sequences of a Markov chain, best first (list Viterbi; Seshadri and Sundberg 1994).

    Args:
        nodes: probability of each choice at each step.
        edges: joint probability of the choices at two consecutive steps.
        max_chains: maximal number of chains.
    """
    best: list[list[ProbableChain]] = [[((key,), float(probability))] for key, probability in enumerate(nodes[0])]
    for step, joint in enumerate(edges.astype(np.float64)):
        marginal = nodes[step].astype(np.float64)
        conditional = np.divide(joint, marginal[:, None], out=np.zeros_like(joint), where=marginal[:, None] > 0)
        best = [
            _keep_best(
                [
                    ((*path, key), probability * conditional[path[-1], key])
                    for chains in best
                    for path, probability in chains
                ],
                max_chains,
            )
            for key in range(joint.shape[1])
        ]
    return _keep_best([chain for chains in best for chain in chains], max_chains)


def _keep_best(chains: list[ProbableChain], max_chains: int) -> list[ProbableChain]:
    """Return the most probable chains with non-zero probability."""
    best = sorted((chain for chain in chains if chain[1] > 0), key=lambda chain: -chain[1])[:max_chains]
    return [(path, float(probability)) for path, probability in best]
