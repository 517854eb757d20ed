"""BLEU and CIDEr-D of captions, beside sacrebleu, a longhand version, and cases by hand."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from heedful.errors import DataError
from heedful.metrics.captions import CaptionBLEU, cider_d, count_ngrams, split_words

VOCABULARY = ["a", "red", "green", "dog", "cat", "runs", "sits", "on", "the", "grass", "mat", "big"]


def corpus(seed: int, *, size: int = 30) -> tuple[list[str], list[list[str]]]:
    """Captions, and one to five references of each that share words with it."""
    dice = random.Random(seed)

    def text() -> str:
        return " ".join(dice.choices(VOCABULARY, k=dice.randint(1, 9)))

    captions = [text() for _ in range(size)]
    references = []
    for caption in captions:
        near = caption.split()
        near[dice.randrange(len(near))] = dice.choice(VOCABULARY)
        references.append([" ".join(near), *(text() for _ in range(dice.randint(0, 4)))])
    return captions, references


def longhand_cider(captions: list[str], references: list[list[str]]) -> list[float]:
    """The formulas of the paper and of its authors' code, in plain loops."""
    scores = []
    for caption, told in zip(captions, references, strict=True):
        orders = []
        for n in range(1, 5):

            def vector(text: str, n: int = n) -> dict[tuple[str, ...], float]:
                tokens = text.split()
                found: dict[tuple[str, ...], float] = {}
                for start in range(len(tokens) - n + 1):
                    gram = tuple(tokens[start : start + n])
                    seen = 0
                    for others in references:
                        hit = False
                        for other in others:
                            pieces = other.split()
                            for at in range(len(pieces) - n + 1):
                                hit = hit or tuple(pieces[at : at + n]) == gram
                        seen += hit
                    found[gram] = found.get(gram, 0.0) + math.log(len(references)) - math.log(max(1, seen))
                return found

            mine, value = vector(caption), 0.0
            for reference in told:
                theirs = vector(reference)
                above = sum(min(w, theirs.get(g, 0.0)) * theirs.get(g, 0.0) for g, w in mine.items())
                below = math.sqrt(sum(w * w for w in mine.values())) * math.sqrt(sum(w * w for w in theirs.values()))
                delta = len(caption.split()) - len(reference.split())
                value += (above / below if below else 0.0) * math.exp(-(delta**2) / 72)
            orders.append(value / len(told))
        scores.append(10 * sum(orders) / 4)
    return scores


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_bleu_is_sacrebleus(seed: int, order: int) -> None:
    captions, references = corpus(seed)
    most = max(map(len, references))
    columns = [[told[n] if n < len(told) else None for told in references] for n in range(most)]
    metric = BLEU(max_ngram_order=order, tokenize="none", smooth_method="none", effective_order=False, force=True)
    expected = metric.corpus_score(captions, columns).score
    assert CaptionBLEU(captions, references, order=order).value == pytest.approx(expected, abs=1e-9)


def test_cider_is_the_longhand_one() -> None:
    captions, references = corpus(3)
    found = cider_d(captions, references)
    np.testing.assert_allclose(found.numerators, longhand_cider(captions, references), rtol=1e-12, atol=1e-12)
    assert found.value == pytest.approx(float(np.mean(found.numerators)))


def test_cider_by_hand() -> None:
    """Of two pictures with references of their own alone, all n-grams tell log 2, and equal captions have 10."""
    references = [["a red dog runs"], ["the green cat sits"]]
    assert cider_d([each[0] for each in references], references).value == pytest.approx(10.0)
    # one word of four is right: a cosine of 1/4 of words and none of longer n-grams
    assert cider_d(["a x y z", "the green cat sits"], references).numerators[0] == pytest.approx(10 * 0.25 / 4)
    # said twice over, it is twice as long: clipped, and 4 words too many
    twice = cider_d(["a red dog runs a red dog runs", "the green cat sits"], references).numerators[0]
    orders = []
    for n in range(1, 5):
        mine = Counter(count_ngrams(("a red dog runs " * 2).split(), n))
        norm = math.sqrt(sum(v * v for v in mine.values())) * math.sqrt(5 - n)
        orders.append((5 - n) / norm)
    assert twice == pytest.approx(10 * np.mean(orders) * math.exp(-16 / 72))


