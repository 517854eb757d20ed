"""Distributions of the next token, and their losses in little memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from heedful import fused_operators


class Predictions(ABC):
    """The distributions that a model predicts for some tokens, a row for each.

    The logits of a chunk of rows exist at one time, also in a backward pass.

    Attributes:
        hidden: a hidden vector for each row.
        output: maps them to logits.
        weights: weight of each row in a loss; None if all count the same.
    """

    hidden: Float[Tensor, "N d_model"]
    output: nn.Linear
    weights: Float[Tensor, " N"] | None

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in each distribution."""
        return self.output.out_features

    @property
    def device(self) -> torch.device:
        """Device of the rows."""
        return self.hidden.device

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.hidden)

    @abstractmethod
    def select(self, rows: Int[Tensor, " n"]) -> Predictions:
        """Return the predictions of some rows."""

    @abstractmethod
    def split(self, size: int) -> Sequence[Predictions]:
        """Split the rows into chunks of at most `size` rows; the chunks have no weights."""

    @abstractmethod
    def compute_log_probabilities(self) -> Float[Tensor, "N V"]:
        """Return the logarithms of all distributions, in single precision at least."""

    def with_weights(self, weights: Float[Tensor, " N"] | None) -> Predictions:
        """Return the same predictions with weights in a loss."""
        return replace(self, weights=weights)  # type: ignore[type-var]  # subclasses are dataclasses

    @property
    def chunk_rows(self) -> int:
        """Number of rows whose logits exist at one time."""
        return _choose_chunk_rows(self.device, self.vocabulary_size)

    def compute_cross_entropy(
        self, labels: Int[Tensor, " N"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Compute the loss of labels, and their negative log-likelihood without a gradient; see `cross_entropy`."""

        def compute_chunk(chunk: Predictions, label: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
            """Return both sums of one chunk."""
            log_probabilities = chunk.compute_log_probabilities()
            likelihoods = log_probabilities.gather(1, label.unsqueeze(1)).squeeze(1)
            terms = (1 - smoothing) * likelihoods
            if smoothing:
                terms = terms + smoothing * log_probabilities.mean(1)
            return -(terms @ weight.to(terms.dtype)), -likelihoods.detach().sum()

        weights = torch.ones(len(labels), device=self.device) if self.weights is None else self.weights
        sums = [checkpoint(compute_chunk, *part, use_reentrant=False) for part in self._iter_chunks(labels, weights)]
        smoothed, plain = (torch.stack(column).sum() for column in zip(*sums, strict=True))
        return smoothed, plain

    @torch.no_grad()
    def compute_log_likelihoods(self, labels: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        """Return log p(label) of each row, without a gradient."""
        return torch.cat(
            [
                chunk.compute_log_probabilities().gather(1, label.unsqueeze(1)).squeeze(1)
                for chunk, label in self._iter_chunks(labels)
            ]
        )

    @torch.no_grad()
    def score_labels(self, labels: Int[Tensor, " N"]) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Return the sum over rows of -log p(label), and the number of rows whose most probable token is the label."""
        sums = []
        for chunk, label in self._iter_chunks(labels):
            log_probabilities = chunk.compute_log_probabilities()
            nll = functional.nll_loss(log_probabilities, label, reduction="sum")
            sums.append((nll, (log_probabilities.argmax(1) == label).sum()))
        total, num_correct = (torch.stack(column).sum() for column in zip(*sums, strict=True))
        return total, num_correct

    def _iter_chunks(self, *columns: Shaped[Tensor, " N"]) -> Iterator[tuple[Any, ...]]:
        """Yield chunks of rows whose logits exist at one time, each with the same rows of `columns`."""
        size = self.chunk_rows
        return zip(self.split(size), *(torch.split(column, size) for column in columns), strict=True)


@final
@dataclass(frozen=True)
class SoftmaxPredictions(Predictions):
    """The distributions p = softmax(output(h)), one for each hidden vector h.

    Attributes:
        hidden: the hidden vectors.
        output: maps them to logits.
        weights: weight of each vector in a loss; None if all count the same.
    """

    hidden: Float[Tensor, "N d_model"]
    output: nn.Linear
    weights: Float[Tensor, " N"] | None = None

    def select(self, rows: Int[Tensor, " n"]) -> SoftmaxPredictions:
        """Return the predictions of some rows."""
        weights = None if self.weights is None else self.weights.index_select(0, rows)
        return SoftmaxPredictions(self.hidden.index_select(0, rows), self.output, weights)

    def split(self, size: int) -> Sequence[SoftmaxPredictions]:
        """Split the rows into chunks of at most `size` rows; the chunks have no weights."""
        return [SoftmaxPredictions(hidden, self.output) for hidden in torch.split(self.hidden, size)]

    def compute_log_probabilities(self) -> Float[Tensor, "N V"]:
        """Return the logarithms of all distributions, in single precision at least."""
        dtype = torch.promote_types(self.hidden.dtype, torch.float32)
        log_probabilities: Tensor = self.output(self.hidden).to(dtype).log_softmax(-1)
        return log_probabilities

    def compute_cross_entropy(
        self, labels: Int[Tensor, " N"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Compute the loss of labels, and their negative log-likelihood without a gradient; see `cross_entropy`."""
        return cross_entropy(self.hidden, labels, output=self.output, smoothing=smoothing, weights=self.weights)


_CPU_CHUNK_ROWS, _GPU_CHUNK_ROWS = 1024, 8192
"""Rows whose logits exist at one time: on a CPU they stay in the cache, on a GPU they fill the device."""
_CHUNK_VOCABULARY: Final = 2**15
"""Size of a vocabulary from which on there are fewer rows, so that the logits of a chunk do not grow with it."""


def _choose_chunk_rows(device: torch.device, vocabulary: int) -> int:
    """Return the number of rows whose logits over a vocabulary of this size exist at one time on this device."""
    rows = _CPU_CHUNK_ROWS if device.type == "cpu" else _GPU_CHUNK_ROWS
    return rows if vocabulary <= _CHUNK_VOCABULARY else max(1, rows * _CHUNK_VOCABULARY // vocabulary)


def cross_entropy(
    hidden: Float[Tensor, "N d_model"],
    labels: Int[Tensor, " N"],
    *,
    output: nn.Linear,
    smoothing: float = 0.0,
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Compute the sum over rows of -sum_w q(w) log p(w), p = softmax(output(hidden)), and the sum of -log p(label)
    alone. `weights` multiplies the terms of the first sum, not those of the second.

    q puts 1 - smoothing on the label and spreads smoothing evenly over the vocabulary (Szegedy et al. 2016, section 7).
    The gradient is computed together with the value, chunk by chunk, so a batch needs memory for its hidden vectors but
    not for its logits. The second value carries no gradient.

    Returns:
        The smoothed, weighted sum, to be minimised, and the plain negative log-likelihood in nats.
    """
    apply_function: Callable[..., tuple[Tensor, Tensor]] = _ProjectedCrossEntropy.apply
    # inside an autograd function gradients are always off, so this checks whether they are needed
    return apply_function(hidden, output.weight, output.bias, labels, smoothing, weights, torch.is_grad_enabled())


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Cross-entropy of a projection, with gradients computed in the forward pass.

    With p = softmax(h W'), the gradient of a row's loss by its logits is p - (1 - smoothing) onehot(label) - smoothing
    / V. The constant smoothing / V is a rank-one correction of the two products with this gradient, so it needs no pass
    over the logits.
    """

    @staticmethod
    def forward(  # noqa: PLR0917 -- autograd passes by position
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        weights: Tensor | None,
        training: bool,
    ) -> tuple[Tensor, Tensor]:
        """Compute the smoothed and the plain sum, and keep the gradients in `ctx` if they are needed."""
        # a frozen table, as under an adapter, needs no gradient of its own size
        wants_hidden, wants_weight, wants_bias = (training and needed for needed in ctx.needs_input_grad[:3])
        exact = torch.promote_types(hidden.dtype, torch.float32)
        mean_weight = weight.mean(0, dtype=exact)
        mean_bias = 0.0 if bias is None else bias.mean(dtype=exact)
        plain = hidden.new_zeros((), dtype=exact)
        total, spread = plain.clone(), plain.clone()
        d_hidden = torch.empty_like(hidden) if wants_hidden else None
        d_weight = torch.zeros_like(weight) if wants_weight else None
        d_bias = torch.zeros_like(bias, dtype=exact) if wants_bias and bias is not None else None
        size = _choose_chunk_rows(hidden.device, weight.size(0))
        is_native = fused_operators.find_library(hidden) is not None
        compute_gradient = _compute_native_gradient if is_native else _compute_logit_gradient
        wants_gradient = wants_hidden or wants_weight or wants_bias
        room = hidden.new_empty(1 if is_native else 2, min(size, hidden.size(0)), weight.size(0))
        for start in range(0, hidden.size(0), size):
            h, label = hidden[start : start + size], labels[start : start + size]
            row_weights = None if weights is None else weights[start : start + size].to(exact)
            logits, out = room[0, : h.size(0)], room[-1, : h.size(0)]
            _ = torch.mm(h, weight.T, out=logits) if bias is None else torch.addmm(bias, h, weight.T, out=logits)
            log_probs, label_logits, d_logits = compute_gradient(
                logits, label, confidence=1 - smoothing, weights=row_weights, out=out if wants_gradient else None
            )
            plain -= log_probs.sum()
            total -= _sum_weighted(log_probs, row_weights)
            if smoothing:
                margins = label_logits - h.to(exact) @ mean_weight - mean_bias
                spread += _sum_weighted(margins, row_weights)
            if d_logits is None:
                continue
            if d_hidden is not None:
                torch.mm(d_logits, weight, out=d_hidden[start : start + size])
            if d_weight is not None:
                d_weight.addmm_(d_logits.T, h)
            if d_bias is not None:
                d_bias += d_logits.sum(0)
        if smoothing and d_hidden is not None:
            shift = smoothing * mean_weight
            d_hidden.sub_((shift if weights is None else weights.unsqueeze(1) * shift).to(d_hidden.dtype))
        if smoothing and d_weight is not None:
            hidden_sum = hidden.sum(0) if weights is None else weights.to(hidden.dtype) @ hidden
            d_weight.sub_((smoothing / weight.size(0)) * hidden_sum)
        if smoothing and d_bias is not None:
            d_bias -= smoothing * (hidden.size(0) if weights is None else weights.sum()) / weight.size(0)
        ctx.gradients = (d_hidden, d_weight, None if bias is None or d_bias is None else d_bias.to(bias.dtype))
        ctx.mark_non_differentiable(plain)
        return total + smoothing * spread, plain

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the kept gradients, multiplied by that of the smoothed sum."""
        factor = upstream[0]
        d_hidden, d_weight, d_bias = (None if d is None else d.mul_(factor.to(d.dtype)) for d in ctx.gradients)
        ctx.gradients = ()
        return d_hidden, d_weight, d_bias, None, None, None, None


_LogitGradient = tuple[Float[Tensor, " N"], Float[Tensor, " N"], Float[Tensor, "N V"] | None]
"""Log-probabilities and logits of labels, and the gradient of all logits if it is needed."""


def _compute_logit_gradient(
    logits: Float[Tensor, "N V"],
    labels: Int[Tensor, " N"],
    *,
    confidence: float,
    weights: Float[Tensor, " N"] | None,
    out: Float[Tensor, "N V"] | None,
) -> _LogitGradient:
    """Return the log-probabilities of labels, their logits, and the gradient weights (softmax(logits) - confidence
    onehot(label)), which is written to `out`; none without `out`.
    """
    columns = labels.unsqueeze(1)
    probable = logits.softmax(-1) if out is None else torch.softmax(logits, -1, out=out)
    chosen = probable.gather(1, columns).squeeze(1)
    exact = torch.promote_types(logits.dtype, torch.float32)
    log_probs = _log_probability(chosen.to(exact), logits, label=labels)
    label_logits = logits.gather(1, columns).squeeze(1).to(exact)
    if out is None:
        return log_probs, label_logits, None
    # scatter_ would copy all of a bf16 tensor twice
    probable[torch.arange(len(labels), device=labels.device), labels] = chosen - confidence
    if weights is not None:
        probable.mul_(weights.unsqueeze(1).to(probable.dtype))
    return log_probs, label_logits, probable


def _compute_native_gradient(
    logits: Float[Tensor, "N V"],
    labels: Int[Tensor, " N"],
    *,
    confidence: float,
    weights: Float[Tensor, " N"] | None,
    out: Float[Tensor, "N V"] | None,
) -> _LogitGradient:
    """Compute the same in native code; `out` must be the logits, which are overwritten."""
    log_probs, label_logits = fused_operators.compute_cross_entropy_(
        logits, labels, confidence=confidence, weights=weights, overwrite=out is not None
    )
    return log_probs, label_logits, out


def _sum_weighted(terms: Float[Tensor, " N"], weights: Float[Tensor, " N"] | None) -> Float[Tensor, ""]:
    """Return the sum of the terms, each multiplied by its weight if there are weights."""
    return terms.sum() if weights is None else terms @ weights


def _log_probability(
    probability: Float[Tensor, " N"], logits: Float[Tensor, "N V"], *, label: Int[Tensor, " N"]
) -> Float[Tensor, " N"]:
    """Return log p(label) of each row, computed from the logits if the probability underflows.

    A GPU computes all of them from the logits, because selecting the few would wait for the device.
    """
    if logits.device.type != "cpu":
        chosen_logits = logits.gather(1, label.unsqueeze(1)).squeeze(1)
        return chosen_logits.to(probability.dtype) - logits.to(probability.dtype).logsumexp(-1)
    log_probs = probability.log()
    tiny = probability < torch.finfo(logits.dtype).tiny
    log_probs[tiny] = logits[tiny].to(log_probs.dtype).log_softmax(-1).gather(1, label[tiny].unsqueeze(1)).squeeze(1)
    return log_probs
