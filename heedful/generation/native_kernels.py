"""Native kernels of the searches, used where the optional library is installed.

Each function does the same as a tensor implementation beside its caller; tests compare the two.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.native import data_pointer, find_library_for

__all__ = ["MAX_TOP_K", "compute_logsumexp", "find_library_for", "find_top_k", "select_beams", "update_rows"]

MAX_TOP_K: Final = 64
"""Numbers wanted of a group, beyond which sorting in tensors is faster."""


def compute_logsumexp(library: Any, logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """Return the logsumexp of each row, computed by the native `library`; see `topk.compute_logsumexp`."""
    logits, totals = logits.contiguous(), logits.new_empty(len(logits))
    library.normalisers(logits.data_ptr(), *logits.shape, totals.data_ptr(), torch.get_num_threads())
    return totals


def find_top_k(
    library: Any,
    x: Float[Tensor, "N V"],
    k: int,
    offsets: Float[Tensor, "G width"] | None,
    *,
    model_logits: tuple[Float[Tensor, "N V"], Float[Tensor, " N"]] | None = None,
) -> tuple[Tensor, ...]:
    """Return values, rows and columns of the k largest entries of `x + offsets` in each group of rows, found by the
    native `library`; see `topk.top_k`.

    With `model_logits`, the model's logits and their logsumexp, the log-probabilities by the model are returned as
    well.
    """
    groups, width = (len(x), 1) if offsets is None else offsets.shape
    k = min(k, width * x.size(1))
    x, offsets = x.contiguous(), None if offsets is None else offsets.to(x.dtype).contiguous()
    indices, values = torch.empty(2, groups, k, dtype=torch.long), x.new_empty(2, groups, k)
    (members, ids), (sums, log_probabilities) = indices.unbind(), values.unbind()
    logits, totals = (None, None) if model_logits is None else (model_logits[0].contiguous(), model_logits[1])
    library.top(
        *(x.data_ptr(), data_pointer(offsets), groups, width, x.size(1), k),
        *(sums.data_ptr(), members.data_ptr(), ids.data_ptr()),
        *(data_pointer(logits), data_pointer(totals), log_probabilities.data_ptr(), torch.get_num_threads()),
    )
    return (sums, members, ids) if model_logits is None else (sums, members, ids, log_probabilities)


def update_rows(
    library: Any,
    logits: Float[Tensor, "N V"],
    totals: Float[Tensor, " N"],
    *,
    sampled_ids: Int[Tensor, " N"],
    has_ended: Bool[Tensor, " N"],
    limits: Int[Tensor, " N"],
    fields_before: tuple[Int[Tensor, " N"], Int[Tensor, " N"], Bool[Tensor, " N"]],
    num_samples: int,
) -> tuple[tuple[Tensor, Tensor, Tensor], Float[Tensor, " N"], Int[Tensor, " N"], list[int]]:
    """Advance all rows by their sampled token, with the native `library`. `totals` is the logsumexp of the logits,
    `has_ended` says which rows end with their token, and `fields_before` has positions, lengths and done flags before
    it.

    Returns positions, lengths and done flags after the tokens; the log-probabilities of the tokens; their positions;
    and two numbers: how many groups of `num_samples` rows are done, and the first row without a token, or -1.
    """
    logits, rows = logits.contiguous(), len(logits)
    positions, lengths, sampled_positions = torch.empty(3, rows, dtype=torch.long).unbind()
    fields_after, values = (positions, lengths, torch.empty_like(has_ended)), torch.empty_like(totals)
    summary = torch.empty(2, dtype=torch.long)
    # addresses of copies are valid while the copies exist
    inputs, previous = (
        [tensor.contiguous() for tensor in tensors] for tensors in ((sampled_ids, has_ended, limits), fields_before)
    )
    library.append_tokens(
        *(logits.data_ptr(), totals.data_ptr(), rows, logits.size(1), num_samples),
        *(tensor.data_ptr() for tensor in inputs),
        library.RowState(*(tensor.data_ptr() for tensor in previous)),
        library.RowState(*(tensor.data_ptr() for tensor in fields_after)),
        *(values.data_ptr(), sampled_positions.data_ptr(), summary.data_ptr()),
    )
    return fields_after, values, sampled_positions, summary.tolist()


def select_beams(
    library: Any,
    candidates: tuple[Tensor, ...],
    fields_before: tuple[Tensor, ...],
    *,
    divisors: Float[Tensor, " lengths"],
    prefix_lengths: Int[Tensor, " G"],
    limits: Int[Tensor, " G"],
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], list[int]]:
    """Choose the live beams of the next step with the native `library`; see `beam_decoding.select_beams`.

    Returns the changed fields of the beam state, the selected candidates field by field, and two numbers: how many
    sentences are done, and whether any beam has changed its row.

    Args:
        library: the native library.
        candidates: fields of the `BeamCandidates`.
        fields_before: the dynamic fields of the `BeamState`.
        divisors: divisor of the length penalty for each length.
        prefix_lengths: prefix lengths of the beam state.
        limits: length limits of the beam state.
    """
    candidates, fields_before = (
        tuple(tensor.contiguous() for tensor in tensors) for tensors in (candidates, fields_before)
    )
    (sentences, width), n_best = fields_before[1].shape, fields_before[4].size(1)
    fields_after = tuple(torch.empty_like(tensor) for tensor in fields_before)
    selected = tuple(tensor.new_empty(sentences, width) for tensor in candidates)
    summary, prefix_lengths, limits = torch.empty(2, dtype=torch.long), prefix_lengths.contiguous(), limits.contiguous()
    library.select(
        *(library.Candidates(*map(Tensor.data_ptr, candidates)), sentences, width, n_best),
        *(divisors.data_ptr(), prefix_lengths.data_ptr(), limits.data_ptr()),
        *(library.Beams(*map(Tensor.data_ptr, tensors)) for tensors in (fields_before, fields_after)),
        *(library.Candidates(*map(Tensor.data_ptr, selected)), summary.data_ptr()),
    )
    return fields_after, selected, summary.tolist()
