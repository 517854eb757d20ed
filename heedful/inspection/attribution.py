"""How much each token that was read speaks for what a model says, by gradients with respect to its embedding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.blocks.embedding import Embedding
from heedful.errors import RecipeError
from heedful.inspection.capture import Side
from heedful.inspection.watch import Heard, listening

Method: TypeAlias = Literal["gradient", "integrated"]
"""Gradient times input, or integrated gradients (Sundararajan, Taly and Yan 2017)."""

Read: TypeAlias = Callable[[int], Float[Tensor, "rows N"]]
"""Reads the same text in so many rows, none of which depends on another, and tells the N numbers to be explained."""

_MOST = 2**14
"""Tokens that are read at one time, which is what the memory of the backward pass grows with."""


@dataclass(frozen=True)
class Attributed:
    """What each token is worth for each number that was explained.

    Attributes:
        axes: of the columns, one behind the other.
        scores: of the tokens.
        values: the numbers.
        baselines: the numbers without any word; None where the method does not need them.
    """

    axes: tuple[str, ...]
    scores: Float[np.ndarray, "N K"]
    values: Float[np.ndarray, " N"]
    baselines: Float[np.ndarray, " N"] | None


def attribute(
    read: Read, sides: Mapping[nn.Module, Side], lengths: Mapping[str, int], *, method: Method, steps: int = 32
) -> Attributed | None:
    """Attributions of all numbers that `read` tells; None where nothing that is read has an embedding.

    The word's own vector counts, as it is added to those of its position and of its part of the text, which stay. The
    baseline is a vector of zeros in place of each word. A score is the vector times the gradient at the word or, of
    integrated gradients, times the mean gradient on the straight way from zeros to all words; then the scores of a row
    sum to the value minus the baseline, up to the error of a Gauss-Legendre rule with so many steps (their
    proposition 1, completeness).

    It costs one row for each number, times the steps: as many forward and backward passes, many at a time.

    Args:
        read: in evaluation mode.
        sides: parts of the model that embed tokens.
        lengths: tokens of each axis that may have columns.
        method: how.
        steps: of integrated gradients.

    Raises:
        RecipeError: gradients do not reach the embeddings, or there are too few steps.
    """
    if steps < 1:
        raise RecipeError(f"integrated gradients in {steps} steps; take 1 or more, 32 are usual")
    embeddings: dict[nn.Module, str] = {
        each: side.axis
        for part, side in sides.items()
        if side.axis in lengths
        for each in part.modules()
        if isinstance(each, Embedding)
    }
    with torch.no_grad(), _noting(embeddings) as seen:
        values = read(1)[0]
    words = {axis: _by_place(calls) for axis, calls in seen.items()}
    words = {axis: each for axis, each in words.items() if len(each) <= lengths[axis]}
    if not words or not len(values):
        return None
    whole = _Words(embeddings, words)
    places, weights = _way(steps) if method == "integrated" else (np.ones(1), np.ones(1))
    sums = {axis: each.new_zeros(len(values), len(each)) for axis, each in words.items()}
    room = max(1, _MOST // sum(map(len, words.values())))
    every = [(number, place) for number in range(len(values)) for place in range(len(places))]
    for start in range(0, len(every), room):
        numbers, at = map(list, zip(*every[start : start + room], strict=True))
        scores = whole.scores(read, numbers, places[at].tolist())
        share = torch.from_numpy(weights[at])
        for axis, each in scores.items():
            sums[axis].index_add_(0, torch.tensor(numbers, device=each.device), each * share.to(each).unsqueeze(1))
    baselines = None
    if method == "integrated":
        with torch.no_grad(), whole.at([0.0]):
            baselines = read(1)[0]
    columns = [_filled(_array(each), lengths[axis]) for axis, each in sums.items()]
    return Attributed(
        tuple(words), np.concatenate(columns, 1), _array(values), None if baselines is None else _array(baselines)
    )


@dataclass(frozen=True)
class _Words:
    """The words' vectors [T, d] of each axis, and the embeddings that bring them in."""

    embeddings: Mapping[nn.Module, str]
    words: Mapping[str, Tensor]

    def scores(self, read: Read, numbers: Sequence[int], places: Sequence[float]) -> dict[str, Float[Tensor, "rows T"]]:
        """Words times gradients in rows, each with its number and its place on the way."""
        # cuDNN's recurrent kernels have no backward pass in evaluation mode
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), self.at(places) as leaves:
            said = read(len(numbers))
            rows = torch.arange(len(numbers), device=said.device)
            total = said[rows, torch.tensor(numbers, device=said.device)].sum()
            if not total.requires_grad:
                raise RecipeError(
                    "attribution: gradients of what this model says do not reach what it read; leave it out"
                )
            found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        return {
            axis: leaf.new_zeros(leaf.shape[:2]) if each is None else (each * self.words[axis]).sum(-1)
            for (axis, leaf), each in zip(leaves.items(), found, strict=True)
        }

    @contextmanager
    def at(self, places: Sequence[float]) -> Iterator[dict[str, Float[Tensor, "rows T d"]]]:
        """Inside the block a row reads its share of each word's vector; yields what stands for the words."""
        leaves = {
            axis: (torch.tensor(places).to(each).view(-1, 1, 1) * each).requires_grad_()
            for axis, each in self.words.items()
        }

        def put(module: Embedding, args: tuple[Any, ...], _keywords: dict[str, Any], _output: Tensor) -> Tensor:
            summands, positions = module.explain(*args), args[0].positions
            leaf = leaves[self.embeddings[module]]
            known = positions.clamp(min=0).unsqueeze(-1).expand(-1, -1, leaf.size(-1))
            words = torch.where((positions >= 0).unsqueeze(-1), leaf.gather(1, known), summands.words)
            return module.joined(replace(summands, words=words))

        hooks: dict[nn.Module, Heard] = {each: put for each, axis in self.embeddings.items() if axis in leaves}
        with listening(hooks):
            yield leaves


