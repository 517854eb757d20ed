"""Compute the probabilities of languages for many texts at once, with the model of py3langid (Lui and Baldwin 2012).

The package scores one text at a time, byte by byte, in Python. A corpus has millions of texts, so the same formula is
computed here for a block of texts with arrays: an automaton reads the bytes of all texts and finds the n-grams of the
model, and each language gets the sum of the log probabilities of these n-grams.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, final

import numpy as np
from jaxtyping import Float32, Int

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_BLOCK_TEXTS: Final = 1024
_BLOCK_BYTES: Final = 2**18
"""Largest number of texts of a block, and of bytes when each text is as long as the longest one."""
_FEW_TEXTS: Final = 16


@final
class LanguageScorer:
    """The classifier of py3langid for many texts at once; its tables are held as arrays.

    Args:
        identifier: the loaded model.

    Attributes:
        labels: the codes of the L languages, in the order of the columns of probabilities.
    """

    def __init__(self, identifier: LanguageIdentifier) -> None:
        self.labels: Sequence[str] = identifier.labels
        self._identifier = identifier
        self._label_columns = np.zeros((len(identifier.nb_classes), len(self.labels)), np.float32)
        for column, label in enumerate(identifier.nb_classes):
            self._label_columns[column, self.labels.index(label)] = 1
        self._next_states = np.frombuffer(identifier.tk_nextmove, identifier.tk_nextmove.typecode)
        self._row_starts = np.array(identifier.tk_row, np.int64) << 8
        self._features = np.array(identifier.tk_output, np.int32)
        self._log_probs, self._log_priors = identifier.nb_ptc, identifier.nb_pc

    def score_texts(self, texts: Sequence[str]) -> Float32[np.ndarray, "N L"]:
        """Return the probability of each language for each of N texts, as `classify` of py3langid gives it. The
        distribution is uniform for a text without a known n-gram.
        """
        encoded = [_encode(text) for text in texts]
        lengths = np.array([len(text) for text in encoded], np.int64)
        probabilities = np.empty((len(texts), len(self.labels)), np.float32)
        for block in _split_into_blocks(lengths):
            probabilities[block] = self._score_block([encoded[index] for index in block], lengths[block])
        return probabilities

    def _score_block(self, encoded: Sequence[bytes], lengths: Int[np.ndarray, " N"]) -> Float32[np.ndarray, "N L"]:
        """Return the probabilities of texts in order of their lengths, the longest first."""
        rows, features = self._find_features(encoded, lengths)
        used, features = np.unique(features, return_inverse=True)
        log_probs = self._log_probs[used].astype(np.float32)
        width = max(1, len(used))
        keys, counts = np.unique(rows * width + features, return_counts=True)
        rows, features = np.divmod(keys, width)
        weights = np.log1p(counts, dtype=np.float32)
        scores = np.zeros((len(encoded), len(self._log_priors)), np.float32)
        scored, starts = np.unique(rows, return_index=True)
        ends = np.append(starts[1:], len(rows))[: len(starts)]
        for row, start, end in zip(scored.tolist(), starts.tolist(), ends.tolist(), strict=True):
            scores[row] = weights[start:end] @ log_probs[features[start:end]] + self._log_priors
        scores /= np.sqrt(np.maximum(lengths, 1), dtype=np.float32)[:, None]
        likelihoods = np.exp(scores - scores.max(1, keepdims=True))
        likelihoods /= likelihoods.sum(1, keepdims=True)
        probabilities: Float32[np.ndarray, "N L"] = likelihoods @ self._label_columns
        return probabilities

    def _find_features(
        self, encoded: Sequence[bytes], lengths: Int[np.ndarray, " N"]
    ) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " M"]]:
        """Return the row and the number of each n-gram of the model in the texts."""
        if len(encoded) < _FEW_TEXTS:  # a step for each byte takes less time than one for each column of bytes
            pairs = [(row, feature) for row, text in enumerate(encoded) for feature in self._iter_features(text)]
            return np.array([row for row, _ in pairs], np.int64), np.array([number for _, number in pairs], np.int64)
        longest = int(lengths[0])
        text_bytes = np.zeros((len(encoded), longest), np.uint8)
        text_bytes[np.arange(longest) < lengths[:, None]] = np.frombuffer(b"".join(encoded), np.uint8)
        columns = np.ascontiguousarray(text_bytes.T)
        features = np.full((longest, len(encoded)), -1, np.int32)
        states = np.zeros(len(encoded), np.int64)
        # texts become fewer from column to column, because they are in order of their lengths
        sizes = np.searchsorted(-lengths, -np.arange(longest), side="left")
        for column, size in enumerate(sizes.tolist()):
            states = self._next_states[self._row_starts[states[:size]] + columns[column, :size]]
            features[column, :size] = self._features[states]
        found = np.nonzero(features >= 0)
        return found[1], features[found].astype(np.int64)

    def _iter_features(self, text: bytes) -> Iterator[int]:
        """Yield the number of each n-gram of the model in a text."""
        next_states, rows, outputs = self._identifier.tk_nextmove, self._identifier.tk_row, self._identifier.tk_output
        state = 0
        for byte in text:
            state = next_states[(rows[state] << 8) + byte]
            if (feature := outputs[state]) >= 0:
                yield feature


def _encode(text: str) -> bytes:
    """Return the bytes that the model reads."""
    normalised = unicodedata.normalize("NFC", text.lower() if text.isupper() else text)
    return normalised.encode("utf-8", errors="surrogatepass")


def _split_into_blocks(lengths: Int[np.ndarray, " N"]) -> Iterator[Int[np.ndarray, " B"]]:
    """Yield the numbers of all texts in blocks, the longest texts first."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = min(_BLOCK_TEXTS, max(1, _BLOCK_BYTES // max(1, int(lengths[order[start]]))))
        yield order[start : start + size]
        start += size
