"""Logistic regression on n-grams, compared with plain loops."""

from __future__ import annotations

import math
from collections import Counter

import torch

from heedful.models.heads import NgramClassifier
from heedful.tensors import Tokens

TEXTS = [[1, 4, 5, 2], [1, 5, 4, 5, 4, 2], [1, 6, 2], [1, 4, 6, 7, 2], [1, 7, 5, 2]]
LABELS = [0, 1, 2, 0, 1]
PENALTY = 3.0
VOCABULARY, BUCKETS = 9, 5000


def fit_classifier(longest: int = 2) -> NgramClassifier:
    bag = NgramClassifier(VOCABULARY, 3, longest=longest, buckets=BUCKETS).double()
    bag.fit(
        [torch.tensor(text) for text in TEXTS],
        torch.tensor(LABELS),
        inverse_penalty=PENALTY,
        ignored_ids=[IGNORED],
    )
    return bag


def count_ngrams(text: list[int], longest: int) -> Counter[tuple[int, ...]]:
    return Counter(
        tuple(text[at : at + length]) for length in range(1, longest + 1) for at in range(len(text) - length + 1)
    )


IGNORED = 5


def remove_unknown(text: list[int]) -> list[int]:
    """Remove ignored and unknown tokens."""
    known = {token for each in TEXTS for token in each}
    return [token for token in text if token != IGNORED and token in known]


def compute_tfidf(text: list[int], longest: int) -> dict[tuple[int, ...], float]:
    """Compute the TF-IDF of each n-gram of a text, in a vector of length 1."""
    known = [count_ngrams(remove_unknown(each), longest) for each in TEXTS]
    found = {}
    norm = 0.0
    for gram, count in count_ngrams(remove_unknown(text), longest).items():
        having = sum(gram in each for each in known)
        rarity = 1 + math.log((1 + len(TEXTS)) / (1 + having)) if having else 0.0
        found[gram] = count * rarity
        norm += count * rarity**2
    return {gram: value / math.sqrt(norm) for gram, value in found.items()}


def build_tokens(text: list[int]) -> Tokens:
    return Tokens.from_ids(torch.tensor([text]), pad=0)


def compute_logits(bag: NgramClassifier, text: list[int], longest: int) -> list[float]:
    found = [float(each) for each in bag.bias]
    for gram, value in compute_tfidf(text, longest).items():
        number = int(bag.hash_ngrams(torch.tensor([gram]), len(gram)))
        for label in range(3):
            found[label] += value * float(bag.rows[number, label])
    return found


@torch.no_grad()
def test_votes_are_log_probabilities_of_the_n_grams_of_a_text() -> None:
    for longest in (1, 2, 3):
        bag = fit_classifier(longest)
        for text in [*TEXTS, [1, 4, 4, 8, 2]]:  # the last text has an unknown token
            torch.testing.assert_close(
                bag(build_tokens(text))[0],
                torch.tensor(compute_logits(bag, text, longest)).log_softmax(0),
                check_dtype=False,
            )


@torch.no_grad()
def test_the_gradient_of_the_solution_is_zero() -> None:
    bag = fit_classifier()
    wrong = [
        [(math.exp(z) / sum(map(math.exp, each)) - (label == right)) for label, z in enumerate(each)]
        for each, right in zip((compute_logits(bag, text, 2) for text in TEXTS), LABELS, strict=True)
    ]
    for gram in {gram for text in TEXTS for gram in count_ngrams(remove_unknown(text), 2)}:
        number = int(bag.hash_ngrams(torch.tensor([gram]), len(gram)))
        for label in range(3):
            slope = sum(
                PENALTY * each[label] * compute_tfidf(text, 2).get(gram, 0.0)
                for each, text in zip(wrong, TEXTS, strict=True)
            )
            # L-BFGS stops at gradients of 1e-5, in fp32
            assert abs(slope + float(bag.rows[number, label])) < 1e-3
    assert all(abs(sum(each[label] for each in wrong)) < 1e-3 for label in range(3))


@torch.no_grad()
def test_other_texts_and_padding_do_not_matter() -> None:
    bag = fit_classifier()
    ids = torch.tensor([[1, 4, 5, 4, 2, 0], [0, 0, 1, 6, 7, 2], [1, 2, 0, 0, 0, 0]])
    together = bag(Tokens.from_ids(ids, pad=0))
    for row, text in enumerate(([1, 4, 5, 4, 2], [1, 6, 7, 2], [1, 2])):
        torch.testing.assert_close(together[row], bag(build_tokens(text))[0])
    # any id in the padding
    other = torch.where(ids == 0, 4, ids)
    torch.testing.assert_close(bag(Tokens(other, Tokens.from_ids(ids, pad=0).positions)), together)
    empty = bag(Tokens(torch.zeros(1, 3, dtype=torch.long), torch.full((1, 3), -1)))
    torch.testing.assert_close(empty[0], bag.bias.log_softmax(0))
