"""Labels out of frames whose every one says a token or nothing (connectionist temporal classification, Graves 2006).

What a model says of each frame is read as a path; a path becomes a text by dropping repetitions, then blanks. These
searches know no engine: all frames are there before the first token is written.
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

from heedful.generation.hypotheses import Hypotheses, Hypothesis
from heedful.generation.penalties import LengthPenalty

_NEVER: Final = -math.inf


def ctc_loss(
    log_probabilities: Float[Tensor, "B T V"],
    frames: Int[Tensor, " B"],
    labels: Int[Tensor, "B L"],
    *,
    blank: int,
) -> Float[Tensor, " B"]:
    """-log p(labels | frames) of each row, summed over all paths (Graves 2006, eq. 6 to 8); inf where there is none.

    Args:
        log_probabilities: of each token, or `blank`, at each frame.
        frames: how many of them each row has, at its beginning.
        labels: of each row, -1 behind them; none of them is the blank.
        blank: what says nothing.
    """
    loss: Tensor = functional.ctc_loss(
        log_probabilities.transpose(0, 1),
        labels.clamp(min=0),
        frames,
        (labels >= 0).sum(1),
        blank=blank,
        reduction="none",
    )
    return loss


def frames_needed(labels: Sequence[int]) -> int:
    """The fewest frames that can say these labels: one for each, and a blank between two that are the same."""
    return len(labels) + sum(one == other for one, other in itertools.pairwise(labels))


@dataclass(frozen=True)
class CTCSearch(ABC):
    """A way to find texts in frames.

    Abstract.

    Attributes:
        blank: what says nothing.
        silent: tokens that are never written.
    """

    blank: int
    silent: tuple[int, ...]

    @torch.no_grad()
    def __call__(
        self, log_probabilities: Float[Tensor, "B T V"], frames: Int[Tensor, " B"], *, limit: Int[Tensor, " B"]
    ) -> Hypotheses:
        """For each row its hypotheses, best first.

        Their log-probabilities are those of the whole texts, over all paths; frames give none to single tokens. No
        text is longer than `limit`.
        """
        said = log_probabilities.float()
        if self.silent:
            said = said.index_fill(2, torch.tensor(self.silent, device=said.device), _NEVER)
        rows = zip(said.cpu(), frames.tolist(), limit.tolist(), strict=True)
        found = [self._texts(row[:count], most) for row, count, most in rows]
        return [self._judged(texts, log_probabilities[row, : int(frames[row])]) for row, texts in enumerate(found)]

    @abstractmethod
    def _texts(self, frames: Float[Tensor, "T V"], limit: int) -> list[tuple[int, ...]]:
        """The texts of one row."""

    @abstractmethod
    def _score(self, log_probability: float, length: int) -> float:
        """What texts are ranked by."""

    def _judged(self, texts: list[tuple[int, ...]], frames: Float[Tensor, "T V"]) -> list[Hypothesis]:
        labels = torch.full((len(texts), max(1, *map(len, texts))), -1, device=frames.device)
        for row, ids in enumerate(texts):
            labels[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        each = frames.float().expand(len(texts), -1, -1)
        counts = torch.full((len(texts),), len(frames), device=frames.device)
        chances = (-ctc_loss(each, counts, labels, blank=self.blank)).tolist()
        judged = [
            Hypothesis(ids, chance, self._score(chance, len(ids)), (), finished=True)
            for ids, chance in zip(texts, chances, strict=True)
        ]
        return sorted(judged, key=lambda each: -each.score)


@final
@dataclass(frozen=True)
class BestPath(CTCSearch):
    """The text of the most probable path: the best token of each frame (Graves 2006, 3.2)."""

    def _texts(self, frames: Float[Tensor, "T V"], limit: int) -> list[tuple[int, ...]]:
        path = torch.unique_consecutive(frames.argmax(1)).tolist() if len(frames) else []
        return [tuple(token for token in path if token != self.blank)[:limit]]

    def _score(self, log_probability: float, length: int) -> float:
        return log_probability


@final
@dataclass(frozen=True)
class PrefixBeam(CTCSearch):
    """The most probable of `width` texts that grow with the frames, each the sum of its paths (Graves 2006, 3.2).

    Attributes:
        width: texts that are kept from frame to frame.
        length_penalty: how texts of different length compare at the end.
        n_best: how many are returned.
        tokens: the most probable ones that may follow in a frame; the others are left out.
    """

    width: int
    length_penalty: LengthPenalty
    n_best: int = 1
    tokens: int = 32

    def _texts(self, frames: Float[Tensor, "T V"], limit: int) -> list[tuple[int, ...]]:
        best = frames.topk(min(self.tokens, frames.size(1)))
        steps = zip(frames.tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
        # of each text the log-probability of its paths that end with a blank, and of those that end with its last token
        beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, _NEVER)}
        for here, ids, chances in steps:
            grown: defaultdict[tuple[int, ...], tuple[float, float]] = defaultdict(lambda: (_NEVER, _NEVER))
            for text, (silent, spoken) in beam.items():
                both, last = _sum(silent, spoken), text[-1] if text else -1
                again = spoken + here[last] if text else _NEVER
                grown[text] = (_sum(grown[text][0], both + here[self.blank]), _sum(grown[text][1], again))
                for token, chance in zip(ids, chances, strict=True):
                    if token == self.blank or chance == _NEVER or len(text) == limit:
                        continue
                    # after its own like, only what has a blank between becomes a second one
                    reached = (silent if token == last else both) + chance
                    longer = (*text, token)
                    grown[longer] = (grown[longer][0], _sum(grown[longer][1], reached))
            kept = sorted(grown.items(), key=lambda each: (-_sum(*each[1]), each[0]))
            beam = dict(kept[: self.width])
        ranked = sorted(beam, key=lambda text: -self._score(_sum(*beam[text]), len(text)))
        return ranked[: self.n_best]

    def _score(self, log_probability: float, length: int) -> float:
        return log_probability / float(self.length_penalty.divisor(torch.tensor([length + 1.0])))


def _sum(one: float, other: float) -> float:
    """log(exp(one) + exp(other))."""
    high, low = max(one, other), min(one, other)
    return high if low == _NEVER else high + math.log1p(math.exp(low - high))