_Calls: TypeAlias = list[tuple[Tensor, Tensor]]
"""Positions [T] and vectors [T, d] of what was embedded, call by call."""


@contextmanager
def _noting(embeddings: Mapping[nn.Module, str]) -> Iterator[dict[str, _Calls]]:
    """Collects what is embedded of each axis inside the block."""
    seen: dict[str, _Calls] = {}

    def note(module: Embedding, args: tuple[Any, ...], _keywords: dict[str, Any], _output: Tensor) -> None:
        words = module.explain(*args).words
        seen.setdefault(embeddings[module], []).append((args[0].positions[0], _wide(words[0])))

    hooks: dict[nn.Module, Heard] = dict.fromkeys(embeddings, note)
    with listening(hooks):
        yield seen


def _by_place(calls: _Calls) -> Float[Tensor, "T d"]:
    """The vector at each position, however often and in which order they were embedded."""
    positions, vectors = torch.cat([each for each, _ in calls]), torch.cat([each for _, each in calls])
    real = positions >= 0
    count = int(positions.max()) + 1 if real.any() else 0
    words = vectors.new_zeros(count, vectors.size(-1))
    words[positions[real]] = vectors[real]
    return words


def _way(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Places between 0 and 1 and their weights, as Gauss and Legendre have them."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return (nodes + 1) / 2, weights / 2


def _filled(scores: Float[np.ndarray, "N T"], width: int) -> Float[np.ndarray, "N K"]:
    """With zeros for columns without a token."""
    return np.pad(scores, ((0, 0), (0, width - scores.shape[1])))


def _wide(tensor: Tensor) -> Tensor:
    """In 32 bits or more."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _array(tensor: Tensor) -> np.ndarray:
    return _wide(tensor.detach()).cpu().numpy()
