"""The steps of a beam search, remembered so that hypotheses can be read off backwards."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Trellis:
    """Which token each beam took at each step, and which beam it continued.

    Growing it costs the same at every step, whereas carrying the tokens of each beam along would cost its
    length.
    """

    def __init__(self, sentences: int, width: int) -> None:
        self._shape = (sentences, width)
        self._steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def grow(
        self,
        sentences: Int[Tensor, " G"],
        *,
        origins: Int[Tensor, "G width"],
        ids: Int[Tensor, "G width"],
        log_probabilities: Float[Tensor, "G width"],
    ) -> None:
        """One more step of these sentences; the others have ended."""
        self._steps.append((sentences, origins, ids, log_probabilities))

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """The ids that led to these beams, which have so many tokens, and their log-probabilities.

        One more column than steps is left free at the end; what stands at `counts` and behind it means
        nothing.
        """
        ids = beams.new_zeros(*beams.shape, len(self) + 1)
        scores = torch.zeros(ids.shape, dtype=dtype, device=ids.device)
        for at in reversed(range(len(self))):
            origins, taken, values = self._all_sentences(at)
            ids[:, :, at] = taken.gather(1, beams)
            scores[:, :, at] = values.gather(1, beams)
            beams = torch.where(at < counts, origins.gather(1, beams), beams)
        return ids, scores

    def _all_sentences(self, at: int) -> tuple[Tensor, Tensor, Tensor]:
        sentences, *columns = self._steps[at]
        if len(sentences) == self._shape[0]:
            return columns[0], columns[1], columns[2]
        origins, ids, scores = (column.new_zeros(self._shape).index_copy_(0, sentences, column) for column in columns)
        return origins, ids, scores