def test_what_all_pictures_have_tells_nothing() -> None:
    references = [["a dog"], ["a cat"], ["a mat"]]
    assert cider_d(["a", "a", "a"], references).value == 0.0
    assert cider_d(["", "", ""], references).value == 0.0


def test_the_best_reference_counts_in_bleu_and_the_mean_in_cider() -> None:
    captions, references = ["a red dog runs on grass"], [["a red dog runs on grass", "the cat"]]
    assert CaptionBLEU(captions, references).value == pytest.approx(100.0)
    more = ([*captions, "a cat"], [*references, ["big mat"]])
    assert cider_d(*more).numerators[0] == pytest.approx(5.0)


def test_of_two_references_as_near_the_shorter_one_counts() -> None:
    captions, references = ["a red dog runs"], [["a red dog", "a red dog runs on grass and mat", "a red dog runs on"]]
    assert CaptionBLEU(captions, references, order=1).value == pytest.approx(100.0)
    assert CaptionBLEU(captions, [references[0][1:]], order=1).value == pytest.approx(100 * np.exp(1 - 5 / 4))


def test_words_are_compared_without_case_and_punctuation() -> None:
    assert split_words("A dog's ball, on the T-shirt .") == ["a", "dog's", "ball", "on", "the", "t", "shirt"]
    assert split_words("собака бежит!") == ["собака", "бежит"]
    assert CaptionBLEU(["A red dog runs!"], [["a red dog runs ."]]).value == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\u0915\u0941\u0924\u094d\u0924\u093e \u0918\u093e\u0938", 2),  # Hindi
        ("\u0995\u09c1\u0995\u09c1\u09b0", 1),  # Bengali
        ("\u0ba8\u0bbe\u0baf\u0bcd", 1),  # Tamil
        ("\u0633\u064e\u0644\u064e\u0627\u0645", 1),  # Arabic with vowels
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", 1),  # Persian with a non-joiner
        ("na\u0308her", 1),  # a letter and its accent apart
        ("Feb\u00adru\u00adary", 1),
    ],
)
def test_words_keep_their_marks(text: str, found: int) -> None:
    assert len(split_words(text)) == found


def test_captions_that_differ_in_their_vowel_signs_differ() -> None:
    assert CaptionBLEU(["\u0915\u093f \u0915\u0940"], [["\u0915\u093e \u0915\u094b"]], order=1).value == 0


def test_a_letter_is_the_same_however_it_is_composed() -> None:
    assert CaptionBLEU(["na\u0308her"], [["n\u00e4her"]], order=1).value == pytest.approx(100)


def test_weights_count_examples_as_often() -> None:
    captions, references = corpus(4, size=12)
    metric = CaptionBLEU(captions, references, order=2)
    weights = np.array([[2.0, 0.0, 1.0] * 4])
    rows = [n for n, weight in enumerate(weights[0]) for _ in range(int(weight))]
    repeated = CaptionBLEU([captions[n] for n in rows], [references[n] for n in rows], order=2)
    assert metric.compute_scores(weights)[0] == pytest.approx(repeated.value)


@pytest.mark.parametrize(
    ("captions", "references", "said"),
    [([], [], "no captions"), (["a"], [[]], "without a reference"), (["a"], [["b"], ["c"]], "1 captions but 2 lists")],
)
def test_what_cannot_be_scored_is_said(captions: list[str], references: list[list[str]], said: str) -> None:
    for metric in (CaptionBLEU, cider_d):
        with pytest.raises(DataError, match=said):
            metric(captions, references)
