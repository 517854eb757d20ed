"""What searches do with logits and with what they note, in native code, where the library is installed.

Each function does what one beside it does in tensors; tests compare the two.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.native import address, library_for

__all__ = ["MOST", "grown", "library_for", "normalisers", "selected", "top"]

MOST: Final = 64
"""Numbers wanted of a group, beyond which sorting in tensors is faster."""


def normalisers(library: Any, logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """See `ranking.normalisers`."""
    logits, totals = logits.contiguous(), logits.new_empty(len(logits))
    library.normalisers(logits.data_ptr(), *logits.shape, totals.data_ptr(), torch.get_num_threads())
    return totals


def top(
    library: Any,
    x: Float[Tensor, "N V"],
    k: int,
    offsets: Float[Tensor, "G width"] | None,
    *,
    of: tuple[Float[Tensor, "N V"], Float[Tensor, " N"]] | None = None,
) -> tuple[Tensor, ...]:
    """See `ranking.top_k`: values, rows, columns; log-probabilities too with `of`, the logits and their normalisers."""
    groups, width = (len(x), 1) if offsets is None else offsets.shape
    k = min(k, width * x.size(1))
    x, offsets = x.contiguous(), None if offsets is None else offsets.to(x.dtype).contiguous()
    places, values = torch.empty(2, groups, k, dtype=torch.long), x.new_empty(2, groups, k)
    (members, ids), (sums, own) = places.unbind(), values.unbind()
    logits, totals = (None, None) if of is None else (of[0].contiguous(), of[1])
    library.top(
        *(x.data_ptr(), address(offsets), groups, width, x.size(1), k),
        *(sums.data_ptr(), members.data_ptr(), ids.data_ptr()),
        *(address(logits), address(totals), own.data_ptr(), torch.get_num_threads()),
    )
    return (sums, members, ids) if of is None else (sums, members, ids, own)


def grown(
    library: Any,
    logits: Float[Tensor, "N V"],
    totals: Float[Tensor, " N"],
    *,
    picked: Int[Tensor, " N"],
    ended: Bool[Tensor, " N"],
    limits: Int[Tensor, " N"],
    before: tuple[Int[Tensor, " N"], Int[Tensor, " N"], Bool[Tensor, " N"]],
    copies: int,
) -> tuple[tuple[Tensor, Tensor, Tensor], Float[Tensor, " N"], Int[Tensor, " N"], list[int]]:
    """Positions, lengths and which rows are done behind the tokens picked; the log-probabilities of these; where they
    stand; how many groups of `copies` rows are done, and the first row without a token, or -1.
    """
    logits, rows = logits.contiguous(), len(logits)
    positions, lengths, at = torch.empty(3, rows, dtype=torch.long).unbind()
    after, values = (positions, lengths, torch.empty_like(ended)), torch.empty_like(totals)
    told = torch.empty(2, dtype=torch.long)
    # addresses of copies are good as long as the copies are there
    taken, earlier = ([each.contiguous() for each in part] for part in ((picked, ended, limits), before))
    library.grow(
        *(logits.data_ptr(), totals.data_ptr(), rows, logits.size(1), copies),
        *(each.data_ptr() for each in taken),
        library.Growing(*(each.data_ptr() for each in earlier)),
        library.Growing(*(each.data_ptr() for each in after)),
        *(values.data_ptr(), at.data_ptr(), told.data_ptr()),
    )
    return after, values, at, told.tolist()


def selected(
    library: Any,
    found: tuple[Tensor, ...],
    before: tuple[Tensor, ...],
    *,
    divisors: Float[Tensor, " lengths"],
    forced: Int[Tensor, " G"],
    limits: Int[Tensor, " G"],
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], list[int]]:
    """The front and the continuations that live on, field by field; how many sentences are done, and whether beams have
    changed their rows. See `beam.advance`.

    Args:
        library: of native code.
        found: fields of the `Candidates`.
        before: counts, live, done, ended, places and last of the `Front`.
        divisors: of each length.
        forced: of the front.
        limits: of the front.
    """
    found, before = (tuple(each.contiguous() for each in group) for group in (found, before))
    (sentences, width), kept = before[1].shape, before[4].size(1)
    after = tuple(torch.empty_like(each) for each in before)
    chosen = tuple(each.new_empty(sentences, width) for each in found)
    told, forced, limits = torch.empty(2, dtype=torch.long), forced.contiguous(), limits.contiguous()
    library.select(
        *(library.Candidates(*map(address, found)), sentences, width, kept),
        *(divisors.data_ptr(), forced.data_ptr(), limits.data_ptr()),
        *(library.Beams(*map(address, group)) for group in (before, after)),
        *(library.Candidates(*map(address, chosen)), told.data_ptr()),
    )
    return after, chosen, told.tolist()
