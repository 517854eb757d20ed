"""Words that a model has no name for, taken over from the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from heedful.data.tokenizers import UNKNOWN
from heedful.tasks.translation.translations import Candidate, Translation

if TYPE_CHECKING:
    from heedful.tasks.translation.face import Translator


def replace_unknown(translator: Translator, translations: Sequence[Translation]) -> list[Translation]:
    """Translations in which every unknown piece is the piece of the source that it looked at most.

    Names and numbers are often the same in both languages (Luong et al. 2015, section 4.2, without their dictionary).

    Raises:
        RecipeError: the model has no attention to its source.
    """
    unknown = translator.target.special.unk
    lacking = [
        (translation.source, candidate)
        for translation in translations
        for candidate in translation.candidates
        if unknown in candidate.ids
    ]
    weights = (list(found.weights.values())[-1] for found in translator.align_all(lacking))
    return [
        replace(
            translation,
            candidates=tuple(
                _completed(candidate, translator.source.surfaces(translation.source), weights, unknown=unknown)
                for candidate in translation.candidates
            ),
        )
        for translation in translations
    ]


def _completed(
    candidate: Candidate,
    surfaces: Sequence[str],
    weights: Iterator[Float[np.ndarray, "T S"]],
    *,
    unknown: int | None,
) -> Candidate:
    if unknown not in candidate.ids:
        return candidate
    looked = next(weights)[:, : len(surfaces)] * [bool(surface) for surface in surfaces]  # a space is no word
    text = candidate.text.split(UNKNOWN)
    found = [surfaces[int(looked[at].argmax())] for at, piece in enumerate(candidate.ids) if piece == unknown]
    assert len(text) == len(found) + 1, "each unknown piece reads as one mark"
    return replace(candidate, text="".join(part for pair in zip(text, [*found, ""], strict=True) for part in pair))
