"""Attribution of a model's outputs to its input tokens, by gradients with respect to their embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.blocks.embedding import InputEmbedding
from heedful.errors import RecipeError
from heedful.inspection.capture import ForwardHook, ModelSide, register_hooks

Method: TypeAlias = Literal["gradient", "integrated"]
"""Gradient times input, or integrated gradients (Sundararajan, Taly and Yan 2017)."""

OutputFunction: TypeAlias = Callable[[int], Float[Tensor, "rows N"]]
"""Reads the same text in a given number of independent rows, and returns the N numbers to explain for each row."""

_MAX_TOKENS = 2**14
"""Tokens that are read at one time, which is what the memory of the backward pass grows with."""


@dataclass(frozen=True)
class TokenScores:
    """Attribution scores of all tokens for each explained output.

    Attributes:
        axes: of the columns, one after the other.
        scores: of the tokens.
        values: the explained outputs.
        baselines: the outputs with zero vectors for all words; None if the method does not need them.
    """

    axes: tuple[str, ...]
    scores: Float[np.ndarray, "N K"]
    values: Float[np.ndarray, " N"]
    baselines: Float[np.ndarray, " N"] | None


def attribute_outputs(
    compute_outputs: OutputFunction,
    sides: Mapping[nn.Module, ModelSide],
    lengths: Mapping[str, int],
    *,
    method: Method,
    steps: int = 32,
) -> TokenScores | None:
    """Attribute each output of `compute_outputs` to each input token, by gradient times input or by integrated
    gradients with `steps` points. `sides` are the encoders and decoders that embed tokens; `lengths` are the numbers of
    tokens of each axis. Return None if there are no outputs, or if no input has an embedding.

    Only the word's own vector counts, as it is added to those of its position and segment, which stay. The baseline is
    a zero vector for each word. A score is the vector times the gradient at the word or, for integrated gradients,
    times the mean gradient on the straight path from zeros to all words; then the scores of a row sum to the value
    minus the baseline, up to the error of a Gauss-Legendre rule of that many steps (their proposition 1, completeness).

    It costs one row for each output, times the steps: as many forward and backward passes, in batches.

    Args:
        compute_outputs: reads copies of the text, in evaluation mode, and returns the outputs to explain.
        sides: encoders and decoders that embed tokens.
        lengths: number of tokens of each axis that may have columns.
        method: gradient times input, or integrated gradients.
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
        if isinstance(each, InputEmbedding)
    }
    with torch.no_grad(), _record_embeddings(embeddings) as calls_by_axis:
        values = compute_outputs(1)[0]
    words = {axis: _order_by_position(calls) for axis, calls in calls_by_axis.items()}
    words = {axis: each for axis, each in words.items() if len(each) <= lengths[axis]}
    if not words or not len(values):
        return None
    embeddings_of_words = _WordVectors(embeddings, words)
    points, weights = _make_quadrature(steps) if method == "integrated" else (np.ones(1), np.ones(1))
    sums = {axis: each.new_zeros(len(values), len(each)) for axis, each in words.items()}
    max_rows = max(1, _MAX_TOKENS // sum(map(len, words.values())))
    tasks = [(number, point) for number in range(len(values)) for point in range(len(points))]
    for start in range(0, len(tasks), max_rows):
        numbers, point_indices = map(list, zip(*tasks[start : start + max_rows], strict=True))
        scores = embeddings_of_words.compute_scores(compute_outputs, numbers, points[point_indices].tolist())
        row_weights = torch.from_numpy(weights[point_indices])
        for axis, each in scores.items():
            sums[axis].index_add_(
                0, torch.tensor(numbers, device=each.device), each * row_weights.to(each).unsqueeze(1)
            )
    baselines = None
    if method == "integrated":
        with torch.no_grad(), embeddings_of_words.scale_words([0.0]):
            baselines = compute_outputs(1)[0]
    columns = [_pad_columns(_to_array(each), lengths[axis]) for axis, each in sums.items()]
    return TokenScores(
        tuple(words), np.concatenate(columns, 1), _to_array(values), None if baselines is None else _to_array(baselines)
    )


@dataclass(frozen=True)
class _WordVectors:
    """The word vectors [T, d] of each axis, and the embedding modules that produce them."""

    embeddings: Mapping[nn.Module, str]
    words: Mapping[str, Tensor]

    def compute_scores(
        self, compute_outputs: OutputFunction, numbers: Sequence[int], points: Sequence[float]
    ) -> dict[str, Float[Tensor, "rows T"]]:
        """Return the dot product of word vector and gradient for each token, by axis. Row i explains the output with
        index `numbers[i]`; its gradient is taken where all word vectors are multiplied by `points[i]` (from 0 to 1).
        """
        # cuDNN's recurrent kernels have no backward pass in evaluation mode
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), self.scale_words(points) as leaves:
            outputs = compute_outputs(len(numbers))
            rows = torch.arange(len(numbers), device=outputs.device)
            total = outputs[rows, torch.tensor(numbers, device=outputs.device)].sum()
            if not total.requires_grad:
                raise RecipeError(
                    "attribution: gradients do not flow from this model's output to its input; leave it out"
                )
            gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        return {
            axis: leaf.new_zeros(leaf.shape[:2]) if gradient is None else (gradient * self.words[axis]).sum(-1)
            for (axis, leaf), gradient in zip(leaves.items(), gradients, strict=True)
        }

    @contextmanager
    def scale_words(self, points: Sequence[float]) -> Iterator[dict[str, Float[Tensor, "rows T d"]]]:
        """Replace the word vectors of each row inside the block by themselves times the row's number in `points` (from
        0 to 1). Yield the scaled vectors by axis, for which gradients can be computed.
        """
        leaves = {
            axis: (torch.tensor(points).to(each).view(-1, 1, 1) * each).requires_grad_()
            for axis, each in self.words.items()
        }

        def replace_words(
            module: InputEmbedding, args: tuple[Any, ...], _keywords: dict[str, Any], _output: Tensor
        ) -> Tensor:
            """Return the embedding with its word vectors replaced by the scaled ones."""
            summands, positions = module.embed_parts(*args), args[0].positions
            leaf = leaves[self.embeddings[module]]
            known = positions.clamp(min=0).unsqueeze(-1).expand(-1, -1, leaf.size(-1))
            words = torch.where((positions >= 0).unsqueeze(-1), leaf.gather(1, known), summands.tokens)
            return module.combine(replace(summands, tokens=words))

        hooks: dict[nn.Module, ForwardHook] = {
            each: replace_words for each, axis in self.embeddings.items() if axis in leaves
        }
        with register_hooks(hooks):
            yield leaves


