"""Baselines that only count words: what a model should surpass to be worth its training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heedful.data.documents import DocumentChunk
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, MissingExtraError
from heedful.metrics.likelihood import KneserNeyModel

_MAX_TEXTS: Final = 20_000
"""Number of training texts that a classifier of word counts learns from."""
_MAX_TOKENS: Final = 300_000
"""Number of training tokens that n-grams are counted in, and of tokens that are scored at most."""
_ORDER: Final = 5


@dataclass(frozen=True)
class WordBaseline:
    """What a model of word counts reaches on a part of the data.

    Attributes:
        name: the model, and how much text it was trained on.
        part: the part of the data.
        metrics: its metrics, by name.
    """

    name: str
    part: str
    metrics: Mapping[str, float]

    def __str__(self) -> str:
        scores = ", ".join(f"{name} {value:,.4f}" for name, value in self.metrics.items())
        return f"word counts alone ({self.name}) have {scores} on the {self.part} data"


def predict_by_tfidf(
    texts: Sequence[str], labels: Sequence[str], *, examples: Sequence[str]
) -> tuple[str, Sequence[str]]:
    """Predict classes of texts by logistic regression on TF-IDF weights of words and word pairs, without a random
    number.

    Args:
        texts: training texts, of which the first 20,000 are used.
        labels: class of each.
        examples: texts to classify.

    Returns:
        The name of the model, and the class of each example.

    Raises:
        DataError: the training texts have fewer than two classes, or no words.
        MissingExtraError: scikit-learn is not installed.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError('needs scikit-learn: pip install "heedful[baselines]"') from error
    used_texts, used_labels = texts[:_MAX_TEXTS], labels[:_MAX_TEXTS]
    if len(set(used_labels)) < 2:
        raise DataError("the training texts have fewer than two classes")
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    try:
        features = vectorizer.fit_transform(used_texts)
    except ValueError as error:
        raise DataError("the training texts have no words") from error
    classifier = LogisticRegression(C=10.0, max_iter=200).fit(features, used_labels)
    predicted: list[str] = classifier.predict(vectorizer.transform(examples)).tolist()
    which = "the first " if len(used_texts) < len(texts) else ""
    return f"TF-IDF with logistic regression, {which}{len(used_texts):,} texts", predicted


def measure_kneser_ney(
    train: Iterable[DocumentChunk], documents: Sequence[DocumentChunk], *, tokenizer: Tokenizer
) -> tuple[str, Mapping[str, float]]:
    """Measure 5-grams with modified Kneser-Ney smoothing (Chen and Goodman 1999) over the tokens of a vocabulary.

    Args:
        train: training text, of whose beginning 300,000 tokens are counted.
        documents: text to measure.
        tokenizer: splits both.

    Returns:
        The name of the model, and its perplexity per token and bits per byte, where the end of a document counts as
        one token and one byte.

    Raises:
        DataError: there is nothing to count, or the text to measure has more than 300,000 tokens.
    """
    counted, num_counted = list[list[int]](), 0
    for ids in _iter_sequences(train, tokenizer):
        counted.append(ids[: _MAX_TOKENS - num_counted + 1])
        num_counted += len(counted[-1]) - 1
        if num_counted >= _MAX_TOKENS:
            break
    model = KneserNeyModel(counted, vocab_size=tokenizer.size, order=_ORDER)
    sequences = list(_iter_sequences(documents, tokenizer))
    num_tokens = sum(len(ids) - 1 for ids in sequences)
    if num_tokens > _MAX_TOKENS:
        raise DataError(f"the text to measure has {num_tokens:,} tokens, and at most {_MAX_TOKENS:,} are scored")
    nats = math.fsum(value for ids in sequences for value in model.score_sequence(ids))
    num_bytes = sum(len(tokenizer.normalise(document.text).encode()) + document.is_last for document in documents)
    which = "the first " if num_counted >= _MAX_TOKENS else ""
    name = f"Kneser-Ney, {_ORDER}-grams of {which}{num_counted:,} tokens"
    return name, {
        "perplexity": math.exp(nats / max(1, num_tokens)),
        "bits_per_byte": nats / math.log(2) / max(1, num_bytes),
    }


def _iter_sequences(documents: Iterable[DocumentChunk], tokenizer: Tokenizer) -> Iterable[list[int]]:
    """Yield the ids of each document, which may come in several parts, between two end tokens."""
    end = tokenizer.special.eos
    ids = [end]
    for document in documents:
        ids += tokenizer.encode(document.text)
        if document.is_last:
            yield [*ids, end]
            ids = [end]
    if len(ids) > 1:
        yield ids
