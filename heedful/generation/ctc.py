"""Connectionist temporal classification (Graves 2006): loss and searches over per-frame token probabilities.

A path has one token or a blank for each frame. A path becomes a text by merging repetitions, then removing blanks.
These searches need no engine: the outputs of all frames are known before the first token is written.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.generation.penalties import LengthPenalty
from heedful.generation.results import Hypotheses, Hypothesis

_LOG_ZERO: Final = -math.inf


def ctc_loss(
    log_probabilities: Float[Tensor, "B T V"],
    num_frames: Int[Tensor, " B"],
    labels: Int[Tensor, "B L"],
    *,
    blank: int,
) -> Float[Tensor, " B"]:
    """Return -log p(labels | frames) of each row, summed over all paths (Graves 2006, eq. 6 to 8); inf where no path
    exists. Only the first `num_frames` frames of a row count; `blank` is the id of the blank.

    Args:
    log_probabilities: of each token, or `blank`, at each frame.
    num_frames: number of frames of each row, from its beginning.
    labels: of each row, -1 after them; none of them is the blank.
    blank: id of the blank.
    """
    loss: Tensor = functional.ctc_loss(
        log_probabilities.transpose(0, 1),
        labels.clamp(min=0),
        num_frames,
        (labels >= 0).sum(1),
        blank=blank,
        reduction="none",
    )
    return loss


def count_needed_frames(labels: Sequence[int]) -> int:
    """Return the fewest frames that can carry these labels: one for each, and a blank between two equal ones."""
    return len(labels) + sum(label == next_label for label, next_label in itertools.pairwise(labels))


@dataclass(frozen=True)
class CTCSearch(ABC):
    """Abstract base of searches for texts in frames.

    Attributes:
        blank: id of the blank.
        suppressed_ids: tokens that are never written.
    """

    blank: int
    suppressed_ids: tuple[int, ...]

    @torch.no_grad()
    def __call__(
        self,
        log_probabilities: Float[Tensor, "B T V"],
        num_frames: Int[Tensor, " B"],
        *,
        max_lengths: Int[Tensor, " B"],
    ) -> Hypotheses:
        """Return the hypotheses of each row, best first. Only the first `num_frames` frames of a row count.

        Their log-probabilities are those of the whole texts, over all paths; single tokens have none. No text is longer
        than `max_lengths`.
        """
        masked = log_probabilities.float()
        if self.suppressed_ids:
            masked = masked.index_fill(2, torch.tensor(self.suppressed_ids, device=masked.device), _LOG_ZERO)
        rows = zip(masked.cpu(), num_frames.tolist(), max_lengths.tolist(), strict=True)
        texts_by_row = [self._decode_texts(row[:count], max_length) for row, count, max_length in rows]
        return [
            self._build_hypotheses(texts, log_probabilities[row, : int(num_frames[row])])
            for row, texts in enumerate(texts_by_row)
        ]

    @abstractmethod
    def _decode_texts(self, frames: Float[Tensor, "T V"], max_length: int) -> list[tuple[int, ...]]:
        """Return the candidate texts of one row from the log-probabilities of its frames; none has more than
        `max_length` tokens.
        """

    @abstractmethod
    def _compute_score(self, log_probability: float, length: int) -> float:
        """Return the ranking score of a text of `length` tokens."""

    def _build_hypotheses(self, texts: list[tuple[int, ...]], frames: Float[Tensor, "T V"]) -> list[Hypothesis]:
        """Compute the exact log-probability of each text of one row from its frames, and return the texts sorted by
        score.
        """
        labels = torch.full((len(texts), max(1, *map(len, texts))), -1, device=frames.device)
        for row, ids in enumerate(texts):
            labels[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        hypothesis = frames.float().expand(len(texts), -1, -1)
        counts = torch.full((len(texts),), len(frames), device=frames.device)
        log_probabilities = (-ctc_loss(hypothesis, counts, labels, blank=self.blank)).tolist()
        hypotheses = [
            Hypothesis(ids, log_probability, self._compute_score(log_probability, len(ids)), (), finished=True)
            for ids, log_probability in zip(texts, log_probabilities, strict=True)
        ]
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


@final
@dataclass(frozen=True)
class CTCBestPath(CTCSearch):
    """Search for the text of the most probable path: the best token of each frame (Graves 2006, 3.2)."""

    def _decode_texts(self, frames: Float[Tensor, "T V"], max_length: int) -> list[tuple[int, ...]]:
        """Return the text of the most probable path as the only candidate, cut after `max_length` tokens."""
        path = torch.unique_consecutive(frames.argmax(1)).tolist() if len(frames) else []
        return [tuple(token for token in path if token != self.blank)[:max_length]]

    def _compute_score(self, log_probability: float, length: int) -> float:
        """Return the log-probability."""
        return log_probability


@final
@dataclass(frozen=True)
class CTCPrefixBeam(CTCSearch):
    """Prefix beam search: keeps the `width` most probable texts, each the sum of its paths (Graves 2006, 3.2).

    Attributes:
        width: number of texts that are kept from frame to frame.
        length_penalty: makes texts of different lengths comparable at the end.
        n_best: number of texts that are returned.
        tokens_per_frame: number of tokens, the most probable ones, that may follow in a frame.
    """

    width: int
    length_penalty: LengthPenalty
    n_best: int = 1
    tokens_per_frame: int = 32

    def _decode_texts(self, frames: Float[Tensor, "T V"], max_length: int) -> list[tuple[int, ...]]:
        """Run the prefix beam search over the frames; return the `n_best` best texts of at most `max_length` tokens."""
        best = frames.topk(min(self.tokens_per_frame, frames.size(1)))
        steps = zip(frames.tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
        # of each text the log-probability of its paths that end with a blank, and of those that end with its last token
        beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, _LOG_ZERO)}
        for frame_scores, ids, top_scores in steps:
            extended: defaultdict[tuple[int, ...], tuple[float, float]] = defaultdict(lambda: (_LOG_ZERO, _LOG_ZERO))
            for text, (ends_in_blank, ends_in_token) in beam.items():
                total, last = _logaddexp(ends_in_blank, ends_in_token), text[-1] if text else -1
                repeated = ends_in_token + frame_scores[last] if text else _LOG_ZERO
                extended[text] = (
                    _logaddexp(extended[text][0], total + frame_scores[self.blank]),
                    _logaddexp(extended[text][1], repeated),
                )
                for token, token_score in zip(ids, top_scores, strict=True):
                    if token == self.blank or token_score == _LOG_ZERO or len(text) == max_length:
                        continue
                    # after an equal token, only one with a blank between becomes a second token
                    new_score = (ends_in_blank if token == last else total) + token_score
                    longer = (*text, token)
                    extended[longer] = (extended[longer][0], _logaddexp(extended[longer][1], new_score))
            best_texts = sorted(extended.items(), key=lambda item: (-_logaddexp(*item[1]), item[0]))
            beam = dict(best_texts[: self.width])
        ranked = sorted(beam, key=lambda text: -self._compute_score(_logaddexp(*beam[text]), len(text)))
        return ranked[: self.n_best]

    def _compute_score(self, log_probability: float, length: int) -> float:
        """Return the log-probability divided by the length penalty."""
        return log_probability / float(self.length_penalty.compute_divisors(torch.tensor([length + 1.0])))


def _logaddexp(first: float, second: float) -> float:
    """Return log(exp(first) + exp(second))."""
    high, low = max(first, second), min(first, second)
    return high if low == _LOG_ZERO else high + math.log1p(math.exp(low - high))