_EmbeddingCalls: TypeAlias = list[tuple[Tensor, Tensor]]
"""Positions [T] and vectors [T, d] of what was embedded, call by call."""


@contextmanager
def _record_embeddings(embeddings: Mapping[nn.Module, str]) -> Iterator[dict[str, _EmbeddingCalls]]:
    """Record the word vectors that are embedded inside the block. `embeddings` gives the axis of each embedding module.
    Yield a dict that has, for each axis, positions and vectors of every call.
    """
    calls_by_axis: dict[str, _EmbeddingCalls] = {}

    def record_call(module: InputEmbedding, args: tuple[Any, ...], _keywords: dict[str, Any], _output: Tensor) -> None:
        """Store positions and word vectors of a call."""
        words = module.embed_parts(*args).tokens
        calls_by_axis.setdefault(embeddings[module], []).append((args[0].positions[0], _to_float32(words[0])))

    hooks: dict[nn.Module, ForwardHook] = dict.fromkeys(embeddings, record_call)
    with register_hooks(hooks):
        yield calls_by_axis


def _order_by_position(calls: _EmbeddingCalls) -> Float[Tensor, "T d"]:
    """Return the word vectors of all calls, ordered by position from 0; negative positions are left out."""
    positions, vectors = torch.cat([tensor for tensor, _ in calls]), torch.cat([tensor for _, tensor in calls])
    is_token = positions >= 0
    count = int(positions.max()) + 1 if is_token.any() else 0
    words = vectors.new_zeros(count, vectors.size(-1))
    words[positions[is_token]] = vectors[is_token]
    return words


def _make_quadrature(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points between 0 and 1 and the weights of Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return (nodes + 1) / 2, weights / 2


def _pad_columns(scores: Float[np.ndarray, "N T"], width: int) -> Float[np.ndarray, "N K"]:
    """Pad scores with zero columns up to a width."""
    return np.pad(scores, ((0, 0), (0, width - scores.shape[1])))


def _to_float32(tensor: Tensor) -> Tensor:
    """Convert a tensor to at least 32 bits."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _to_array(tensor: Tensor) -> np.ndarray:
    """Convert a tensor to an array of at least 32 bits on the CPU."""
    return _to_float32(tensor.detach()).cpu().numpy()
