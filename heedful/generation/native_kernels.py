"""What searches do with logits and with what they note, in native code, where the library is installed.

Each function does what one beside it does in tensors; tests compare the two.
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
    """See `ranking.normalisers`."""
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
    """See `ranking.top_k`: values, rows, columns; log-probabilities too with `model_logits`, the logits and their normalisers."""
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
    """Positions, lengths and which rows are done behind the tokens picked; the log-probabilities of these; where they
    stand; how many groups of `num_samples` rows are done, and the first row without a token, or -1.
    """
    logits, rows = logits.contiguous(), len(logits)
    positions, lengths, sampled_positions = torch.empty(3, rows, dtype=torch.long).unbind()
    fields_after, values = (positions, lengths, torch.empty_like(has_ended)), torch.empty_like(totals)
    summary = torch.empty(2, dtype=torch.long)
    # addresses of copies are good as long as the copies are there
    inputs, previous = (
        [tensor.contiguous() for tensor in tensors] for tensors in ((sampled_ids, has_ended, limits), fields_before)
    )
    library.grow(
        *(logits.data_ptr(), totals.data_ptr(), rows, logits.size(1), num_samples),
        *(tensor.data_ptr() for tensor in inputs),
        library.Growing(*(tensor.data_ptr() for tensor in previous)),
        library.Growing(*(tensor.data_ptr() for tensor in fields_after)),
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
    """The front and the continuations that live on, field by field; how many sentences are done, and whether beams have
    changed their rows. See `beam.advance`.

    Args:
        library: of native code.
        candidates: fields of the `BeamCandidates`.
        fields_before: counts, live, done, ended, places and last of the `BeamState`.
        divisors: of each length.
        prefix_lengths: of the front.
        limits: of the front.
    """
    candidates, fields_before = (
        tuple(tensor.contiguous() for tensor in tensors) for tensors in (candidates, fields_before)
    )
    (sentences, width), n_best = fields_before[1].shape, fields_before[4].size(1)
    fields_after = tuple(torch.empty_like(tensor) for tensor in fields_before)
    selected = tuple(tensor.new_empty(sentences, width) for tensor in candidates)
    summary, prefix_lengths, limits = torch.empty(2, dtype=torch.long), prefix_lengths.contiguous(), limits.contiguous()
    library.select(
        *(library.Candidates(*map(data_pointer, candidates)), sentences, width, n_best),
        *(divisors.data_ptr(), prefix_lengths.data_ptr(), limits.data_ptr()),
        *(library.Beams(*map(data_pointer, tensors)) for tensors in (fields_before, fields_after)),
        *(library.Candidates(*map(data_pointer, selected)), summary.data_ptr()),
    )
    return fields_after, selected, summary.tolist()
