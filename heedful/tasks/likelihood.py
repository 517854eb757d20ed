"""Cross-entropy with label smoothing that never holds the logits of a whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

_CPU_CHUNK_ROWS, _GPU_CHUNK_ROWS = 1024, 8192
"""Rows whose logits exist at one time: on a CPU they stay in the cache, on a GPU they fill the device."""


def _choose_chunk_rows(device: torch.device) -> int:
    """Return the number of rows whose logits exist at one time on this device."""
    return _CPU_CHUNK_ROWS if device.type == "cpu" else _GPU_CHUNK_ROWS


def cross_entropy(
    hidden: Float[Tensor, "N d_model"],
    labels: Int[Tensor, " N"],
    *,
    output: nn.Linear,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Compute the sum over rows of -sum_w q(w) log p(w), p = softmax(output(hidden)), and the sum of -log p(label)
    alone.

    q puts 1 - smoothing on the label and spreads smoothing evenly over the vocabulary (Szegedy et al. 2016, section 7).
    The gradient is computed together with the value, chunk by chunk, so a batch needs memory for its hidden vectors but
    not for its logits. The second value carries no gradient.

    Returns:
        The smoothed sum, to be minimised, and the plain negative log-likelihood in nats.
    """
    apply_function: Callable[..., tuple[Tensor, Tensor]] = _ProjectedCrossEntropy.apply
    # inside an autograd function gradients are always off, so this checks whether they are needed
    return apply_function(hidden, output.weight, output.bias, labels, smoothing, torch.is_grad_enabled())


@torch.no_grad()
def log_likelihoods(
    hidden: Float[Tensor, "N d_model"], labels: Int[Tensor, " N"], *, output: nn.Linear
) -> Float[Tensor, " N"]:
    """Return log p(label) of each row, p = softmax(output(hidden)), without a gradient."""
    dtype, size = torch.promote_types(hidden.dtype, torch.float32), _choose_chunk_rows(hidden.device)
    return torch.cat(
        [
            output(h).to(dtype).log_softmax(-1).gather(1, label.unsqueeze(1)).squeeze(1)
            for h, label in zip(torch.split(hidden, size), torch.split(labels, size), strict=True)
        ]
    )


@torch.no_grad()
def score_labels(
    hidden: Float[Tensor, "N d_model"], labels: Int[Tensor, " N"], *, output: nn.Linear
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Return the sum over rows of -log p(label), p = softmax(output(hidden)), and the number of rows whose most
    probable token is the label.
    """
    dtype, size = torch.promote_types(hidden.dtype, torch.float32), _choose_chunk_rows(hidden.device)
    nll, num_correct = hidden.new_zeros((), dtype=dtype), labels.new_zeros(())
    for h, label in zip(torch.split(hidden, size), torch.split(labels, size), strict=True):
        logits = output(h)
        num_correct += (logits.argmax(-1) == label).sum()
        nll += functional.cross_entropy(logits.to(dtype), label, reduction="sum")
    return nll, num_correct


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
        training: bool,
    ) -> tuple[Tensor, Tensor]:
        """Compute the smoothed and the plain sum, and keep the gradients in `ctx` if they are needed."""
        wanted = training and any(ctx.needs_input_grad[:3])
        exact = torch.promote_types(hidden.dtype, torch.float32)
        mean_weight = weight.mean(0, dtype=exact)
        mean_bias = 0.0 if bias is None else bias.mean(dtype=exact)
        plain = hidden.new_zeros((), dtype=exact)
        spread = plain.clone()
        d_hidden = torch.empty_like(hidden) if wanted else None
        d_weight = torch.zeros_like(weight) if wanted else None
        d_bias = torch.zeros_like(bias, dtype=exact) if wanted and bias is not None else None
        size = _choose_chunk_rows(hidden.device)
        room = hidden.new_empty(2, min(size, hidden.size(0)), weight.size(0))
        for start in range(0, hidden.size(0), size):
            h, label = hidden[start : start + size], labels[start : start + size]
            logits, probable = room[:, : h.size(0)]
            _ = torch.mm(h, weight.T, out=logits) if bias is None else torch.addmm(bias, h, weight.T, out=logits)
            torch.softmax(logits, -1, out=probable)
            columns = label.unsqueeze(1)
            chosen = probable.gather(1, columns).squeeze(1)
            plain -= _log_probability(chosen.to(exact), logits, label=label).sum()
            if smoothing:
                spread += (logits.gather(1, columns).squeeze(1).to(exact) - h.to(exact) @ mean_weight - mean_bias).sum()
            if d_hidden is None or d_weight is None:
                continue
            probable.scatter_(1, columns, (chosen - (1 - smoothing)).unsqueeze(1))
            torch.mm(probable, weight, out=d_hidden[start : start + size])
            d_weight.addmm_(probable.T, h)
            if d_bias is not None:
                d_bias += probable.sum(0)
        if smoothing and d_hidden is not None and d_weight is not None:
            d_hidden.sub_((smoothing * mean_weight).to(d_hidden.dtype))
            d_weight.sub_((smoothing / weight.size(0)) * hidden.sum(0))
            if d_bias is not None:
                d_bias -= smoothing * hidden.size(0) / weight.size(0)
        ctx.gradients = (d_hidden, d_weight, None if bias is None or d_bias is None else d_bias.to(bias.dtype))
        ctx.mark_non_differentiable(plain)
        return plain + smoothing * spread, plain

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the kept gradients, multiplied by that of the smoothed sum."""
        factor = upstream[0]
        d_hidden, d_weight, d_bias = (None if d is None else d.mul_(factor.to(d.dtype)) for d in ctx.gradients)
        ctx.gradients = ()
        return d_hidden, d_weight, d_bias, None, None, None


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
