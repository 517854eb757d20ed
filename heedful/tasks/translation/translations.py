"""What a translator answers: translations, scores of given ones, alignments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Candidate:
    """One translation of a sentence.

    Attributes:
        text: as one reads it.
        ids: what was generated, without begin and end of sentence.
        tokens: the same as pieces of text.
        log_probability: of the tokens and the end of sentence, in nats.
        score: what the search ranked by.
        finished: whether the sentence ended by itself.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    log_probability: float
    score: float
    finished: bool


@dataclass(frozen=True)
class Translation:
    """What became of one sentence; an empty line stays empty.

    Attributes:
        source: the sentence that was given.
        source_tokens: its pieces.
        candidates: best first.
    """

    source: str
    source_tokens: tuple[str, ...]
    candidates: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.candidates[0].text


@dataclass(frozen=True)
class ForcedScore:
    """How probable a given translation is: nats, the end of sentence included, over `count` tokens."""

    log_probability: float
    count: int
    token_log_probabilities: tuple[float, ...]
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Alignment:
    """What each target token looked at: weights [T, S] of each cross-attention, by its path, averaged over heads."""

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: dict[str, Float[np.ndarray, "T S"]]
