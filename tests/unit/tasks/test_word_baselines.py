"""Baselines of word counts: their numbers and their limits."""

from __future__ import annotations

import math
import random
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from heedful.data.documents import DocumentChunk
from heedful.data.tokenizers import CharacterTokenizer
from heedful.errors import DataError, MissingExtraError
from heedful.metrics.likelihood import KneserNeyModel
from heedful.tasks import word_baselines
from heedful.tasks.word_baselines import measure_kneser_ney, predict_by_tfidf

LETTERS = CharacterTokenizer("abcdef ", lowercase=False)
TOPICS = {"sport": ["ball", "goal", "team", "race"], "money": ["bank", "market", "price", "share"]}


def test_tfidf_is_that_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = pytest.importorskip("sklearn.pipeline")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    texts = [" ".join(random.choices([*TOPICS[topic], "the"], k=4)) for topic in [*TOPICS] * 20]
    labels = [*TOPICS] * 20
    name, found = predict_by_tfidf(texts, labels, examples=texts)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    expected = pipeline.make_pipeline(words, LogisticRegression(C=10.0, max_iter=200)).fit(texts, labels)
    assert list(found) == expected.predict(texts).tolist()
    assert name == "TF-IDF with logistic regression, 40 texts"
    assert predict_by_tfidf(texts, labels, examples=texts)[1] == found, "no random numbers"
    monkeypatch.setattr(word_baselines, "_MAX_TEXTS", 10)
    name, found = predict_by_tfidf(texts, labels, examples=texts)
    assert name == "TF-IDF with logistic regression, the first 10 texts"
    assert list(found) == expected.fit(texts[:10], labels[:10]).predict(texts).tolist()


def test_what_cannot_be_learned_is_said() -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(DataError, match="fewer than two classes"):
        predict_by_tfidf(["a", "b"], ["x", "x"], examples=["a"])
    with pytest.raises(DataError, match="no words"):
        predict_by_tfidf(["!", "?"], ["x", "y"], examples=["a"])


class FirstWords:
    """In place of the vectorizer."""

    def __init__(self, **_: Any) -> None:
        pass

    def fit_transform(self, texts: list[str]) -> list[str]:
        return [text.split()[0] for text in texts]

    transform = fit_transform


class Memory:
    """In place of the classifier: the label that the first word had."""

    def __init__(self, **_: Any) -> None:
        pass

    def fit(self, words: list[str], labels: list[str]) -> Memory:
        self.labels = dict(zip(words, labels, strict=True))
        return self

    def predict(self, words: list[str]) -> Any:
        return np.array([self.labels.get(word, "none") for word in words])


def test_it_uses_the_package_as_it_is_made_to_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where scikit-learn is not installed, too."""
    modules = {"sklearn": {}, "sklearn.feature_extraction": {}, "sklearn.feature_extraction.text": {}}
    modules["sklearn.feature_extraction.text"] = {"TfidfVectorizer": FirstWords}
    modules["sklearn.linear_model"] = {"LogisticRegression": Memory}
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    _, found = predict_by_tfidf(["a x", "b x"], ["A", "B"], examples=["b c", "a", "c"])
    assert list(found) == ["B", "A", "none"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(MissingExtraError, match=r'pip install "heedful\[baselines\]"'):
        predict_by_tfidf(["a", "b"], ["x", "y"], examples=["a"])


def make_documents(count: int, *, cut: bool = False) -> list[DocumentChunk]:
    texts = [" ".join(random.choices(["abc", "ab", "fed", "cafe"], k=8)) for _ in range(count)]
    if not cut:
        return [DocumentChunk(text, True) for text in texts]
    return [part for text in texts for part in (DocumentChunk(text[:5], False), DocumentChunk(text[5:], True))]


@pytest.mark.parametrize("cut", [False, True])
def test_kneser_ney_predicts_tokens_and_ends(cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    train, other = make_documents(30, cut=cut), make_documents(5, cut=cut)
    name, found = measure_kneser_ney(train, other, tokenizer=LETTERS)
    end = LETTERS.special.eos

    def sequences(documents: list[DocumentChunk]) -> list[list[int]]:
        rows = [[end]]
        for document in documents:
            rows[-1] += LETTERS.encode(document.text)
            if document.is_last:
                rows[-1].append(end)
                rows.append([end])
        return rows[:-1]

    model = KneserNeyModel(sequences(train), vocab_size=LETTERS.size, order=5)
    nats = [value for ids in sequences(other) for value in model.score_sequence(ids)]
    assert found["perplexity"] == pytest.approx(math.exp(np.mean(nats)))
    size = len(nats)
    num_bytes = sum(len(LETTERS.normalise(document.text)) for document in other) + 5
    assert found["bits_per_byte"] == pytest.approx(np.sum(nats) / math.log(2) / num_bytes)
    total = sum(map(len, sequences(train))) - 30
    assert name == f"Kneser-Ney, 5-grams of {total:,} tokens"
    monkeypatch.setattr(word_baselines, "_MAX_TOKENS", size)
    name, found = measure_kneser_ney(train, other, tokenizer=LETTERS)
    assert name == f"Kneser-Ney, 5-grams of the first {size:,} tokens"
    monkeypatch.setattr(word_baselines, "_MAX_TOKENS", size - 1)
    with pytest.raises(DataError, match=f"has {size:,} tokens, and at most {size - 1:,} are scored"):
        measure_kneser_ney(train, other, tokenizer=LETTERS)
