"""Many texts that are scored at once have the languages and probabilities that py3langid gives to each alone."""

# ruff: noqa: RUF001  # sentences in their own letters

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from heedful.data.detect.language_scorer import LanguageScorer

SENTENCES = (
    "The committee said that it had no time for this.",
    "Der Ausschuss sagte, dass er dafür keine Zeit hatte.",
    "Le comité a déclaré qu'il n'avait pas le temps.",
    "Комитет сказал, что у него нет времени на это.",
    "委员会表示他们没有时间因此不能接受该提案。",
    "Tsy manana fotoana ho amin'izany ny komity.",
    "قالت اللجنة إن ليس لديها وقت لهذا",
)
SPECIAL_TEXTS = (
    "",
    " ",
    "1 2 3",
    "ALL OF THESE WORDS ARE IN CAPITALS",
    "e\u0301te\u0301",
    "\ud800 lone",
    "\x00\x00",
    "😀",
)


@cache
def load_identifier() -> LanguageIdentifier:
    """Load the model as py3langid uses it."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def draw_texts(count: int, seed: int) -> Sequence[str]:
    """Return texts of words from sentences of several languages, of 0 to 400 words, and some special ones."""
    draw = random.Random(seed)
    texts = [
        " ".join(draw.choices(draw.choice(SENTENCES).split(), k=draw.choice((0, 1, 2, 5, 20, 400))))
        for _ in range(count)
    ]
    texts.extend((*SPECIAL_TEXTS, *SENTENCES))
    draw.shuffle(texts)
    return texts


def require_same_scores(texts: Sequence[str]) -> None:
    """Require the best language of py3langid for each text, and its probability."""
    scorer = LanguageScorer(load_identifier())
    probabilities = scorer.score_texts(texts)
    assert probabilities.shape == (len(texts), len(scorer.labels))
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)  # rounding of 97 sums in float32
    for text, row in zip(texts, probabilities, strict=True):
        label, probability = load_identifier().classify(text)
        # sums of up to some thousand log probabilities in float32, in another order
        assert row[scorer.labels.index(label)] == pytest.approx(probability, abs=1e-4)
        assert row.max() == pytest.approx(probability, abs=1e-4)


@pytest.mark.parametrize("block", [1, 7, 1024])
def test_texts_are_scored_as_py3langid_scores_them(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.data.detect.language_scorer._BLOCK_TEXTS", block)
    require_same_scores(draw_texts(60, seed=block))


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["1 2 3"], ["die " * 100_000]], ids=lambda texts: str(texts)[:9])
def test_unusual_lists_of_texts_are_scored(texts: Sequence[str]) -> None:
    require_same_scores(texts)


def test_neighbours_do_not_change_a_score() -> None:
    scorer, texts = LanguageScorer(load_identifier()), draw_texts(40, seed=3)
    together = scorer.score_texts(texts)
    # a product of float32 may be summed in another order when the block is another
    np.testing.assert_allclose(together, np.concatenate([scorer.score_texts([text]) for text in texts]), atol=1e-5)
