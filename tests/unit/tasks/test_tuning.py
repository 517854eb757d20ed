"""Weights of a noisy channel against all that there are."""

from __future__ import annotations

import itertools
import random

import pytest
from sacrebleu import corpus_bleu, corpus_chrf

from heedful.errors import DataError
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.translation.noisy_channel import ChannelWeights, ScoredCandidate, rank_candidates, tune_weights

WORDS = ("ein", "zwei", "drei", "Hund", "Hunde", "Katze", "und", "bellt")
MEASURES = {"bleu": corpus_bleu, "chrf": corpus_chrf}


def drawn(seed: int, *, sentences: int = 40) -> tuple[list[tuple[ScoredCandidate, ...]], list[str]]:
    """Lists of different sizes, among which no model alone knows the nearest to the reference."""
    chance = random.Random(seed)
    lists, references = [], []
    for _ in range(sentences):
        right = [chance.choice(WORDS) for _ in range(chance.randint(3, 8))]
        own = []
        for _ in range(chance.randint(1, 6)):
            words = [word if chance.random() < 0.7 else chance.choice(WORDS) for word in right]
            words = words[: chance.randint(len(words) - 1, len(words))]
            wrong = sum(one != other for one, other in itertools.zip_longest(words, right))
            numbers = [
                -3.0 * len(words) + chance.gauss(0, 2),
                -wrong + chance.gauss(0, 1.5),
                -wrong * 0.5 + chance.gauss(0, 2),
            ]
            own.append(
                ScoredCandidate(
                    TextCandidate(" ".join(words), (), tuple(words), numbers[0], 0.0, finished=True), *numbers[1:]
                )
            )
        lists.append(tuple(own))
        references.append(" ".join(right))
    return lists, references


def value(
    metric: str, lists: list[tuple[ScoredCandidate, ...]], references: list[str], weights: ChannelWeights
) -> float:
    return float(
        MEASURES[metric]([rank_candidates(own, weights)[0].candidate.text for own in lists], [references]).score
    )


@pytest.mark.parametrize("metric", MEASURES)
def test_tuned_weights_are_as_good_as_any_of_a_grid(metric: str) -> None:
    for seed in range(2):
        lists, references = drawn(seed)
        found = tune_weights(lists, references, metric=metric)  # type: ignore[arg-type]
        assert found.after == pytest.approx(value(metric, lists, references, found.weights))
        assert found.direct == pytest.approx(value(metric, lists, references, ChannelWeights()))
        first = MEASURES[metric]([own[0].candidate.text for own in lists], [references]).score
        assert found.before == pytest.approx(first)
        grid = itertools.product((0, 0.5, 1, 2), (0, 0.5, 1, 2), (-1, 0, 1, 2, 3))
        best = max(
            value(metric, lists, references, ChannelWeights(reverse=a, language=b, length=c)) for a, b, c in grid
        )
        assert found.after > best - 0.5, "coordinate ascent may miss the best by little"
        assert found.weights.reverse >= 0 and found.weights.language >= 0
        assert found.sentences == len(lists)
        assert tune_weights(lists, references, metric=metric) == found  # type: ignore[arg-type]


def test_what_is_told_of_other_text_is_measured_on_the_other_half() -> None:
    lists, references = drawn(3)
    found = tune_weights(lists, references)
    halves = [(lists[at::2], references[at::2]) for at in (0, 1)]
    weights = [tune_weights(*half).weights for half in halves]
    texts = [rank_candidates(own, weights[1 - place % 2])[0].candidate.text for place, own in enumerate(lists)]
    assert found.held_out == pytest.approx(corpus_bleu(texts, [references]).score)


def test_who_says_nothing_has_no_weight_and_who_was_not_judged_does_not_count() -> None:
    lists, references = drawn(5)
    silent = [tuple(ScoredCandidate(each.candidate, each.reverse) for each in own) for own in lists]
    found = tune_weights(silent, references)
    assert found.weights.language == 0 and found.weights.reverse > 0
    more = tune_weights([None, *silent, None], ["ein Hund", *references, "bellt"])
    assert more.weights == tune_weights(silent, references).weights and more.sentences == len(lists)
    with pytest.raises(DataError, match="40 sentences, and 39 references; give one for each"):
        tune_weights(lists, references[1:])
    with pytest.raises(DataError, match="fewer than two sentences have candidates"):
        tune_weights([None, lists[0]], references[:2])
