"""Utilities against sacrebleu, pair by pair."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu import sentence_bleu, sentence_chrf

from heedful.metrics.weighted_sacrebleu import ChrFUtility, SentenceBLEUUtility

TEXTS = ["", " ", "a", "ein Hund", "ein Hund und eine Katze", "Ein  hund, der", "ein Hund und eine Katze", "ééé ☃ é"]


@pytest.mark.parametrize("seed", range(5))
def test_chrf_is_that_of_sacrebleu(seed: int) -> None:
    chance = random.Random(seed)
    texts = [*TEXTS, *("".join(chance.choices("ab c", k=chance.randint(0, 12))) for _ in range(8))]
    found = ChrFUtility()(texts)
    for row, one in enumerate(texts):
        for column, other in enumerate(texts):
            if other.strip():
                assert found[row, column] == pytest.approx(sentence_chrf(one, [other]).score), (one, other)
            else:
                assert found[row, column] == 0


def test_bleu_is_that_of_sacrebleu() -> None:
    found = SentenceBLEUUtility()(TEXTS)
    for row, one in enumerate(TEXTS):
        wanted = [sentence_bleu(one, [other], use_effective_order=True).score for other in TEXTS]
        np.testing.assert_allclose(found[row], wanted)
