from itertools import pairwise

import numpy as np
import pytest

from heedful.data.random_numbers import SeededRandom
from heedful.tasks.pretraining.data import MaskingStrategy, SpanMasking, TokenMasking, WholeWordMasking, mask_tokens

MASKINGS = [TokenMasking, WholeWordMasking, SpanMasking]
MASK = 4
WORDS = np.arange(5, 50)


def texts(count: int, length: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids, and which of them go on with a word: words of one to four pieces."""
    random = np.random.default_rng(1)
    found = []
    for _ in range(count):
        continues = random.random(length) < 0.5
        continues[0] = random.random() < 0.5
        found.append((random.choice(WORDS, size=length), continues))
    return found


@pytest.mark.parametrize("kind", MASKINGS)
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_share_is_right_whatever_the_length(kind: type[MaskingStrategy], share: float) -> None:
    """Also for texts so short that the share of each is far from what is asked."""
    for length, count, close in ((3, 4000, 0.05), (100, 1000, 0.01)):
        masking = kind(share)
        chosen = 0
        for number, (_, continues) in enumerate(texts(count, length)):
            found = int(masking.choose_tokens(continues, SeededRandom(1, number)).sum())
            assert abs(found - share * length) < 1
            chosen += found
        assert chosen / (length * count) == pytest.approx(share, rel=close)


def test_a_million_tokens_have_the_nominal_share() -> None:
    random = np.random.default_rng(2)
    masking, chosen, seen = TokenMasking(0.15), 0, 0
    for number, length in enumerate(random.integers(5, 500, size=4200).tolist()):
        chosen += int(masking.choose_tokens(np.zeros(length, dtype=bool), SeededRandom(8, number)).sum())
        seen += length
    assert seen > 1_000_000
    assert chosen / seen == pytest.approx(0.15, rel=0.01)


@pytest.mark.parametrize("kind", MASKINGS)
def test_every_place_is_as_likely(kind: type[MaskingStrategy]) -> None:
    length, count = 12, 8000
    masking = kind(0.25)
    total = np.zeros(length)
    for number in range(count):
        total += masking.choose_tokens(np.zeros(length, dtype=bool), SeededRandom(2, number))
    middle = total[4:-4] if kind is SpanMasking else total  # a span near the border has fewer ways to reach a place
    assert middle.min() / count == pytest.approx(middle.max() / count, rel=0.2 if kind is SpanMasking else 0.1)
    assert total.min() > 0


def test_whole_words_are_hidden_whole_but_for_one() -> None:
    for number, (_, continues) in enumerate(texts(500, 40)):
        chosen = WholeWordMasking(0.3).choose_tokens(continues, SeededRandom(3, number))
        words = np.cumsum(~continues)
        partly = [word for word in set(words.tolist()) if 0 < chosen[words == word].mean() < 1]
        assert len(partly) <= 1


def test_spans_are_longer_than_single_words() -> None:
    def runs(kind: type[MaskingStrategy]) -> float:
        lengths = []
        for number in range(300):
            chosen = kind(0.15).choose_tokens(np.zeros(200, dtype=bool), SeededRandom(4, number))
            borders = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(int)))
            lengths += [stop - start for start, stop in pairwise(borders)][::2]
        return float(np.mean(lengths))

    assert runs(SpanMasking) > 2.5
    assert runs(TokenMasking) < 1.4


def test_lengths_of_spans_are_geometric_among_those_up_to_ten() -> None:
    """Their mean is 3.8 (Joshi et al. 2020, 3.1). Where one word in a hundred is hidden, spans hardly ever touch."""
    words, lengths = 20_000, []
    for number in range(100):
        chosen = SpanMasking(0.01).choose_tokens(np.zeros(words, dtype=bool), SeededRandom(7, number))
        borders = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(int)))
        lengths += (borders[1::2] - borders[::2]).tolist()
    counts = np.bincount(lengths, minlength=11)[1:11] / len(lengths)
    expected = [0.2 * 0.8**n / (1 - 0.8**10) for n in range(10)]
    assert np.mean(lengths) == pytest.approx(3.8, abs=0.15)  # 0.04 by chance, the rest by spans that touch or are last
    # 4400 spans: an expected share of a fifth scatters by 0.006, and spans that touch move each by at most 0.01
    assert counts.tolist() == pytest.approx(expected, abs=0.025)


def test_hidden_tokens_are_masked_replaced_or_left_in_the_right_shares() -> None:
    """80, 10 and 10 %, within one part in a hundred over a million tokens; a replacement is any word evenly."""
    random = np.random.default_rng(5)
    ids = random.choice(WORDS, size=1_000_000)
    chosen = random.random(len(ids)) < 0.5
    read = mask_tokens(ids, chosen, mask=MASK, words=WORDS, rng=SeededRandom(6))
    assert np.array_equal(read[~chosen], ids[~chosen])
    masked = (read[chosen] == MASK).mean()
    same = (read[chosen] == ids[chosen]).mean()
    other = 1 - masked - same
    by_luck = 0.1 / len(WORDS)
    assert masked == pytest.approx(0.8, rel=0.01)
    assert same - by_luck == pytest.approx(0.1, rel=0.01)
    assert other + by_luck == pytest.approx(0.1, rel=0.01)
    replaced = read[chosen & (read != ids) & (read != MASK)]
    counts = np.bincount(replaced, minlength=50)[5:]
    assert counts.min() > 0.9 * counts.mean()
    assert counts.max() < 1.1 * counts.mean()


def test_nothing_to_hide() -> None:
    for kind in MASKINGS:
        assert kind(0.5).choose_tokens(np.zeros(0, dtype=bool), SeededRandom(1)).tolist() == []
    assert (
        mask_tokens(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool), mask=4, words=WORDS, rng=SeededRandom(1)).size
        == 0
    )
